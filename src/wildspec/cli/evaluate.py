"""``wildspec evaluate``: a bundle on test samples, by its own decision or by any detectors, one table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json, print_table, show
from wildspec.cli.typed import counts_only

app = typer.Typer()

COLUMNS = {  # two short words each: ten columns fit 80 characters
    "id_acc": "ID\nacc", "ood_acc": "OOD\nacc", "fpr95_id": "FPR\n95", "auroc": "AU\nROC", "fs_fpr95": "fs\nFPR",
    "fs_auroc": "fs\nROC", "id_kept": "ID\nkept", "covariate_kept": "cov.\nkept", "detection_rate": "unk.\nrej.",
    "joint": "joint",
}  # fmt: skip
IN_WORDS = {  # of one decision, a line each
    "id_acc": "known samples given their class (ID accuracy)", "ood_acc": "shifted samples given their class (OOD accuracy)",
    "fpr95_id": "unknown kept where 95 % of known are (FPR95)", "auroc": "known told from unknown (AUROC)",
    "fs_fpr95": "FPR95, known and shifted together", "fs_auroc": "AUROC, known and shifted together",
    "id_kept": "known kept", "covariate_kept": "shifted kept", "detection_rate": "unknown rejected",
    "joint": "joint (harmonic mean of OOD accuracy, shifted kept, rejected)",
}  # fmt: skip
MOST_CLASSES = 20  # lines; --json has all
FEW = 5  # classes without samples that are named


@app.command(
    "evaluate",
    epilog="Example:\n\nwildspec evaluate MODEL --test DIR --shifted DIR --unknown DIR\n\n"
    "wildspec evaluate MODEL --detector knn:k=20,energy --test DIR\n\n"
    "wildspec evaluate MODEL --test A.parquet --unknown B.parquet",
)
def evaluate(
    context: typer.Context,
    model: shared.Model,
    test: shared.Test = None,
    covariate: shared.Covariate = None,
    semantic: shared.Semantic = None,
    detector: Annotated[
        str | None,
        typer.Option(help="For a network that was trained: detectors to compare, with commas: NAME, NAME:KEY=VALUE, or all. "
                     "They are fitted on the images the model learned from."),
    ] = None,
    labelled: Annotated[
        str | None, typer.Option(help="For --detector: where the labelled images of the fit are now, if they were moved.")
    ] = None,
    wild: Annotated[str | None, typer.Option(help="For --detector: where the wild images of the fit are now.")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="For --detector: share of known samples that may be rejected; default: the model's.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
    device: shared.Device = "auto",
    as_json: shared.AsJson = False,
) -> None:
    """Measure a model on test samples: how many it names right, keeps and rejects.

    Without --test the labelled images that were held out at the fit stand in for it; embeddings need --test.

    Exit status 1: a detector of --detector could not be used.
    """
    from wildspec.bundle.manifest import check_bundle, check_outside
    from wildspec.checks import open_fraction
    from wildspec.data.paths import check_there

    check_bundle(model)
    if detector is None:
        counts_only(context, "with --detector", "alpha", "labelled", "wild")
    if alpha is not None:
        open_fraction("--alpha", alpha)
    for item in (test, covariate, semantic, labelled, wild):
        check_there(item, "samples of the kind that the model takes")
    from wildspec.files import check_out, sha256_file, write_json

    if out is not None:
        check_outside(out)
        check_out(out, test, covariate, semantic, labelled, wild)
    from wildspec.loading import load
    from wildspec.provenance import environment

    estimator = load(model, device=device)
    rate = float(estimator.alpha) if alpha is None else alpha
    given = {"id": test, "covariate": covariate, "semantic": semantic}
    if hasattr(estimator, "fitted_"):
        names = None if detector is None else shared.words(detector)
        facts, found = _images(estimator, given, names, labelled, wild, rate)
        facts["weights"] = sha256_file(model / "weights.safetensors")
    else:
        facts, found = _embeddings(estimator, given, detector)
    document = {
        "run": model.resolve().name, **facts, "alpha": rate if detector else float(estimator.alpha),
        "per_class": bool(estimator.per_class) and not detector, "detectors": found,
        "environment": environment(),
    }  # fmt: skip
    if out is not None:
        write_json(out, document)
    if as_json:
        print_json(document)
    else:
        _tell(document)
    raise typer.Exit(1 if any(one["refused"] for one in found) else 0)


def _images(
    estimator: Any, given: dict[str, str | None], names: list[str] | None, labelled: str | None, wild: str | None,
    alpha: float,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Facts about the model, and one row for each detector."""
    from wildspec.detectors import names_for
    from wildspec.errors import InputError
    from wildspec.evaluation import evaluate, evaluate_detectors
    from wildspec.images.data_spec import open_again
    from wildspec.images.frozen_decision import FrozenDecision
    from wildspec.images.own_tests import held_out_answers, held_out_class_rates, open_tests

    fitted, training = estimator.fitted_, estimator.record_["training"]
    facts = {
        "method": training["method"], "seed": training["seed"], "environments": training.get("environments"),
        "known": "test samples" if given["id"] else "labelled images held out",
    }  # fmt: skip
    tests: dict[str, Any] = dict(open_tests(estimator, given))
    facts["samples"] = {"id": estimator.metrics_["validation"]["count"], **{key: len(one) for key, one in tests.items()}}
    if names is None:
        found = evaluate(estimator, **tests) if "id" in tests else held_out_answers(estimator, **tests)
        rates = _rates(estimator, tests["id"]) if "id" in tests else held_out_class_rates(estimator)
        own = fitted.decision.detector
        return facts, [_row(own.name, own.config(), found.to_json(), rates)]
    if isinstance(fitted.decision, FrozenDecision):
        raise InputError("a model on a frozen network has one decision, its own; leave out --detector")
    again = open_again(estimator.record_, fitted.preprocess.size, labelled=labelled, wild=wild)
    parts = again.parts
    judged = evaluate_detectors(
        fitted.model, train=parts.train, wild=parts.wild, calibration=parts.calibration,
        **{"id": parts.validation, **tests}, detectors=names_for(fitted.model) if names == ["all"] else names,
        preprocess=fitted.preprocess, alpha=alpha,
    )  # fmt: skip
    return facts, [{"detector": name, **one.to_json()} for name, one in judged.items()]


