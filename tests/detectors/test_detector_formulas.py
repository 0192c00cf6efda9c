"""Every score against its formula written out slowly: loops, float64 or more, nothing shared with the implementation."""

import math

import mpmath
import numpy as np
import pytest
import torch
from detector_samples import CLASSES, WIDTH, ReluNet, Samples  # type: ignore[import-not-found]
from sklearn.covariance import OAS, EmpiricalCovariance

from wildspec.detectors import ASH, DICE, GEN, MSP, RMDS, SCALE, SHE, Energy, Mahalanobis, MaxLogit, NNGuide, ReAct, ViM
from wildspec.detectors.gaussian import oas_shrinkage
from wildspec.detectors.shaping import kept_count
from wildspec.detectors.vim import default_dim
from wildspec.errors import InputError

WILD_LOGITS = np.array([[300.0, -20.0, 1.0], [0.5, 0.5, 0.5], [-400.0, -401.0, -399.0], [30.0, 2.0, -9.0], [9.0, 8.0, 7.0]])


def lse(row: np.ndarray) -> float:
    return float(mpmath.log(sum(mpmath.exp(float(v)) for v in row)))


def head(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    return samples.model.head.weight.detach().double().numpy(), samples.model.head.bias.detach().double().numpy()  # type: ignore[union-attr,operator]


# -- logits -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_energy(temperature: float) -> None:
    z = torch.from_numpy(WILD_LOGITS)
    expected = [-temperature * float(mpmath.log(sum(mpmath.exp(v / temperature) for v in row))) for row in WILD_LOGITS]
    assert Energy(temperature).score(logits=z).tolist() == pytest.approx(expected)


def test_maxlogit() -> None:
    assert MaxLogit().score(logits=WILD_LOGITS).tolist() == [-300.0, -0.5, 399.0, -30.0, -9.0]


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_msp_is_the_formula_and_keeps_confident_samples_apart(temperature: float, dtype: torch.dtype) -> None:
    z = torch.from_numpy(WILD_LOGITS)
    with mpmath.workdps(200):
        softmax = [[mpmath.exp(v / temperature) for v in row] for row in WILD_LOGITS]
        expected = [float(1 - max(row) / sum(row)) for row in softmax]
    scores = MSP(temperature).score(logits=z.to(dtype))
    assert scores.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-44)
    assert scores[3] > 0  # -max softmax would be exactly -1 in single precision, tied with all confident samples
    if temperature == 1.0:
        assert (-torch.softmax(z.float(), 1).amax(1))[3] == -1.0


@pytest.mark.parametrize(("gamma", "top"), [(0.1, 100), (0.5, 2), (0.1, 1)])
def test_gen(gamma: float, top: int) -> None:
    with mpmath.workdps(200):
        expected = []
        for row in WILD_LOGITS:
            weights = [mpmath.exp(v) for v in row]
            p = sorted((w / sum(weights) for w in weights), reverse=True)[:top]
            expected.append(float(sum(v**gamma * (1 - v) ** gamma for v in p)))
    assert GEN(gamma, top).score(logits=torch.from_numpy(WILD_LOGITS)).tolist() == pytest.approx(expected, rel=1e-8)
    single = GEN(gamma, top).score(logits=torch.from_numpy(WILD_LOGITS[1:]).float())  # exp(-280) is no float32
    assert single.tolist() == pytest.approx(expected[1:], rel=1e-4)


# -- Gaussian ---------------------------------------------------------------------------------------------------------
def class_covariance(features: np.ndarray, labels: np.ndarray) -> tuple[dict[int, np.ndarray], np.ndarray]:
    means = {int(c): features[labels == c].mean(axis=0) for c in np.unique(labels[labels >= 0])}
    centered = [f - means[int(c)] for f, c in zip(features, labels, strict=True) if c >= 0]
    return means, np.array(centered)


def slow_mahalanobis(x: np.ndarray, means: dict[int, np.ndarray], precision: np.ndarray) -> list[float]:
    return [min(float((f - m) @ precision @ (f - m)) for m in means.values()) for f in x]


