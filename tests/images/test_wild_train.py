"""minutes= is a promise, on a clock that only steps, passes over images and pictures move: fit ends in time, also when the
machine becomes slower on the way or does something else while its speed is measured."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tiny_model
from quick_wild import quick
from wildspec import WildClassifier
from wildspec.errors import InputError
from wildspec.images import decided, pictures
from wildspec.images import fit as wild_fit
from wildspec.images import train as wild_train
from wildspec.training import loop
from wildspec.training import suit as recipe

PASS = 0.02  # seconds an image takes through the network
PICTURE = 0.05


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``now``: the time; ``step``: seconds of the n-th step since the run was announced (-1: while it is measured);
    ``slower``: factor of everything else. ``idle``: the part of the timed steps in which others have the processor."""
    here = SimpleNamespace(now=0.0, steps=-1, step=lambda n: 1.0, said=[], slower=1.0, worked=0.0, idle=0.0)

    class Timed(loop.Step):  # only its first step is a real one: what is learned does not matter here
        logged: torch.Tensor | None = None

        def __call__(self, raw: Any) -> torch.Tensor:
            took = here.step(here.steps)
            here.now += took
            here.worked += (1 - here.idle) * took
            here.steps += here.steps >= 0
            if self.logged is None:
                self.logged = super().__call__(raw)
            return self.logged

    def say(self: Any, line: str) -> None:
        here.said.append(line)
        if line.startswith("training"):
            here.steps = 0

    def slow(function: Callable[..., Any], seconds: Callable[..., float]) -> Callable[..., Any]:
        def run(*args: Any, **more: Any) -> Any:
            here.now += here.slower * seconds(*args)
            return function(*args, **more)

        return run

    watch = SimpleNamespace(monotonic=lambda: here.now, thread_time=lambda: here.worked)
    monkeypatch.setattr(loop, "Step", Timed)
    for module in (loop, recipe, wild_train, wild_fit, pictures):
        monkeypatch.setattr(module, "time", watch)
    monkeypatch.setattr(recipe, "accuracy", slow(recipe.accuracy, lambda model, images, *rest: PASS * len(images)))
    monkeypatch.setattr(decided, "collect", slow(decided.collect, lambda model, images, *rest: PASS * len(images)))
    make = wild_fit.Gallery.make
    monkeypatch.setattr(wild_fit.Gallery, "make", slow(make, lambda source, numbers, rows, *side: PICTURE * len(rows)))
    monkeypatch.setattr(WildClassifier, "_say", say)
    monkeypatch.setattr(recipe, "MIN_STEPS", {"together": 80})
    monkeypatch.setattr(recipe, "LONGEST_TOGETHER", 3.0)  # what is planned here is bounded by the time alone
    return here


def fit(**options: Any) -> WildClassifier:
    labelled, wild = tiny_model.labelled_and_wild()
    return quick(**{"method": "pu", "epochs": None, "backbone": "small", **options}).fit(labelled, wild)


@pytest.mark.parametrize(("step", "all_steps"), [
    (lambda n: 1.0, True),
    (lambda n: 1.0 if n < 30 else 3.0, False),  # something else is started
    (lambda n: 1.0 if n < 0 else 1.7, False),  # slower than planned
    (lambda n: 1.5 if n < 0 else 1.0, True),  # busy only while the speed is measured
], ids=["steady", "slower half-way", "slower than planned", "busy at first"])  # fmt: skip
def test_fit_ends_in_time(machine: SimpleNamespace, step: Callable[[int], float], all_steps: bool) -> None:
    machine.step = step
    model = fit(minutes=2)
    machine.now += wild_train.AROUND  # the libraries and the bundle
    (stage,) = model.record_["training"]["stages"]
    assert 75 < machine.now <= 120 + step(machine.steps)
    assert (stage["taken"] == stage["steps"]) == all_steps
    assert any("slower than planned" in line for line in machine.said) != all_steps
    assert stage["taken"] == machine.steps


