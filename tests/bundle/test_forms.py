"""A bundle of which any one field was changed is refused with one line, or still decides; never more than that."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from changed import CHANGES, VALUES, Parts
from golden_backbone import Backbone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tiny_model
import wildspec
from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.errors import CheckpointError, WildspecError
from wildspec.report.image_facts import gather
from wildspec.serving.engine import BundleEngine

GOLDEN = Path(__file__).parent / "golden"
QUICK = settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def _no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="module")
def with_wild(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of embeddings that found a shift: all the arrays there are."""
    world = make_world(per_class=40, width=12)
    model = SpectralClassifier(random_state=0, n_components=4).fit(world.labelled, world.labels, world.wild)
    assert model.model_.graph is not None
    path = tmp_path_factory.mktemp("forms") / "wild"
    model.save(path)
    return path


def try_images(path: Path) -> None:
    """All that a model of images is asked for."""
    model = wildspec.load(path, backbone=Backbone(), device="cpu")
    assert np.isfinite(model.ood_score(tiny_model.pictures({"bar": 2, "stripes": 1}, 3)[0])).all()
    BundleEngine(model, "x").describe()
    gather(model, "x")


def try_embeddings(path: Path) -> None:
    model = wildspec.load(path, device="cpu")
    rows = np.random.default_rng(0).normal(size=(3, model.n_features_in_)).astype(np.float32)
    assert np.isfinite(model.ood_score(rows)).all()
    model.predict(rows)
    model.explain(rows)


def one_line_or_works(parts: Parts, path: Path, use: Callable[[Path], None]) -> str:
    """What it was refused with; empty where it works."""
    parts.write(path)
    try:
        use(path)
    except WildspecError as error:
        told = str(error)
    else:
        told = ""
    assert "\n" not in told
    return told


CASES = [("images-v1", try_images), ("images-linear-v1", try_images), ("embeddings-v1", try_embeddings)]


@pytest.mark.parametrize(("name", "use"), CASES)
def test_what_was_written_is_of_its_form(name: str, use: Callable[[Path], None], tmp_path: Path) -> None:
    assert one_line_or_works(Parts.of(GOLDEN / name), tmp_path / "m", use) == ""


@pytest.mark.parametrize(("name", "use"), [*CASES[1:], ("wild", try_embeddings)])
def test_any_field_of_the_documents(name: str, use: Callable[[Path], None], tmp_path: Path, with_wild: Path) -> None:
    parts = Parts.of(with_wild if name == "wild" else GOLDEN / name)
    refused: list[str] = []

    @given(st.sampled_from(parts.places()), st.sampled_from(VALUES))
    @QUICK
    def change(place: tuple[Any, ...], value: Any) -> None:
        refused.append(one_line_or_works(parts.with_value(place, value), tmp_path / "m", use))

    change()
    assert sum(map(bool, refused)) > len(refused) / 3


@pytest.mark.parametrize(("name", "use"), [*CASES[1:], ("wild", try_embeddings)])
def test_any_array(name: str, use: Callable[[Path], None], tmp_path: Path, with_wild: Path) -> None:
    parts = Parts.of(with_wild if name == "wild" else GOLDEN / name)
    refused: list[str] = []

    @given(st.sampled_from(parts.arrays()), st.sampled_from(CHANGES))
    @QUICK
    def change(place: tuple[Any, ...], how: str) -> None:
        told = one_line_or_works(parts.with_array(place, how), tmp_path / "m", use)
        value = parts.tensors[place[0]][place[1]]
        if how == "nan" and value.is_floating_point() and value.numel():
            assert "NaN" in told
        refused.append(told)

    change()
    assert sum(map(bool, refused)) > len(refused) / 3


def test_a_number_of_classes_is_bounded_by_what_is_there(tmp_path: Path) -> None:
    """A network of so many classes takes more memory than there is: it is refused before one is built."""
    parts = Parts.of(GOLDEN / "images-v1").with_value(("model.json", "network", "num_classes"), 10**13)
    with pytest.raises(CheckpointError, match=r"num_classes must be 3, .* got 10000000000000"):
        wildspec.load(parts.write(tmp_path / "m"), backbone=Backbone(), device="cpu")
    parts = Parts.of(GOLDEN / "embeddings-v1").with_value(("model.json", "rule", "n_classes"), 10**13)
    with pytest.raises(CheckpointError, match=r"n_classes must be 2, .* got 10000000000000"):
        wildspec.load(parts.write(tmp_path / "e"))


def test_shapes_that_do_not_fit_and_nan_are_told_by_name(tmp_path: Path) -> None:
    parts = Parts.of(GOLDEN / "embeddings-v1")
    load = partial(wildspec.load, tmp_path / "m")
    parts.with_array(("embeddings.safetensors", "probe.weights"), "short").write(tmp_path / "m")
    with pytest.raises(CheckpointError, match=r"probe\.weights .*\(2, 6\), got \(1, 6\)"):
        load()
    parts.with_array(("embeddings.safetensors", "labelled"), "nan").write(tmp_path / "m")
    with pytest.raises(CheckpointError, match="labelled holds NaN"):
        load()


def test_a_bundle_does_not_say_where_it_is_computed(tmp_path: Path) -> None:
    """Else a bundle of a stranger would start a cluster."""
    parts = Parts.of(GOLDEN / "embeddings-v1").with_value(("model.json", "params", "engine"), "ray")
    parts = parts.with_value(("model.json", "rule", "settings", "graph", "engine"), "ray")
    model = wildspec.load(parts.write(tmp_path / "m"))
    assert model.engine == "auto"
    assert model.model_.graph is None or model.model_.graph.settings.engine == "local"


def test_json_has_no_nan_and_no_end_of_depth(tmp_path: Path) -> None:
    from wildspec.files import read_json

    for text in ('{"a": NaN}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}", "[Infinity]"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(WildspecError, match="not readable JSON"):
            read_json(tmp_path / "x.json")


@pytest.mark.parametrize(("field", "value"), [("strength", 7.0), ("strength", "much"), ("nearest", 0), ("nearest", -3)])
def test_the_rules_own_numbers_are_checked(field: str, value: Any, tmp_path: Path, with_wild: Path) -> None:
    parts = Parts.of(with_wild).with_value(("model.json", "rule", field), value)
    with pytest.raises(CheckpointError, match=field):
        wildspec.load(parts.write(tmp_path / "m"))


def test_whole_numbers_beyond_all_floats_are_one_line(tmp_path: Path, with_wild: Path) -> None:
    parts = Parts.of(with_wild)
    for place in (("model.json", "scale"), ("model.json", "params", "alpha"), ("model.json", "thresholds", "unknown")):
        assert place[-1] in one_line_or_works(parts.with_value(place, 10**400), tmp_path / "x", try_embeddings)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_floats_of_one_byte_are_one_line(kind: torch.dtype, tmp_path: Path, with_wild: Path) -> None:
    parts, file = Parts.of(with_wild), "embeddings.safetensors"
    for name in ("labelled", "labels", "a tensor that nobody reads"):
        content = {**parts.tensors[file], name: torch.zeros(3, 2).to(kind)}
        said = one_line_or_works(Parts(parts.kind, parts.documents, {file: content}), tmp_path / "x", try_embeddings)
        assert name in said
