"""Every hyper-parameter of every method: default, where to search, where both come from. One place.

`build_method` takes them by name, ``wildspec methods`` lists them, the constructors' documentation is made of them, and a
test holds their defaults equal to the constructors' own. Batch sizes, rates and epochs belong to the stages (`recipes.py`).
"""

from dataclasses import dataclass
from typing import Any

DOMAINBED = "DomainBed hparams_registry (Gulrajani and Lopez-Paz, 2021)"
WOODS = "Katz-Samuels et al., 2022, published code and sweep scripts"
PAPER = "Wang and Li, 2024, appendix F"


@dataclass(frozen=True)
class Search:
    """Where to look: ``log`` and ``uniform`` between two ends, or one of a few ``choice`` values."""

    kind: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        if self.kind == "choice":
            return "{" + ", ".join(_short(value) for value in self.values) + "}"
        return f"[{_short(self.values[0])}, {_short(self.values[1])}]" + (" log" if self.kind == "log" else "")


@dataclass(frozen=True)
class HParam:
    """One hyper-parameter; ``search`` is None where nobody searches (switches for parity, structure)."""

    name: str
    default: Any
    meaning: str
    search: Search | None
    source: str

    def to_json(self) -> dict[str, Any]:
        search = None if self.search is None else {"kind": self.search.kind, "values": list(self.search.values)}
        return {"name": self.name, "default": self.default, "meaning": self.meaning, "search": search, "source": self.source}


def _log(low: float, high: float) -> Search:
    return Search("log", (low, high))


def _uniform(low: float, high: float) -> Search:
    return Search("uniform", (low, high))


def _choice(*values: Any) -> Search:
    return Search("choice", values)


def _environments(use: str) -> HParam:
    return HParam(
        "num_environments", 4, f"environments of the data at most; without any, {use}", None,
        "our choice: neither the paper nor SCONE says how CIFAR-10 is split",
    )


_DEALT = "groups each batch is dealt into"

_DUALS = (
    HParam("false_alarms", 0.05, "bound on the mean sigmoid of labelled samples called out", None, WOODS),
    HParam("ce_factor", 2.0, "bound on cross-entropy, as a multiple of the pre-trained network's", None, WOODS),
    HParam("out_weight", 1.0, "weight of the wild term", None, WOODS),
    HParam("dual_lr", 1.0, "step of the multipliers at the end of an epoch", _choice(0.1, 1.0, 2.0), WOODS),
    HParam("penalty_growth", 1.5, "growth of a penalty weight whose constraint is violated", _choice(1.1, 1.5), WOODS),
    HParam("tolerance", 0.05, "violation above which a penalty weight grows", _choice(0.0, 0.05),
           WOODS + " (0.05 in the scripts, 0 in the code)"),
    HParam("shared_multiplier", False, "one multiplier for both constraints, as the published code has it", None,
           "docs/deviations.md, row 13"),
    HParam("logistic_init", "standardized", "start of w and b: standardized or published (uniform in [-1, 1])", None,
           "our choice; published: the linear layer's usual start"),
)  # fmt: skip

_STA_SOURCE = "Liu et al., 2019, published code"
_STA = (
    HParam("extreme", 1 / 16, "share of a wild batch that counts as surely known, and as surely not", None,
           _STA_SOURCE + ": 2 of 32"),
    HParam("adversarial", 0.3, "weight of telling the domains apart", None, _STA_SOURCE),
    HParam("entropy", 0.1, "weight of the entropy of wild images", None, _STA_SOURCE),
    HParam("unknown", 0.3, "weight of the unknown class on the least known wild images", None, _STA_SOURCE),
)
_ROS = "Bucci et al., 2020, published code"
_ANNA = "Li et al., 2023, published code"

_MU = HParam("mu", 1.0, "embeddings are clipped to norm sqrt(mu)", None, "HaoChen et al., 2021; 1 in the published code")
_ETA_SEARCH = (_choice(0.02, 0.1, 0.5, 1.0), _choice(1.0, 2.0))


def _etas(source: str) -> tuple[HParam, HParam]:
    return (
        HParam("eta_l", 0.5, "weight of the label edges", _ETA_SEARCH[0], source),
        HParam("eta_u", 2.0, "weight of the augmentation edges", _ETA_SEARCH[1], source),
    )


