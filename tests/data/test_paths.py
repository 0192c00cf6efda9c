"""What is asked of a path before anything is loaded."""

from pathlib import Path

import pytest
from image_files import put

from wildspec.data import open_source
from wildspec.data.paths import EMBEDDINGS, check_there
from wildspec.errors import DataError


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `wildspec fit "$PHOTOS"` gives where nobody has set PHOTOS."""
    put(tmp_path / "1.png")
    monkeypatch.chdir(tmp_path)
    check_there(None)
    for asked in (check_there, lambda name: check_there(name, EMBEDDINGS, files=True), open_source):
        with pytest.raises(DataError, match=r"empty name.*variable") as told:
            asked("")
        assert "\n" not in str(told.value)
        asked(".")  # said in so many words it is that folder
