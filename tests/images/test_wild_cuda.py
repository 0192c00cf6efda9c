"""The same journey on a GPU: fit there by epochs and by minutes, save, and answer on a CPU as there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_model
import wildspec
from quick_wild import quick


@pytest.mark.cuda
@pytest.mark.parametrize("settings", [
    {"epochs": 12}, {"minutes": 0.75}, {"method": "spectral+", "epochs": 12}, {"method": "spectral+", "minutes": 1.5},
    {"method": "spectral+", "epochs": 12, "detector": "wild_linear"},
])  # fmt: skip
def test_a_model_fitted_on_a_gpu_answers_alike_on_a_cpu(settings: dict[str, Any], tmp_path: Path) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    asked: dict[str, Any] = {"epochs": None, "flip": False, "size": 16, "device": "cuda", "alpha": 0.05, **settings}
    model = quick(**asked).fit(labelled, wild)
    stages = [stage["name"] for stage in model.record_["training"]["stages"]]
    assert stages == (["pretrain", "warmup_head", "pseudo_label", "finetune"] if "method" in settings else ["together"])
    model.save(tmp_path / "model")
    elsewhere = wildspec.load(tmp_path / "model", device="cpu")
    np.testing.assert_allclose(elsewhere.ood_score(wild), model.ood_score(wild), atol=5e-3)  # TF32 convolutions there
    assert np.mean(elsewhere.predict(wild) == model.predict(wild)) > 0.95
    for there, here in zip(model.explain(wild[:5]), elsewhere.explain(wild[:5]), strict=True):
        assert here.neighbours[0].distance == pytest.approx(there.neighbours[0].distance, abs=5e-3)