def test_what_comes_after_training_may_take_twice_as_long(machine: SimpleNamespace) -> None:
    def step(n: int) -> float:
        machine.slower = 1.0 if n < 0 else 2.0
        return 1.0 if n < 0 else 2.0

    machine.step = step
    fit(minutes=2)
    assert machine.now + wild_train.AROUND <= 120 + 2


def test_a_disturbed_probe_shortens_nothing(machine: SimpleNamespace) -> None:
    """One of the timed steps was undisturbed: the plan follows it."""
    calls = iter(range(10_000))
    machine.step = lambda n: 1.0 if n >= 0 or next(calls) % 3 == 0 else 20.0
    assert fit(minutes=8).record_["training"]["stages"][0]["steps"] > 200


def test_a_disturbance_of_seconds_is_waited_out(machine: SimpleNamespace) -> None:
    """The first eight steps that are timed are slow, the next ones show the machine as it is: about 25 s are left for
    training, 60 steps at the one speed, 240 at the other."""
    calls = iter(range(10_000))
    machine.step = lambda n: 0.1 if n >= 0 or next(calls) >= 8 else 0.4
    assert fit(minutes=1).record_["training"]["stages"][0]["steps"] > 150
    assert machine.now + wild_train.AROUND <= 60


@pytest.mark.parametrize("goes_on", [False, True])
def test_other_work_while_the_speed_is_measured_shortens_nothing(machine: SimpleNamespace, goes_on: bool) -> None:
    """Three other programs share the processor while steps are timed: one takes 4 s, in which ours works for 0.8. By
    itself it takes 1 s, as it does when the others are done; then the time is used. When they go on, it is kept."""
    machine.step = lambda n: 1.0
    alone = fit(minutes=4).record_["training"]["stages"][0]["steps"]
    machine.now, machine.steps, machine.idle = 0.0, -1, 0.8
    machine.step = lambda n: 4.0 if n < 0 or goes_on else 1.0
    stage = fit(minutes=4).record_["training"]["stages"][0]
    assert 0.75 * alone < stage["steps"] < alone, "timing slow steps takes a little longer"
    assert (stage["taken"] == stage["steps"]) != goes_on
    assert 0.8 * 240 < machine.now + wild_train.AROUND <= 240 + 4


def test_without_a_limit_a_slow_machine_takes_longer_instead_of_giving_up(machine: SimpleNamespace) -> None:
    machine.step = lambda n: 80.0
    with pytest.raises(InputError, match=r"time is too short.*--minutes \d+"):
        fit(minutes=10)
    with pytest.raises(InputError, match=r"leaves nothing .*--minutes \d+"):
        fit(minutes=1)
    machine.now = 0.0
    model = fit()
    assert any("10 min" in line for line in machine.said), "what help and docs say a CPU takes at most"
    (stage,) = model.record_["training"]["stages"]
    assert stage["steps"] == recipe.MIN_STEPS["together"] // 8
    assert stage["taken"] == stage["steps"]
    assert machine.now > 60 * wild_train.CPU_MINUTES


def test_large_photographs_get_fewer_pictures(machine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten per cent of the time is for pictures of labelled images, however many there are."""
    monkeypatch.setitem(globals(), "PICTURE", 0.5)
    few = fit(minutes=4).fitted_.pictures["labelled"]
    assert 40 <= len(few) <= 48
    monkeypatch.setitem(globals(), "PICTURE", 0.01)
    machine.now, machine.steps = 0.0, -1
    assert len(fit(minutes=4).fitted_.pictures["labelled"]) == 96


@pytest.mark.parametrize(("seconds", "said"), [(45, "45 s"), (99.4, "99 s"), (140, "2 min"), (5900, "98 min"),
                                               (7500, "2 h 5 min")])  # fmt: skip
def test_durations(seconds: float, said: str) -> None:
    assert wild_train.duration(seconds) == said
