"""Features as long, short, few or alike as they come: against the definition in high precision, or against the same at an
ordinary length."""

import mpmath
import numpy as np
import pytest
import torch
from detector_samples import CLASSES, WIDTH, Samples  # type: ignore[import-not-found]

from wildspec.detectors import KNN, RMDS, SHE, Mahalanobis, build_detector
from wildspec.errors import InputError
from wildspec.graph.nearest import normalize

ANY_LENGTH = ("knn", "mahalanobis", "rmds", "wild_knn", "wild_linear")  # scores without a unit


@pytest.mark.parametrize(("dtype", "exponents"), [
    (torch.float32, (-42, -38, -20, -10, 0, 10, 19, 25, 38)), (torch.float64, (-300, -160, 0, 160, 300)),
])  # fmt: skip
def test_rows_of_any_length_become_rows_of_length_one(dtype: torch.dtype, exponents: tuple[int, ...]) -> None:
    rows = torch.tensor([[3.0 * 10.0**e, -0.4 * 10.0**e, 0.0] for e in exponents] + [[0.0] * 3], dtype=dtype)
    for row, found in zip(rows.tolist(), normalize(rows).tolist(), strict=True):
        length = mpmath.sqrt(sum(mpmath.mpf(value) ** 2 for value in row)) or 1
        assert found == pytest.approx([float(mpmath.mpf(value) / length) for value in row], rel=1e-6)
    assert normalize(torch.empty(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("name", ANY_LENGTH)
@pytest.mark.parametrize("factor", [1e-25, 1e-9, 1e12, 1e25])
def test_scores_without_a_unit_do_not_depend_on_it(name: str, factor: float, train: Samples, test: Samples) -> None:
    given = {"k": 5} if name == "knn" else {}
    labels = train.labels.clone()
    labels[60:] = -1  # wild ones, for the detectors that use them
    usual = build_detector(name, **given).fit(features=train.features, labels=labels)
    odd = build_detector(name, **given).fit(features=train.features * factor, labels=labels)
    found, expected = odd.score(features=test.features * factor), usual.score(features=test.features)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factor", [1e-25, 1e25])
def test_she_in_cosine_does_not_depend_on_length(factor: float, train: Samples, test: Samples) -> None:
    def scores(by: float) -> torch.Tensor:
        fitted = SHE("cosine").fit(features=train.features * by, logits=train.logits, labels=train.labels)
        return fitted.score(features=test.features * by, logits=test.logits)

    assert torch.allclose(scores(factor), scores(1.0), atol=1e-6)
    assert scores(1.0).std() > 0.01


def test_a_sample_beyond_all_bounds_is_far_not_without_a_number(train: Samples) -> None:
    """Not a number is not above a threshold: it would be kept."""
    fitted = RMDS().fit(features=train.features, labels=train.labels)
    precise = RMDS().fit(features=train.features.double(), labels=train.labels)
    far = torch.randn(20, WIDTH, generator=torch.Generator().manual_seed(0)) * 1e25
    expected = precise.score(features=far.double())
    assert expected.abs().min() > 1e38  # beyond single precision
    assert torch.equal(fitted.score(features=far), torch.inf * expected.sign().float())
    near = torch.cat([far, train.features])
    assert torch.equal(fitted.score(features=near)[20:], fitted.score(features=train.features))
    assert torch.isposinf(Mahalanobis().fit(features=train.features, labels=train.labels).score(features=far)).all()


@pytest.mark.parametrize("name", ["mahalanobis", "rmds"])
def test_classes_of_one_sample_and_one_class(name: str, train: Samples, test: Samples) -> None:
    f, x = train.features.double().numpy(), test.features.double().numpy()
    alone = [np.zeros(len(f), np.int64)] if name == "mahalanobis" else []  # of one class rmds says nothing
    for labels in (np.r_[np.zeros(len(f) - 2, np.int64), 1, 2], *alone):
        means = [f[labels == c].mean(axis=0) for c in np.unique(labels)]
        centred = np.concatenate([f[labels == c] - mean for c, mean in enumerate(means)])
        within, whole = centred.T @ centred / len(f), np.cov(f.T, bias=True)
        nearest = [min((row - m) @ np.linalg.solve(within, row - m) for m in means) for row in x]
        away = [(row - f.mean(0)) @ np.linalg.solve(whole, row - f.mean(0)) for row in x]
        expected = np.array(nearest) - (np.array(away) if name == "rmds" else 0)
        scores = build_detector(name).fit(features=f, labels=labels).score(features=x)
        np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-7, atol=1e-7 * max(nearest))


@pytest.mark.parametrize(
    "name", ["knn", "wild_knn", "wild_linear", "nnguide", "she", "dice", "react", "vim"]
)
def test_training_samples_that_are_all_alike(name: str, train: Samples, test: Samples) -> None:
    """Forty copies of one sample: a finite score for everybody."""
    features, logits = train.features[:1].repeat(40, 1), train.logits[:1].repeat(40, 1)
    detector = build_detector(name, **({"k": 5} if name == "knn" else {}))
    detector.fit(features=features, logits=logits, labels=logits.argmax(1), model=train.model)
    scores = detector.score(**test.for_score())
    assert torch.isfinite(scores).all()
    if name in ("knn", "wild_knn"):  # the copies are the bank: the distance to any of them
        one, rows = (v.double() / v.double().norm(dim=1, keepdim=True) for v in (train.features[:1], test.features))
        assert torch.allclose(scores.double(), (rows - one).norm(dim=1), atol=1e-6)


@pytest.mark.parametrize("name", ["energy", "msp", "maxlogit", "gen"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_of_logits_with_one_class_and_with_huge_ones(name: str, dtype: torch.dtype) -> None:
    one = torch.tensor([[2.0], [-3.0]], dtype=dtype)
    alone = {"energy": [-2.0, 3.0], "msp": [0.0, 0.0], "maxlogit": [-2.0, 3.0], "gen": [0.0, 0.0]}[name]
    assert build_detector(name).score(logits=one).tolist() == pytest.approx(alone)
    huge = torch.tensor([[6e4, 1.0, 0.0], [-6e4, -6e4, -6e4], [6e4, 6e4, -6e4]], dtype=dtype)
    z = [[mpmath.mpf(v) for v in row] for row in huge.double().tolist()]
    p = [[mpmath.exp(v) / sum(mpmath.exp(u) for u in row) for v in row] for row in z]
    expected = {
        "energy": [-mpmath.log(sum(mpmath.exp(v) for v in row)) for row in z],
        "msp": [1 - max(row) for row in p],
        "maxlogit": [-max(row) for row in z],
        # what single precision cannot hold (p of the others below 1e-45) counts as nothing
        "gen": [sum((v * (1 - v)) ** mpmath.mpf("0.1") if v * (1 - v) > 1e-45 else 0 for v in row) for row in p],
    }[name]
    scores = build_detector(name).score(logits=huge)
    assert scores.tolist() == pytest.approx([float(v) for v in expected], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["knn", "mahalanobis", "rmds", "she", "nnguide", "vim", "ash", "react", "dice", "wild_knn"])
@pytest.mark.parametrize("where", ["fit", "score"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_one_line(name: str, where: str, value: float, train: Samples, test: Samples) -> None:
    broken = (train if where == "fit" else test).features.clone()
    broken[3, 2] = value
    detector = build_detector(name, **({"k": 5} if name == "knn" else {}))
    if where == "fit" and "features" not in detector.fit_needs:
        assert detector.fit(model=train.model).fitted  # it keeps the head alone
        return
    given = train.for_fit() if where == "fit" else test.for_score()
    if where == "score":
        detector.fit(**train.for_fit())
    with pytest.raises(InputError, match="features hold NaN") as caught:
        getattr(detector, where)(**(given | {"features": broken}))
    assert "\n" not in str(caught.value)


def test_a_silent_network_is_scored_as_the_definition_says(train: Samples) -> None:
    """All activations 0, after a ReLU that let nothing through: KNN at 1 from all, unless the bank holds such rows."""
    silent = torch.zeros(2, WIDTH)
    bank = train.features.clone()
    assert KNN(5).fit(features=bank).score(features=silent).tolist() == pytest.approx([1.0, 1.0])
    bank[:5] = 0
    assert KNN(5).fit(features=bank).score(features=silent).tolist() == [0.0, 0.0]
    assert KNN(6).fit(features=bank).score(features=silent).tolist() == pytest.approx([1.0, 1.0])
    shown = SHE("cosine").fit(features=train.features, logits=train.logits, labels=train.labels)
    assert shown.score(features=silent, logits=torch.zeros(2, CLASSES)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["mahalanobis", "rmds"])
def test_class_numbers_without_samples_are_no_classes(name: str, train: Samples, test: Samples) -> None:
    """An empty folder keeps its number: classes 0, 2 and 7 are three classes, wherever the gaps are."""
    three = train.labels % 3
    gaps = torch.tensor([0, 2, 7])[three]
    plain = build_detector(name).fit(features=train.features, labels=three).score(features=test.features)
    assert torch.equal(build_detector(name).fit(features=train.features, labels=gaps).score(features=test.features), plain)
    assert torch.isfinite(plain).all()


def test_vim_of_a_network_whose_logits_are_all_negative(train: Samples, test: Samples) -> None:
    """alpha is mean max logit / mean residual, with its sign: the definition, not what one would like."""
    train.model.head.bias.data -= 50
    fitted = build_detector("vim", dim=5).fit(features=train.features.double(), model=train.model)
    weight, bias = train.model.head.weight.double(), train.model.head.bias.double()
    origin = -torch.linalg.lstsq(weight, bias.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    rows = train.features.double() - origin
    left = torch.linalg.svd(rows, full_matrices=True).Vh[5:]  # (d - 5, d)
    alpha = (train.features.double() @ weight.T + bias).amax(1).mean() / (rows @ left.T).norm(dim=1).mean()
    assert alpha < 0
    logits = test.features.double() @ weight.T + bias
    expected = alpha * ((test.features.double() - origin) @ left.T).norm(dim=1) - logits.logsumexp(1)
    assert torch.allclose(fitted.score(features=test.features.double(), logits=logits.detach()), expected, rtol=1e-7)


@pytest.mark.parametrize("training", [True, False])
def test_a_step_of_the_input_leaves_every_part_of_the_network_in_its_mode(
    training: bool, train: Samples, test: Samples
) -> None:
    train.model.train(training)
    train.model.conv.training = not training  # a part that was frozen, or set apart
    for detector in (build_detector("odin"), build_detector("mahalanobis", epsilon=0.01).fit(**train.for_fit())):
        before = [part.training for part in train.model.modules()]
        detector.score(inputs=test.inputs, model=train.model)
        assert [part.training for part in train.model.modules()] == before
        assert all(parameter.grad is None for parameter in train.model.parameters())


def test_vim_of_a_head_whose_rows_sum_to_zero(train: Samples, test: Samples) -> None:
    """As multinomial regression leaves them: of rank C - 1 but for rounding, which must not put the origin millions away."""
    head = train.model.head
    head.weight.data -= head.weight.data.mean(dim=0)
    fitted = build_detector("vim", dim=5).fit(features=train.features, model=train.model)
    weight, bias = head.weight.detach().double(), head.bias.detach().double()
    values = torch.linalg.svd(weight).S
    assert values[-1] < 1e-6 * values[0]
    left, middle, right = torch.linalg.svd(weight, full_matrices=False)
    kept = slice(0, CLASSES - 1)
    origin = -right[kept].T @ ((left[:, kept].T @ bias) / middle[kept])
    rows = train.features.double() - origin
    rest = torch.linalg.svd(rows, full_matrices=True).Vh[5:]
    alpha = (train.features.double() @ weight.T + bias).amax(1).mean() / (rows @ rest.T).norm(dim=1).mean()
    logits = test.features.double() @ weight.T + bias
    expected = alpha * ((test.features.double() - origin) @ rest.T).norm(dim=1) - logits.logsumexp(1)
    found = fitted.score(features=test.features, logits=logits.float())
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=1e-4)
