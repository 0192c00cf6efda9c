"""ODIN and the input step of Mahalanobis against finite differences; layers against single detectors."""

import copy
import math

import numpy as np
import pytest
import torch
from detector_samples import WIDTH, ReluNet, Samples  # type: ignore[import-not-found]
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from wildspec.data.preprocess import Preprocess
from wildspec.detectors import ODIN, Mahalanobis, MahalanobisEnsemble, PooledLayers
from wildspec.detectors.gradients import step_downhill
from wildspec.errors import InputError
from wildspec.evaluation import collect, score_all


class LinearNet(nn.Module):
    """features = relu(A x + 1): gradients can be written down by hand."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.body = nn.Linear(12, 5)
        self.head = nn.Linear(5, 3)
        for parameter in self.parameters():
            parameter.data = torch.from_numpy(rng.normal(size=tuple(parameter.shape)).astype(np.float32))

    def features(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x.flatten(1)))


def numeric_sign(f: object, x: np.ndarray) -> np.ndarray:
    """Sign of a central difference, coordinate by coordinate; +1 where the function is flat."""
    sign = np.ones_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += 1e-6
        down[i] -= 1e-6
        if f(up) - f(down) < 0:  # type: ignore[operator]
            sign[i] = -1
    return sign


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max())
    return e / e.sum()


@pytest.mark.parametrize(
    ("temperature", "epsilon", "std"), [(10.0, 0.05, None), (100.0, 0.02, (0.5, 0.25, 0.1)), (2.0, 0.0, None)]
)
def test_odin_by_finite_differences(
    rng: np.random.Generator, temperature: float, epsilon: float, std: tuple[float, ...] | None
) -> None:
    net = LinearNet(rng).double()
    a, a0 = (p.detach().numpy() for p in net.body.parameters())
    w, w0 = (p.detach().numpy() for p in net.head.parameters())

    def logits(x: np.ndarray) -> np.ndarray:
        return w @ np.maximum(a @ x.ravel() + a0, 0) + w0

    expected = []
    images = rng.normal(size=(6, 3, 2, 2))
    for x in images:
        label = int(np.argmax(logits(x)))
        sign = numeric_sign(lambda v, label=label: -math.log(softmax(logits(v) / temperature)[label]), x)
        moved = x - epsilon * sign / np.array(std or (1, 1, 1)).reshape(3, 1, 1)
        expected.append(-float(softmax(logits(moved) / temperature).max()))
    net.float()
    scores = ODIN(temperature, epsilon, std).score(inputs=torch.from_numpy(images).float(), model=net)
    assert scores.tolist() == pytest.approx(expected, rel=1e-5)


def test_step_takes_plus_one_for_a_flat_direction() -> None:
    x = torch.zeros(1, 3, 1, 1)
    moved = step_downhill(lambda v: v[:, 0].sum() - v[:, 1].sum(), x, 0.5, None)
    assert moved.flatten().tolist() == [-0.5, 0.5, -0.5]


def test_a_network_in_double_precision_scores_as_in_single(rng: np.random.Generator) -> None:
    net, inputs = LinearNet(rng), torch.from_numpy(rng.normal(size=(9, 3, 2, 2)).astype(np.float32))
    labels = torch.arange(9) % 3
    for detector in (ODIN(10.0, 0.01), Mahalanobis(epsilon=0.01)):
        detector.fit(features=net.float().features(inputs).detach(), labels=labels, model=net)
        single = detector.score(features=net.features(inputs).detach(), inputs=inputs, model=net)
        net.double()
        double = detector.score(features=net.features(inputs.double()).detach(), inputs=inputs, model=net)
        torch.testing.assert_close(double, single, rtol=1e-4, atol=1e-5)


def test_odin_steps_the_same_way_in_half_precision(rng: np.random.Generator) -> None:
    """Pixels count little here, as in a large image: a gradient divided by T = 1000 is 0 in half precision. The oracle is
    the same rounded network in double precision."""
    net = LinearNet(rng)
    net.body.weight.data *= 1e-5
    inputs = torch.from_numpy(rng.normal(size=(9, 3, 2, 2)))
    half = net.half()
    exact = copy.deepcopy(half).double()
    found = ODIN(1000.0, epsilon=5000.0).score(inputs=inputs.float(), model=half).double()
    expected = ODIN(1000.0, epsilon=5000.0).score(inputs=inputs, model=exact).double()
    still = ODIN(1000.0, epsilon=0.0).score(inputs=inputs, model=exact).double()
    assert float((found - expected).abs().max()) < 0.02 * float((still - expected).abs().min())


def test_odin_leaves_the_network_alone(train: Samples) -> None:
    train.model.train()
    scores = ODIN().score(inputs=train.inputs, model=train.model)
    assert train.model.training
    assert all(p.grad is None for p in train.model.parameters())
    assert torch.equal(ODIN().score(inputs=train.inputs, model=train.model), scores)  # no dropout was at work


def test_odin_works_inside_inference_mode(train: Samples) -> None:
    expected = ODIN().score(inputs=train.inputs, model=train.model)
    with torch.inference_mode():
        assert torch.equal(ODIN().score(inputs=train.inputs, model=train.model), expected)


@pytest.mark.parametrize("learned", ["fitted", "loaded"])
def test_mahalanobis_of_inference_mode_takes_its_step(train: Samples, learned: str) -> None:
    expected = Mahalanobis(epsilon=0.05).fit(features=train.features, labels=train.labels)
    detector = Mahalanobis(epsilon=0.05)
    with torch.inference_mode():
        if learned == "fitted":
            detector.fit(features=train.features.clone(), labels=train.labels)
        else:
            detector.load_state({name: value.clone() for name, value in expected.state().items()})
    samples = {"inputs": train.inputs, "model": train.model}
    assert torch.equal(detector.score(**samples), expected.score(**samples))


def test_mahalanobis_input_step_by_finite_differences(rng: np.random.Generator) -> None:
    net = LinearNet(rng)
    images = torch.from_numpy(rng.normal(size=(40, 3, 2, 2)))
    f = net.double().features(images).detach()
    detector = Mahalanobis(epsilon=0.03, std=(0.5, 0.25, 1.0)).fit(features=f, labels=torch.arange(40) % 3)
    plain = Mahalanobis().fit(features=f, labels=torch.arange(40) % 3)

    def distance(x: np.ndarray) -> float:
        return float(plain.score(features=net.features(torch.from_numpy(x[None]))))

    expected = []
    for x in images[:5].numpy():
        moved = x - 0.03 * numeric_sign(distance, x) / np.array([0.5, 0.25, 1.0]).reshape(3, 1, 1)
        expected.append(distance(moved))
    # a coordinate with a zero gradient may take either sign in the difference quotient, but not change the distance
    assert detector.score(inputs=images[:5], model=net).tolist() == pytest.approx(expected, rel=1e-4)
    assert detector.score(inputs=images[:5], model=net).mean() < plain.score(features=f[:5]).mean()
    assert detector.score_needs == ("inputs", "model")
    with pytest.raises(InputError, match="missing: inputs = the normalized images"):
        detector.score(features=f)


def test_score_all_measures_the_step_in_pixels(model: ReluNet, rng: np.random.Generator) -> None:
    images = torch.from_numpy(rng.integers(0, 256, size=(9, 3, 4, 4), dtype=np.uint8))
    preprocess = Preprocess(size=4, std=(0.5, 0.25, 0.1))
    open_std = ODIN(temperature=10.0, epsilon=0.05)
    found = score_all(model, images, {"odin": open_std}, preprocess=preprocess, batch_size=4)["odin"]
    expected = ODIN(10.0, 0.05, std=(0.5, 0.25, 0.1)).score(inputs=preprocess(images), model=model)
    assert torch.allclose(found, expected)
    assert open_std.std is None
    assert not torch.allclose(found, open_std.score(inputs=preprocess(images), model=model))


# -- layers -----------------------------------------------------------------------------------------------------------
def test_layers_are_a_weighted_sum_of_single_layers(model: ReluNet, train: Samples, rng: np.random.Generator) -> None:
    layered = PooledLayers(model, ["conv"])
    assert layered.sizes(train.inputs[:2]) == (WIDTH, WIDTH)
    preprocess = Preprocess(size=4)
    images = torch.from_numpy(rng.integers(0, 256, size=(60, 3, 4, 4), dtype=np.uint8))
    outputs = collect(layered, images, preprocess)
    assert torch.allclose(outputs.logits, collect(model, images, preprocess).logits, atol=1e-6)
    with torch.no_grad():
        first = model.conv(preprocess(images)).mean(dim=(2, 3))
    assert torch.allclose(outputs.features[:, :WIDTH], first, atol=1e-6)
    labels = outputs.predictions
    detector = MahalanobisEnsemble(sizes=(WIDTH, WIDTH), weights=(0.25, 2.0)).fit(features=outputs.features, labels=labels)
    alone = [
        Mahalanobis().fit(features=part, labels=labels).score(features=part) for part in outputs.features.split(WIDTH, dim=1)
    ]
    assert torch.allclose(detector.score(features=outputs.features), 0.25 * alone[0] + 2 * alone[1], rtol=1e-4)
    equal = MahalanobisEnsemble(sizes=(WIDTH, WIDTH)).fit(features=outputs.features, labels=labels)
    assert torch.allclose(equal.score(features=outputs.features), (alone[0] + alone[1]) / WIDTH, rtol=1e-4)
    twin = MahalanobisEnsemble(**equal.config()).load_state(equal.state())
    assert torch.equal(twin.score(features=outputs.features), equal.score(features=outputs.features))
    by_function = PooledLayers(model, lambda network, x: [network.conv(x)])
    assert torch.allclose(collect(by_function, images, preprocess).features, outputs.features, atol=1e-6)


def test_learned_layer_weights_favour_the_layer_that_tells(rng: np.random.Generator) -> None:
    f = torch.from_numpy(rng.normal(size=(300, 8)))
    detector = MahalanobisEnsemble(sizes=(4, 4)).fit(features=f, labels=torch.arange(300) % 3)
    known, unknown = (torch.from_numpy(rng.normal(size=(200, 8))) for _ in range(2))
    unknown[:, 4:] += 3  # only the second layer sees the difference
    detector.learn_weights(known, unknown)
    assert detector.weights is not None
    assert detector.weights[1] > 5 * abs(detector.weights[0])
    parts = [detector.layer_scores(rows).numpy() for rows in (known, unknown)]
    scale = np.concatenate(parts).std(axis=0, ddof=1)  # the regression sees scores of one size
    fitted = LogisticRegression(max_iter=1000).fit(np.concatenate(parts) / scale, np.repeat([0, 1], 200))
    expected = fitted.decision_function(parts[1] / scale) - fitted.intercept_
    np.testing.assert_allclose(detector.score(features=unknown).numpy(), expected, rtol=1e-6)


def test_several_maps_of_a_function_stand_in_its_order(model: ReluNet, train: Samples) -> None:
    layered = PooledLayers(model, lambda network, x: [network.conv(x)[:, :5], x])
    found = layered.features(train.inputs)
    assert layered.sizes(train.inputs[:2]) == (5, 3, WIDTH)
    torch.testing.assert_close(found[:, :5], model.conv(train.inputs)[:, :5].mean(dim=(2, 3)))
    torch.testing.assert_close(found[:, 5:8], train.inputs.mean(dim=(2, 3)))
    torch.testing.assert_close(found[:, 8:], model.features(train.inputs))
    torch.testing.assert_close(layered(train.inputs), model(train.inputs))


def test_layer_errors(model: ReluNet) -> None:
    with pytest.raises(InputError, match="no module block9"):
        PooledLayers(model, ["block9"])
    with pytest.raises(InputError, match="needs sizes"):
        MahalanobisEnsemble()
    with pytest.raises(InputError, match="each of 2 layers, got 1"):
        MahalanobisEnsemble(sizes=(2, 3), weights=(1.0,))
    with pytest.raises(InputError, match="saved with other sizes"):
        MahalanobisEnsemble(sizes=(2, 3)).load_state({})


class Tokens(ReluNet):
    """A layer whose output is (n, T, D) tokens, as in a transformer: T = 16 places of D = 3 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Linear(3, 3)

    def features(self, x: Tensor) -> Tensor:
        self.tokens(x.flatten(2).transpose(1, 2))
        return super().features(x)


def test_tokens_are_averaged_over_places_not_over_channels(train: Samples) -> None:
    network = Tokens().eval()
    layered = PooledLayers(network, ["tokens", "conv"])
    assert layered.sizes(train.inputs[:2]) == (3, WIDTH, WIDTH)
    found = layered.features(train.inputs)
    mean = train.inputs.mean(dim=(2, 3))  # of a linear layer: the layer of the mean
    torch.testing.assert_close(found[:, :3], network.tokens(mean))
    torch.testing.assert_close(found[:, 3 + WIDTH :], network.features(train.inputs))


def test_a_layer_that_the_features_never_call_is_named(model: ReluNet, train: Samples) -> None:
    layered = PooledLayers(model, ["conv", "unknown"])
    for call in (layered.features, layered.sizes, layered):
        with pytest.raises(InputError, match=r"features.*never.* unknown"):
            call(train.inputs[:2])
