"""Any image encoder as an ONNX graph, run by onnxruntime: frozen, no gradient.

The graph says what it takes: (n, 3, H, W) or (n, H, W, 3), of which size, and whether floats or the pixels themselves
(uint8, which it then scales itself). Its first output is the features: (n, d), or maps that are averaged.
"""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wildspec.checks import require
from wildspec.errors import DataError, InputError, one_line
from wildspec.models.onnx_content import kept_outside
from wildspec.models.scaling import IMAGENET, RAW, Scaling

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
LARGEST = 2 << 30  # bytes: what one file of this format can hold


class OnnxBackbone(nn.Module):
    """(n, 3, S, S) scaled as ``scaling`` says -> (n, d) float32, on the device of what is given; computed on the CPU.

    The graph itself is a buffer of bytes, so that a bundle with this backbone is whole without the file. ``size``: S, None
    where the graph takes any.
    """

    graph: Tensor

    def __init__(self, graph: bytes | int, name: str = "of a bundle") -> None:
        """``graph``: the content of the file, or its length where the content follows with `load_state_dict`."""
        super().__init__()
        content = torch.zeros(graph, dtype=torch.uint8) if isinstance(graph, int) else _bytes(graph)
        self.register_buffer("graph", content)
        self.name = name
        self._opened: Any = None
        if not isinstance(graph, int):
            self._session()

    @property
    def scaling(self) -> Scaling:
        """Nothing is done to pixels for a graph of uint8; for others, since it does not say, ImageNet's."""
        return RAW if self._session().get_inputs()[0].type == "tensor(uint8)" else IMAGENET

    @property
    def size(self) -> int | None:
        _, *sides = self._layout()
        return sides[0] if isinstance(sides[0], int) else None

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # a session is nothing to trace
            torch._dynamo.graph_break()
        session = self._session()
        asked = session.get_inputs()[0]
        last, *_ = self._layout()
        kind = TYPES[asked.type]
        if self.size is not None and self.size != x.shape[-1]:
            raise InputError(f"ONNX backbone {self.name} takes images of {self.size} px, got {x.shape[-1]}; give its size")
        values = x.detach().to("cpu", torch.float32)
        values = (values.permute(0, 2, 3, 1) if last else values).contiguous()
        given = (values.round().clamp(0, 255) if kind is np.uint8 else values).numpy().astype(kind)
        out = self._run(session, asked, given)
        if out.ndim == 4:
            out = out.mean(axis=(1, 2) if last else (2, 3))
        return torch.from_numpy(np.ascontiguousarray(out, dtype=np.float32)).to(x.device)

    def _run(self, session: Any, asked: Any, given: np.ndarray) -> np.ndarray:
        fixed = asked.shape[0]
        parts = [given] if not isinstance(fixed, int) else np.split(given, range(fixed, len(given), fixed))
        out = []
        for part in parts:  # a graph made for one number of images gets as many, the last ones repeated
            short = fixed - len(part) if isinstance(fixed, int) else 0
            padded = np.concatenate([part, np.repeat(part[-1:], short, axis=0)]) if short else part
            try:
                out.append(session.run([session.get_outputs()[0].name], {asked.name: padded})[0][: len(part)])
            except Exception as error:  # onnxruntime has classes of its own for every reason
                raise InputError(f"ONNX backbone {self.name} fails on images {part.shape}: {one_line(error)}") from error
        return np.concatenate(out)

    def _layout(self) -> tuple[bool, Any, Any]:
        """Whether channels come last, then height and width, where the graph says them."""
        _, first, second, third = self._session().get_inputs()[0].shape
        return (True, first, second) if first != 3 and third == 3 else (False, second, third)

    def _session(self) -> Any:
        if self._opened is None:
            runtime = require("onnxruntime", "onnx", f"ONNX backbone {self.name}")
            options = runtime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.log_severity_level = 3
            try:
                content = self.graph.cpu().numpy().tobytes()
                if outside := kept_outside(content, f"ONNX backbone {self.name}"):
                    raise ValueError(f"it keeps {outside} in another file")
                opened = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            except Exception as error:
                raise DataError(
                    f"ONNX backbone {self.name} cannot be opened: {one_line(error)}; export it as one file, without custom "
                    "operators"
                ) from error
            self._check(opened)
            self._opened = opened
        return self._opened

    def _check(self, session: Any) -> None:
        inputs, outputs = session.get_inputs(), session.get_outputs()
        shape, kind = (list(inputs[0].shape), inputs[0].type) if len(inputs) == 1 else ([], "")
        if len(shape) != 4 or kind not in TYPES or 3 not in (shape[1], shape[3]):
            got = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs) or "none"
            raise InputError(
                f"ONNX backbone {self.name} must take one input, images (n, 3, H, W) or (n, H, W, 3) of float or uint8; it "
                f"takes {got}"
            )
        shown = outputs[0].shape if outputs else "nothing"
        if not outputs or len(shown or []) not in (0, 2, 4):
            raise InputError(
                f"ONNX backbone {self.name} must give features (n, d) or maps first; it gives {shown}: export it with "
                "pooled features"
            )

    def _load_from_state_dict(self, *given: Any, **options: Any) -> None:
        super()._load_from_state_dict(*given, **options)
        self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # a session cannot be copied; it is opened again


def read_onnx(path: str | PathLike[str]) -> OnnxBackbone:
    """The backbone in an ONNX file."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"ONNX backbone {file} does not exist; give onnx:FILE")
    if file.stat().st_size > LARGEST:
        raise DataError(f"ONNX backbone {file} is larger than 2 GiB; export a smaller network")
    return OnnxBackbone(file.read_bytes(), str(file))


def _bytes(content: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())
