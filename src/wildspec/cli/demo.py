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


# The rows of the table, a group at a time: the paper's view, the user's view, the decision.
ROWS: dict[str, dict[str, str]] = {
    "ID against unknown": {
        "id_acc": "ID-Acc ↑", "ood_acc": "OOD-Acc ↑", "fpr95_id": "FPR95 ↓", "auroc": "AUROC ↑",
    },
    "ID + cov. against it": {
        "covariate_acceptance": "cov. accepted ↑", "fs_fpr95": "fs_fpr95 ↓", "fs_auroc": "fs_auroc ↑",
    },
    "at default threshold": {
        "id_kept": "ID kept ↑", "covariate_kept": "cov. kept ↑", "detection_rate": "unknown rejected ↑",
        "accuracy_kept": "accuracy of kept ↑", "joint": "joint ↑",
    },
}  # fmt: skip


def _show(document: dict[str, Any], out: Path) -> None:
    from textwrap import fill

    from wildspec.bench.demo import summary
    from wildspec.bench.render import per_cent

    over = "one seed" if document["seeds"] == 1 else f"mean ± standard deviation over {document['seeds']} seeds"
    contestants = summary(document, [metric for group in ROWS.values() for metric in group])
    rows: list[list[str]] = []
    for group, metrics in ROWS.items():
        rows.append([group, *("" for _ in contestants)])
        rows += [[f"  {title}", *(per_cent(*one[metric]) for one in contestants)] for metric, title in metrics.items()]
    titles = ["", *(fill(one["title"], 13) for one in contestants)]
    print_table(titles, rows, title=f"Digits, per cent, {over}")
    if document["quick"]:
        show("--quick: the networks saw a few steps only; the numbers mean nothing.")
    show(
        "ID: clean digits 0-5. Covariate (cov.): noisy ones. Unknown: digits 6-9. FPR95: unknown accepted when 95 % of ID "
        "are kept, fs_fpr95: when 95 % of ID and covariate together are. The default threshold saw no test image. Joint: "
        "harmonic mean of OOD-Acc, cov. kept and unknown rejected."
    )
    typer.echo(
        f"{document['seconds']:.0f} s. Trained models are in {out}. Next: wildspec evaluate {out / 'spectral+-seed0'}"
    )