def test_mahalanobis_with_scikit_learn_covariance(train: Samples, test: Samples) -> None:
    train.labels[:5] = -1  # unlabelled samples take no part
    f, y = train.features.double().numpy(), train.labels.numpy()
    means, centered = class_covariance(f, y)
    precision = EmpiricalCovariance(assume_centered=True).fit(centered).precision_
    detector = Mahalanobis().fit(features=f, labels=train.labels)
    expected = slow_mahalanobis(test.features.double().numpy(), means, precision)
    assert detector.score(features=test.features.double()).tolist() == pytest.approx(expected, rel=1e-8)
    single = Mahalanobis().fit(**train.for_fit()).score(features=test.features)
    assert single.dtype == torch.float32
    assert single.tolist() == pytest.approx(expected, rel=1e-3)


def test_mahalanobis_far_from_the_origin(train: Samples, test: Samples) -> None:
    """Moments about the origin would lose the covariance to rounding: features of spread 0.05 at 10,000."""
    near = Mahalanobis().fit(features=train.features.double(), labels=train.labels)
    far = Mahalanobis().fit(features=train.features.double() + 1e4, labels=train.labels)
    expected = near.score(features=test.features.double())
    assert torch.allclose(far.score(features=test.features.double() + 1e4), expected, rtol=1e-6)


@pytest.mark.parametrize("shrinkage", ["oas", 0.3, 1.0])
def test_mahalanobis_shrinkage(train: Samples, test: Samples, shrinkage: float | str) -> None:
    f, y = train.features.double().numpy(), train.labels.numpy()
    means, centered = class_covariance(f, y)
    if shrinkage == "oas":
        covariance = OAS(assume_centered=True).fit(centered).covariance_
    else:
        plain = centered.T @ centered / len(centered)
        covariance = (1 - shrinkage) * plain + shrinkage * np.trace(plain) / WIDTH * np.eye(WIDTH)  # type: ignore[operator]
    expected = slow_mahalanobis(test.features.double().numpy(), means, np.linalg.inv(covariance))
    detector = Mahalanobis(shrinkage).fit(features=f, labels=train.labels)
    assert detector.score(features=test.features.double()).tolist() == pytest.approx(expected, rel=1e-8)


def test_fewer_samples_than_dimensions(rng: np.random.Generator) -> None:
    """20 samples of 64 features: finite, shrunk by OAS, and directions never seen in training count as far."""
    basis = np.linalg.qr(rng.normal(size=(64, 64)))[0]
    f = rng.normal(size=(20, 8)) @ basis[:8]
    y = torch.arange(20) % 3
    seen, unseen = 2 * basis[:8], 2 * basis[8:16]
    means, centered = class_covariance(f, y.numpy())
    precision = np.linalg.inv(OAS(assume_centered=True).fit(centered).covariance_)
    detector = Mahalanobis().fit(features=f, labels=y)
    scores = detector.score(features=unseen)
    assert scores.tolist() == pytest.approx(slow_mahalanobis(unseen, means, precision), rel=1e-8)
    assert scores.min() > detector.score(features=seen).mean()
    plain = Mahalanobis(shrinkage=0.0).fit(features=f, labels=y)  # the paper's pseudo-inverse is blind to them
    assert plain.score(features=unseen).tolist() == pytest.approx(
        slow_mahalanobis(unseen, means, np.linalg.pinv(centered.T @ centered / 20, rcond=1e-10)), rel=1e-6
    )
    assert torch.isfinite(RMDS().fit(features=f, labels=y).score(features=unseen)).all()
    assert torch.isfinite(Mahalanobis().fit(features=f.astype(np.float16), labels=y).score(features=unseen)).all()


def test_a_dead_feature_is_no_division_by_zero(train: Samples, test: Samples) -> None:
    train.features[:, 3] = 0
    detector = Mahalanobis().fit(**train.for_fit())
    assert torch.isfinite(detector.score(features=test.features)).all()


def test_oas_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    for n in (5, 30, 500):
        x = rng.normal(size=(n, 12)) * np.linspace(0.1, 3, 12)
        values = torch.from_numpy(np.linalg.eigvalsh(x.T @ x / n))
        assert oas_shrinkage(values, n) == pytest.approx(OAS(assume_centered=True).fit(x).shrinkage_)
    assert oas_shrinkage(torch.ones(4), 10) == 1.0


