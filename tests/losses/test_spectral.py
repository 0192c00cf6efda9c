"""The moment form against the pairwise definition: values, gradients, special cases."""

import pytest
import torch
from torch import Tensor

from wildspec.errors import InputError
from wildspec.losses import SpectralWildLoss, clip_norm, nscl_loss, scl_loss, spectral_loss


def pairwise(z1: Tensor, z2: Tensor, labels: Tensor, u1: Tensor, u2: Tensor) -> list[Tensor]:
    """L1..L5 by explicit loops over pairs, straight from the definitions."""
    n, m = len(z1), len(u1)
    count = [int((labels == label).sum()) for label in labels.tolist()]
    zero = z1.sum() * 0 + u1.sum() * 0  # keeps the graph when a sum is empty
    l1, l2, l3, l4, l5 = (zero.clone() for _ in range(5))
    for i in range(n):
        for j in range(n):
            if labels[i] == labels[j]:
                l1 = l1 + z1[i] @ z2[j] / count[i] ** 2
            if i != j:
                l3 = l3 + (z1[i] @ z2[j]) ** 2 / (count[i] * count[j])
        for j in range(m):
            l4 = l4 + 0.5 * ((z1[i] @ u2[j]) ** 2 + (u1[j] @ z2[i]) ** 2) / (count[i] * m)
    for i in range(m):
        l2 = l2 + u1[i] @ u2[i] / m
        for j in range(m):
            if i != j:
                l5 = l5 + (u1[i] @ u2[j]) ** 2 / (m * (m - 1))
    return [l1, l2, l3, l4, l5]


def draw(n: int, m: int, d: int = 5, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(n, d), (n, d), (m, d), (m, d)]
    return [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]