HPARAMS: dict[str, tuple[HParam, ...]] = {
    "erm": (),
    "irm": (
        HParam("penalty_weight", 100.0, "weight of the penalty after the switch", _log(1e-1, 1e5), DOMAINBED),
        HParam("anneal_steps", 500, "steps with weight 1 before the switch", _log(1, 10_000), DOMAINBED),
        _environments("groups each batch is divided into at random"),
    ),
    "mixup": (
        HParam("alpha", 0.2, "the blend's share is Beta(alpha, alpha)", _log(1e-1, 10.0), DOMAINBED),
        _environments("neighbours in the batch are blended"),
    ),
    "vrex": (
        HParam("penalty_weight", 10.0, "weight of the penalty after the switch", _log(1e-1, 1e5), DOMAINBED),
        HParam("anneal_steps", 500, "steps with weight 1 before the switch", _log(1, 10_000), DOMAINBED),
        _environments(_DEALT),
    ),
    "eqrm": (
        HParam("quantile", 0.75, "which quantile of the risks is minimized", _uniform(0.5, 0.99), DOMAINBED),
        HParam("quantile_lr", 1e-6, "learning rate after the burn-in", _log(1e-7, 1e-5), DOMAINBED),
        _environments(_DEALT),
    ),
    "sharpdro": (
        HParam("rho", 0.05, "length of the uphill step of the weights", _choice(0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
               "Huang et al., 2023, published code; range of Foret et al., 2021"),
        HParam("step_size", 0.01, "step of the groups' weights", _choice(0.001, 0.01, 0.1),
               "Huang et al., 2023, published code; range: ours"),
        _environments(_DEALT),
    ),
    "oe": (
        HParam("weight", 0.5, "weight of the uniformity term on wild samples", _choice(0.1, 0.5, 1.0),
               "Hendrycks et al., 2019; sweep of Katz-Samuels et al., 2022"),
    ),
    "energy_outlier": (
        HParam("weight", 0.1, "weight of the two margins", None, "Liu et al., 2020, published code"),
        HParam("m_in", -23.0, "energy that labelled samples should not exceed", _choice(-27.0, -23.0, -15.0),
               "Liu et al., 2020 (-23 for 10 classes, -27 for 100); SCONE's code -25"),
        HParam("m_out", -5.0, "energy that wild samples should exceed", _choice(-7.0, -5.0, -3.0), "Liu et al., 2020"),
    ),
    "woods": _DUALS,
    "scone": (
        HParam("margin", -10.0, "subtracted from lse on wild samples", _choice(-20.0, -10.0, -5.0, -1.0),
               "Bai et al., 2023, run.sh; range: ours"),
        *_DUALS,
    ),
    "sal": (
        HParam("weight", 10.0, "weight of telling labelled images from candidates", None, "Du et al., 2024"),
        HParam("keep", 0.95, "quantile of labelled images' scores above which a wild image is a candidate", None,
               "Du et al., 2024"),
    ),
    "osbp": (
        HParam("target", 0.5, "t: where the unknown output is held on wild images", None, "Saito et al., 2018"),
        HParam("units", 1000, "width of the two new layers", None, "Saito et al., 2018, published code (ResNet)"),
        HParam("whole", False, "train the backbone too, not the new layers alone", None,
               "Saito et al., 2018, published code: off"),
    ),
    "sta_sum": _STA,
    "sta_max": _STA,
    "ros": (
        HParam("rotation", 3.0, "weight of telling turns of labelled images", None, _ROS),
        HParam("centre", 0.001, "weight of the centre loss", _choice(0.001, 0.1), _ROS + "; 0.1 on Office-31"),
        HParam("entropy", 0.1, "weight of the entropy of known wild images", None, _ROS),
        HParam("rotation_known", 3.0, "weight of telling turns of known wild images", None, _ROS),
    ),
    "anna": (
        HParam("warmup", 10.0, "epochs of cross-entropy alone, of 75 in all", _choice(10.0, 20.0, 25.0, 30.0),
               _ANNA + ", which chooses it by the pair of domains"),
        HParam("units", 1024, "width of the two new layers", None, _ANNA),
        HParam("alignment", 0.1, "reversal of the gradient between cells and their discriminators", None, _ANNA),
        HParam("reversal", 0.5, "reversal of the gradient of the unknown loss of wild images", None, _ANNA),
        HParam("below", 0.2, "share of the mining loss's gradient that reaches the features", None, _ANNA),
    ),
    "ovanet": (
        HParam("entropy_weight", 0.1, "weight of the entropy of wild images", None, "Saito and Saenko, 2021"),
    ),
    "pu": (
        HParam("weight", 0.5, "weight of telling wild views from labelled ones", _choice(0.2, 0.5, 1.0), "ours"),
        HParam("start", 0.3, "share of the steps before that, with cross-entropy alone", None, "ours"),
    ),
    "scl": (_MU,),
    "nscl": (
        *_etas("Sun et al., 2023; " + PAPER), _MU,
        HParam("cross_weight", 2.0, "factor of the labelled-unlabelled term", None,
               "published code; docs/deviations.md, row 2"),
    ),
    "spectral": (
        *_etas(PAPER), _MU,
        HParam("cross_weight", 1.0, "factor of the labelled-unlabelled term", None,
               "the factorization; docs/deviations.md, row 2"),
        HParam("joint", 0.0, "weight of the spectral loss beside cross-entropy in fine-tuning", None,
               "our option; 0 as published"),
    ),
    "spectral+": (
        *_etas(PAPER), _MU,
        HParam("pseudo", 1.0, "weight of cross-entropy on attributed wild samples", None,
               "ours; docs/dev/joint-digits.md"),
        HParam("views", 8, "views averaged to attribute a sample; 0: the image itself", None,
               "ours; docs/dev/joint-digits.md"),
        HParam("rounds", 1, "times that wild samples are attributed", None, "ours; docs/dev/joint-digits.md"),
        HParam("warmup_head", False, "fine-tune before wild samples are attributed", None, "ours; docs/dev/log.md"),
        HParam("agreement", 0.0, "least share of a sample's neighbours of one class to attribute it", None,
               "ours; docs/dev/log.md"),
    ),
}  # fmt: skip


def describe_hparams(method: str) -> str:
    """Lines for a docstring."""
    if not HPARAMS[method]:
        return "No hyper-parameters."
    return "Hyper-parameters:\n" + "\n".join(
        f"    {h.name} = {_short(h.default)}: {h.meaning}"
        + (f"; search {h.search}" if h.search is not None else "") + f" ({h.source})"
        for h in HPARAMS[method]
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
