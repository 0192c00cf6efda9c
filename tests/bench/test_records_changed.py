"""Records whose fields were changed by somebody: refused in one line, or as good as before. Never a traceback."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bench import making

from wildspec.bench.records import read_record
from wildspec.bench.render import to_csv, to_markdown
from wildspec.bench.tables import summarize
from wildspec.errors import DataError, WildspecError

WILD = {"pi_c": 0.5, "pi_s": 0.1, "sizes": [40, 40, 20]}
RECORD = {"schema": "wildspec.bench/1", **making.wide()[0], "curve": [{"step": 9, "seconds": 1.5, "auroc": 0.5}]}
RECORD["config"] = {**RECORD["config"], "wild": WILD}
ODD = [None, True, -1, 0, 3, 1.5, 1e300, "", "x", "1", [], [1], {}, {"a": 1}, {"1": 2}, {"1": None}]


def _places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inside in value.items():
            yield (*path, key)
            yield from _places(inside, (*path, key))


def _changed(place: tuple[str, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(RECORD)
    inside = made
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return made


def _use(record: dict[str, Any], folder: Path) -> None:
    path = folder / "record.json"
    path.write_text(json.dumps(record))
    refused = ""
    try:
        tables = summarize([read_record(path)])
        to_markdown(tables)
        to_csv(tables)
    except WildspecError as error:
        refused = str(error)
    assert "\n" not in refused


@pytest.mark.parametrize("look", [5, {}, {"seconds": "1"}, {"seconds": 1.0, "auroc": 2.0}])
def test_a_look_on_the_way_is_checked(tmp_path: Path, look: Any) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({**RECORD, "curve": [look]}))
    with pytest.raises(DataError, match="a look of curve"):
        read_record(path)


def test_every_field_with_every_odd_value(tmp_path: Path) -> None:
    places = list(_places(RECORD))
    assert len(places) > 60
    for place in places:
        for value in ODD:
            _use(_changed(place, value), tmp_path)


@settings(max_examples=60, deadline=None)
@given(
    place=st.sampled_from(list(_places(RECORD))),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside, max_size=2), max_leaves=4,
    ),
)  # fmt: skip
def test_any_value(tmp_path_factory: pytest.TempPathFactory, place: tuple[str, ...], value: Any) -> None:
    _use(_changed(place, value), tmp_path_factory.mktemp("records"))
