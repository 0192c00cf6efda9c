"""One training step: pixels -> augmented views -> loss -> gradients -> new weights. Eager, compiled, or as a CUDA graph.

The captured form runs the same step a few times for real, then records it once; afterwards a step is one launch. Nothing
inside waits for the host: logged values stay on the device until they are asked for.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.data.augment import AugmentParams
from wildspec.data.preprocess import Preprocess
from wildspec.methods.base import Batch, Method, Stage
from wildspec.models import Classifier
from wildspec.models.wide_resnet import WideResNet
from wildspec.training.average import WeightAverage
from wildspec.training.distributed import average_gradients
from wildspec.training.feed import RawBatch

WARM_UP = 8  # real steps before capture: compilation, cuDNN plans, optimizer state


class FastNetwork:
    """The network with a compiled backbone beside the plain one: training uses this, evaluation the plain module."""

    def __init__(self, model: Classifier, compiled: bool, fused: bool = False) -> None:
        self.model = model
        if isinstance(model.backbone, WideResNet):
            model.backbone.fused = fused
        self.head = model.head
        self.neck, self.unknown, self.open_heads = model.neck, model.unknown, model.open_heads
        self._backbone: Callable[[Tensor], Tensor] = (
            torch.compile(model.backbone, dynamic=False) if compiled else model.backbone
        )

    @property
    def backbone(self) -> Callable[[Tensor], Tensor]:
        return self._backbone

    def features(self, x: Tensor) -> Tensor:
        return self.neck(self._backbone(x))  # type: ignore[no-any-return]

    def maps(self, x: Tensor) -> Tensor:
        return self.model.maps(x)

    def __call__(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    def train(self, mode: bool = True) -> "FastNetwork":
        self.model.train(mode)
        return self

    def eval(self) -> "FastNetwork":
        return self.train(False)

    def parameters(self) -> Any:
        return self.model.parameters()

    def modules(self) -> Any:
        return self.model.modules()


class Step:
    """A training step as a function of a `RawBatch`; returns the logged values as one tensor, names in ``names``."""

    def __init__(
        self,
        network: FastNetwork,
        method: Method,
        stage: Stage,
        optimizer: torch.optim.Optimizer,
        preprocess: Preprocess,
        generator: torch.Generator,
        *,
        average: WeightAverage | None = None,
        precision: str = "fp32",
        compiled: bool = False,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.network, self.method, self.stage, self.optimizer = network, method, stage, optimizer
        self.generator, self.average, self.precision = generator, average, precision
        self.rank, self.world = rank, world
        self.names: tuple[str, ...] = ()
        self.parameters: list[nn.Parameter] = [*network.parameters(), *method.parameters()]
        augmentation, dtype = stage.augmentation, self.parameters[0].dtype
        mean = torch.tensor(preprocess.mean, device=generator.device).view(1, 3, 1, 1)
        scale = 1 / torch.tensor(preprocess.std, device=generator.device).view(1, 3, 1, 1)

        def prepare(pixels: Tensor, params: AugmentParams) -> Tensor:
            views = (augmentation.apply(pixels, params) - mean) * scale
            return views.to(dtype).contiguous(memory_format=torch.channels_last)

        self._prepare: Callable[[Tensor, AugmentParams], Tensor] = (
            torch.compile(prepare, dynamic=False) if compiled else prepare
        )

    def __call__(self, raw: RawBatch) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            logged = self.method.backward(self.network, self._batch(raw), self.stage)
        if self.world > 1:
            average_gradients(self.parameters)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        self.names = tuple(logged)
        return torch.stack([value.detach().float().reshape(()) for value in logged.values()])

    def _batch(self, raw: RawBatch) -> Batch:
        stage = self.stage
        blocks = [raw.labelled] * stage.labelled_views
        if raw.wild is not None:
            blocks += [raw.wild] * stage.wild_views
        pixels = torch.cat(blocks) if len(blocks) > 1 else blocks[0]
        with torch.no_grad():
            views = self._prepare(pixels, self._draw([len(block) for block in blocks], pixels.shape[-1]))
        return Batch(views, raw.labels, stage.labelled_views, stage.wild_views, raw.environments, raw.wild_rows)

    def _draw(self, sizes: list[int], size: int) -> AugmentParams:
        """Parameters of the joint batch, of which this process takes its own rows: any number of processes agree."""
        joint = self.stage.augmentation.draw(sum(sizes) * self.world, size, self.generator)
        if self.world == 1:
            return joint
        counts = [n * self.world for n in sizes]
        return AugmentParams(
            *(torch.cat([part[self.rank :: self.world] for part in field.split(counts)]) for field in joint)
        )

    def _autocast(self) -> Any:
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(self.generator.device.type, dtype=torch.bfloat16)


class GraphStep:
    """A `Step` recorded as a CUDA graph after `WARM_UP` real steps; same call, same result, one launch."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.stream = torch.cuda.Stream()
        self.graph: torch.cuda.CUDAGraph | None = None
        self._calls = 0
        self._inputs: RawBatch | None = None
        self._output = torch.zeros(0)

    @property
    def names(self) -> tuple[str, ...]:
        return self.step.names

    def __call__(self, raw: RawBatch) -> Tensor:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            output = self._run(raw)
        torch.cuda.current_stream().wait_stream(self.stream)
        return output

    def _run(self, raw: RawBatch) -> Tensor:
        if self._inputs is None:
            self._inputs = RawBatch(
                raw.labelled.clone(), raw.labels.clone(),
                None if raw.wild is None else raw.wild.clone(),
                None if raw.environments is None else raw.environments.clone(),
                None if raw.wild_rows is None else raw.wild_rows.clone(),
            )
        else:
            for name in ("labelled", "labels", "wild", "environments", "wild_rows"):
                target, source = getattr(self._inputs, name), getattr(raw, name)
                if target is not None:
                    target.copy_(source, non_blocking=True)
        self._calls += 1
        if self._calls <= WARM_UP:
            return self.step(self._inputs)
        if self.graph is None:
            self._record()
        assert self.graph is not None
        self.graph.replay()
        return self._output.clone()

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.step.generator)
        self.step.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=self.stream):
            assert self._inputs is not None
            self._output = self.step(self._inputs)
        self.graph = graph
