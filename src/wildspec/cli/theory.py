"""``wildspec theory``: the paper's five-node example, or a world of your own, exactly and in closed form."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json, print_table, show
from wildspec.cli.typed import counts_only

if TYPE_CHECKING:
    from wildspec.theory import Comparison, FiveNode, WorldAnalysis

app = typer.Typer()

EPILOG = (
    "Examples:\n\nwildspec theory\n\nwildspec theory shared --alpha 0.03 --beta 0.05\n\n"
    "wildspec theory --out figures\n\nwildspec theory --classes 5 --unknown 1 --domains 3 --more 'domain 1=4'"
)


@app.command("theory", epilog=EPILOG)
def theory(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Argument(
            help="separate: panda in its own domain; shared: it is a painting; unlabelled: no ID labels."
        ),
    ] = "separate",
    rho: Annotated[float, typer.Option(help="Weight of same class, same domain.")] = 1.0,
    alpha: Annotated[float, typer.Option(help="Weight of same class, other domain.")] = 0.05,
    beta: Annotated[float, typer.Option(help="Weight of same domain, other class.")] = 0.03,
    gamma: Annotated[float, typer.Option(help="Weight of other class, other domain.")] = 0.0,
    eta_u: Annotated[float | None, typer.Option(help="Weight of A^(u) (default: number of nodes).")] = None,
    eta_l: Annotated[float, typer.Option(help="Weight of A^(l).")] = 1.0,
    k: Annotated[
        int | None, typer.Option("-k", help="Dimension of the embedding (default: number of classes).")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="A world of so many classes instead of the five nodes.")
    ] = None,
    unknown: Annotated[int, typer.Option(help="How many of them have no labels (with --classes).")] = 1,
    domains: Annotated[int, typer.Option(help="How many domains (with --classes); 'domain 0' is labelled.")] = 2,
    more: Annotated[
        list[str] | None,
        typer.Option(help="What if: 'domain 1=4' = four times the wild data there (with --classes)."),
    ] = None,
    plane: Annotated[
        bool, typer.Option("--plane", help="Check the theorems over the whole plane of the paper's figures too.")
    ] = False,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Print eigenvectors and embedding of the five nodes too.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the figures into this folder.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Analyse the augmentation graph: spectrum, OOD accuracy and separability, exact beside the paper's closed forms."""
    common = {"rho": rho, "alpha": alpha, "beta": beta, "gamma": gamma, "eta_l": eta_l}
    if classes is None:
        counts_only(context, "with --classes", "unknown", "domains", "more")
        report = _five_node(
            scenario, {**common, "eta_u": 5.0 if eta_u is None else eta_u, "k": 3 if k is None else k}, vectors
        )
    else:
        counts_only(context, "for the five nodes, without --classes", "scenario", "vectors")
        report = _world(classes, unknown, domains, more or [], {**common, "eta_u": eta_u, "k": k})
    if plane:
        from wildspec.theory.facts import plane_facts, slope_facts

        report["plane"], report["slopes"] = plane_facts(), slope_facts()
    if out is not None:
        report["files"] = _write_figures(out, gamma / rho, 5.0 if eta_u is None else eta_u, eta_l)
    shown = report.pop("show")
    if as_json:
        from wildspec.provenance import environment

        report["environment"] = environment()
        print_json(report)
        return
    shown()
    if plane:
        _print_plane(report["plane"], report["slopes"])
    for path in report.get("files", []):
        typer.echo(f"wrote {path}")


def _five_node(scenario: str, parameters: dict[str, Any], vectors_too: bool) -> dict[str, Any]:
    from wildspec.theory import five_node
    from wildspec.theory.first_order import first_order_of
    from wildspec.theory.theorems import FIVE_NODE_THEOREMS

    world = five_node(scenario, **parameters)
    form = first_order_of(world) if world.alpha > 0 and world.beta > 0 else None
    values, vectors = world.eigen
    sides: dict[str, Any] = {"exact": _side(world, values, vectors, world.graph.adjacency())}
    parts = {"transition": world.transition, "A_u": world.graph.self_supervised(), "A_l": world.graph.supervised()}
    theorems = []
    if form is not None:
        sides["first_order"] = _side(form, form.values, form.vectors, form.adjacency)
        point = (world.alpha / world.rho, world.beta / world.rho, world.gamma / world.rho)
        for check in (theorem(*point) for theorem in FIVE_NODE_THEOREMS.values()):
            theorems.append(vars(check))
    report = {"scenario": scenario, **parameters, "wins": _wins(world), "split_eigenspace": world.split}
    report |= {name: part.tolist() for name, part in parts.items()} | sides
    report["theorems"] = theorems

    def tell() -> None:
        _print_five_node(world, report)
        if vectors_too:
            _print_vectors(world, report)

    report["show"] = tell
    return report


