"""Plots as inline SVG: drawn here, coloured by the page's style sheet, so that light, dark and print need no second drawing.

Every mark may carry a tip (`data-tip`), which the page shows on hover and focus. A drawing is 400 units wide and scales with
its column; text is large enough to be read at 320 px.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

WIDTH, HEIGHT = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 14, 44
NARROW = 240  # numbers of six digits, five of them, touch below this


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers that lie in [low, high]: steps of 1, 2, 2.5 or 5 times a power of ten."""
    from matplotlib.ticker import MaxNLocator

    high = high if high > low else low + 1
    ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3).tick_values(low, high)
    spare = 1e-9 * (high - low)
    return [round(float(tick), 12) for tick in ticks if low - spare <= tick <= high + spare]


def number(value: float) -> str:
    """A coordinate, as short as it can be."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def tag(name: str, content: str = "", **attributes: Any) -> str:
    """One element; a trailing underscore is dropped, other underscores become dashes; None leaves an attribute out."""
    parts = [name]
    for key, value in attributes.items():
        if value is None:
            continue
        text = number(value) if isinstance(value, float) else str(value)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    return f"<{' '.join(parts)}>{content}</{name}>" if content else f"<{' '.join(parts)}/>"


def text(x: float, y: float, words: str, anchor: str = "middle", cls: str = "tick") -> str:
    return tag("text", escape(words), x=float(x), y=float(y), text_anchor=anchor, class_=cls)


@dataclass
class Plot:
    """Axes and what is drawn on them, in data coordinates."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_label: str = ""
    y_label: str = ""
    label: str = ""  # what a screen reader says
    width: int = WIDTH
    height: int = HEIGHT
    x_format: Callable[[float], str] = field(default=lambda v: f"{v:g}")
    y_format: Callable[[float], str] = field(default=lambda v: f"{v:g}")
    left: int = LEFT
    y_ticks: bool = True
    marks: list[str] = field(default_factory=list)

    def x(self, value: Any) -> Any:
        low, high = self.x_range
        return self.left + (np.asarray(value, float) - low) / ((high - low) or 1) * (self.width - self.left - RIGHT)

    def y(self, value: Any) -> Any:
        low, high = self.y_range
        return self.height - BOTTOM - (np.asarray(value, float) - low) / ((high - low) or 1) * (self.height - TOP - BOTTOM)

    def _places(self, xs: Sequence[float] | np.ndarray, ys: Sequence[float] | np.ndarray) -> str:
        return " ".join(f"{number(a)},{number(b)}" for a, b in zip(self.x(xs), self.y(ys), strict=True))

    def line(self, xs: Sequence[float] | np.ndarray, ys: Sequence[float] | np.ndarray, cls: str) -> None:
        self.marks.append(tag("polyline", points=self._places(xs, ys), class_=f"line {cls}"))

    def band(self, xs: np.ndarray, low: np.ndarray, high: np.ndarray, cls: str) -> None:
        around = self._places(np.concatenate([xs, xs[::-1]]), np.concatenate([high, low[::-1]]))
        self.marks.append(tag("polygon", points=around, class_=f"band {cls}"))

    def steps(self, edges: np.ndarray, heights: np.ndarray, cls: str, ground: float = 0.0) -> None:
        """The outline of a histogram that stands at ``ground``, filled."""
        xs = np.repeat(edges, 2)
        ys = ground + np.concatenate([[0], np.repeat(heights, 2), [0]])
        self.marks.append(tag("polygon", points=self._places(xs, ys), class_=f"steps {cls}"))

    def strips(self, edges: np.ndarray, tips: Sequence[str]) -> None:
        """Invisible full-height strips that carry a tip each."""
        for left, right, tip in zip(self.x(edges[:-1]), self.x(edges[1:]), tips, strict=True):
            self.marks.append(
                tag("rect", x=float(left), y=float(TOP), width=float(right - left), height=float(self.height - TOP - BOTTOM),
                    class_="strip", data_tip=tip)
            )  # fmt: skip

    def dot(self, x: float, y: float, cls: str, tip: str | None = None, radius: float = 4.0) -> None:
        self.marks.append(tag("circle", cx=float(self.x(x)), cy=float(self.y(y)), r=radius, class_=cls, data_tip=tip))

    def vertical(self, x: float, words: str, cls: str = "rule") -> None:
        """A line across the plot with its name beside it, on whichever side there is room."""
        place = float(self.x(x))
        self.marks.append(tag("line", x1=place, x2=place, y1=float(TOP), y2=float(self.height - BOTTOM), class_=cls))
        right = place < self.width * 0.6
        self.marks.append(text(place + (6 if right else -6), TOP + 12, words, "start" if right else "end", "note"))

    def row(self, y: float, title: str, below: str) -> None:
        """The name of a row that begins at ``y``, left of the axes, and what is to be said below it."""
        place = float(self.y(y))
        self.marks.append(text(self.left - 7, place - 18, title, "end", "note"))
        self.marks.append(text(self.left - 7, place - 3, below, "end"))

    def bar(self, x: float, width: float, height: float, cls: str, tip: str) -> None:
        left, right = float(self.x(x - width / 2)), float(self.x(x + width / 2))
        top, bottom = float(self.y(height)), float(self.y(self.y_range[0]))
        self.marks.append(
            tag("rect", x=left, y=top, width=right - left, height=max(0.0, bottom - top), class_=cls, data_tip=tip)
        )

    def render(self) -> str:
        """The whole drawing."""
        bottom, right = self.height - BOTTOM, self.width - RIGHT
        frame = []
        for value in nice_ticks(*self.y_range) if self.y_ticks else []:
            place = float(self.y(value))
            frame.append(tag("line", x1=float(self.left), x2=float(right), y1=place, y2=place, class_="grid"))
            frame.append(text(self.left - 7, place + 4, self.y_format(value), "end"))
        few = self.width - self.left - RIGHT < NARROW
        for value in nice_ticks(*self.x_range, 3 if few else 5):
            frame.append(text(float(self.x(value)), bottom + 17, self.x_format(value)))
        frame.append(tag("line", x1=float(self.left), x2=float(right), y1=float(bottom), y2=float(bottom), class_="axis"))
        frame.append(text((self.left + right) / 2, self.height - 6, self.x_label, cls="label"))
        middle = (TOP + bottom) / 2
        frame.append(
            tag("text", escape(self.y_label), x=14.0, y=middle, text_anchor="middle", class_="label",
                transform=f"rotate(-90 14 {number(middle)})")
        )  # fmt: skip
        return tag(
            "svg", "".join(frame + self.marks), viewBox=f"0 0 {self.width} {self.height}", class_="plot", role="img",
            aria_label=self.label,
        )  # fmt: skip


def percent(value: float) -> str:
    """0.125 -> "12.5 %", 0.1 -> "10 %"."""
    return f"{100 * value:.1f}".rstrip("0").rstrip(".") + " %"
