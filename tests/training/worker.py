"""One of two processes that torchrun starts: every training that the tests need of two, one after the other, and the
command itself.

Starting three interpreters takes longer than all of these trainings.
"""

import json
import os
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from tests.training.common import data, method, model, quiet, stages
from tests.training.methods_in_two import process

from wildspec.cli.main import main
from wildspec.training import Budget, TrainResult, loop, train

OUT, RANK = Path(sys.argv[1]), os.environ["RANK"]


def keep(name: str, facts: Any, result: TrainResult | None = None) -> None:
    (OUT / f"{name}-{RANK}.json").write_text(json.dumps(facts))
    if result is not None:
        tensors = {key: value.contiguous() for key, value in result.model.state_dict().items()}
        save_file(tensors, OUT / f"{name}-{RANK}.safetensors")


def counted(name: str, epochs: float, batch: int) -> None:
    """How many bytes are sent, and whether anybody still holds the group when all is done."""
    joined: list[Any] = []
    sent: list[int] = []
    join, reduce = dist.init_process_group, dist.all_reduce

    def watched(*rest: Any, **more: Any) -> None:
        join(*rest, **more)
        joined.append(weakref.ref(dist.group.WORLD))

    def counting(tensor: torch.Tensor, *rest: Any, **more: Any) -> Any:
        sent.append(tensor.numel() * tensor.element_size())
        return reduce(tensor, *rest, **more)

    dist.init_process_group, dist.all_reduce = watched, counting
    result = train(model(), method(), data(), quiet(precision="fp64"), stages=stages(epochs, batch=batch))
    dist.init_process_group, dist.all_reduce = join, reduce
    facts = {"sent": sum(sent), "steps": result.steps, "losses": [row["loss"] for row in result.history],
             "groups_left": [group() is not None for group in joined]}  # fmt: skip
    keep(name, facts, result)


def limited(name: str, limits: tuple[float, float]) -> None:
    """A time limit of its own for each process."""
    settings = quiet(time_limit=limits[int(RANK)])
    result = train(model(), method(), data(), settings, stages=stages(1), run_dir=OUT / name)
    keep(name, [result.finished, result.steps])


def resumed(name: str) -> None:
    """What dropout would draw from at every step."""
    drawn: list[list[float]] = []

    class Noting(loop.Step):
        def __call__(self, raw: Any) -> torch.Tensor:
            state = torch.get_rng_state()
            drawn.append(torch.rand(3).tolist())
            torch.set_rng_state(state)
            return super().__call__(raw)

    plain, loop.Step = loop.Step, Noting  # type: ignore[misc]
    for limit in (1e-9, 1000.0):
        train(model(), method(), data(), quiet(time_limit=limit), stages=stages(1), run_dir=OUT / name, resume=True)
    loop.Step = plain  # type: ignore[misc]
    keep(name, drawn)


def budgeted(name: str) -> None:
    """On clocks that differ: the second process believes to be early."""
    now = [0.0]

    class Timed(loop.Step):
        def __call__(self, raw: Any) -> torch.Tensor:
            now[0] += (2.5, 0.01)[int(RANK)]
            return super().__call__(raw)

    plain, loop.Step = (loop.Step, loop.time), Timed  # type: ignore[misc]
    loop.time = SimpleNamespace(monotonic=lambda: now[0])
    result = train(model(), method(), data(), quiet(budget=Budget(20.0, (9.0, 9.0))), stages=stages(epochs=3))
    loop.Step, loop.time = plain  # type: ignore[misc]
    keep(name, {"steps": result.stage_steps, "rates": [row["lr"] for row in result.history]}, result)


if __name__ == "__main__":
    torch.set_num_threads(1)
    counted("joint", 4, 32)
    counted("small", 2, 16)
    limited("first is late", (1e-9, 1000.0))
    limited("second is late", (1000.0, 1e-9))
    resumed("resumed")
    budgeted("budget")
    process(int(RANK), 2, str(OUT))
    sys.argv = ["wildspec", "train", "--method", "spectral", "--epochs", "1", "--out", str(OUT / "run")]
    main()
