"""From a fitted model to the page on disk."""

from collections.abc import Callable
from os import PathLike
from typing import Any

from wildspec.files import write_text
from wildspec.report.facts import Facts
from wildspec.report.html import render
from wildspec.report.maps import draw_maps

FEWEST_ON_MAP = 12


def report_html(model: Any, name: str, *, with_map: bool = True, seed: int = 0, **data: Any) -> str:
    """The page about a fitted `WildClassifier` or `SpectralClassifier`.

    ``data``: sets to judge it on, see `gather` in `wildspec.report.image_facts` and `wildspec.report.embedding_facts`.
    """
    from wildspec.report import embedding_facts, image_facts

    gather: Callable[..., Facts] = image_facts.gather if hasattr(model, "fitted_") else embedding_facts.gather
    facts = gather(model, name, seed=seed, **data)
    drawn = with_map and len(facts.samples) >= FEWEST_ON_MAP
    return render(facts, draw_maps(facts.features, seed, len(facts.about.classes)) if drawn else None)


def write_report(model: Any, path: str | PathLike[str], name: str, **options: Any) -> None:
    """Write the page, whole or not at all."""
    write_text(path, report_html(model, name, **options))