def test_no_spread_is_an_error() -> None:
    with pytest.raises(InputError, match="do not vary"):
        Mahalanobis().fit(features=torch.eye(3), labels=torch.arange(3))
    with pytest.raises(InputError, match="no labelled sample"):
        Mahalanobis().fit(features=torch.eye(3), labels=torch.tensor([-1, -1, -1]))
    copies = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).repeat_interleave(30, dim=0) * 1000 + 0.1
    with pytest.raises(InputError, match="do not vary"):  # what is left is the rounding of large means
        Mahalanobis().fit(features=copies, labels=torch.arange(4).repeat_interleave(30))


def test_rmds(train: Samples, test: Samples) -> None:
    f, y, x = train.features.double().numpy(), train.labels.numpy(), test.features.double().numpy()
    means, centered = class_covariance(f, y)
    precision = EmpiricalCovariance(assume_centered=True).fit(centered).precision_
    background = EmpiricalCovariance().fit(f)
    nearest = np.array(slow_mahalanobis(x, means, precision))
    expected = nearest - background.mahalanobis(x)
    detector = RMDS().fit(features=f, labels=train.labels)
    assert detector.score(features=test.features.double()).tolist() == pytest.approx(expected.tolist(), rel=1e-7)


def test_rmds_of_one_class_is_refused(train: Samples) -> None:
    """Its Gaussian is that of all samples: the difference would be 0 for everything."""
    labels = torch.where(train.labels == 2, 2, -1)
    with pytest.raises(InputError, match=r"at least 2 .*got 1; use mahalanobis"):
        RMDS().fit(features=train.features, labels=labels)
    Mahalanobis().fit(features=train.features, labels=labels)


# -- ViM --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dim", [None, 3, 9])
def test_vim(train: Samples, test: Samples, dim: int | None) -> None:
    w, b = head(train)
    f = train.features.double().numpy()
    origin = -np.linalg.pinv(w) @ b
    _, vectors = np.linalg.eig((f - origin).T @ (f - origin))  # the general solver, sorted by hand
    order = np.argsort([-float(np.sum(((f - origin) @ v) ** 2)) for v in vectors.T])
    keep = WIDTH // 2 if dim is None else dim
    null = vectors[:, order[keep:]]
    alpha = np.mean([max(w @ row + b) for row in f]) / np.mean([np.linalg.norm(null.T @ (row - origin)) for row in f])
    expected = [
        alpha * np.linalg.norm(null.T @ (x - origin)) - lse(z)
        for x, z in zip(test.features.double().numpy(), test.logits.double().numpy(), strict=True)
    ]
    detector = ViM(dim).fit(features=f, model=train.model)
    scores = detector.score(features=test.features.double(), logits=test.logits.double())
    assert scores.tolist() == pytest.approx(expected, rel=1e-6)
    single = ViM(dim).fit(**train.for_fit()).score(features=test.features, logits=test.logits)
    assert single.tolist() == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_vim_with_fewer_samples_than_dimensions(rng: np.random.Generator) -> None:
    net = torch.nn.Module()
    net.head = torch.nn.Linear(64, 5, bias=False)
    basis = torch.from_numpy(np.linalg.qr(rng.normal(size=(64, 64)))[0])
    f = torch.from_numpy(rng.normal(size=(20, 10))) @ basis[:10]  # rank 10 < D = 32
    detector = ViM().fit(features=f, model=net)
    assert detector.residual_.shape == (64, 64 - 5)  # D lowered to half the rank
    x = torch.cat([f.mean(0, keepdim=True), f.mean(0, keepdim=True) + 3 * basis[20:21]])
    scores = detector.score(features=x, logits=torch.zeros(2, 5, dtype=torch.float64))
    assert torch.isfinite(scores).all()
    assert scores[1] > scores[0] + 0.1
    with pytest.raises(InputError, match=r"no residual .*width 64"):
        ViM(64).fit(features=f, model=net)
    with pytest.raises(InputError, match="no spread"):
        ViM().fit(features=torch.zeros(5, 64), model=net)


