"""``wildspec detectors``: the scores, what each needs and learns, its parameters and their defaults."""

from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_entries, print_json, show

app = typer.Typer()


@app.command(
    "detectors", epilog="Example:\n\nwildspec detectors\n\nwildspec detectors knn\n\nwildspec detectors --json"
)
def detectors(
    name: Annotated[str | None, typer.Argument(help="One detector, with what its parameters mean.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """List the detectors: one line, paper, what they need to fit and score, defaults."""
    from wildspec.checks import choice
    from wildspec.detectors import detector_names

    names = detector_names() if name is None else [choice("detector", name, detector_names())]
    records = [detector_record(one) for one in names]
    if as_json:
        print_json(records if name is None else records[0])
    else:
        _print(records, explain=name is not None)


def detector_record(name: str) -> dict[str, Any]:
    """Everything there is to say about a detector, ready for JSON."""
    import inspect

    from wildspec.detectors import build_detector
    from wildspec.detectors.base import ALIASES

    detector = build_detector(name)
    kind = type(detector)
    return {
        "name": name,
        "short_for": _written_out(*ALIASES[name]) if name in ALIASES else None,
        "summary": kind.summary,
        "paper": kind.paper,
        "fit_needs": list(kind.fit_needs),
        "score_needs": list(kind.score_needs),
        "streams": kind.streams,
        "defaults": detector.config(),
        "about": " ".join((inspect.getdoc(kind) or "").replace("``", "").split()),
    }


def _written_out(name: str, arguments: dict[str, Any]) -> str:
    """As --detector takes it."""
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in arguments.items())


def _print(records: list[dict[str, Any]], *, explain: bool) -> None:
    entries = []
    for record in records:
        fit = ", ".join(record["fit_needs"]) or "nothing"
        needs = f"fit: {fit}{' (streams)' * record['streams']}; score: {', '.join(record['score_needs'])}"
        values = ", ".join(f"{key}={value}" for key, value in record["defaults"].items())
        short = [f"short for {record['short_for']}"] if record["short_for"] else []
        lines = [*short, record["summary"], record["paper"], f"{needs}{'; ' if values else ''}{values}"]
        entries.append((record["name"], [*lines, record["about"] if explain else ""]))
    print_entries(entries)
    if not explain:
        show("Scores are high for unknown samples. (streams): can be fitted batch by batch.")
        show("More about one: wildspec detectors NAME")
