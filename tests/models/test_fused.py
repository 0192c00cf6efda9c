"""Blocks as one operation: the same function as the blocks one by one, its gradients, and each CUDA kernel by itself."""

import copy
import re
import shutil
import subprocess
from importlib.resources import files

import pytest
import torch
from torch import Tensor

from wildspec.models.fused import able, can_fuse, fused, launch
from wildspec.models.fused.chain import Gradient
from wildspec.models.fused.plain import Plain
from wildspec.models.wide_resnet import PreActBlock, WideResNet


def blocks_of(inputs: int, channels: int, stride: int, number: int) -> list[PreActBlock]:
    torch.manual_seed(0)
    shapes = [(inputs, channels, stride)] + [(channels, channels, 1)] * (number - 1)
    blocks = [PreActBlock(*shape, dropout=0.0).double() for shape in shapes]
    for block in blocks:
        for norm in (block.bn1, block.bn2):
            torch.nn.init.normal_(norm.weight, 1.0, 0.3)
            torch.nn.init.normal_(norm.bias, 0.0, 0.3)
    return blocks


@pytest.mark.parametrize(("inputs", "stride", "number"), [(4, 1, 3), (8, 1, 2), (4, 2, 4)])
def test_the_chain_is_the_blocks_one_by_one_with_their_gradients_and_statistics(inputs, stride, number):
    ones = blocks_of(inputs, 8, stride, number)
    together = copy.deepcopy(ones)
    first = torch.randn(5, inputs, 6, 6, dtype=torch.float64).requires_grad_()
    second = first.detach().clone().requires_grad_()
    expected = first
    for block in ones:
        expected = block(expected)
    found = fused(together, second)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    weights = torch.randn_like(expected)
    (expected * weights).sum().backward()
    (found * weights).sum().backward()
    torch.testing.assert_close(second.grad, first.grad, rtol=1e-8, atol=1e-10)
    for one, other in zip(ones, together, strict=True):
        for (name, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
            torch.testing.assert_close(b.grad, a.grad, rtol=1e-8, atol=1e-10, msg=name)
        for (name, a), (_, b) in zip(one.named_buffers(), other.named_buffers(), strict=True):
            torch.testing.assert_close(b, a, rtol=1e-10, atol=1e-12, msg=name)


def test_torch_finds_nothing_wrong_with_the_operation():
    x, around = (torch.randn(2, 4, 3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    gamma, beta = (torch.rand(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weight = torch.randn(3, 4, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    result = torch.library.opcheck(torch.ops.wildspec.fused_blocks.default, (x, around, gamma, beta, weight, 1e-5))
    assert set(result.values()) == {"SUCCESS"}


def test_only_what_the_kernels_know_is_fused():
    network = WideResNet(16, 2)
    small = WideResNet(10, 2)  # one block a group
    x = torch.zeros(1, 16, 32, 32, dtype=torch.bfloat16)
    middle = torch.zeros(1, 32, 32, 32, dtype=torch.bfloat16)
    assert can_fuse(network.groups()[0], x)
    assert can_fuse(network.groups()[1], middle)
    assert not can_fuse(network.groups()[2], torch.zeros(1, 64, 16, 16, dtype=torch.bfloat16))
    assert not can_fuse(network.groups()[0], x.float())
    assert not can_fuse(network.groups()[0], x[:, :, :24, :24])
    assert not can_fuse(WideResNet(16, 2, dropout=0.3).groups()[0], x)
    assert not can_fuse(WideResNet(16, 4).groups()[0], x)
    assert not can_fuse(small.groups()[0], x)
    assert not able(torch.device("cpu"))


def test_a_machine_without_the_compiler_is_told_so_in_one_error(monkeypatch):
    from wildspec.models.fused import KernelError, compiler

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(compiler.ctypes, "CDLL", missing)
    with pytest.raises(KernelError, match="libnvrtc"):
        compiler.compiled("", "sm_90")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs the CUDA compiler nvcc")
def test_the_kernels_compile_and_every_one_that_is_asked_for_is_there(tmp_path):
    source = files("wildspec.models.fused").joinpath("kernels.cu")
    out = tmp_path / "kernels.ptx"
    subprocess.run(["nvcc", "--ptx", "-arch=sm_80", "-o", out, str(source)], check=True)
    there = set(re.findall(r"\.visible \.entry (\w+)", out.read_text()))
    asked: set[str] = set()

    class Recorder:
        def kernel(self, name: str, threads: int, shared: int = 0) -> None:
            asked.add(name)

    for channels in launch.SHAPES:
        launch.Cuda(Recorder(), 132, channels)
    assert asked == there


# -- on a GPU: each kernel beside torch's own operations ---------------------------------------------------------------
def away(found: Tensor, expected: Tensor) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm())


ROUNDING = 0.004  # of bf16, relative to the whole map: 2^-9 at the most for one rounding, there are up to two


@pytest.fixture(params=[32, 64])
def world(request):
    """Random maps and coefficients, kernels for them."""
    channels = request.param
    side = launch.SHAPES[channels]
    generator = torch.Generator("cuda").manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda", generator=generator)

    maps = {name: draw(7, side, side, channels).bfloat16() for name in ("x", "g", "dv", "z", "around")}
    weight = draw(channels, channels, 3, 3).bfloat16().float() / 10
    norm = torch.stack([draw(channels), draw(channels).abs() + 0.5, draw(channels), draw(channels) / 3])
    return launch.kernels(0, channels), maps, weight.bfloat16().float(), norm, draw(3, channels)


@pytest.mark.cuda
@pytest.mark.parametrize("joins", [False, True])
def test_forward_kernel(world, joins):
    kernels, maps, weight, norm, _ = world
    around = maps["around"] if joins else None
    out = torch.empty_like(maps["x"])
    sums = kernels.forward(maps["x"], norm, weight, around, out)
    expected = torch.empty_like(out, dtype=torch.float32)
    Plain().forward(maps["x"].float(), norm, weight, None if around is None else around.float(), expected)
    assert away(out, expected) < ROUNDING
    torch.testing.assert_close(sums.sum(0), Plain().sums(out.float())[0], rtol=1e-4, atol=0.02)


@pytest.mark.cuda
def test_what_is_no_number_is_not_hidden_by_the_rectifier(world):
    kernels, maps, weight, norm, _ = world
    x, out = maps["x"].clone(), torch.empty_like(maps["x"])
    x[3, 5, 6, 7] = float("nan")
    kernels.forward(x, norm, weight, None, out)
    assert out[3, 4:7, 5:8].isnan().all()
    assert not out[2].isnan().any()


@pytest.mark.cuda
@pytest.mark.parametrize("form", ["given", "normed", "joined"])
def test_gradient_kernels(world, form):
    kernels, maps, weight, norm, by = world
    g = None if form == "normed" else maps["g"]
    rest = () if form == "given" else (maps["dv"], maps["z"], by)
    gradient = Gradient(g, *rest)
    exact = Gradient(*(None if part is None else part.float() for part in (g, *rest)))
    x = maps["x"]
    dv, sums, after = kernels.data_gradient(gradient, x, norm, weight)
    expected, _, _ = Plain().data_gradient(exact, x.float(), norm, weight)
    assert away(dv, expected) < ROUNDING
    own = torch.stack([dv.float().sum((0, 1, 2)), (dv.float() * (x.float() - norm[0])).sum((0, 1, 2))])
    torch.testing.assert_close(sums.sum(0), own, rtol=1e-4, atol=0.02)
    if form == "joined":
        assert away(after.g, Plain().joined(exact)) < ROUNDING
    if form != "given":
        assert away(kernels.joined(gradient), Plain().joined(exact)) < ROUNDING
    if form != "joined":
        found, right = torch.empty_like(weight), torch.empty_like(weight)
        kernels.weight_gradient(gradient, x, norm, found)
        Plain().weight_gradient(exact, x.float(), norm, right)
        assert away(found, right) < ROUNDING


@pytest.mark.cuda
def test_kernels_of_sums_and_coefficients(world):
    kernels, maps, _, norm, _ = world
    x, channels = maps["x"].float(), norm.shape[1]
    gamma, beta = norm[1], norm[2]
    sums = kernels.sums(maps["x"])
    torch.testing.assert_close(sums.sum(0), Plain().sums(x)[0], rtol=1e-4, atol=0.02)
    count = x.numel() // channels
    found, variance = kernels.norm(sums, count, 1e-5, gamma, beta)
    mean, spread = x.double().mean((0, 1, 2)), x.double().var((0, 1, 2), unbiased=False)
    scale = gamma / (spread + 1e-5).sqrt()
    expected = torch.stack([mean, (spread + 1e-5).rsqrt(), scale, beta - mean * scale]).float()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(variance, spread.float(), rtol=1e-4, atol=1e-5)
    ours, theirs = [torch.empty_like(gamma) for _ in range(2)], [torch.empty_like(gamma) for _ in range(2)]
    by = kernels.norm_gradient(sums, count, found, *ours)
    torch.testing.assert_close(by, Plain().norm_gradient(sums, count, found, *theirs), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.cuda
def test_a_network_learns_alike_with_and_without():
    """Features, and the gradients of all weights, of one network: bf16 with fused blocks and without against float32."""
    torch.manual_seed(0)
    network = WideResNet(16, 2).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(64, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    target = torch.randn(64, 128, device="cuda")

    def gradients(precise: bool, together: bool) -> Tensor:
        model = copy.deepcopy(network)
        model.fused = together
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not precise):
            features = model(x)
        (features.float() * target).sum().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    exact = gradients(precise=True, together=False)
    plain, ours = away(gradients(precise=False, together=False), exact), away(gradients(precise=False, together=True), exact)
    assert ours < 1.2 * plain + 0.01