def test_vim_with_features_of_exactly_the_principal_rank(rng: np.random.Generator) -> None:
    """D directions hold all there is: the residual would be rounding, and alpha what one divides it by."""
    network = ReluNet()
    torch.nn.init.zeros_(network.head.bias)  # the origin is 0
    features = torch.from_numpy(rng.normal(size=(80, 5)) @ rng.normal(size=(5, 12)))
    found = ViM(dim=5).fit(features=features, model=network.double())
    assert found.residual_.shape == (12, 10)  # half of the rank is left out
    assert 0 < float(found.alpha_) < 1e3


def test_vim_default_dim_is_the_authors() -> None:
    assert [default_dim(d) for d in (128, 512, 768, 2047, 2048)] == [64, 256, 512, 512, 1000]


# -- shaping ----------------------------------------------------------------------------------------------------------
def slow_shape(a: list[float], percent: float, variant: str) -> list[float]:
    keep = max(1, len(a) - round(len(a) * percent / 100))
    survivors = sorted(range(len(a)), key=lambda i: -a[i])[:keep]
    s1, s2 = sum(a), sum(a[i] for i in survivors)
    if variant == "scale":
        return [v * math.exp(s1 / s2) for v in a]
    value = {"p": lambda v: v, "b": lambda v: s1 / keep, "s": lambda v: v * math.exp(s1 / s2)}[variant]
    return [value(a[i]) if i in survivors else 0.0 for i in range(len(a))]


@pytest.mark.parametrize("percent", [0.0, 65.0, 90.0, 99.0])
@pytest.mark.parametrize("variant", ["p", "b", "s", "scale"])
def test_ash_and_scale(train: Samples, test: Samples, percent: float, variant: str) -> None:
    w, b = head(train)
    shaped = [slow_shape(row, percent, variant) for row in test.features.double().tolist()]
    expected = [-lse(w @ np.array(row) + b) for row in shaped]
    detector = SCALE(percent) if variant == "scale" else ASH(percent, variant)
    scores = detector.fit(model=train.model).score(features=test.features)
    assert scores.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_shaping_of_a_silent_sample_and_of_negative_features(train: Samples) -> None:
    silent = torch.zeros(1, WIDTH)
    bias = -lse(head(train)[1])
    for detector in (ASH(), ASH(variant="b"), ASH(variant="p"), SCALE()):
        assert detector.fit(model=train.model).score(features=silent).tolist() == pytest.approx([bias], rel=1e-5)
        with pytest.raises(InputError, match=rf"{detector.name} is defined for activations after a ReLU"):
            detector.score(features=silent - 0.5)
    assert ReAct().fit(**train.for_fit()).score(features=silent - 0.5).shape == (1,)
    assert [kept_count(128, p) for p in (0, 65, 90, 95, 99.9)] == [128, 45, 13, 6, 1]


@pytest.mark.parametrize("percent", [50.0, 90.0])
def test_react(train: Samples, test: Samples, percent: float) -> None:
    w, b = head(train)
    values = sorted(train.features.double().flatten().tolist())
    place = percent / 100 * (len(values) - 1)  # linear interpolation between order statistics
    low = values[int(place)]
    clip = low + (place - int(place)) * (values[min(int(place) + 1, len(values) - 1)] - low)
    expected = [-lse(w @ np.minimum(row, clip) + b) for row in test.features.double().numpy()]
    detector = ReAct(percent).fit(**train.for_fit())
    assert detector.score(features=test.features).tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("percent", [0.0, 70.0, 90.0])
def test_dice(train: Samples, test: Samples, percent: float) -> None:
    w, b = head(train)
    f = train.features.double().numpy()
    contribution = np.mean([w * row for row in f], axis=0)  # (C, d), sample by sample
    limit = np.percentile(contribution, percent) if percent else -np.inf
    masked = np.where(contribution > limit, w, 0.0)
    expected = [-lse(masked @ row + b) for row in test.features.double().numpy()]
    detector = DICE(percent).fit(**train.for_fit())
    assert detector.score(features=test.features).tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    share = float((detector.weight_ == 0).double().mean())
    assert share == pytest.approx(percent / 100, abs=1.5 / (CLASSES * WIDTH))


