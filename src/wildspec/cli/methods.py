"""``wildspec methods``: the training methods, what each needs, its hyper-parameters and its recipe."""

from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_entries, print_json, print_table, show

app = typer.Typer()


@app.command("methods", epilog="Example:\n\nwildspec methods\n\nwildspec methods woods\n\nwildspec methods --json")
def methods(
    name: Annotated[str | None, typer.Argument(help="One method, with its hyper-parameters and stages.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """List the training methods: one line, paper, needs, default detector, hyper-parameters."""
    from wildspec.checks import choice
    from wildspec.methods import METHODS

    names = list(METHODS) if name is None else [choice("method", name, METHODS)]
    records = [method_record(one) for one in names]
    if as_json:
        print_json(records if name is None else records[0])
    elif name is None:
        _print_list(records)
    else:
        _print_one(records[0])


def method_record(name: str) -> dict[str, Any]:
    """Everything there is to say about a method, ready for JSON."""
    from dataclasses import asdict

    from wildspec.methods import METHODS, build_method, preset_hparams
    from wildspec.methods.hparams import HPARAMS
    from wildspec.methods.recipes import PRESETS

    method = METHODS[name]
    built = {preset: build_method(name, 10, **preset_hparams(name, preset)) for preset in PRESETS}
    return {
        "name": name,
        "summary": method.summary,
        "paper": method.paper,
        "needs": ["labelled", *(["wild"] if method.needs_wild else [])],
        "uses_environments": bool(getattr(method, "uses_environments", False)),
        "default_detector": method.default_detector,
        "hyperparameters": [h.to_json() for h in HPARAMS[name]],
        "published": preset_hparams(name, "paper"),
        "stages": {preset: [asdict(stage) for stage in built[preset].stages(preset)] for preset in PRESETS},
    }


def _needs(record: dict[str, Any]) -> str:
    return " + ".join(record["needs"]) + (" (environments)" if record["uses_environments"] else "")


def _print_list(records: list[dict[str, Any]]) -> None:
    entries = []
    for record in records:
        about = f"{record['paper']}; needs {_needs(record)}; published with {record['default_detector']}"
        values = ", ".join(f"{h['name']}={h['default']}" for h in record["hyperparameters"])
        entries.append((record["name"], [record["summary"], about, values]))
    print_entries(entries)
    show("(environments): used where the data has them. More about one: wildspec methods NAME")


def _print_one(record: dict[str, Any]) -> None:
    from wildspec.methods.hparams import HPARAMS

    show(
        f"{record['name']}: {record['summary']}",
        f"{record['paper']}. Needs {_needs(record)}; published with, and in wildspec bench scored by, "
        f"{record['default_detector']}.\n",
    )
    entries = []
    for h in HPARAMS[record["name"]]:
        search = f"; search {h.search}" if h.search is not None else ""
        entries.append((f"{h.name} = {h.default}", [f"{h.meaning}{search} ({h.source})"]))
    print_entries(entries)
    rows = []
    for preset, stages in record["stages"].items():
        for stage in stages:
            batch = f"{stage['batch_labelled']}" + (f" + {stage['batch_wild']} wild" if stage["batch_wild"] else "")
            how = [stage["optimizer"], stage["schedule"]]
            rows.append([preset, stage["name"], *how, f"{stage['epochs']:g}", batch, f"{stage['lr']:g}"])
    print_table(["preset", "stage", "optimizer", "schedule", "epochs", "batch", "rate"], rows, words=4)
