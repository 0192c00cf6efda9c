"""What a method adds to a network: shapes, a second time, saved and built again, averaged over mirror images, maps."""

import pytest
import torch
from torch import nn

from wildspec.errors import InputError
from wildspec.models import MODELS, build_model, mirrored, wrap_backbone
from wildspec.models.backbones import rebuild
from wildspec.models.outputs import ExtraOutputs, add_outputs, new_weights, with_outputs

OUTPUTS = ExtraOutputs((7, 5), "relu", 0.3, unknown=True)


def made():
    torch.manual_seed(0)
    model = build_model("small", 3, size=8)
    add_outputs(model, OUTPUTS)
    return model


def test_a_neck_and_an_unknown_output():
    model = made()
    kinds = [type(layer).__name__ for layer in model.neck]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU", "Dropout"] * 2
    x = torch.randn(4, 3, 8, 8)
    assert model.features(x).shape == (4, 5)
    assert model(x).shape == (4, 3)
    assert model.unknown(model.features(x)).shape == (4, 1)
    assert model.open_heads is None
    before = [value.clone() for value in model.state_dict().values()]
    add_outputs(model, OUTPUTS)
    assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))
    with pytest.raises(InputError, match="already"):
        add_outputs(model, ExtraOutputs(unknown=True))


def test_a_plain_network_has_the_weights_it_always_had():
    assert not [name for name in build_model("small", 3, size=8).state_dict() if not name.startswith(("backbone.", "head."))]


def test_a_saved_network_is_built_again():
    model = made().eval()
    record = with_outputs(dict(model.spec), OUTPUTS)
    assert ExtraOutputs.from_json(record["outputs"]) == OUTPUTS
    twin = rebuild(record).eval()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(twin(x), model(x))
    assert with_outputs({"name": "small"}, None) == {"name": "small"}


def test_mirror_images_are_averaged_above_the_neck():
    model = made().eval()
    x = torch.randn(2, 3, 8, 8)
    both = (model.features(x) + model.features(x.flip(-1))) / 2
    torch.testing.assert_close(mirrored(model).features(x), both)
    assert mirrored(model).unknown is model.unknown


def test_new_weights_are_new():
    model = made()
    before = model.neck[0].weight.clone()
    new_weights(model.neck)
    assert not torch.equal(before, model.neck[0].weight)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"efficientnet_lite1", "efficientnet_lite2", "wrn40_2"}))
def test_maps_averaged_are_the_features(name):
    model = build_model(name, 2, size=16).eval()
    x = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(model.maps(x).mean(dim=(2, 3)), model.features(x), rtol=1e-4, atol=1e-5)


def test_maps_of_a_foreign_backbone():
    model = wrap_backbone(nn.Conv2d(3, 6, 3), 2, size=8)
    assert model.maps(torch.zeros(1, 3, 8, 8)).shape == (1, 6, 6, 6)
    flat = wrap_backbone(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), 2, size=8)
    with pytest.raises(InputError, match="maps"):
        flat.maps(torch.zeros(1, 3, 8, 8))
