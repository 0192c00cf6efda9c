"""What the page's script works with: samples, the labelled ones near them, the whole list, and thresholds to try; as JSON.

Pictures are most of a page. `MOST_BYTES` bounds them: those of groups come first, then wild samples, the highest score
first, then their neighbours, then labelled samples of the map. What is left out is told (`left_out`).
"""

import json
from typing import Any

import numpy as np

from wildspec.bundle.gallery import data_uri
from wildspec.report.facts import Facts

MOST_BYTES = 12_000_000  # of pictures as text; with a list of 20,000 samples a page stays below 15 MB
MOST_KNOWN = 2000  # held-out scores that the slider counts; quantiles of more


def page_data(facts: Facts) -> tuple[str, int]:
    """The JSON, which cannot end the script element it stands in; and how many pictures were left out."""
    pictures, left_out = _pictures(facts)
    value: dict[str, Any] = {
        "threshold": facts.threshold,
        "ownLimits": facts.own_limits,
        "what": facts.about.what,
        "classes": list(facts.about.classes),
        "samples": [
            {"name": s.name, "kind": s.kind, "likely": s.likely, "score": s.score, "limit": s.limit, "p": s.p_value,
             "picture": pictures.get(("sample", i)), "near": list(s.near)}
            for i, s in enumerate(facts.samples)
        ],
        "labelled": {
            row: {"name": known.name, "label": known.label, "picture": pictures.get(("near", row))}
            for row, known in facts.near.items()
        },
        "known": _quantiles(facts.known.margins(facts.threshold)),
    }  # fmt: skip
    if facts.listed is not None:
        value["list"] = _list(facts)
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"), left_out


def _list(facts: Facts) -> dict[str, Any]:
    listed = facts.listed
    return {
        "of": listed.of,
        "names": listed.names,
        "score": _short(listed.score),
        "margin": _short(listed.margin),
        "p": _short(listed.p_value),
        "likely": listed.likely.tolist(),
        "group": listed.group.tolist(),
        "sample": listed.sample.tolist(),
        "turned": np.flatnonzero(listed.turned).tolist(),
        "answers": {i: said for i, said in enumerate(listed.answers) if said},
    }


def _pictures(facts: Facts) -> tuple[dict[tuple[str, int], str], int]:
    """(kind, number) -> address of a picture, as many as there is room for."""
    first = [] if facts.listed is None else [int(facts.listed.sample[row]) for rows in facts.listed.typical for row in rows]
    wild = [i for i, sample in enumerate(facts.samples) if sample.kind != "labelled"]
    wild.sort(key=lambda i: -(facts.samples[i].score or 0.0))
    order = [("sample", i) for i in [*first, *wild] if i >= 0]
    order += [("near", row) for row in facts.near]
    order += [("sample", i) for i, sample in enumerate(facts.samples) if sample.kind == "labelled"]
    found: dict[tuple[str, int], str] = {}
    room, left_out = MOST_BYTES, 0
    for kind, number in dict.fromkeys(order):
        picture = facts.samples[number].picture if kind == "sample" else facts.near[number].picture
        if picture is None:
            continue
        address = data_uri(picture)
        if len(address) > room:
            left_out += 1
            continue
        room -= len(address)
        found[kind, number] = address
    return found, left_out


def _quantiles(values: np.ndarray) -> list[float]:
    """Ascending; of many values evenly spaced ones, the ends included."""
    ordered = np.sort(values)
    if len(ordered) > MOST_KNOWN:
        ordered = ordered[np.linspace(0, len(ordered) - 1, MOST_KNOWN).round().astype(np.int64)]
    return _short(ordered)


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
