"""Where copies are kept that can be made again."""

import sys
from pathlib import Path

import pytest

from wildspec.files import cache_folder


def test_the_users_choice_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "wildspec"
    assert not cache_folder().exists(), "asking makes nothing"


@pytest.mark.parametrize(("system", "expected"), [
    ("linux", ".cache/wildspec"), ("darwin", "Library/Caches/wildspec"), ("win32", "AppData/Local/wildspec/cache"),
])  # fmt: skip
def test_else_what_the_system_has_for_it(
    system: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    for ignored in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_folder() == tmp_path / expected


def test_a_user_without_a_home_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().is_absolute()
