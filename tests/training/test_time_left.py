"""The time left on the live line: by speed, but never past the budget of the stage or the limit of the run."""

from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress as Bar
from tests.training.common import data, method, model, quiet, stages
from tests.training.test_budget import clock  # noqa: F401  # the fixture

import wildspec.training.loop as loop
from wildspec.training import Budget, Settings, train
from wildspec.training.time_left import TimeLeft


def shown(most: float | None, done: int) -> str:
    """What the line says 20 s after the start, with ``done`` of 100 steps taken at an even pace."""
    now = [0.0]
    column = TimeLeft(lambda: most)
    bar = Bar(column, console=Console(quiet=True), get_time=lambda: now[0], auto_refresh=False)
    task = bar.add_task("pretrain", total=100)
    bar.update(task, completed=0)
    now[0] = 10.0
    bar.update(task, completed=done // 2)
    now[0] = 20.0
    bar.update(task, completed=done)
    return column(bar.tasks[0]).plain


@pytest.mark.parametrize(
    ("most", "done", "text"),
    [
        (None, 10, "0:03:00"),  # 90 steps at 2 s
        (40.0, 10, "0:00:40"),  # late: the budget ends first
        (7201.0, 10, "0:03:00"),  # early: the steps end first
        (-3.0, 10, "0:00:00"),  # over, the last step is still under way
        (None, 0, "-:--:--"),  # no speed known yet
        (3725.0, 0, "1:02:05"),  # but the limit is
        (40.0, 100, "0:00:00"),
    ],
)
def test_the_line_shows_what_ends_first(most: float | None, done: int, text: str) -> None:
    assert shown(most, done) == text


def told(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> list[tuple[str, float | None]]:
    """(stage, seconds that are left at most) as the line could show it after each step of a run."""
    found: list[tuple[str, float | None]] = []

    class Listening(loop.Progress):
        def start(self, name: str, total: int, done: int, most: Any = None) -> None:
            self.most = most

        def row(self, values: dict[str, Any], stage_step: int, total: int) -> None:
            found.append((values["stage"], self.most()))

    monkeypatch.setattr(loop, "Progress", Listening)
    train(model(), method(), data(), settings, stages=stages(epochs=4))
    return found


def test_a_budget_counts_down(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """12 + 12 steps planned at a second each in 27 s, taken at 3 s: 13.5 s for the first stage, then the rest."""
    clock(lambda n: 3.0)
    found = told(monkeypatch, quiet(budget=Budget(27.0, (12.0, 12.0))))
    assert [most for _, most in found] == pytest.approx([10.5, 7.5, 4.5, 1.5, 0.0, 9.0, 6.0, 3.0, 0.0])
    assert [stage for stage, _ in found] == ["pretrain"] * 5 + ["finetune"] * 4


def test_a_time_limit_counts_down(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """4 s for the whole call: the line ends where the run is cut, whichever stage it is in."""
    clock(lambda n: 1.0)
    assert [most for _, most in told(monkeypatch, quiet(time_limit=4.0))] == pytest.approx([3.0, 2.0, 1.0, 0.0, 0.0])
    assert {most for _, most in told(monkeypatch, quiet())} == {None}
    both = told(monkeypatch, quiet(time_limit=20.0, budget=Budget(27.0, (12.0, 12.0))))
    assert [most for _, most in both] == pytest.approx([12.5 - n for n in range(12)] + [7.0 - n for n in range(8)] + [0.0])