CASES = {
    "several classes": ([0, 1, 1, 2, 0, 2, 2], 6),
    "absent classes": ([7, 2, 2, 7, 7], 4),
    "one sample of a class": ([0, 0, 0, 3], 5),
    "empty wild batch": ([0, 1, 1, 0], 0),
    "one wild sample": ([0, 1, 1, 0], 1),
    "no labelled sample": ([], 6),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cross_weight", [1.0, 2.0, 0.3])
def test_moments_equal_pairs_in_value_and_gradient(case: str, cross_weight: float) -> None:
    labels, m = torch.tensor(CASES[case][0], dtype=torch.long), CASES[case][1]
    z1, z2, u1, u2 = inputs = draw(len(labels), m)
    eta_l, eta_u = 0.7, 1.9
    got = spectral_loss(z1, z2, labels, u1, u2, eta_l=eta_l, eta_u=eta_u, cross_weight=cross_weight)
    l1, l2, l3, l4, l5 = terms = pairwise(z1, z2, labels, u1, u2)
    expected = (
        -2 * eta_l * l1 - 2 * eta_u * l2 + eta_l**2 * l3 + 2 * cross_weight * eta_l * eta_u * l4 + eta_u**2 * l5
    )
    assert got.total.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
    for mine, theirs in zip(got[1:], terms, strict=True):
        assert mine.item() == pytest.approx(theirs.item(), rel=1e-10, abs=1e-10)
    mine_grad = torch.autograd.grad(got.total, inputs)
    their_grad = torch.autograd.grad(expected, inputs, allow_unused=True, materialize_grads=True)
    for mine, theirs in zip(mine_grad, their_grad, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def test_published_form_gives_the_published_number() -> None:
    """The published code's formula, cross rate 2 over both directions, wild samples alone as unlabelled."""
    labels = torch.tensor([0, 0, 1, 3, 3, 3])
    z1, z2, u1, u2 = draw(6, 8, seed=3)
    gamma_l, gamma_u = 0.5, 2.0
    n_i = torch.tensor([2, 2, 1, 3, 3, 3], dtype=torch.float64)
    same = (labels[:, None] == labels[None, :]).double()
    published = -2 * gamma_l * (same * (z1 @ z2.T) / n_i[:, None] ** 2).sum()
    published += -2 * gamma_u * (u1 * u2).sum(1).mean()
    off = 1 - torch.eye(6, dtype=torch.float64)
    published += gamma_l**2 * (off * (z1 @ z2.T) ** 2 / (n_i[:, None] * n_i[None, :])).sum()
    cross = ((z1 @ u2.T) ** 2 / (n_i[:, None] * 8)).sum() + ((u1 @ z2.T) ** 2 / (8 * n_i[None, :])).sum()
    published += 2 * gamma_l * gamma_u * cross
    off = 1 - torch.eye(8, dtype=torch.float64)
    published += gamma_u**2 * (off * (u1 @ u2.T) ** 2).sum() / (8 * 7)
    got = nscl_loss(z1, z2, labels, u1, u2, eta_l=gamma_l, eta_u=gamma_u)
    assert got.total.item() == pytest.approx(published.item(), rel=1e-12)


def test_unsupervised_case_is_the_unsupervised_formula() -> None:
    u1, u2 = draw(0, 7)[2:]
    off = 1 - torch.eye(7, dtype=torch.float64)
    expected = -2 * (u1 * u2).sum(1).mean() + (off * (u1 @ u2.T) ** 2).sum() / 42
    assert scl_loss(u1, u2).total.item() == pytest.approx(expected.item(), rel=1e-12)


def test_module_clips_and_joins_labelled_to_unlabelled() -> None:
    labels = torch.tensor([0, 1, 1])
    z1, z2, u1, u2 = draw(3, 4, seed=5)
    c = [torch.stack([row / max(1.0, row.norm().item()) * 1.0 for row in t]) for t in (z1, z2, u1, u2)]
    together = pairwise(c[0], c[1], labels, torch.cat([c[0], c[2]]), torch.cat([c[1], c[3]]))
    expected = sum((w * t for w, t in zip((-0.4, -3.0, 0.04, 0.6, 2.25), together, strict=True)), torch.zeros(()))
    got = SpectralWildLoss(0.2, 1.5)(z1, z2, labels, u1, u2)
    assert got.total.item() == pytest.approx(expected.item(), rel=1e-10)
    wild_only = SpectralWildLoss(0.2, 1.5, unlabelled="wild")(z1, z2, labels, u1, u2)
    assert abs(wild_only.total.item() - got.total.item()) > 1e-3


def test_num_classes_does_not_change_the_loss() -> None:
    labels = torch.tensor([0, 1, 1])
    z1, z2, u1, u2 = draw(3, 4)
    few = spectral_loss(z1, z2, labels, u1, u2, eta_l=1, eta_u=1)
    many = spectral_loss(z1, z2, labels, u1, u2, eta_l=1, eta_u=1, num_classes=50)
    assert few.total.item() == pytest.approx(many.total.item(), rel=1e-14)


def test_a_label_beyond_the_classes_is_an_error_and_minus_one_is_no_class() -> None:
    labels = torch.tensor([0, -1, 1, -1, 1])
    z1, z2, u1, u2 = draw(5, 4, seed=2)
    for loss in (spectral_loss, nscl_loss):
        with pytest.raises(InputError, match="below num_classes = 1, got 1"):
            loss(z1, z2, labels, u1, u2, eta_l=1, eta_u=1, num_classes=1)
    known = labels >= 0
    for classes in (None, 2):
        got = spectral_loss(z1, z2, labels, u1, u2, eta_l=0.7, eta_u=1.9, num_classes=classes)
        terms = pairwise(z1[known], z2[known], labels[known], u1, u2)
        assert [term.item() for term in got[1:]] == pytest.approx([term.item() for term in terms])


def test_clip_norm_shortens_long_rows_only() -> None:
    z = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], requires_grad=True)
    clipped = clip_norm(z, mu=4.0)
    torch.testing.assert_close(clipped, torch.tensor([[1.2, 1.6], [0.3, 0.4], [0.0, 0.0]]))
    clipped.sum().backward()
    assert torch.isfinite(z.grad).all()  # the zero row has no NaN gradient


