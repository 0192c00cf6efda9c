"""What one of two processes does with every method: gradients of its half of a batch, and a whole short training."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from wildspec.methods import Batch, build_method
from wildspec.methods.pooled import group_means, masked_mean, pooled_means
from wildspec.methods.registry import METHODS
from wildspec.models import build_model
from wildspec.training import Settings, TrainData, train
from wildspec.training.distributed import all_sum, average_gradients

N, M, CLASSES = 12, 8, 3
POOLED = ("irm", "vrex", "eqrm", "sharpdro", "woods", "scone")  # Mixup pairs within a process: see its own test
TRAINED = tuple(METHODS)


def joint_batch() -> Batch:
    generator = torch.Generator().manual_seed(5)
    images = torch.randn(N + M, 3, 8, 8, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (N,), generator=generator)
    # Another mix of environments on each side; an even count of each on the left, so that IRM's halves are the joint ones.
    return Batch(images, labels, 1, 1, torch.tensor([0, 0, 1, 1, 0, 0, 2, 2, 2, 0, 1, 1]))


def gradients(name: str, batch: Batch, reduce: Callable[[Tensor], Tensor] | None) -> list[Tensor]:
    """Gradients of a method's last stage. The network is in evaluation mode: batch statistics are another matter."""
    torch.manual_seed(0)
    network = build_model("small", CLASSES, size=8).double().eval()
    method = build_method(name, CLASSES).double()
    method.reduce = reduce
    if name in ("woods", "scone"):
        method.duals.multipliers.copy_(torch.tensor([0.3, 0.7]))
        method.baseline.fill_(0.4)
    stage = method.stages()[-1]
    if not stage.wild_views:
        batch = Batch(batch.images[: len(batch.labels)], batch.labels, 1, 0, batch.environments)
    method.backward(network, batch, stage)
    return [p.grad for p in [*network.parameters(), *method.parameters()] if p.grad is not None]


def averaged(local: list[Tensor]) -> list[Tensor]:
    holders = [torch.nn.Parameter(torch.zeros_like(g)) for g in local]
    for holder, gradient in zip(holders, local, strict=True):
        holder.grad = gradient.clone()
    average_gradients(holders)
    return [holder.grad for holder in holders if holder.grad is not None]


def trained(name: str) -> list[Tensor]:
    from wildspec.data import WildPool, load_digits_images

    torch.manual_seed(1)
    digits = load_digits_images()
    data = TrainData(digits.subset(range(64)), WildPool(digits.subset(range(64, 112))), environments=torch.arange(64) % 3)
    method = build_method(name, 10)
    small = {"epochs": 1, "epoch_steps": 0, "batch_labelled": 32}
    stages = [stage.scaled(**small, batch_wild=min(stage.batch_wild, 16)) for stage in method.stages()]
    result = train(build_model("small", 10, size=8), method, data, Settings(device="cpu", progress=False), stages=stages)
    return [*result.model.state_dict().values(), *method.parameters(), *(b for _, b in method.named_buffers())]


def process(rank: int, world: int, folder: str) -> None:
    """Leaves ``found-RANK.pt`` in the folder."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    joint, half, wild_half = joint_batch(), N // world, M // world
    mine = slice(rank * half, (rank + 1) * half)
    wild = slice(N + rank * wild_half, N + (rank + 1) * wild_half)
    assert joint.environments is not None
    batch = Batch(
        torch.cat([joint.images[mine], joint.images[wild]]), joint.labels[mine], 1, 1, joint.environments[mine]
    )
    found = {name: averaged(gradients(name, batch, all_sum)) for name in POOLED}

    uneven = torch.arange(10.0)[:3] if rank == 0 else torch.arange(10.0)[3:]  # shares of 3 and 7
    found["means"] = [*pooled_means(uneven, uneven[:2], reduce=all_sum), *group_means(uneven, uneven.long() % 4, 5, all_sum)]
    found["chosen"] = masked_mean(uneven, uneven > 1.5, all_sum)
    for name in TRAINED:
        found[f"trained {name}"] = [t.detach().clone() for t in trained(name)]
    torch.save(found, f"{folder}/found-{rank}.pt")
    dist.destroy_process_group()
