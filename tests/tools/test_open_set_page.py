"""docs/results/open-set.md: means and verdicts by hand, on round numbers."""

import open_set_page
from wildspec.bench.pacs_tables import OPEN_SET

KNOWN = ["dog", "elephant", "giraffe", "guitar"]


def record(system, target, value, setting="inductive", seed=0):
    return {"setting": setting, "known": KNOWN, "source": "photo", "target": target, "seed": seed, "system": system,
            "metrics": dict.fromkeys(OPEN_SET, value)}  # fmt: skip


RECORDS = [
    record("spectral", "sketch", 0.4), record("spectral", "art_painting", 0.8),
    record("oslpp", "sketch", 0.7), record("oslpp", "art_painting", 0.6),
    record("spectral", "sketch", 0.9, "transductive"), record("osnn", "sketch", 0.1, "transductive"),
]  # fmt: skip


IMAGES = {
    "records": [record("wild-classifier", "sketch", 0.5, "transductive"), record("osbp", "sketch", 0.25, "transductive")],
    "unfinished": [{"system": "sal", "pairs": 7}], "environment": {"command": "the command"},
}  # fmt: skip


def test_the_page_says_who_is_ahead_and_where():
    text = open_set_page.page({"records": RECORDS}, IMAGES)
    assert "**Inductive**: SpectralClassifier has **not** the highest mean HOS, 60.0 against 65.0 (OSLPP)." in text
    assert "**Transductive**: SpectralClassifier has the highest mean HOS, 90.0 against 10.0 (OSNN)." in text
    assert "| **SpectralClassifier** | 60.0 | 60.0 | 60.0 | 60.0 | 60.0 |" in text
    assert "| OSLPP | 65.0 | 65.0 | **65.0** | 65.0 | 65.0 |" in text
    assert "| OSBP | 25.0 | 25.0 | 25.0 | 25.0 | 25.0 |" in text
    assert "50.0 against 25.0 (OSBP)" in text
    assert "SAL (7 of 12 pairs)" in text
    assert "one seed" in text
    assert "--seeds 1\n" in text


def test_all_pairs_and_choices_are_in_the_full_page():
    text = open_set_page.full({"records": RECORDS})
    assert "| photo → sketch | 40.0 | **70.0** |" in text
    assert "| photo → art | **80.0** | 60.0 |" in text
    assert "| dog, elephant, giraffe, guitar | 60.0 | **65.0** |" in text


def test_without_ours_there_is_no_verdict():
    text = open_set_page.page({"records": [entry for entry in RECORDS if entry["system"] != "spectral"]}, IMAGES)
    assert "highest mean" not in text.partition("## On images")[0]
    assert "OSNN (source only)" in text