def test_float32_inside_autocast() -> None:
    labels = torch.tensor([0, 1, 1, 0])
    z1, z2, u1, u2 = (t.detach().float() for t in draw(4, 6, d=16))
    plain = spectral_loss(z1, z2, labels, u1, u2, eta_l=1, eta_u=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = spectral_loss(z1, z2, labels, u1, u2, eta_l=1, eta_u=1)
        low = spectral_loss(*(t.bfloat16() for t in (z1, z2)), labels, *(t.bfloat16() for t in (u1, u2)), eta_l=1, eta_u=1)
    assert inside.total.item() == plain.total.item()
    assert low.total.dtype == torch.float32


def test_two_processes_by_hand_equal_the_joint_batch() -> None:
    """`reduce` sees only sums over samples, so adding what two halves hand in gives the loss of the whole batch."""
    labels = torch.tensor([0, 1, 1, 0, 2, 1])
    z1, z2, u1, u2 = draw(6, 8, seed=9)
    joint = spectral_loss(z1, z2, labels, u1, u2, eta_l=0.5, eta_u=2, num_classes=3)
    joint_counts = torch.tensor([2.0, 3.0, 1.0, 8.0], dtype=torch.float64)

    def run(half: int, moments: Tensor | None) -> tuple[Tensor, Tensor]:
        handed_in: list[Tensor] = []

        def reduce(flat: Tensor) -> Tensor:
            handed_in.append(flat)
            if len(handed_in) == 1:
                return joint_counts
            return flat if moments is None else moments

        s, t = slice(3 * half, 3 * half + 3), slice(4 * half, 4 * half + 4)
        got = spectral_loss(z1[s], z2[s], labels[s], u1[t], u2[t], eta_l=0.5, eta_u=2, num_classes=3, reduce=reduce)
        return got.total, handed_in[1]

    moments = run(0, None)[1] + run(1, None)[1]
    assert moments.numel() == 2 * 3 * 5 + 4 * 25 + 3  # classes and dimensions, not the batch
    for half in (0, 1):
        assert run(half, moments)[0].item() == pytest.approx(joint.total.item(), rel=1e-12)


@pytest.mark.parametrize("bad", [{"eta_l": -1.0}, {"eta_u": float("nan")}, {"eta_l": 0.0, "eta_u": 0.0}, {"mu": 0.0},
                                 {"unlabelled": "some"}, {"cross_weight": -2.0}])
def test_bad_weights_are_errors(bad: dict) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        SpectralWildLoss(**bad)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"u2": torch.ones(1, 5)}, r"u1 and u2 must be two views of the same samples, got \(4, 5\) and \(1, 5\)"),
        ({"z2": torch.ones(1, 5)}, "z1 and z2 must be two views"),
        ({"z2": torch.ones(6, 4)}, "z1 and z2 must be two views"),
        ({"u1": torch.ones(4, 3), "u2": torch.ones(4, 3)}, "must have one width, got 5 and 3"),
        ({"labels": torch.zeros(1, dtype=torch.long)}, r"labels must hold one class for each of the 6 .*got \(1,\)"),
        ({"labels": torch.zeros(6, 1, dtype=torch.long)}, "labels must hold one class"),
        ({"z1": torch.ones(5), "z2": torch.ones(5)}, "embeddings must be"),
    ],
)
def test_views_that_do_not_belong_together_are_errors(change: dict, says: str) -> None:
    """A single unlabelled view would be broadcast against all others, and the loss would be a number all the same."""
    given = {
        "z1": torch.ones(6, 5), "z2": torch.ones(6, 5), "labels": torch.arange(6) % 2,
        "u1": torch.ones(4, 5), "u2": torch.ones(4, 5),
    }  # fmt: skip
    given |= change
    with pytest.raises(InputError, match=says):
        spectral_loss(*given.values(), eta_l=1.0, eta_u=1.0)
    with pytest.raises(InputError, match=says):
        SpectralWildLoss(unlabelled="wild")(*given.values())
    with pytest.raises(InputError, match=says):
        SpectralWildLoss(unlabelled="all")(*given.values())


def test_unsupervised_views_must_match_too() -> None:
    with pytest.raises(InputError, match="u1 and u2"):
        scl_loss(torch.ones(4, 5), torch.ones(1, 5))


def test_the_defaults_are_those_of_the_published_checkpoints() -> None:
    """eta_l 0.5 and eta_u 2 (named so in their files), norm 1; the cross term and the unlabelled set of the paper's text."""
    z1, z2, u1, u2 = (3 * t.detach() for t in draw(6, 5))
    labels = torch.arange(6) % 3
    long = [clip_norm(t) for t in (z1, z2)]
    joined = [torch.cat([a, clip_norm(b)]) for a, b in zip(long, (u1, u2), strict=True)]
    expected = spectral_loss(*long, labels, *joined, eta_l=0.5, eta_u=2.0, cross_weight=1.0)
    assert SpectralWildLoss()(z1, z2, labels, u1, u2).total.item() == pytest.approx(expected.total.item(), rel=1e-12)


def test_several_processes_must_know_the_number_of_classes() -> None:
    """Processes whose batches end at different classes would add up sums of different shapes."""
    labels = torch.tensor([0, 1, 1])
    z1, z2, u1, u2 = draw(3, 4)
    for loss in (spectral_loss, nscl_loss):
        with pytest.raises(InputError, match=r"reduce.*num_classes"):
            loss(z1, z2, labels, u1, u2, eta_l=1, eta_u=1, reduce=lambda flat: flat)
    alone = scl_loss(u1, u2)
    assert scl_loss(u1, u2, reduce=lambda flat: flat).total.item() == pytest.approx(alone.total.item())
    with pytest.raises(InputError, match=r"reduce.*num_classes"):
        SpectralWildLoss(reduce=lambda flat: flat)(z1, z2, labels, u1, u2)