def _embeddings(
    estimator: Any, given: dict[str, str | None], detector: str | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from wildspec.embeddings.table_rows import class_places, finite_rows, taught_rows
    from wildspec.errors import InputError
    from wildspec.evaluation import evaluate
    from wildspec.images.own_tests import WORDS, new_rows
    from wildspec.serving.inputs import open_embeddings

    if detector is not None:
        raise InputError("a model of embeddings has one decision, its own; leave out --detector")
    if given["id"] is None:
        raise InputError("a bundle of embeddings keeps no held-out samples; give --test, a table with a column label")
    sets: dict[str, Any] = {}
    for name, path in given.items():
        if path is not None:
            table = open_embeddings([path], estimator.n_features_in_)[0]
            _, rows, good = finite_rows(table)
            if name == "semantic":
                sets[name] = rows
            else:
                new, _ = new_rows(taught_rows(estimator, rows), WORDS[name], "samples")
                sets[name] = (rows[new], estimator.classes_[class_places(table, estimator.classes_)[good]][new])
    facts: dict[str, Any] = {"method": "spectral", "seed": None, "environments": None, "known": "test samples"}
    facts["samples"] = {name: len(one if name == "semantic" else one[0]) for name, one in sets.items()}
    return facts, [_row("own", {}, evaluate(estimator, **sets).to_json(), _rates(estimator, sets["id"]))]


def _rates(estimator: Any, known: Any) -> list[Any]:
    """How often each class of the test samples is rejected."""
    from wildspec.decision.class_rates import class_rates
    from wildspec.evaluation.own_decision import answers

    found = answers(estimator, known, "id")
    return class_rates(found.labels, found.rejected, estimator.classes_.tolist())


def _row(name: str, config: dict[str, Any], evaluation: dict[str, Any], rates: list[Any]) -> dict[str, Any]:
    classes = [one.to_json() for one in rates]
    return {"detector": name, "config": config, "refused": None, "evaluation": evaluation, "classes": classes}


def _tell(document: dict[str, Any]) -> None:
    shown = {one["detector"]: one["evaluation"] for one in document["detectors"] if one["evaluation"] is not None}
    columns = [name for name in COLUMNS if any(one[name] is not None for one in shown.values())]
    if shown and len(document["detectors"]) == 1:
        ((title, found),) = shown.items()
        rows = [[IN_WORDS[name], f"{100 * found[name]:.1f}"] for name in columns]
        print_table(["measured", "per cent"], rows, title=f"{document['method']}, {title}")
        count = document["samples"]
        others = (("shifted", "covariate"), ("unknown", "semantic"))
        sets = [f"Known: {count['id']:,} {document['known']}"]
        sets += [f"{name}: {count[key]:,}" for name, key in others if key in count]
        show(f"{'; '.join(sets)}. Kept and rejected: at the model's own threshold.")
    elif shown:
        rows = [
            [title, *("–" if found[name] is None else f"{100 * found[name]:.1f}" for name in columns)]
            for title, found in shown.items()
        ]
        print_table(["detector", *(COLUMNS[name] for name in columns)], rows, title=f"{document['method']}, per cent")
        show(
            f"ID: {document['known']}. fs: ID and covariate together against unknown. Kept, rejected: at the threshold "
            "calibrated on images that nothing was learned from."
        )
    for one in document["detectors"]:
        if one.get("classes"):
            _tell_classes(one["classes"], document)
    show(*(f"{one['detector']} cannot be used here: {one['refused']}" for one in document["detectors"] if one["refused"]))


def _tell_classes(classes: list[dict[str, Any]], document: dict[str, Any]) -> None:
    """One line for each of a few classes, and the worst in words."""
    from wildspec.decision.calibration import samples_needed
    from wildspec.decision.class_rates import ClassRate, rates_in_words
    from wildspec.files import plain

    rates = [ClassRate(one["class"], one["count"], one["rejected"], *one["interval"]) for one in classes]
    shown = sorted((one for one in rates if one.count), key=lambda one: -one.low)[:MOST_CLASSES]
    rows = []
    for one in shown:
        rate, low, high = (f"{100 * value:.1f}" for value in (one.rejected / one.count, one.low, one.high))
        rows.append([plain(one.name), f"{one.count:,}", f"{one.rejected:,}", rate, f"{low} to {high}"])
    print_table(["class", "samples", "rejected", "per cent", "95 % interval"], rows, title="rejected class by class")
    seen = [one for one in rates if one.count]
    if sum(one.count for one in seen) > document["samples"]["id"]:
        show("Here the images that the threshold rests on count too, each judged by the threshold that the others give.")
    if len(shown) < len(seen):
        show(f"{len(shown)} of {len(seen):,} classes shown, the worst first; --json has all.")
    if len(seen) < len(rates):
        missing = [plain(one.name) for one in rates if not one.count]
        more = f" and {len(missing) - FEW:,} more" if len(missing) > FEW else ""
        show(f"No samples of {', '.join(missing[:FEW])}{more} among them.")
    said = rates_in_words(seen, document["alpha"], samples_needed(document["alpha"]), "samples", own=document["per_class"])
    show(plain(f"{said[:1].upper()}{said[1:]}."))
