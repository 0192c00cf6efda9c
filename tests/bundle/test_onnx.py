"""One ONNX graph says what the model says: scores, p-values, decisions, neighbours, for any batch size."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import command
import tiny_model
from quick_wild import quick
from same_graph import check_graph, thousand_pixels
from wildspec.bundle.onnx_export import METADATA, export_onnx
from wildspec.detectors.graphs import closeness
from wildspec.errors import CheckpointError, InputError, MissingDependencyError
from wildspec.serving.engine import BundleEngine
from wildspec.serving.onnx_engine import largest_difference
from wildspec.serving.open_engine import open_engine


@pytest.fixture(scope="module")
def file() -> Path:
    return tiny_model.graph()


@pytest.fixture(scope="module")
def pixels() -> torch.Tensor:
    return thousand_pixels()


def test_onnxruntime_agrees_with_torch_on_1000_images(file: Path, pixels: torch.Tensor) -> None:
    """The joint decision, which a model with wild images has by default; the energy is in test_wild_energy.py."""
    assert tiny_model.fitted().fitted_.decision.detector.name == "wild_knn"
    check_graph(tiny_model.fitted(), file, pixels)


def test_so_it_does_for_a_model_without_wild_images(pixels: torch.Tensor, tmp_path: Path) -> None:
    model = quick(epochs=10, flip=False)
    with pytest.warns(UserWarning, match="no wild images"):
        model.fit(tiny_model.labelled_and_wild()[0])
    assert model.fitted_.decision.detector.name == "knn"
    export_onnx(model.fitted_, tmp_path / "m.onnx", BundleEngine(model, "shapes").describe())
    check_graph(model, tmp_path / "m.onnx", pixels)


def test_so_it_does_with_a_learned_rule(pixels: torch.Tensor, tmp_path: Path) -> None:
    model = quick(epochs=20, flip=False, detector="wild_linear")
    model.fit(*tiny_model.labelled_and_wild())
    detector = model.fitted_.decision.detector
    assert not detector.learned  # so few wild images teach none: one is made up
    detector.rule_ = torch.randn(len(detector.rule_), generator=torch.Generator().manual_seed(0))
    assert detector.learned
    export_onnx(model.fitted_, tmp_path / "m.onnx", BundleEngine(model, "shapes").describe())
    check_graph(model, tmp_path / "m.onnx", pixels)


def test_rows_of_zeros_have_their_place_among_neighbours() -> None:
    maker = torch.Generator().manual_seed(0)
    queries, bank = (torch.nn.functional.normalize(torch.randn(n, 6, generator=maker), dim=1) for n in (40, 30))
    bank[[3, 17]] = 0  # at distance 1 of every query: nearer than what points away from it
    order = torch.cdist(queries, bank).argsort(dim=1, stable=True)
    assert torch.equal(closeness(queries, bank).argsort(dim=1, descending=True, stable=True), order)
    assert 0 < int((order == 3).nonzero()[:, 1].min()) < int((order == 3).nonzero()[:, 1].max()) < 29


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_the_batch_size_is_free(file: Path, pixels: torch.Tensor, batch: int) -> None:
    engine = open_engine(file)
    whole = engine.decide(pixels[:64].numpy(), 2)
    parts = [engine.decide(part.numpy(), 2) for part in pixels[:64].split(batch)]
    assert np.concatenate([p.score for p in parts]) == pytest.approx(whole.score, abs=1e-5)
    assert whole.neighbours.shape == (64, 2)


def test_the_graph_brings_what_a_service_needs(file: Path) -> None:
    document = onnx.load(file)
    onnx.checker.check_model(document, full_check=True)
    facts = json.loads(next(p.value for p in document.metadata_props if p.key == METADATA))
    model, engine = tiny_model.fitted(), open_engine(file)
    assert facts["classes"] == list(tiny_model.CLASSES)
    assert (engine.threshold, engine.alpha, engine.size) == (model.threshold_, model.alpha, 10)
    bundle = BundleEngine(model, "shapes")
    assert engine.describe() == bundle.describe()
    assert [engine.neighbour(i) for i in range(5)] == [bundle.neighbour(i) for i in range(5)]
    assert not re.search(r"/(tmp|home|root|work)/", document.SerializeToString().decode("latin-1")), "no machine paths"


def test_a_score_of_the_logits_is_exported_and_one_of_covariances_refused(pixels: torch.Tensor, tmp_path: Path) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    model = quick(method="erm", detector="gen", epochs=10, alpha=0.2).fit(labelled, wild)
    export_onnx(model.fitted_, tmp_path / "m.onnx", BundleEngine(model, "shapes").describe())
    check_graph(model, tmp_path / "m.onnx", pixels)
    other = quick(method="erm", detector="mahalanobis", epochs=1, alpha=0.2).fit(labelled, wild)
    with pytest.raises(InputError, match="mahalanobis cannot be exported"):
        export_onnx(other.fitted_, tmp_path / "x.onnx", {})
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("version", ["2.4.0", "2.6.0+cu124"])
def test_an_older_torch_is_one_line(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(MissingDependencyError, match=r"needs torch 2.7 .*2\.[46]\."):
        export_onnx(tiny_model.fitted().fitted_, tmp_path / "x.onnx", {})


def test_a_graph_that_is_not_ours_is_refused(file: Path, tmp_path: Path) -> None:
    document = onnx.load(file)
    del document.metadata_props[:]
    onnx.save(document, tmp_path / "foreign.onnx")
    with pytest.raises(CheckpointError, match="not an ONNX file"):
        open_engine(tmp_path / "foreign.onnx")


def test_the_command_checks_its_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path, file: Path
) -> None:
    run = command.runner(monkeypatch, capsys)
    written = []

    def copy(fitted: Any, path: Path, facts: Any) -> None:  # exporting again would only cost time
        written.append(facts["name"])
        path.write_bytes(file.read_bytes())

    monkeypatch.setattr("wildspec.bundle.onnx_export.export_onnx", copy)
    status, out, err = run("export", tiny_model.bundle(), "--onnx", tmp_path / "m.onnx", "--json")
    assert status == 0, err
    assert written == ["model"]
    assert json.loads(out)["largest_difference"] < 1e-4
    other = quick(epochs=1, random_state=5).fit(*tiny_model.labelled_and_wild())
    assert largest_difference(other, file, 16) > 1e-2, "the check can fail"
    other.save(tmp_path / "other")
    status, out, _ = run("export", tmp_path / "other", "--onnx", tmp_path / "m.onnx")
    assert status == 1
    assert "do not use it" in out
    assert "serve" not in out
    status, _, err = run("export", tiny_model.bundle(), "--onnx", tmp_path / "graph")
    assert (status, err) == (2, f"wildspec: --onnx must name a file that ends in .onnx, got {tmp_path / 'graph'}\n")
    assert not (tmp_path / "graph").exists()
    (tmp_path / "M.ONNX").write_bytes(file.read_bytes())
    assert open_engine(tmp_path / "M.ONNX").classes == tiny_model.CLASSES


@pytest.mark.parametrize("deep", [False, True])
def test_a_graph_whose_numbers_lie_in_another_file_is_refused(file: Path, tmp_path: Path, deep: bool) -> None:
    """onnxruntime would open the file that the graph names."""
    document = onnx.load(str(file))
    if deep:
        inner = onnx.helper.make_graph([], "inner", [], [])
        inner.initializer.append(_outside("hidden"))
        document.graph.node[0].attribute.append(onnx.helper.make_attribute("body", inner))
        (tmp_path / "m.onnx").write_bytes(document.SerializeToString())
    else:
        onnx.save(document, str(tmp_path / "m.onnx"), save_as_external_data=True, location="data.bin", size_threshold=0)
    with pytest.raises(CheckpointError, match="in another file"):
        open_engine(tmp_path / "m.onnx")


def _outside(name: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=[1])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    return tensor
