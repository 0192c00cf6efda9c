"""What a run tells while it runs: a live line for people, plain lines for logs, JSON lines for programs."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wildspec.checks import require
from wildspec.files import append_line, write_text

if TYPE_CHECKING:
    from wildspec.training.time_left import Most


class Progress:
    """Reports rows of logged values. One process (rank 0) reports; the others stay silent."""

    def __init__(self, folder: Path | None, *, show: bool, tensorboard: bool, resume_step: int = 0) -> None:
        self._file = folder / "metrics.jsonl" if folder else None
        self._show = show
        self._bar: Any = None
        self._task: Any = None
        self._last_line = 0.0
        self._writer: Any = None
        if self._file is not None:
            _cut_after(self._file, resume_step)
        if tensorboard and folder is not None:
            require("tensorboard", "tensorboard", "--tensorboard")
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard"))

    def start(self, name: str, total: int, done: int, most: "Most" = lambda: None) -> None:
        """A new stage of ``total`` steps, ``done`` of which are behind us; ``most``: seconds that it may still take."""
        self.close_bar()
        if self._show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            from wildspec.training.time_left import TimeLeft

            self._bar = Bar(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
                TimeLeft(most), TextColumn("{task.fields[note]}"), console=Console(stderr=True),
            )
            self._task = self._bar.add_task(name, total=total, completed=done, note="")
            self._bar.start()

    def row(self, values: dict[str, Any], stage_step: int, total: int) -> None:
        """One row: written to metrics.jsonl, shown on the terminal."""
        if self._file is not None:
            append_line(self._file, json.dumps(values))
        if self._writer is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)) and name != "step":
                    self._writer.add_scalar(name, value, values["step"])
        numbers = "  ".join(
            f"{name} {value:.4g}" for name, value in values.items()
            if isinstance(value, float) and name not in ("seconds", "views_per_s", "epoch")
        )
        speed = f"  {values['views_per_s']:,.0f} views/s" if "views_per_s" in values else ""
        note = numbers + speed
        if self._bar is not None:  # one line: all terms would push the time that is left out of a narrow window
            short = f"loss {values['loss']:.3g}{speed}" if "loss" in values else note
            self._bar.update(self._task, completed=stage_step, note=short)
        elif self._show and (time.monotonic() - self._last_line > 10 or stage_step >= total):
            self._last_line = time.monotonic()
            print(f"{values['stage']} {stage_step}/{total}  {note}", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """One line for people."""
        self.close_bar()
        if self._show:
            print(text, file=sys.stderr, flush=True)

    def close_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def close(self) -> None:
        self.close_bar()
        if self._writer is not None:
            self._writer.close()


def _cut_after(file: Path, step: int) -> None:
    """Drop rows past the step a run resumes from: they will be written again."""
    if not file.exists():
        return
    kept = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue  # a line torn by a kill
    write_text(file, "".join(line + "\n" for line in kept))
