"""SAL: the gradient by automatic differentiation, the filter by a plain singular value decomposition."""

import torch
import torch.nn.functional as F

from wildspec.data import ImageArrays, WildPool, load_digits_images
from wildspec.methods import build_method
from wildspec.methods.sal import candidates, filter_scores, row_gradients
from wildspec.models import build_model
from wildspec.training import Settings, TrainData, train


def test_the_gradient_is_that_of_cross_entropy_at_the_predicted_class():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    found, predicted = row_gradients(features, features @ weight.detach().T)
    for i in range(5):
        logits = weight @ features[i]
        (gradient,) = torch.autograd.grad(F.cross_entropy(logits[None], logits.argmax()[None]), weight)
        assert predicted[i] == logits.argmax()
        torch.testing.assert_close(found[i], gradient[predicted[i]])


def test_scores_are_projections_on_the_first_singular_vector():
    generator = torch.Generator().manual_seed(1)
    known, mixed = torch.randn(20, 6, generator=generator), 2 * torch.randn(30, 6, generator=generator) + 1
    classes, predicted = torch.arange(20) % 3, torch.arange(30) % 2  # nothing wild is predicted as class 2
    inside, outside = filter_scores(known, classes, mixed, predicted, 3)
    for c in (0, 1):
        mean = known[classes == c].mean(0)
        vector = torch.linalg.svd(mixed[predicted == c] - mean)[2][0]
        for scores, rows in ((outside[predicted == c], mixed[predicted == c]), (inside[classes == c], known[classes == c])):
            torch.testing.assert_close(scores, ((rows - mean) @ vector).abs(), rtol=1e-4, atol=1e-5)
    assert inside[classes == 2].abs().max() == 0


def test_a_class_that_no_wild_sample_is_predicted_as_does_not_lower_the_bar():
    """Of 300 labelled samples 200 belong to such a class; the bar is what a sort of the other 100 says."""
    generator = torch.Generator().manual_seed(2)
    known, mixed = torch.randn(300, 6, generator=generator), torch.randn(400, 6, generator=generator)
    classes, predicted = torch.tensor([0] * 100 + [1] * 200), torch.zeros(400, dtype=torch.int64)
    predicted[:50] = 2  # nor has a class without labelled samples a direction
    found = candidates(known, classes, mixed, predicted, 3, 0.95)
    mean = known[:100].mean(0)
    vector = torch.linalg.svd(mixed[50:] - mean)[2][0]
    inside, outside = (((rows - mean) @ vector).abs() for rows in (known[:100], mixed[50:]))
    bar = (inside.sort().values[94] + 0.05 * inside.sort().values[94:96].diff()).item()  # place 0.95 * 99 = 94.05
    assert torch.equal(found[50:], outside > bar)
    assert not found[:50].any()
    assert 0 < found.float().mean() < 0.15
    assert not candidates(known[100:], classes[100:], mixed, predicted, 3, 0.95).any()  # nothing to compare with


def test_candidates_of_a_pool():
    """Of digits 0 to 3 with 7 to 9 in the pool: more unknown than known images become candidates."""
    torch.manual_seed(0)
    every = load_digits_images()
    known = torch.isin(every.labels, torch.arange(4)).nonzero().ravel()
    strange = torch.isin(every.labels, torch.tensor([7, 8, 9])).nonzero().ravel()
    labelled = every.subset(known[:256])
    labelled = ImageArrays(labelled.images, labelled.labels, tuple("0123"))
    pool = every.subset(torch.cat([known[256:356], strange[:100]])).unlabelled()
    model, method = build_model("small", 4, size=8), build_method("sal", 4)
    lengths = {"pretrain": 8.0, "wild": 0.2}
    stages = [
        stage.scaled(epochs=lengths[stage.name], batch_labelled=32, batch_wild=min(stage.batch_wild, 32))
        for stage in method.stages("fast")
    ]
    train(model, method, TrainData(labelled, WildPool(pool)), Settings(device="cpu", progress=False), stages=stages)
    known_share, strange_share = method.candidate[:100].float().mean(), method.candidate[100:].float().mean()
    assert strange_share > known_share
    assert known_share < 0.15
