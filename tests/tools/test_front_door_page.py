"""The page of photographs and domains, from records made by hand."""

from typing import Any

import front_door_page

METRICS = {"fs_auroc": 0.9, "id_kept": 0.95, "covariate_kept": 0.8, "detection_rate": 0.7, "ood_acc": 0.85}


def record(method: str, world: str = "w", seed: int = 0, **more: Any) -> dict[str, Any]:
    changed = {key: more.pop(key) for key in list(more) if key in METRICS}
    return {"method": method, "world": world, "seed": seed, **more, "metrics": METRICS | changed}


def cells(text: str, *words: str) -> list[str]:
    """The cells of the one line of a table that has all the words."""
    (line,) = [line for line in text.splitlines() if line.startswith("|") and all(word in line for word in words)]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_networks_are_means_over_worlds_and_seeds_with_time_beside_the_first() -> None:
    records = [
        record("front-door", seed=0, network="first", fs_auroc=0.90),
        record("front-door", seed=1, network="first", fs_auroc=0.94),
        record("front-door", seed=0, network="second", fs_auroc=0.80),
        record("vim", seed=0, network="second", fs_auroc=0.5),
    ]
    made, seconds = {"command": "python script.py"}, {"first": 0.02, "second": 0.05}
    text = front_door_page.other_networks({"records": records, "seconds": seconds, "environment": made})
    assert cells(text, "first", "wildspec") == ["first", "1.0", "**wildspec**", "92.0", "95.0", "80.0", "70.0", "85.0"]
    assert cells(text, "second", "wildspec")[:4] == ["second", "2.5", "**wildspec**", "80.0"]
    assert cells(text, "second", "ViM")[3] == "50.0"
    assert made["command"] in text


def test_bars_compare_with_the_best_single_baseline_and_with_the_best_of_each_world() -> None:
    others = dict.fromkeys(front_door_page.BASELINES, 0.5)
    better = {"a": others | {"vim": 0.9}, "b": others | {"vim": 0.6, "lr": 0.7}}  # means: vim 0.75, lr 0.6
    records = [record(name, world, fs_auroc=value) for world, row in better.items() for name, value in row.items()]
    records += [record("front-door", "a", fs_auroc=0.95), record("front-door", "b", fs_auroc=0.65, id_kept=0.92)]
    lines = front_door_page.bars(records).splitlines()
    for line, found in zip(lines, (("+5.0", "ViM"), ("b -5.0",), ("b 92.0",)), strict=False):
        assert all(word in line for word in ("MISSED", *found))
    assert [line.startswith("- met") for line in lines[3:]] == [True, True, True]
