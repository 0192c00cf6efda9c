"""Mirrored features."""

import torch

from wildspec.models import build_model, mirrored


def test_mirrored_features_are_the_mean_over_an_image_and_its_mirror_image() -> None:
    torch.manual_seed(0)
    model = build_model("small", 3).eval()
    images = torch.randn(5, 3, 32, 32)
    both = mirrored(model)
    with torch.no_grad():
        one, other = model.features(images), model.features(images.flip(3))
        logits = (model(images) + model(images.flip(3))) / 2
        torch.testing.assert_close(both.features(images), (one + other) / 2)
        torch.testing.assert_close(both(images), logits)
        torch.testing.assert_close(both(images.flip(3)), both(images))
        assert not torch.allclose(both.features(images), one), "the network itself does not know mirror images"
    assert both.head is model.head
    assert both.training is model.training
