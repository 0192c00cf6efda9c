"""Tables of answers that somebody has damaged: read, or refused in one line. Never a traceback."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wildspec.errors import WildspecError
from wildspec.serving.review import by_name, read_lines

TABLE = (
    "image,class,likely,decision,score,threshold,pool\n"
    "a.png,cat,cat,cat,0.1,0.5,0123456789ab\n"
    "b.png,unknown,dog,rejected,0.9,0.5,0123456789ab\n"
)


def _read(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refused = ""
    try:
        lines, column = read_lines(path)
        found = by_name(lines, column, path)
        assert all(found.values())
    except WildspecError as error:
        refused = str(error)
    assert "\n" not in refused


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, len(TABLE)), cut=st.integers(0, 30), put=st.binary(max_size=12))
@example(place=0, cut=0, put=b"\xef\xbb\xbf")
@example(place=48, cut=0, put=b'"')
@example(place=0, cut=0, put=b'"')
@example(place=10, cut=0, put=b"\x00")
def test_damaged_anywhere(tmp_path_factory: pytest.TempPathFactory, place: int, cut: int, put: bytes) -> None:
    whole = TABLE.encode()
    _read(tmp_path_factory.mktemp("answers") / "ask.csv", whole[:place] + put + whole[place + cut :])


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ask.csv"
    path.write_text(TABLE)
    lines, column = read_lines(path)
    assert column == "image"
    assert by_name(lines, column, path) == {"a.png": "cat", "b.png": "unknown"}
