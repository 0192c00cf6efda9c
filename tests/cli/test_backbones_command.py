"""``wildspec backbones``: every name is listed, what is absent with the command that installs it, and speed on demand."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from wildspec.cli.main import app
from wildspec.errors import InputError
from wildspec.models.registry import BACKBONES


def cli(*words: Any) -> Result:
    return CliRunner().invoke(app, ["backbones", *(str(word) for word in words)])


def test_every_backbone_is_listed() -> None:
    records = {record["name"]: record for record in json.loads(cli("--json").stdout)}
    assert {*BACKBONES, "timm:NAME", "torchvision:NAME", "onnx:FILE"} == set(records)
    lite = records["efficientnet_lite0"]
    assert lite["installed"]
    assert (lite["size"], lite["features"], lite["licence"]) == (224, 1280, "Apache-2.0")
    assert lite["megabytes"] == pytest.approx(4 * 3_371_008 / 1e6, abs=0.05)
    absent = [record for record in records.values() if not record["installed"]]
    assert all(record["install"].startswith("pip install ") for record in absent)
    shown = cli().stdout
    assert all(name in shown for name in records)
    assert all(record["install"] in shown for record in absent)


def test_speed_is_measured_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wildspec.images.encoding.MEASURED", 0.02)
    assert "images_per_second" not in json.loads(cli("small", "--json").stdout)
    record = json.loads(cli("small", "--speed", "--size", 16, "--device", "cpu", "--json").stdout)
    assert record["measured_at"] == 16
    assert record["images_per_second"] > 0
    assert "images/s" in cli("small", "--speed", "--device", "cpu").stdout


def test_a_file_is_opened_to_say_what_it_holds(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="extra [onnx]")
    pytest.importorskip("onnxruntime", reason="extra [onnx]")
    h, t = onnx.helper, onnx.TensorProto
    graph = h.make_graph(
        [h.make_node("GlobalAveragePool", ["x"], ["y"])], "g", [h.make_tensor_value_info("x", t.FLOAT, ["n", 3, 48, 48])],
        [h.make_tensor_value_info("y", t.FLOAT, ["n", 3, 1, 1])],
    )  # fmt: skip
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), str(tmp_path / "g.onnx"))
    record = json.loads(cli(f"onnx:{tmp_path / 'g.onnx'}", "--json").stdout)
    assert (record["size"], record["features"]) == (48, 3)


def test_an_unknown_name_is_one_line() -> None:
    done = cli("vgg")
    assert isinstance(done.exception, InputError)
    assert "efficientnet_lite0" in str(done.exception)
