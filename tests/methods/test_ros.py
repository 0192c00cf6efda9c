"""ROS: turns, normality, threshold, weights by hand; the sets it draws from a pool."""

import math

import numpy as np
import pytest
import torch

from wildspec.data import WildPool, load_digits_images
from wildspec.methods import build_method
from wildspec.methods.ros import normality, rotation_normality, threshold, turned, unknown_weight
from wildspec.models import build_model
from wildspec.training import Settings, TrainData, train


def test_turns_are_numpys_quarter_turns():
    image = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    out, times = turned(image.expand(6, 3, 2, 2).clone())
    assert times.tolist() == [0, 1, 2, 3, 0, 1]
    assert out[1, 0].tolist() == [[2, 4], [1, 3]]
    for i in range(6):
        np.testing.assert_array_equal(out[i, 2].numpy(), np.rot90(image.numpy(), i % 4))


def test_threshold_and_weight():
    assert threshold(0.43) == pytest.approx(0.5)
    assert threshold(0.61) == pytest.approx(0.7)
    assert threshold(0.95) == 1.0
    assert unknown_weight(1024, 25, 512) == pytest.approx(0.16)


def test_normality_of_certain_and_of_even_answers():
    k = 5
    certain = torch.zeros(1, 4, 4 * k)
    for r in range(4):
        certain[0, r, 4 * 2 + r] = 1
    even = torch.full((1, 4, 4 * k), 1 / (4 * k))
    right, entropy = rotation_normality(torch.cat([certain, even]))
    assert right.tolist() == pytest.approx([1, 1 / (4 * k)])
    assert entropy.tolist() == pytest.approx([0, math.log(4 * k)])
    assert normality(torch.cat([certain, even])).tolist() == pytest.approx([1, 1 / (4 * k)])


def test_normality_by_a_slow_loop():
    answers = torch.softmax(torch.randn(7, 4, 12, generator=torch.Generator().manual_seed(0)), 2)
    right, entropy = rotation_normality(answers)
    for i in range(7):
        sums = [sum(answers[i, r, 4 * k + r].item() for r in range(4)) / 4 for k in range(3)]
        assert right[i].item() == pytest.approx(max(sums), rel=1e-5)
        told = -sum(p * math.log(p) for r in range(4) for p in answers[i, r].tolist()) / 4
        assert entropy[i].item() == pytest.approx(told, rel=1e-5)
    scaled = (entropy - entropy.min()) / (entropy.max() - entropy.min())
    torch.testing.assert_close(normality(answers), torch.maximum(right, 1 - scaled))


def test_with_one_class_it_is_plain_rotation():
    """R_1 of one class is a softmax over the four turns."""
    method = build_method("ros", 2)
    method.num_classes = 1
    model = build_model("small", 2, size=8)
    method.adapt(model)
    assert method.turns(torch.randn(4, 2 * 128)).shape == (4, 1, 4)
    assert method.centres.shape == (4, 256)


def test_sets_are_the_two_ends_of_the_pool():
    torch.manual_seed(0)
    digits = load_digits_images()
    data = TrainData(digits.subset(range(96)), WildPool(digits.subset(range(96, 160))))
    model, method = build_model("small", 10, size=8), build_method("ros", 10)
    stages = [stage.scaled(epochs=1) for stage in method.stages("fast")]
    train(model, method, data, Settings(device="cpu", progress=False), stages=stages)
    count = int(method.known_set.sum())
    assert len(method.known_set) == len(method.unknown_set) == 64
    assert count == int(method.unknown_set.sum()) >= 1
    assert method.weight.item() == pytest.approx(2 * 64 / (10 * count))


def test_centres_learn_as_if_their_weight_were_one():
    grads = []
    for weight in (0.001, 0.1):
        torch.manual_seed(0)
        method = build_method("ros", 3, centre=weight).double()
        model = build_model("small", 3, size=8).double()
        method.adapt(model)
        method.double()
        from wildspec.methods import Batch

        images = torch.randn(8, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        method.loss(model, Batch(images, torch.tensor([0, 1, 2, 0]), 2, 0), method.stages()[0])[0].backward()
        grads.append((method.centres.grad.clone(), method.branches.hidden[0].weight.grad.clone()))
    torch.testing.assert_close(grads[0][0], grads[1][0])
    torch.testing.assert_close(100 * grads[0][1], grads[1][1])


def test_gradients_of_centres_repeat_themselves_on_several_threads():
    """Many images share a centre: added up by threads in any order, their gradients would differ in the last bits."""
    from wildspec.methods import Batch

    method, model = build_method("ros", 3), build_model("small", 3, size=8)
    method.adapt(model)
    images, labels = torch.randn(512, 3, 8, 8, generator=torch.Generator().manual_seed(1)), torch.arange(256) % 3
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    grads = []
    for _ in range(10):
        method.centres.grad = None
        method.loss(model, Batch(images, labels, 2, 0), method.stages()[0])[0].backward()
        grads.append(method.centres.grad.clone())
    torch.set_num_threads(threads)
    # batch norm keeps moving averages, but in training it uses the batch: the loss is the same every time
    assert all(torch.equal(grads[0], grad) for grad in grads[1:])
