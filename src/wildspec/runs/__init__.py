"""A run folder: what ``wildspec train`` writes and ``wildspec evaluate`` reads."""

from wildspec.runs.folder import Run, load_run
from wildspec.runs.judging import judge
from wildspec.runs.task import DataSpec, Task, open_task
from wildspec.runs.training import Outcome, Request, resume, start

__all__ = ["DataSpec", "Outcome", "Request", "Run", "Task", "judge", "load_run", "open_task", "resume", "start"]