@pytest.mark.parametrize(("percent", "kept"), [(0.0, 15), (10.0, 13), (50.0, 7), (90.0, 2), (99.0, 1)])
def test_dice_keeps_as_many_weights_where_contributions_are_equal(percent: float, kept: int) -> None:
    """15 weights of 1, activations of 1: by value all contributions lie at the limit."""
    network = torch.nn.Module()
    network.head = torch.nn.Linear(5, 3)
    torch.nn.init.ones_(network.head.weight)
    detector = DICE(percent).fit(features=torch.ones(4, 5), model=network)
    assert int((detector.weight_ == 1).sum()) == kept
    torch.nn.init.normal_(network.head.weight, generator=torch.Generator().manual_seed(0))  # the same number without ties
    assert int((DICE(percent).fit(features=torch.ones(4, 5), model=network).weight_ != 0).sum()) == kept


# -- memory -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("metric", ["inner", "cosine", "euclidean"])
def test_she(train: Samples, test: Samples, metric: str) -> None:
    f, predicted, y = train.features.double().numpy(), train.logits.argmax(1).numpy(), train.labels.numpy()
    patterns = {}
    for c in range(CLASSES):
        right = [row for row, p, t in zip(f, predicted, y, strict=True) if p == t == c]
        patterns[c] = np.mean(right, axis=0) if right else np.zeros(WIDTH)
    expected = []
    for row, z in zip(test.features.double().numpy(), test.logits, strict=True):
        m = patterns[int(z.argmax())]
        inner = float(row @ m)
        norms = float(np.linalg.norm(row) * np.linalg.norm(m))
        expected.append({"inner": -inner, "cosine": -inner / norms, "euclidean": float(np.linalg.norm(row - m))}[metric])
    detector = SHE(metric).fit(**train.for_fit())
    assert detector.score(features=test.features, logits=test.logits).tolist() == pytest.approx(expected, rel=1e-4)


def test_she_without_a_right_sample(train: Samples, test: Samples) -> None:
    wrong = (train.logits.argmax(1) + 1) % CLASSES
    with pytest.raises(InputError, match="none is; train the network"):
        SHE().fit(features=train.features, logits=train.logits, labels=wrong)
    some = torch.where(train.logits.argmax(1) == int(test.logits[0].argmax()), wrong, train.logits.argmax(1))
    detector = SHE().fit(features=train.features, logits=train.logits, labels=some)
    assert detector.score(features=test.features[:1], logits=test.logits[:1]).tolist() == [0.0]  # nothing looks less known


@pytest.mark.parametrize("k", [1, 10])
def test_nnguide(train: Samples, test: Samples, k: int) -> None:
    f, z = train.features.double().numpy(), train.logits.double().numpy()
    expected = []
    for row, logits in zip(test.features.double().numpy(), test.logits.double().numpy(), strict=True):
        cosines = [
            lse(zi) * float(row @ fi) / float(np.linalg.norm(row) * np.linalg.norm(fi)) for fi, zi in zip(f, z, strict=True)
        ]
        expected.append(-lse(logits) * float(np.mean(sorted(cosines)[-k:])))
    detector = NNGuide(k).fit(**train.for_fit())
    assert detector.score(features=test.features, logits=test.logits).tolist() == pytest.approx(expected, rel=1e-4)


def test_nnguide_with_a_share_of_the_bank(train: Samples, test: Samples) -> None:
    detector = NNGuide(k=2, share=0.1).fit(**train.for_fit())
    assert len(detector.bank_) == 9
    same = NNGuide(k=2, share=0.1).fit(**train.for_fit())
    assert torch.equal(same.bank_, detector.bank_)
    assert not torch.equal(NNGuide(k=2, share=0.1, seed=1).fit(**train.for_fit()).bank_, detector.bank_)
    whole = NNGuide(k=2).fit(**train.for_fit()).bank_
    assert all(any(torch.equal(row, other) for other in whole) for row in detector.bank_)
    with pytest.raises(InputError, match=r"k = 10 .*at least 10 .*got 9"):
        NNGuide(k=10, share=0.1).fit(**train.for_fit())
