"""The frozen encoder: folded as plain, channels last as contiguous, any batch as one, exported as here; golden values."""

import io
import logging
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wildspec.errors import InputError, InputTypeError
from wildspec.models.encoder import Encoder
from wildspec.models.fold import fold_batch_norm
from wildspec.models.registry import BACKBONES

GOLDEN = [4.645408, 0.0, 0.000522, 0.0, 0.0, 0.702811, 2.055862, 5.926304]
SCALING: dict[str, Any] = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.25, 0.3)}


def formula_image(size: int) -> Tensor:
    """(1, 3, size, size) uint8: channel c at row y, column x is (7 y + 13 x + 29 c + (x y) // 5) mod 256."""
    y, x, c = np.ogrid[:size, :size, :3]
    return torch.from_numpy((7 * y + 13 * x + 29 * c + (x * y) // 5) % 256).to(torch.uint8).permute(2, 0, 1)[None]


@pytest.fixture(scope="module")
def lite0() -> Encoder:
    return Encoder("efficientnet_lite0", 64)


def random_norms(network: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.running_mean, 0, 0.3)
            nn.init.uniform_(part.running_var, 0.4, 1.8)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.3)
    return network.eval()


@pytest.mark.parametrize("name", ["efficientnet_lite0", "small_resnet", "resnet34"])
def test_folded_batch_norm_gives_the_same_features(name: str) -> None:
    plain = BACKBONES[name].build(32)
    if BACKBONES[name].weights is None:
        random_norms(plain)
    plain.eval()
    folded = fold_batch_norm(plain)
    x = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, found = plain(x), folded(x)
    assert float((found - expected).abs().max()) <= 1e-4 * float(expected.abs().max())

    def norms(network: nn.Module) -> int:
        return sum(isinstance(part, nn.BatchNorm2d) for part in network.modules())

    assert norms(folded) < norms(plain), "nothing was folded"
    if name == "efficientnet_lite0":
        assert norms(folded) == 0


def test_only_what_follows_for_sure_is_folded() -> None:
    """A norm before a convolution stays, and one behind something else; one without weights is taken in."""
    network = random_norms(nn.Sequential(
        nn.BatchNorm2d(3), nn.Conv2d(3, 5, 3, bias=True), nn.BatchNorm2d(5), nn.ReLU(), nn.BatchNorm2d(5),
    ))  # fmt: skip
    network.append(nn.Conv2d(5, 4, 1, bias=False)).append(nn.BatchNorm2d(4, affine=False)).eval()
    folded = fold_batch_norm(network)
    x = torch.randn(2, 3, 9, 9)
    with torch.no_grad():
        torch.testing.assert_close(folded(x), network(x), rtol=1e-5, atol=1e-5)
    assert [type(part).__name__ for part in folded] == [
        "BatchNorm2d", "Conv2d", "Identity", "ReLU", "BatchNorm2d", "Conv2d", "Identity",
    ]  # fmt: skip
    assert isinstance(network[2], nn.BatchNorm2d), "the network itself is not touched"


class _OutOfOrder(nn.Module):
    """Uses the layers of a Sequential one by one, in another order: folding them would change what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.parts[0](torch.relu(self.parts[1](x)))


def test_a_network_that_folding_would_change_runs_plain() -> None:
    network = random_norms(_OutOfOrder())
    encoder = Encoder(network, 8, **SCALING)
    x = torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8)
    inputs = (x / 255 - torch.tensor(SCALING["mean"]).view(3, 1, 1)) / torch.tensor(SCALING["std"]).view(3, 1, 1)
    with torch.no_grad():
        expected = network(inputs).mean((2, 3))
    torch.testing.assert_close(encoder.encode(x), expected, rtol=1e-5, atol=1e-5)


def test_features_are_those_of_the_plain_network_on_scaled_pixels(lite0: Encoder) -> None:
    """(x - 127) / 128, contiguous, in one pass, batch norm in place: what the encoder computes faster."""
    pixels = torch.randint(0, 256, (11, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    plain = BACKBONES["efficientnet_lite0"].build(64).eval()
    with torch.no_grad():
        expected = plain((pixels.float() - 127) / 128)
    found = lite0.encode(pixels)
    assert found.shape == (11, 1280)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    assert float((found - expected).abs().max()) <= 1e-4 * float(expected.abs().max())


def test_batches_and_order_do_not_matter(lite0: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = torch.cat([formula_image(64).roll(i, -1) for i in range(7)])
    whole = lite0.encode(pixels)
    monkeypatch.setattr("wildspec.models.encoder.CPU_PIXELS", 2 * 64 * 64)
    assert lite0.batch == 2
    scale = float(whole.abs().max())
    assert float((lite0.encode(pixels) - whole).abs().max()) <= 1e-5 * scale
    assert float((lite0.encode(pixels.flip(0)).flip(0) - whole).abs().max()) <= 1e-5 * scale
    assert lite0.encode(pixels[:0]).shape == (0, 1280)


def test_an_encoder_stays_frozen(lite0: Encoder) -> None:
    assert not lite0.train().training
    assert not any(part.training for part in lite0.modules())
    assert not any(parameter.requires_grad for parameter in lite0.parameters())


def test_a_module_of_ones_own_is_not_changed() -> None:
    module = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)).train()
    encoder = Encoder(module, 8, **SCALING)
    assert encoder.feature_dim == 6
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_the_golden_features() -> None:
    """Pre-trained weights, our network, our scaling: the first eight of 1,280 features of an image given by a formula."""
    found = Encoder("efficientnet_lite0", 96).encode(formula_image(96))[0, :8]
    assert found.tolist() == pytest.approx(GOLDEN, abs=2e-4)


def test_the_exported_graph_agrees(lite0: Encoder) -> None:
    pytest.importorskip("onnxscript", reason="extra [onnx]")
    ort = pytest.importorskip("onnxruntime", reason="extra [onnx]")
    pixels = torch.cat([formula_image(64), formula_image(64).flip(-1), formula_image(64).flip(-2)])
    batch = torch.export.Dim("batch", min=1, max=64)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(lite0, (pixels[:2],), dynamic_shapes={"pixels": {0: batch}}, dynamo=True, verbose=False)
    assert program is not None
    program.save(stream)
    session = ort.InferenceSession(stream.getvalue(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: pixels.numpy()})
    expected = lite0.encode(pixels).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("pixels", [
    torch.zeros(2, 3, 64, 64), torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.zeros(3, 64, 64, dtype=torch.uint8),
])  # fmt: skip
def test_other_pixels_are_refused(lite0: Encoder, pixels: Tensor) -> None:
    with pytest.raises(InputError, match=r"uint8 .*\(n, 3, 64, 64\), got .*resize"):
        lite0.encode(pixels)


def test_bad_backbones_are_errors() -> None:
    with pytest.raises(InputError, match="efficientnet_lite0"):
        Encoder("efficientnet_lite7")
    with pytest.raises(InputTypeError, match="torch module, got int"):
        Encoder(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"size=.*mean=.*std="):
        Encoder(nn.Flatten())
    with pytest.raises(InputError, match="does not take images"):
        Encoder(nn.Linear(5, 3), 8, **SCALING)
    with pytest.raises(InputError, match="must return features"):
        Encoder(nn.Flatten(2), 8, **SCALING)


@pytest.mark.parametrize(("mean", "std"), [
    ((123.7, 116.3, 103.5), (58.4, 57.1, 57.4)), ((0.5,) * 3, (0.0,) * 3), ((0.5,) * 2, (0.2,) * 2), (0.5, 0.2),
    ((float("nan"),) * 3, (0.2,) * 3), ("abc", (0.2,) * 3),
])  # fmt: skip
def test_scalings_that_make_no_sense_are_refused(mean: Any, std: Any) -> None:
    with pytest.raises(InputError, match=r"three numbers each, of pixels in \[0, 1\]"):
        Encoder(nn.Conv2d(3, 6, 3), 8, mean=mean, std=std)


def test_a_scaling_may_be_an_array() -> None:
    module, pixels = nn.Conv2d(3, 6, 3), torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    arrays: Any = {name: np.array(values) for name, values in SCALING.items()}
    assert torch.equal(Encoder(module, 8, **arrays).encode(pixels), Encoder(module, 8, **SCALING).encode(pixels))


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_the_registry_says_what_the_networks_are(name: str) -> None:
    known = BACKBONES[name]
    assert known.size is not None
    network = known.make(known.size, False)
    assert sum(p.numel() for p in network.parameters()) == known.parameters
    with torch.no_grad():
        assert network.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, known.features)
    assert (known.scaling is None) == (known.weights is None), "what brings weights says how they see pixels"
    if known.scaling is not None:
        assert [255 * v for v in known.scaling.mean] == pytest.approx([127] * 3)
        assert [255 * v for v in known.scaling.std] == pytest.approx([128] * 3)
