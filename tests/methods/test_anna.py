"""ANNA: cells by hand on a 2 x 2 map, alignment, how much of a gradient passes, turns of source and target."""

import math

import pytest
import torch
from torch import nn

from wildspec.errors import InputError
from wildspec.methods import Batch, build_method
from wildspec.methods.anna import aligned, mined_cells
from wildspec.models import build_model, wrap_backbone

# scores of four cells over 5 classes; the label is 0: largest, among the three largest, fourth, last
FIRST, AMONG, FOURTH, LAST = [5.0, 1, 2, 3, 4], [4.0, 5, 6, 1, 2], [1.0, 2, 3, 4, 0], [0.0, 1, 2, 3, 4]


def test_cells_by_hand():
    scores = torch.tensor([[FIRST, FIRST, AMONG, LAST], [FIRST, FIRST, FIRST, FOURTH], [FIRST, LAST, AMONG, AMONG]])
    known, hidden = mined_cells(scores, torch.tensor([0, 0, 0]))
    # the third image has one of each kind: not more known than unknown cells
    assert known.tolist() == [[True, True, False, False], [True, True, True, False], [False] * 4]
    assert hidden.tolist() == [[False, False, False, True], [False, False, False, True], [False] * 4]
    assert int(hidden.sum()) / int(hidden.sum() + known.sum()) == pytest.approx(2 / 7)


def test_one_image_is_not_enough_and_all_cells_right_is_nothing_to_mine():
    one = torch.tensor([[FIRST, FIRST, AMONG, LAST], [FIRST] * 4])
    assert not any(bool(mask.any()) for mask in mined_cells(one, torch.tensor([0, 0])))


def test_with_three_classes_nothing_is_hidden():
    assert not mined_cells(torch.randn(6, 4, 3), torch.tensor([0, 1, 2, 0, 1, 2]))[1].any()


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_discriminator_that_knows_nothing(label):
    zero = torch.zeros(6)
    assert aligned(zero, zero, torch.rand(6), label).item() == pytest.approx(math.log(2))


def made(**hparams):
    torch.manual_seed(0)
    method = build_method("anna", 5, units=12, **hparams)
    model = build_model("small", 5, size=8)
    method.adapt(model)
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return method.double(), model.double()


def test_the_warm_up_is_part_of_the_whole():
    for warmup in (10.0, 30.0):
        first, second = build_method("anna", 5, warmup=warmup).stages("paper")
        assert first.epochs == warmup
        assert second.epochs == 2 * (75 - warmup), "two steps for each pair of batches"
        assert second.batch_wild == second.batch_labelled


def source_gradients(below):
    """Loss and gradients of a source step; each image has the class that most of its cells look like."""
    method, model = made(below=below, alignment=0.0)
    images = torch.randn(16, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    model.eval()
    with torch.no_grad():
        for layer in (model.neck[0], model.neck[4], model.head):  # so that cells look different
            layer.weight.mul_(20)
            layer.bias.zero_()
        cells = model.maps(images).flatten(2).transpose(1, 2)
        labels = model.head(model.neck(cells.flatten(0, 1))).argmax(1).view(16, -1).mode(1).values
    total = method.source_loss(model, images, labels)
    wanted = [model.unknown.weight, model.neck[0].weight]
    return total.detach(), torch.autograd.grad(total, wanted)


def test_below_the_hidden_layer_the_mining_gradient_is_scaled():
    whole, part, none = (source_gradients(below) for below in (1.0, 0.2, 0.0))
    assert whole[0] == part[0] == none[0], "the loss itself is the same"
    torch.testing.assert_close(whole[1][0], part[1][0])  # the last layer gets all of it
    mined = whole[1][1] - none[1][1]
    assert mined.abs().max() > 0, "some cells are hidden unknown here"
    torch.testing.assert_close(part[1][1] - none[1][1], 0.2 * mined)


def test_source_and_target_take_turns_and_gradients_are_cut():
    method, model = made()
    images = torch.randn(16, 3, 8, 8, dtype=torch.float64)
    batch = Batch(images, torch.arange(8) % 5, 1, 1)
    stage = method.stages()[1]
    model.eval()
    # a late run passes over places of its schedule, or stays at one; the last two are those of a run on time
    for turn, (places, name) in enumerate((
        ([0], "source_loss"), ([1, 2], "target_loss"), ([3, 4], "source_loss"), ([], "target_loss"), ([5], "source_loss"),
    )):  # fmt: skip
        for place in places:
            method.before_step(stage, place)
        total, logged = method.loss(model, batch, stage)
        given = (images[:8], batch.labels) if name == "source_loss" else (images[8:],)
        torch.testing.assert_close(total, getattr(method, name)(model, *given))
        assert logged["turn"].item() == turn % 2
        method.backward(model, batch, stage)
    model.zero_grad()
    method.zero_grad()
    with torch.no_grad():
        model.head.weight.mul_(1000)
    method.backward(model, batch, stage)
    gradients = [p.grad.norm() for p in [*model.parameters(), *method.parameters()] if p.grad is not None]
    assert torch.stack(gradients).norm().item() == pytest.approx(4.0, rel=1e-4)


def test_whose_turn_it_is_goes_to_the_checkpoint():
    method, model = made()
    batch = Batch(torch.randn(16, 3, 8, 8, dtype=torch.float64), torch.arange(8) % 5, 1, 1)
    stage = method.stages()[1]

    def turn(of):
        return of.loss(model, batch, stage)[1]["turn"].item()

    for _ in range(3):
        method.backward(model, batch, stage)
    kept = {name: value.clone() for name, value in method.state_dict().items()}
    resumed = made()[0]
    resumed.load_state_dict(kept)
    assert turn(resumed) == turn(method) == 1
    resumed.start_stage(None)  # a stage begins with the source, however long the one before was
    assert turn(resumed) == 0
    del kept["taken"]  # checkpoints of earlier versions: by the place in the schedule
    for place, expected in ((7, 1), (8, 0)):
        earlier = made()[0]
        earlier.load_state_dict(kept)
        earlier.before_step(stage, place)
        assert turn(earlier) == expected
        earlier.backward(model, batch, stage)
        earlier.before_step(stage, place + 1)
        assert turn(earlier) == 1 - expected


def test_cells_do_not_move_the_running_statistics():
    method, model = made()
    model.train()
    norm = model.neck[1]
    images = torch.randn(6, 3, 8, 8, dtype=torch.float64)
    method.target_loss(model, images)
    assert norm.num_batches_tracked.item() == 1, "once, by the averaged maps"
    assert norm.training


def test_a_backbone_without_a_map_is_refused():
    method = build_method("anna", 2, units=4)
    model = wrap_backbone(nn.Sequential(nn.Flatten(), nn.Linear(192, 6)), 2, size=8)
    method.adapt(model)
    with pytest.raises(InputError, match="maps"):
        method.target_loss(model, torch.zeros(4, 3, 8, 8))
