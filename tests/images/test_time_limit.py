"""minutes= and a frozen network, on a clock that only images move: done in time, or refused early with minutes that do."""

import re
from types import SimpleNamespace

import pytest

from wildspec.errors import InputError
from wildspec.images import time_limit


def encode(
    monkeypatch: pytest.MonkeyPatch, seconds: list[float], minutes: float | None, late: float = 0.0
) -> tuple[int, float]:
    """Images that take so many seconds each, the first after ``late`` -> how many were done, and when; as far as allowed."""
    clock = SimpleNamespace(now=late)
    monkeypatch.setattr(time_limit, "time", SimpleNamespace(monotonic=lambda: clock.now))
    advance = time_limit.features_in_time(minutes, 0.0, len(seconds), 160)
    for each in seconds:
        clock.now += each
        advance(1)
    return len(seconds), clock.now


def test_what_can_be_done_in_time_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encode(monkeypatch, [0.1] * 1000, 2.0) == (1000, pytest.approx(100.0))


def test_without_minutes_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encode(monkeypatch, [10.0] * 1000, None)[0] == 1000


def test_what_cannot_is_refused_early_and_the_minutes_it_names_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"1,000 images at 160 px") as error:
        encode(monkeypatch, [0.3] * 1000, 2.0, late=30.0)
    said = re.search(r"--minutes (\d+)", str(error.value))
    assert said is not None
    assert int(said[1]) == 7  # (30 + 300) s and a tenth kept back: 6.1 min
    done, end = encode(monkeypatch, [0.3] * 1000, float(said[1]), late=30.0)
    assert done == 1000
    assert end <= 60 * int(said[1])
    assert time_limit.LOOK_AFTER < 0.05 * 330


def test_a_machine_that_becomes_slower_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="--minutes"):
        encode(monkeypatch, [0.1] * 500 + [0.5] * 500, 2.0)


def test_features_that_were_kept_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encode(monkeypatch, [0.0] * 900 + [0.5] * 100, 2.0)[0] == 1000
