"""A time to keep, on a clock that only training steps move: on time nothing changes, late ends on time and annealed."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.training.common import assert_same_bits, data, method, model, quiet, slow_loop, stages, weights

import wildspec.training.loop as loop
from wildspec.errors import InputError
from wildspec.methods import Method
from wildspec.methods.base import Context, Stage
from wildspec.training import Budget, TrainResult, train
from wildspec.training.budget import Pace, by_time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], float]], None]:
    """Set how many seconds the n-th step of the run takes; nothing else takes any."""
    state = SimpleNamespace(now=1000.0, steps=0, cost=lambda n: 1.0)

    class Timed(loop.Step):
        def __call__(self, raw: Any) -> torch.Tensor:
            state.now += state.cost(state.steps)
            state.steps += 1
            return super().__call__(raw)

    monkeypatch.setattr(loop, "Step", Timed)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: state.now))

    def start(cost: Callable[[int], float]) -> None:
        state.steps, state.cost = 0, cost

    return start


def run(recipe: tuple[Stage, ...], budget: Budget | None, name: str = "spectral", **more: Any) -> TrainResult:
    return train(model(), method(name), data(), quiet(budget=budget), stages=recipe, **more)


def test_a_run_on_time_is_bit_for_bit_the_run_without_a_limit(clock: Any) -> None:
    """12 + 12 steps planned at a second each, 27 s allowed: steps that hesitate and catch up stay within the lead."""
    recipe = stages(epochs=4, ema=0.9)
    clock(lambda n: 1.0)
    free = run(recipe, None)
    clock(lambda n: 2.2 if n == 0 else 0.5 if n % 2 else 1.5)
    bound = run(recipe, Budget(27.0, (12.0, 12.0)))
    assert_same_bits(weights(bound), weights(free))
    assert [row["lr"] for row in bound.history] == [row["lr"] for row in free.history]
    assert bound.stage_steps == free.stage_steps == [12, 12]


@pytest.mark.parametrize("cost", [
    lambda n: 3.0,  # three times slower from the start
    lambda n: 1.0 if n < 20 else 4.0,  # from half-way of the first stage on
    lambda n: 5.0 if 5 <= n < 12 else 1.0,  # for a while
], ids=["always", "half-way", "for a while"])  # fmt: skip
def test_a_late_run_ends_at_the_limit_with_its_rate_at_the_end(clock: Any, cost: Callable[[int], float]) -> None:
    pretrain, finetune = stages(epochs=12)
    recipe = (pretrain, finetune.scaled(schedule="cosine"))
    budget = Budget(80.0, (36.0, 36.0))
    clock(cost)
    found = run(recipe, budget)
    taken, rates = slow_loop(recipe, budget, cost)
    assert found.finished
    assert found.stage_steps == taken
    assert sum(taken) < 72, "not all steps of the plan"
    assert [row["lr"] for row in found.history] == pytest.approx(rates, rel=1e-5)
    longest = max(map(cost, range(found.steps)))
    assert found.seconds <= 80 + longest
    for name, stage in (("pretrain", pretrain), ("finetune", finetune)):
        mine = [row for row in found.history if row["stage"] == name]
        assert mine[-1]["lr"] < 0.1 * stage.lr, "annealed"
        falling = [row["lr"] for row in mine if row["epoch"] > 2 * stage.warmup]
        assert falling == sorted(falling, reverse=True)
    assert found.stage_steps[1] >= 36 / 4 - 2, "the second stage kept its part of the time"


@pytest.mark.parametrize("cut_after", [2, 14])
def test_a_late_run_cut_and_resumed_keeps_the_time_it_has_used(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch, cut_after: int
) -> None:
    """Cut after so many checkpoints: inside the first stage, or the second. The same steps, rates and bits as uncut."""
    recipe, budget = stages(epochs=4, ema=0.9), Budget(27.0, (12.0, 12.0))
    cost = [1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0] + [1.0] * 20
    clock(cost.__getitem__)
    whole = run(recipe, budget)
    assert whole.steps < 24
    original, saved = loop.checkpoint.save, []

    def save_and_cut(*args: Any, **more: Any) -> Path:
        saved.append(original(*args, **more))
        if len(saved) == cut_after:
            raise InterruptedError
        return saved[-1]

    settings = quiet(budget=budget, checkpoint_steps=1)
    monkeypatch.setattr(loop.checkpoint, "save", save_and_cut)
    clock(cost.__getitem__)
    with pytest.raises(InterruptedError):
        train(model(), method(), data(), settings, stages=recipe, run_dir=tmp_path)
    monkeypatch.setattr(loop.checkpoint, "save", original)
    facts = loop.checkpoint.load(saved[-1]).facts
    clock(cost[facts["steps"] :].__getitem__)
    result = train(model(9), method(), data(), settings, stages=recipe, run_dir=tmp_path, resume=True)
    assert_same_bits(weights(result), weights(whole))
    assert result.stage_steps == whole.stage_steps
    assert result.seconds == pytest.approx(whole.seconds)
    assert [row["lr"] for row in result.history] == [row["lr"] for row in whole.history]


class Switching(Method):
    """Notes the steps it is told of; changes over at one of them, and at a share of the whole."""

    name, summary, paper = "switching", "", ""
    capturable = False

    def __init__(self) -> None:
        super().__init__(4)
        self.told: list[int] = []
        self.before: list[int] = []  # steps taken when each was told

    def start_stage(self, context: Context) -> None:
        self.total = context.total_steps

    def before_step(self, stage: Stage, step: int) -> bool:
        self.told.append(step)
        return step == 10  # as the penalty methods do: exactly there

    def loss(self, model: Any, batch: Any, stage: Stage) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.before.append(len(self.told))
        return torch.nn.functional.cross_entropy(model(batch.images), batch.labels), {}


def test_methods_hear_of_every_step_of_the_schedule_once_and_in_time(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """36 steps of the schedule, of which a slow run takes a third: all are announced, in order, before the step that
    is taken there; the optimizer forgets exactly once."""
    forgotten: list[object] = []
    monkeypatch.setattr(loop.optimizers, "forget", forgotten.append)
    clock(lambda n: 3.07)
    hears, (_, stage) = Switching(), stages(epochs=12)
    found = train(model(), hears, data(), quiet(budget=Budget(40.0, (36.0,))), stages=[stage])
    assert 12 <= found.steps <= 15
    assert hears.total == 36
    assert hears.told == list(range(len(hears.told)))
    assert 33 <= len(hears.told) <= 36
    assert len(forgotten) == 1
    # after n steps, 3.07 n seconds: the place is that of a run that has 36 - (40 - 3.07 n) steps behind it
    assert hears.before == [int(max(n, 3.07 * n - 4)) + 1 for n in range(found.steps)]


def test_the_ratio_of_pu_sets_in_at_its_share_of_a_shortened_stage(clock: Any) -> None:
    """At 30 % of 48 steps, while every step takes four times its time: after a quarter of those steps, and the lead."""
    clock(lambda n: 4.0)
    learner = method("pu")
    _, plain = stages(epochs=16)
    stage = plain.scaled(name="together", batch_wild=32, wild_views=1)
    active = []
    inner = learner.loss

    def loss(*args: Any) -> Any:
        active.append(float(learner.active))  # type: ignore[arg-type]
        return inner(*args)

    learner.loss = loss  # type: ignore[method-assign]
    found = train(model(), learner, data(), quiet(budget=Budget(52.0, (48.0,))), stages=[stage])
    assert found.steps == 13
    first = next(n for n in range(13) if max(n, 4 * n - 4) >= round(0.3 * 48))
    assert active == [0.0] * first + [1.0] * (13 - first)


def test_a_spent_budget_still_takes_a_step_of_every_stage(clock: Any) -> None:
    clock(lambda n: 50.0)
    found = run(stages(epochs=4), Budget(20.0, (9.0, 9.0)))
    assert found.finished
    assert found.stage_steps == [1, 1]


def test_the_formula() -> None:
    """30 s planned, 40 allowed: a lead of 10; planned 60, allowed 40: none, the clock alone."""
    assert [by_time(t, 40, 30) for t in (0, 10, 25, 40, 50)] == pytest.approx([-1 / 3, 0, 0.5, 1, 1])
    assert [by_time(t, 40, 60) for t in (0, 10, 40)] == pytest.approx([0, 0.25, 1])
    assert by_time(0, 0, 10) == 1
    budget = Budget(100, (30, 60))
    assert budget.allowed(0, 0) == pytest.approx(100 / 3)
    assert budget.allowed(1, 60) == pytest.approx(40)
    assert budget.allowed(1, 120) == 0


def test_a_schedule_never_runs_back() -> None:
    """A run resumed behind the place it had been told to hear of: nothing is said twice, and the rest once."""
    pace = Pace(100, None, 0, 0.0, lambda: 0.0, torch.device("cpu"), seen=50)
    heard: list[int] = []
    for step in range(20, 101):
        pace.move(step)
        heard += pace.passed()
    assert heard == list(range(50, 100))
    assert pace.seen == 100


@pytest.mark.parametrize(("seconds", "planned"), [(0.0, (1.0,)), (-1.0, (1.0,)), (10.0, (0.0,)), (float("nan"), (1.0,))])
def test_bad_budgets(seconds: float, planned: tuple[float, ...]) -> None:
    with pytest.raises(InputError):
        Budget(seconds, planned)


def test_a_budget_for_other_stages_is_an_error() -> None:
    with pytest.raises(InputError, match=r"plans 1 stages.*has 2"):
        run(stages(), Budget(10, (1.0,)))


@pytest.mark.parametrize("slow", [1.0, 1.5, 2.0, 3.0])
def test_a_late_run_still_takes_turns(clock: Any, slow: float) -> None:
    """ANNA: a source step, a target step; twice as slow as planned, the schedule moves on by two places a step."""
    stage = Stage("adapt", epochs=8, lr=0.001, batch_labelled=32, batch_wild=32, wild_views=1)
    clock(lambda n: slow)
    found = run((stage,), Budget(30.0, (24.0,)), "anna")
    turns = [row["turn"] for row in found.history]
    assert len(turns) == found.steps
    assert (len(turns) < 24) == (slow > 1.25)
    assert turns == [n % 2 for n in range(len(turns))]
