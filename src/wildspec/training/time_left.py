"""The time a stage still takes, as the live line shows it: by its speed, but never past the limit it was given."""

from collections.abc import Callable

from rich.progress import ProgressColumn, Task
from rich.text import Text

from wildspec.training.budget import shortest

Most = Callable[[], float | None]  # seconds that are left at most, None where nobody set a limit


class TimeLeft(ProgressColumn):
    """H:MM:SS. A late stage is shortened and a limited run is cut: both are over when their time is, whatever the speed."""

    max_refresh = 0.5

    def __init__(self, most: Most) -> None:
        self._most = most
        super().__init__()

    def render(self, task: Task) -> Text:
        seconds = 0.0 if task.finished else shortest(task.time_remaining, self._most())
        return Text(words(seconds), style="progress.remaining")


def words(seconds: float | None) -> str:
    """0:01:30; dashes where it is not known yet."""
    if seconds is None:
        return "-:--:--"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