def _side(solved: Any, values: Any, vectors: Any, adjacency: Any) -> dict[str, Any]:
    """One column of the comparison as plain values."""
    return {
        "eigenvalues": values.tolist(),
        "eigenvectors": vectors.T.tolist(),
        "adjacency": adjacency.tolist(),
        "embedding": solved.embedding.tolist(),
        "predictions": solved.probe.scores.tolist(),
        "probe_error": solved.probe.mean,
        "probe_error_count": solved.probe.count,
        "separability": solved.separability,
    }


def _wins(world: "FiveNode") -> str:
    """What the k kept directions say about the paintings."""
    return "class" if world.probe.count == 0 else "domain"


def _print_five_node(world: "FiveNode", report: dict[str, Any]) -> None:
    exact, form = report["exact"], report.get("first_order")
    show(
        f"Five-node example, scenario {world.scenario}: rho={world.rho:g} alpha={world.alpha:g} "
        f"beta={world.beta:g} gamma={world.gamma:g} eta_u={world.eta_u:g} eta_l={world.eta_l:g} k={world.k}"
    )
    paintings = [f"{picture} painting: {name}" for picture in ("angel", "tiger") for name in ("angel", "tiger")]
    kept = [f"lambda_{i + 1}{'' if i < world.k else ' (not kept)'}" for i in range(5)]
    names = [*kept, *paintings, "E(f), OOD error", "S(f), separability"]
    columns = [
        [*side["eigenvalues"], *side["predictions"][0], *side["predictions"][1], side["probe_error"], side["separability"]]
        for side in (exact, form)
        if side is not None
    ]
    rows = []
    for name, value, *printed in zip(names, *columns, strict=True):
        other = (f"{printed[0]:.5f}", f"{value - printed[0]:+.1e}") if printed else ("-", "-")
        rows.append([name, f"{value:.5f}", *other])
    print_table(["", "exact", "first order", "difference"], rows)
    wrong = exact["probe_error_count"]
    show(
        f"{'Classes' if wrong == 0 else 'Domains'} win: {2 - wrong} of 2 paintings are recognised from labelled sketches"
        + (" (the k-th eigenvalue is repeated: a tie)" if world.split else ".")
    )
    if world.scenario != "shared" and world.alpha > 0:
        from wildspec.theory import critical_beta, critical_ratio

        label = 0.0 if world.scenario == "unlabelled" else world.eta_l
        limit = critical_beta(world.alpha / world.rho, world.eta_u, label) * world.rho
        line = critical_ratio(world.eta_u, label) * world.alpha
        found = f"domains win above beta = {limit:.5g}" if limit < world.rho else "classes win for every beta"
        show(f"At this alpha {found} (first order: {line:.5g}; gamma = 0).")
    if report["theorems"]:
        show("\nThe theorems at this alpha', beta', gamma' (with the paper's eta_u=5, eta_l=1, k=3):")
        checks = []
        for check in report["theorems"]:
            worst = f"{max(check['errors'].values()):.1e}"
            checks.append([check["theorem"], check["statement"], "holds" if check["holds"] else "fails", worst])
        print_table(["theorem", "claim", "here", "largest error"], checks, words=2)


def _print_vectors(world: "FiveNode", report: dict[str, Any]) -> None:
    """V_k and Z node by node. Printed vectors take the order and the signs of the exact ones they are closest to."""
    import numpy as np

    from wildspec.theory.five_node import NODES

    exact, form = report["exact"], report.get("first_order")
    overlaps = np.zeros((5, 5)) if form is None else np.array(exact["eigenvectors"]) @ np.array(form["eigenvectors"]).T
    match = np.abs(overlaps).argmax(axis=1)  # repeated eigenvalues come in either order
    signs = np.sign(overlaps[np.arange(5), match])

    def line(values: Any) -> str:
        return " ".join(f"{value:6.3f}" for value in np.where(np.abs(values) < 5e-4, 0.0, values))

    tables = {"V_k, eigenvectors as columns": "eigenvectors", "Z, the embedding": "embedding"}
    for title, name in tables.items():
        sides = [np.array(side[name]) for side in (exact, form) if side is not None]
        sides = [side.T if name == "eigenvectors" else side for side in sides]  # (5, 5) or (5, k): a row for each node
        if form is not None:
            sides[1] = sides[1][:, match[: world.k]] * signs[: world.k]
        both = [side[:, : world.k] for side in sides]
        rows = [[label, *map(line, each)] for label, *each in zip(NODES, *both, strict=True)]
        print_table(["node", "exact", *([] if form is None else ["first order"])], rows, title=title)


