"""What every method must do, by the training loop itself: learn, repeat itself, survive interruptions, refuse nonsense."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from wildspec.data import ImageArrays, WildPool, load_digits_images
from wildspec.errors import InputError, WildspecError
from wildspec.methods import METHODS, Method, Stage, build_method
from wildspec.models import build_model
from wildspec.training import Settings, TrainData, TrainResult, train

# Rates made for weeks of updates are too small to see anything in dozens.
EAGER: dict[str, dict[str, Any]] = {
    "eqrm": {"quantile_lr": 1e-3},
    "irm": {"anneal_steps": 3, "penalty_weight": 5.0},
    "vrex": {"anneal_steps": 3},
}
FIXED_DUALS = {"dual_lr": 1e-9, "penalty_growth": 1.0}  # the Lagrangian falls between dual updates, not across them
CLASSES = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def digits() -> TrainData:
    """Digits 0-3 with labels; an unlabelled pool of 0-3 and of the unknown 7."""
    every = load_digits_images()
    known = torch.isin(every.labels, torch.tensor(CLASSES)).nonzero().ravel()
    sevens = (every.labels == 7).nonzero().ravel()
    labelled = every.subset(known[:160])
    labelled = ImageArrays(labelled.images, labelled.labels, tuple(str(c) for c in CLASSES))
    pool = every.subset(torch.cat([known[160:224], sevens[:32]])).unlabelled()
    return TrainData(labelled, WildPool(pool), environments=torch.arange(160) % 3)


def short(method: Method, epochs: float) -> list[Stage]:
    gentle = ("irm", "vrex")  # a penalty of some weight on tiny batches, from the first step: SGD at 0.1 would run away
    return [
        stage.scaled(
            epochs=epochs, epoch_steps=0, batch_labelled=32, batch_wild=min(stage.batch_wild, 24), warmup=0.0,
            lr=max(stage.lr, 0.003) if stage.name == "wild" else 0.01 if method.name in gentle else stage.lr,
        )
        for stage in method.stages("paper")
    ]


def run(
    name: str, data: TrainData, epochs: float = 1, seed: int = 0, run_dir: Path | None = None,
    hparams: dict[str, Any] | None = None, **more: Any,
) -> TrainResult:
    torch.manual_seed(seed)
    model = build_model("small", len(CLASSES), size=8)
    method = build_method(name, len(CLASSES), **(EAGER.get(name, {}) | (hparams or {})))
    settings = Settings(**{"seed": seed, "device": "cpu", "log_every": 1, "progress": False, **more})
    result = train(model, method, data, settings, stages=short(method, epochs), run_dir=run_dir, resume=run_dir is not None)
    result.method_state = method.state_dict()  # type: ignore[attr-defined]
    return result


def weights(result: TrainResult) -> list[Tensor]:
    return [*result.model.state_dict().values(), *result.method_state.values()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", METHODS)
def test_loss_falls_in_every_stage(name: str, digits: TrainData) -> None:
    fixed = {"woods": FIXED_DUALS, "scone": FIXED_DUALS, "pu": {"start": 0.0}}  # one loss for the whole stage
    epochs = 5 if name == "sal" else 3  # of 5 steps
    result = run(name, digits, epochs, hparams=fixed.get(name))
    assert result.finished
    for stage in {row["stage"]: None for row in result.history}:
        losses = [row["loss"] for row in result.history if row["stage"] == stage]
        early, late = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
        assert late < early, f"{stage}: {early:.4f} -> {late:.4f}"


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_repeats_itself(name: str, digits: TrainData) -> None:
    first, second, other = (weights(run(name, digits, epochs=0.4, seed=seed)) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_resuming_is_exact(name: str, digits: TrainData, tmp_path: Path) -> None:
    """Cut after every single step, each time continued by a new model and a new method, against one uninterrupted run."""
    whole = run(name, digits, epochs=0.6)  # 3 steps a stage
    pieces = 0
    while True:
        last = run(name, digits, epochs=0.6, run_dir=tmp_path / "run", time_limit=1e-9)
        pieces += 1
        if last.finished:
            break
    assert pieces >= 3
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(last), strict=True))


@pytest.mark.parametrize("name", ["woods", "sharpdro"])
def test_resuming_keeps_duals_and_group_weights(name: str, digits: TrainData, tmp_path: Path) -> None:
    """As above, across the ends of epochs, where duals move."""
    whole = run(name, digits, epochs=2)
    while not (last := run(name, digits, epochs=2, run_dir=tmp_path / "run", time_limit=1e-9)).finished:
        pass
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(last), strict=True))
    state = last.method_state  # type: ignore[attr-defined]
    moved = state["duals.multipliers"] if name == "woods" else state["group_weights"] - 0.25
    assert moved.abs().max() > 0


@pytest.mark.cuda
@pytest.mark.parametrize("name", METHODS)
def test_a_captured_step_on_cuda_is_the_plain_one(name: str, digits: TrainData) -> None:
    """13 steps a stage, past capture (after 8) and past the penalty switch at 10.

    In float64: float32 convolutions run on TF32 cores with whatever algorithm cuDNN found fastest that time, and training
    makes such differences grow to the third digit.
    """
    switch = {"anneal_steps": 10, "penalty_weight": 5.0}
    late_switch: dict[str, dict[str, Any]] = {"irm": switch, "vrex": switch}
    ends = []
    for graph in (False, True):
        torch.manual_seed(0)
        method = build_method(name, len(CLASSES), **late_switch.get(name, {}))
        model = build_model("small", len(CLASSES), size=8)
        settings = Settings(seed=1, device="cuda", precision="fp64", compile=False, graph=graph, progress=False)
        stages = [s.scaled(lr=min(s.lr, 0.01)) for s in short(method, 2.6)]
        ends.append(train(model, method, digits, settings, stages=stages).model.cpu().state_dict())
    for key in ends[0]:
        torch.testing.assert_close(ends[0][key], ends[1][key], rtol=1e-4, atol=1e-6, msg=lambda m, key=key: f"{key}: {m}")


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("erm", {"eta": 1}, "no hyper-parameter 'eta'"),
    ("irm", {"penalty_weight": -1}, "penalty_weight must be 0 or greater"),
    ("irm", {"anneal_steps": 2.5}, "anneal_steps must be a whole number"),
    ("mixup", {"alpha": 0}, "alpha must be greater than 0"),
    ("vrex", {"num_environments": 1}, "num_environments must be at least 2"),
    ("eqrm", {"quantile": 1.0}, "quantile must lie strictly between 0 and 1"),
    ("eqrm", {"quantile_lr": 0}, "quantile_lr must be greater than 0"),
    ("sharpdro", {"rho": 0}, "rho must be greater than 0"),
    ("sharpdro", {"step_size": float("nan")}, "step_size must be finite"),
    ("oe", {"weight": "much"}, "weight must be a number"),
    ("energy_outlier", {"m_in": -1.0, "m_out": -5.0}, "m_in .* must be below m_out"),
    ("woods", {"false_alarms": 0.0}, "false_alarms must lie strictly between"),
    ("woods", {"penalty_growth": 0.5}, "penalty_growth must be 1 or greater"),
    ("woods", {"logistic_init": "zeros"}, "logistic_init must be one of"),
    ("scone", {"margin": float("inf")}, "margin must be finite"),
    ("sal", {"keep": 1.0}, "keep must lie strictly between"),
    ("osbp", {"target": 0.0}, "target must lie strictly between"),
    ("sta_sum", {"extreme": 2.0}, "extreme must lie in"),
    ("sta_max", {"adversarial": -1.0}, "adversarial must be 0 or greater"),
    ("ros", {"centre": 0.0}, "centre must be greater than 0"),
    ("anna", {"units": 0}, "units must be at least 1"),
    ("ovanet", {"entropy_weight": -0.1}, "entropy_weight must be 0 or greater"),
    ("pu", {"weight": -1}, "weight must be 0 or greater"),
    ("pu", {"start": 1.5}, "start must lie in"),
    ("scl", {"mu": 0}, "mu must be greater than 0"),
    ("nscl", {"eta_l": -1}, "eta_l must be 0 or greater"),
    ("spectral", {"eta_l": 0, "eta_u": 0}, "both 0"),
    ("spectral+", {"rounds": 0}, "rounds must be at least 1"),
]


@pytest.mark.parametrize(("name", "hparams", "message"), BAD)
def test_bad_hyperparameters_are_errors(name: str, hparams: dict[str, Any], message: str) -> None:
    with pytest.raises(WildspecError, match=message) as caught:
        build_method(name, 4, **hparams)
    assert "\n" not in str(caught.value)


def test_every_method_has_a_bad_case() -> None:
    assert {name for name, _, _ in BAD} == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_presets(name: str, digits: TrainData) -> None:
    method = build_method(name, 4)
    assert method.stages("paper")
    assert method.stages("fast")
    assert any(stage.batch_wild for stage in method.stages("paper")) == method.needs_wild
    with pytest.raises(InputError, match=r"preset.*papr"):
        method.stages("papr")
    if method.needs_wild:
        with pytest.raises(InputError, match="learns from wild images"):
            train(build_model("small", 4, size=8), method, TrainData(digits.labelled))
