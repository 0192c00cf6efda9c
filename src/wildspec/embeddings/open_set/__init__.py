"""Open-set domain adaptation on rows: labelled source samples, an unlabelled target, unknown classes in the target.

Four systems with one manner: ``fit(X, y, X_wild)`` (or y = -1 for wild rows in X), ``predict`` with the reject label for
unknown samples, ``predict_known`` for the best known class of each, ``ood_score`` (high = unknown), ``transduction_`` for
what the system decides of the wild samples it learned from.
"""

from wildspec.embeddings.open_set.daod import DAOD
from wildspec.embeddings.open_set.oslpp import OSLPP
from wildspec.embeddings.open_set.osnn import OSNN
from wildspec.embeddings.open_set.ovanet import OVANet

__all__ = ["DAOD", "OSLPP", "OSNN", "OVANet"]
