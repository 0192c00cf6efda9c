"""spectral+: losses with pseudo-labels against pairs and by hand, who is attributed, what a checkpoint carries."""


import pytest
import torch
import torch.nn.functional as F
from tests.losses.test_spectral import pairwise
from torch import Tensor, nn

from wildspec.data import ImageArrays, WildPool, load_digits_images
from wildspec.data.augment import Augmentation
from wildspec.errors import InputError
from wildspec.losses import clip_norm
from wildspec.methods import Batch, Stage, build_method
from wildspec.methods.base import Context
from wildspec.methods.spectral_plus import SpectralPlus
from wildspec.models import build_model
from wildspec.training import Settings, TrainData, train

PSEUDO_LABEL = Stage("pseudo_label", epochs=1, lr=0.1, batch_labelled=4, batch_wild=3, labelled_views=2, wild_views=2)
FINETUNE = Stage("finetune", epochs=1, lr=0.1, batch_labelled=4, batch_wild=3, wild_views=2)


class Identity(nn.Module):
    """Features = pixels, logits = a fixed matrix of them."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(width, classes, dtype=torch.float64)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def made(wild_label: list[int], **hparams: float) -> SpectralPlus:
    method = build_method("spectral+", 3, **hparams)
    assert isinstance(method, SpectralPlus)
    method.wild_label = torch.tensor(wild_label)
    return method


def batch(stage: Stage, width: int = 6) -> Batch:
    """4 labelled samples of classes 0, 0, 1, 2; wild samples are rows 5, 0 and 2 of the pool."""
    n = 4 * stage.labelled_views + 3 * stage.wild_views
    images = torch.randn(n, width, 1, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return Batch(
        images, torch.tensor([0, 0, 1, 2]), stage.labelled_views, stage.wild_views, wild_rows=torch.tensor([5, 0, 2])
    )


def test_pseudo_label_loss_is_equation_6_with_attributed_samples_among_the_labelled() -> None:
    method = made([1, -1, 2, -1, -1, -1], eta_l=0.7, eta_u=1.3)  # rows 5, 0, 2 -> none, class 1, class 2
    given = batch(PSEUDO_LABEL)
    total, terms = method.loss(Identity(6, 3), given, PSEUDO_LABEL)
    z = clip_norm(given.images.flatten(1).float()).double()
    z1, z2, u1, u2 = z[:4], z[4:8], z[8:11], z[11:14]
    named = torch.tensor([1, 2])
    first, second = torch.cat([z1, u1[1:]]), torch.cat([z2, u2[1:]])
    everyone = torch.cat([z1, u1]), torch.cat([z2, u2])
    l1, l2, l3, l4, l5 = pairwise(first, second, torch.cat([given.labels, named]), *everyone)
    expected = -2 * 0.7 * l1 - 2 * 1.3 * l2 + 0.7**2 * l3 + 2 * 0.7 * 1.3 * l4 + 1.3**2 * l5
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert terms["pseudo_labelled"].item() == pytest.approx(2 / 3)


def test_pseudo_label_without_attributed_samples_is_the_spectral_loss() -> None:
    plain = build_method("spectral", 3)
    given, network = batch(PSEUDO_LABEL), Identity(6, 3)
    as_pretrain = PSEUDO_LABEL.scaled(name="pretrain")
    assert made([-1] * 6).loss(network, given, PSEUDO_LABEL)[0].item() == pytest.approx(
        plain.loss(network, given, as_pretrain)[0].item(), rel=1e-5
    )


@pytest.mark.parametrize("pseudo", [1.0, 0.3, 0.0])
def test_finetuning_loss_by_hand(pseudo: float) -> None:
    method = made([1, -1, 2, -1, -1, -1], pseudo=pseudo)
    given, network = batch(FINETUNE), Identity(6, 3)
    logits = network(given.images)
    labelled, wild = logits[:4], logits[4:7]
    expected = F.cross_entropy(labelled, given.labels)
    expected = expected - pseudo * (wild[1].log_softmax(0)[1] + wild[2].log_softmax(0)[2]) / 3
    assert method.loss(network, given, FINETUNE)[0].item() == pytest.approx(expected.item(), rel=1e-5)


def test_before_promotion_nobody_is_attributed() -> None:
    method = build_method("spectral+", 3)
    given, network = batch(FINETUNE), Identity(6, 3)
    expected = F.cross_entropy(network(given.images)[:4], given.labels)
    assert method.loss(network, given, FINETUNE)[0].item() == pytest.approx(expected.item(), rel=1e-5)


def test_attribution_sees_the_mean_over_views() -> None:
    """Two classes on two axes; each wild sample's views scatter around its own direction, one sample on a third axis."""
    axes = torch.eye(4).double()
    labelled = torch.cat([axes[:1].repeat(10, 1), axes[1:2].repeat(10, 1)])
    wild = torch.stack([axes[0] + 0.2 * axes[3], axes[1] + 0.2 * axes[3], axes[0] + 0.1 * axes[3], axes[2]])
    jolt = 0.8 * torch.stack([axes[2], -axes[2]])  # alone it would mislead; the mean does not see it
    labels = torch.arange(2).repeat_interleave(10)

    def views(part: str, count: int) -> list[Tensor]:
        rows = labelled if part == "labelled" else wild
        moved = torch.stack([rows, rows]) + (jolt[:, None] if part == "wild" else 0) * (rows[:, 2] == 0)[:, None]
        return [moved[:, :3, :, None, None], moved[:, 3:, :, None, None]] if count == 2 else []

    method = build_method("spectral+", 2, views=2)
    assert isinstance(method, SpectralPlus)
    network = Identity(4, 2)
    context = Context(network, PSEUDO_LABEL, lambda: iter([(labelled, labels)]), 1, lambda part, n: iter(views(part, n)))
    network.train()
    method.start_stage(context)
    assert method.wild_label.tolist() == [0, 1, 0, -1]
    assert network.training  # left in the mode it came in


