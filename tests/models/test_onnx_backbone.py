"""Image encoders as ONNX graphs: what it says it takes is what it gets; it travels in the bundle; bad ones are refused."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tiny_model
import wildspec
from quick_wild import quick
from wildspec.bundle.onnx_export import export_onnx
from wildspec.errors import DataError, InputError
from wildspec.models.encoder import Encoder
from wildspec.models.onnx_backbone import OnnxBackbone, read_onnx
from wildspec.models.scaling import IMAGENET, RAW

onnx = pytest.importorskip("onnx", reason="extra [onnx]")
pytest.importorskip("onnxruntime", reason="extra [onnx]")

WEIGHT = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)


def write_graph(path: Path, shape: list[Any], *, kind: str = "FLOAT", pooled: bool = False, extra: bool = False) -> Path:
    """A convolution of five channels without padding; inputs of another layout or type are brought to its own first."""
    h, t = onnx.helper, onnx.TensorProto
    nodes, last = [], "images"
    if kind != "FLOAT":
        nodes.append(h.make_node("Cast", [last], ["cast"], to=t.FLOAT))
        last = "cast"
    channels_last = shape[3] == 3
    if channels_last:
        nodes.append(h.make_node("Transpose", [last], ["first"], perm=[0, 3, 1, 2]))
        last = "first"
    nodes.append(h.make_node("Conv", [last, "weight"], ["maps"]))
    out, width = "maps", ["n", 5, None, None]
    if pooled:
        nodes += [h.make_node("GlobalAveragePool", ["maps"], ["one"]), h.make_node("Flatten", ["one"], ["out"])]
        out, width = "out", ["n", 5]
    elif channels_last:
        nodes.append(h.make_node("Transpose", ["maps"], ["back"], perm=[0, 2, 3, 1]))
        out, width = "back", ["n", None, None, 5]
    inputs = [h.make_tensor_value_info("images", getattr(t, kind), shape)]
    inputs += [h.make_tensor_value_info("more", t.FLOAT, [1])] if extra else []
    graph = h.make_graph(
        nodes, "g", inputs, [h.make_tensor_value_info(out, t.FLOAT, width)], [onnx.numpy_helper.from_array(WEIGHT, "weight")]
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def expected_features(inputs: Tensor) -> Tensor:
    """The mean over all windows of the convolution, by linearity: windows summed first."""
    patches = inputs.unfold(2, 3, 1).unfold(3, 3, 1).mean(dim=(2, 3))  # (n, 3, 3, 3)
    return torch.einsum("ncij,dcij->nd", patches, torch.from_numpy(WEIGHT))


@pytest.mark.parametrize("shape", [["n", 3, "h", "w"], ["n", 3, 12, 12], [4, 3, 12, 12], ["n", "h", "w", 3], [1, 12, 12, 3]])
@pytest.mark.parametrize("pooled", [True, False])
def test_layout_size_and_batch_are_read_from_the_graph(tmp_path: Path, shape: list[Any], pooled: bool) -> None:
    backbone = read_onnx(write_graph(tmp_path / "g.onnx", shape, pooled=pooled))
    x = torch.randn(6, 3, 12, 12, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found = backbone(x)
    torch.testing.assert_close(found, expected_features(x.detach()), rtol=1e-4, atol=1e-5)
    assert not found.requires_grad
    assert backbone.size == (12 if 12 in shape else None)
    assert backbone.scaling == IMAGENET
    if 12 in shape:
        with pytest.raises(InputError, match="takes images of 12 px, got 16"):
            backbone(torch.zeros(1, 3, 16, 16))


@pytest.mark.parametrize("shape", [["n", 3, 12, 12], ["n", 12, 12, 3]])
def test_a_graph_of_pixels_gets_pixels(tmp_path: Path, shape: list[Any]) -> None:
    path = write_graph(tmp_path / "g.onnx", shape, kind="UINT8")
    assert read_onnx(path).scaling == RAW
    pixels = torch.randint(0, 256, (5, 3, 12, 12), dtype=torch.uint8)
    found = Encoder(f"onnx:{path}").encode(pixels)
    torch.testing.assert_close(found, expected_features(pixels.float()), rtol=1e-4, atol=1e-2)


def test_another_scaling_can_be_given(tmp_path: Path) -> None:
    path = write_graph(tmp_path / "g.onnx", ["n", 3, "h", "w"])
    pixels = torch.randint(0, 256, (2, 3, 10, 10), dtype=torch.uint8)
    encoder = Encoder(f"onnx:{path}", 10, mean=(0.5, 0.5, 0.5), std=(0.5, 0.25, 0.5))
    scaled = (pixels / 255 - 0.5) / torch.tensor([0.5, 0.25, 0.5]).view(3, 1, 1)
    torch.testing.assert_close(encoder.encode(pixels), expected_features(scaled), rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match=r"does not say .*size"):
        Encoder(f"onnx:{path}")


def test_a_copy_and_a_restored_one_give_the_same(tmp_path: Path) -> None:
    backbone = read_onnx(write_graph(tmp_path / "g.onnx", ["n", 3, "h", "w"]))
    x = torch.randn(2, 3, 9, 9)
    restored = OnnxBackbone(len(backbone.graph))
    restored.load_state_dict(backbone.state_dict())
    for other in (copy.deepcopy(backbone), restored):
        assert torch.equal(other(x), backbone(x))


def test_a_bundle_holds_the_graph(tmp_path: Path, known: Any) -> None:
    path = write_graph(tmp_path / "g.onnx", ["n", 3, "h", "w"], pooled=True)
    labelled, wild = tiny_model.labelled_and_wild()
    model = quick(backbone=f"onnx:{path}", method="erm").fit(labelled, wild)
    model.save(tmp_path / "m")
    path.unlink()
    again = wildspec.load(tmp_path / "m", device="cpu")
    assert np.array_equal(again.ood_score(known[0]), model.ood_score(known[0]))
    assert again.get_params()["backbone"] == f"onnx:{path}"
    with pytest.raises(InputError, match="is an ONNX graph already"):
        export_onnx(again.fitted_, tmp_path / "out.onnx", {})


def test_a_method_that_trains_features_says_that_it_cannot(tmp_path: Path) -> None:
    path = write_graph(tmp_path / "g.onnx", ["n", 3, "h", "w"], pooled=True)
    with pytest.raises(InputError, match="spectral trains the features"):
        quick(backbone=f"onnx:{path}", method="spectral").fit(*tiny_model.labelled_and_wild())


def test_bad_graphs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_onnx(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a graph")
    with pytest.raises(DataError, match=r"bad\.onnx cannot be opened") as caught:
        read_onnx(tmp_path / "bad.onnx")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="must take one input, images"):
        read_onnx(write_graph(tmp_path / "two.onnx", ["n", 3, "h", "w"], extra=True))


def test_a_graph_whose_numbers_lie_in_another_file_is_refused(tmp_path: Path) -> None:
    """Within the folder it would be read; a graph from a stranger may name any file."""
    document = onnx.load(str(write_graph(tmp_path / "g.onnx", ["n", 3, 8, 8])))
    onnx.save(document, str(tmp_path / "out.onnx"), save_as_external_data=True, location="data.bin", size_threshold=0)
    with pytest.raises(DataError, match="in another file"):
        OnnxBackbone((tmp_path / "out.onnx").read_bytes())