def _print_plane(facts: dict[str, Any], slopes: dict[str, Any]) -> None:
    rows = []
    for name, value in facts.items():
        numbers = value if isinstance(value, list) else [value]
        rows.append([name, " .. ".join(f"{number:g}" for number in numbers)])
    print_table(["over the plane alpha', beta' in [0.002, 0.1]", ""], rows)
    powers = [
        [name, part, str(sides["classes win"][part]), str(sides["domains win"][part])]
        for name, sides in slopes.items()
        for part in sides["classes win"]
    ]
    print_table(["theorem", "error of", "power, classes win", "power, domains win"], powers, words=2)


def _world(
    classes: int, unknown: int, domains: int, more: list[str], parameters: dict[str, Any]
) -> dict[str, Any]:
    from wildspec.checks import integer
    from wildspec.theory import domain_class_graph, what_if

    integer("--classes", classes, minimum=1)
    integer("--unknown", unknown, minimum=0, maximum=classes - 1)
    novel = [f"class {i}" for i in range(classes - unknown, classes)]
    world = domain_class_graph(classes, domains, "domain 0", unknown=novel, **parameters)
    factors = dict(_factor(text) for text in more)
    answer = what_if(world, more=factors) if factors else None
    report: dict[str, Any] = world.to_dict()
    if answer is not None:
        report["what_if"] = {"more": factors, "verdict": answer.verdict, **answer.after.to_dict()}
    report["show"] = lambda: _print_world(world, answer)
    return report


def _factor(text: str) -> tuple[str, float]:
    from wildspec.errors import InputError

    place, _, factor = text.partition("=")
    try:
        return place.strip(), float(factor)
    except ValueError:
        raise InputError(f"--more must look like 'domain 1=4', got {text!r}") from None


def _print_world(world: "WorldAnalysis", answer: "Comparison | None") -> None:
    sides = [world] if answer is None else [world, answer.after]
    get: dict[str, Any] = {
        "OOD accuracy": lambda side: side.ood_accuracy,
        **{f"  in {domain}": lambda side, d=domain: side.by_domain().get(d) for domain in world.by_domain()},
        "ID accuracy": lambda side: side.id_accuracy,
        "S(f), separability": lambda side: side.separability,
        "  of unit vectors": lambda side: side.angular_separability,
        "class strength": lambda side: side.connectivity.class_strength,
        "domain strength": lambda side: side.connectivity.domain_strength,
        "class contrasts kept": lambda side: side.connectivity.class_captured,
        "domain contrasts kept": lambda side: side.connectivity.domain_captured,
    }
    rows = [[name, *(_number(value(side)) for side in sides)] for name, value in get.items()]
    rows.append(["stronger", *(side.winner for side in sides)])
    show(f"World of {len(world.cells)} cells, k={world.k}")
    print_table(["", "predicted"] if answer is None else ["", "now", "what if"], rows)
    if answer is not None:
        show(f"The change {answer.verdict}.")
    if world.clean_k != world.k:
        better = f"-k {world.clean_k}" if world.clean_k is not None else "a smaller -k"
        show(f"k = {world.k} cuts through a repeated eigenvalue, so this rests on a convention; try {better}.")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _write_figures(folder: Path, gamma: float, eta_u: float, eta_l: float) -> list[str]:
    """PNG files, each whole or absent."""
    from wildspec.files import replacing
    from wildspec.theory.figures import FIGURES

    written = []
    for name, draw in FIGURES.items():
        options = (
            {"gamma": gamma, "eta_u": eta_u, "eta_l": eta_l}
            if name in ("surface", "difference", "eigenvalues")
            else {}
        )
        path = folder / f"theory-{name}.png"
        with replacing(path) as temporary:
            draw(**options).savefig(temporary, dpi=150, format="png")
        written.append(str(path))
    return written