def test_settling_is_cross_entropy_on_labelled_samples() -> None:
    stage = FINETUNE.scaled(name="warmup_head2", batch_wild=0, wild_views=0)
    network = Identity(6, 3)
    given = Batch(torch.randn(4, 6, 1, 1, dtype=torch.float64), torch.tensor([0, 0, 1, 2]), 1, 0)
    expected = F.cross_entropy(network(given.images), given.labels)
    assert made([1], warmup_head=True).loss(network, given, stage)[0].item() == pytest.approx(expected.item(), rel=1e-5)


def test_attribution_asks_for_the_images_themselves_and_for_agreement() -> None:
    """One wild sample between two classes: its neighbours disagree, so nobody is asked to learn from it."""
    first, second, other = torch.tensor([[1.0, 0, 0], [0.8, 0.6, 0], [0, 0, 1]]).double()
    wild = torch.stack([first, second, first + second, other])
    noise = 0.15 * torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labelled = torch.stack([first, second]).repeat_interleave(10, dim=0) + noise
    labels = torch.arange(2).repeat_interleave(10)
    asked = []

    def views(part: str, count: int) -> list[Tensor]:
        asked.append(count)
        return [(labelled if part == "labelled" else wild)[None, :, :, None, None]]

    found = {}
    for agreement in (0.0, 1.0):
        method = build_method("spectral+", 2, views=0, agreement=agreement)
        assert isinstance(method, SpectralPlus)
        given = iter([(labelled, labels)])
        context = Context(Identity(3, 2), PSEUDO_LABEL, lambda given=given: given, 1, lambda part, n: iter(views(part, n)))
        method.start_stage(context)
        found[agreement] = method.wild_label.tolist()
    assert set(asked) == {0}
    assert found[0.0][:2] == found[1.0][:2] == [0, 1]
    assert found[0.0][2] in (0, 1)
    assert found[1.0][2] == -1
    assert found[0.0][3] == found[1.0][3] == -1


