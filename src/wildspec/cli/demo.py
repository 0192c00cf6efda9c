"""``wildspec demo``: see it work on real images that need no download."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json, print_table, show

app = typer.Typer()


@app.command("demo", epilog="Example:\n\nwildspec demo\n\nwildspec demo --seeds 1 --json")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for models and demo.json; replaces an earlier one.")] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Splits and networks to average over.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="A few steps only: shows that it runs, not what it can.")] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Train a cross-entropy baseline, the paper's learner and ours on handwritten digits and compare them in one table.

    Known classes are the digits 0-5. The wild pool holds some of them, clean and noisy, and some of the digits 6-9.

    Takes about two minutes on two cores.
    """
    import sys

    from wildspec.bench.demo import run_demo

    document = run_demo(out, seeds=seeds, quick=quick, say=lambda line: print(line, file=sys.stderr, flush=True))
    if as_json:
        print_json(document)
    else:
        _show(document, out)


# The columns of the table; all other figures are in demo.json.
COLUMNS = {
    "id_kept": "known\nkept", "covariate_kept": "shifted\nkept", "detection_rate": "unknown\nrejected",
    "fs_auroc": "told\napart", "accuracy_kept": "right\nclass",
}  # fmt: skip
NAMES = {  # where a method is called otherwise in demo.json
    "cross-entropy + energy": "cross-entropy, energy", "cross-entropy + KNN": "cross-entropy, nearest neighbours",
    "spectral + KNN (the paper)": "the paper's learner, nearest neighbours",
    "spectral+, joint decision": "wildspec (spectral+)",
}  # fmt: skip


def _show(document: dict[str, Any], out: Path) -> None:
    from wildspec.bench.demo import summary
    from wildspec.bench.render import per_cent

    over = "one seed" if document["seeds"] == 1 else f"mean ± standard deviation over {document['seeds']} seeds"
    rows = [
        [NAMES.get(one["title"], one["title"]), *(per_cent(*one[metric]) for metric in COLUMNS)]
        for one in summary(document, list(COLUMNS))
    ]
    print_table(["method", *COLUMNS.values()], rows, title=f"Digits, per cent, {over}; higher is better")
    if document["quick"]:
        show("--quick: the networks saw a few steps only; the numbers mean nothing.")
    show(
        "Known: digits 0-5 as labelled. Shifted: the same digits, noisy, which no label shows. Unknown: digits 6-9. Kept, "
        "rejected: at a threshold meant to keep 95 % of known digits, set on others than these. Told apart: how well scores "
        "tell unknown from known, shifted or not (AUROC); 50 is chance. Right class: of the known and shifted ones kept."
    )
    typer.echo(
        f"{document['seconds']:.0f} s. Models and further figures (demo.json) are in {out}. "
        f"Next: wildspec evaluate {out / 'spectral+-seed0'}"
    )