def test_only_pseudo_label_attributes() -> None:
    method = build_method("spectral+", 2)
    method.start_stage(Context(Identity(4, 2), FINETUNE, lambda: iter([]), 1, None))
    assert len(method.wild_label) == 0  # type: ignore[arg-type]


def test_stages() -> None:
    for preset in ("paper", "fast"):
        pretrain, pseudo_label, finetune = build_method("spectral+", 3).stages(preset)
        assert [pretrain.name, pseudo_label.name, finetune.name] == ["pretrain", "pseudo_label", "finetune"]
        assert pseudo_label.epochs == pytest.approx(pretrain.epochs / 3)
        assert finetune.wild_views == 1
    names = [stage.name for stage in build_method("spectral+", 3, rounds=3).stages()]
    assert names == ["pretrain", "pseudo_label", "pseudo_label2", "pseudo_label3", "finetune"]
    settled = build_method("spectral+", 3, warmup_head=True, pseudo=0.0).stages("fast")
    assert [stage.name for stage in settled] == ["pretrain", "warmup_head", "pseudo_label", "finetune"]
    assert settled[1].scaled(name="finetune") == settled[3]
    assert settled[3].wild_views == 0
    assert (settled[0].epochs, settled[0].warmup, settled[2].epochs) == (100, 15, 50)
    published = build_method("spectral+", 3, warmup_head=True).stages("paper")
    assert (published[0].epochs, published[2].epochs) == (600, 120)
    again = build_method("spectral+", 3, warmup_head=True, pseudo=0.0, rounds=2).stages("fast")
    between = ["warmup_head", "pseudo_label", "warmup_head2", "pseudo_label2"]
    assert [stage.name for stage in again] == ["pretrain", *between, "finetune"]
    assert (again[3], again[4]) == (settled[1].scaled(name="warmup_head2"), settled[2].scaled(name="pseudo_label2"))


def test_state_travels_into_a_fresh_method() -> None:
    method = made([1, -1, 2])
    fresh = build_method("spectral+", 3)
    fresh.load_state_dict(method.state_dict())
    assert torch.equal(fresh.wild_label, method.wild_label)  # type: ignore[arg-type]


def test_known_images_of_the_pool_are_attributed_by_a_real_run() -> None:
    digits = load_digits_images()
    rows = {c: (digits.labels == c).nonzero().ravel() for c in (0, 1, 2, 7)}
    first = torch.cat([rows[c][:40] for c in (0, 1, 2)])
    labelled = ImageArrays(digits.images[first], digits.labels[first], ("0", "1", "2"))
    pool = torch.cat([rows[c][40:80] for c in (0, 1, 2)] + [rows[7][:30]])
    data = TrainData(labelled, WildPool(ImageArrays(digits.images[pool])))
    views = Augmentation(scale=(0.6, 1.0), flip=0.0, jitter=(0.4, 0.4, 0.0, 0.0), grey=0.0, blur=0.0)
    stage = Stage("pretrain", epochs=30, lr=0.05, batch_labelled=32, batch_wild=32, labelled_views=2, wild_views=2,
                  augmentation=views)  # fmt: skip
    torch.manual_seed(0)
    method = build_method("spectral+", 3)
    stages = (stage, stage.scaled(name="pseudo_label", epochs=1))
    train(build_model("small", 3, size=8), method, data, Settings(device="cpu", progress=False), stages=stages)
    found = method.wild_label
    assert isinstance(found, Tensor)
    known = digits.labels[pool[:120]]
    named = found[:120] >= 0
    assert named.float().mean() > 0.8
    assert (found[:120][named] == known[named]).float().mean() > 0.95
    assert (found[120:] >= 0).float().mean() < 0.2


def test_bad_hyper_parameters() -> None:
    for name, value in (("pseudo", -1.0), ("views", -1), ("rounds", 0), ("agreement", 1.1)):
        with pytest.raises(InputError, match=name):
            build_method("spectral+", 3, **{name: value})
