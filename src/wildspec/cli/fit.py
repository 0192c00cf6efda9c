"""``wildspec fit``: labelled images and wild ones to a model bundle."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json, print_next
from wildspec.cli.typed import counts_only, left_out, typed

app = typer.Typer()

OF_EMBEDDINGS = (  # what counts with --from-embeddings
    "labelled", "wild", "out", "alpha", "from_embeddings", "answers", "as_json", "seed", "shift", "per_class", "held_out",
)  # fmt: skip


@app.command(
    "fit",
    epilog="Example:\n\nwildspec fit --labelled DIR --wild DIR --out MODEL\n\n"
    "wildspec fit --end-to-end --minutes 20 --labelled DIR --wild DIR --out MODEL\n\n"
    "wildspec fit --from-embeddings --labelled A.parquet --wild B.parquet --out MODEL",
)
def fit(
    context: typer.Context,
    labelled: Annotated[str, typer.Option(help=shared.LABELLED)],
    out: Annotated[Path, typer.Option(help="Bundle to write; one that is there is replaced.")],
    wild: shared.Wild = None,
    minutes: Annotated[
        float | None, typer.Option(help="Time limit for everything. With --end-to-end the schedule is shortened to fit; a "
        "frozen network that needs longer is refused early. Default: none; a network trained on a CPU gets ten minutes, a "
        "large one as many as it needs at least.")
    ] = None,
    alpha: shared.Alpha = 0.05,
    from_embeddings: Annotated[
        bool, typer.Option("--from-embeddings", help="The files hold embeddings: no training, seconds on a CPU.")
    ] = False,
    answers: shared.Answers = None,
    as_json: shared.AsJson = False,
    method: Annotated[
        str, shared.how(help="Training method, one of: wildspec methods. auto: on a CPU without --epochs pu (erm without "
        "--wild); on a GPU with fewer than 10,000 labelled images pu; else, and with --set, spectral+ (spectral).")
    ] = "auto",
    epochs: shared.Epochs = None,
    preset: shared.Preset = "fast",
    change: Annotated[
        list[str] | None,
        shared.how("--set", metavar="<str>", help="Hyper-parameter of the method, NAME=VALUE; repeat for more."),
    ] = None,
    backbone: shared.Backbone = "auto",
    frozen: Annotated[
        bool | None,
        shared.how("--frozen/--end-to-end", help="Take the network as it is, or train one. Default: frozen, if the "
                   "network brings weights (auto: efficientnet_lite0) and no option trains one."),
    ] = None,
    init: shared.Init = None,
    size: shared.Size = None,
    flip: shared.Flip = True,
    device: shared.Device = "auto",
    seed: shared.Seed = 0,
    detector: shared.Detector = "auto",
    shift: shared.Shift = None,
    per_class: shared.PerClass = False,
    held_out: shared.HeldOut = 0.2,
    groups: Annotated[
        str | None, shared.more(metavar="<pattern>", help="For frames of one film, crops of one slide: a regular expression "
        "such as 'film[0-9]+'. Images in whose names it matches the same text are learned from, or held out, together. "
        "Takes more labelled images.")
    ] = None,
    max_unreadable: shared.MaxUnreadable = 0.05,
    pictures: shared.Pictures = True,
    cache: shared.Cache = None,
    no_cache: Annotated[
        bool, shared.more("--no-cache", help="Keep no features of the frozen network for the next fit.")
    ] = False,
) -> None:
    """Learn to classify and to reject from labelled and wild images; write one bundle.

    Unless told otherwise it takes a pre-trained network as it is (frozen): minutes on two cores.

    --end-to-end trains a network; so does each of --method, --epochs, --set, --detector, --init and --preset paper.
    """
    from wildspec.bundle.target import check_target
    from wildspec.cli.answers import EarlierAnswers
    from wildspec.data.paths import EMBEDDINGS, IMAGES, check_there
    from wildspec.errors import InputError

    check_target(out)
    if no_cache and cache is not None:
        raise InputError("--no-cache keeps nothing, --cache DIR keeps decoded pixels: give one of them")
    earlier = EarlierAnswers(answers, "row" if from_embeddings else "image", wild)
    for item in (labelled, wild):
        check_there(item, EMBEDDINGS if from_embeddings else IMAGES)
    if from_embeddings:
        if extra := left_out(context, (name for name in typed(context) if name not in OF_EMBEDDINGS)):
            raise InputError(f"--from-embeddings trains nothing; leave out {extra}")
        from wildspec.cli.embed_fit import fit_embeddings

        fit_embeddings(
            labelled, wild, out, earlier, as_json, seed=seed, alpha=alpha, held_out=held_out, per_class=per_class,
            shift="auto" if shift is None else shift,
        )  # fmt: skip
        return
    if wild is None:
        counts_only(context, "with --wild", "shift")
    import warnings

    from wildspec.images.classifier import NO_WILD, WildClassifier
    from wildspec.images.options import Files, Training
    from wildspec.training.distributed import announced
    from wildspec.training.recipe import parse_changes

    if (count := announced()) > 1:  # each would calibrate for itself and write the same bundle
        raise InputError(
            f"wildspec fit runs in one process, torchrun started {count}; call it alone, or train over several with "
            "torchrun -m wildspec train"
        )
    training = Training(
        method, preset, epochs=epochs, detector=detector, hparams=parse_changes(change or []) or None, flip=flip
    )
    model = WildClassifier(
        backbone=backbone, init=init, training=_asked(context, training, frozen, backbone, init), minutes=minutes,
        shift="auto" if shift is None else shift, alpha=alpha, per_class=per_class, held_out=held_out, size=size,
        files=Files(cache=False if no_cache else cache, pictures=pictures, max_unreadable=max_unreadable), device=device,
        random_state=seed, verbose=not as_json,
    )  # fmt: skip
    if answers is not None:
        from wildspec.images.review import check_can_ask

        check_can_ask(model)
    with warnings.catch_warnings():
        if wild is None:  # as a line of ours, not as one of Python's with a place in our code
            typer.echo(f"warning: {NO_WILD}", err=True)
            warnings.filterwarnings("ignore", message=NO_WILD[:30])
        model.fit(labelled, wild, groups)
    if "flip" in typed(context) and model.record_["training"]["method"] == "frozen":
        typer.echo(f"note: {left_out(context, ['flip'])} counts only where a network is trained", err=True)
    taught = earlier.teach(model, out, lambda: _save(model, out))
    _save(model, out)
    if as_json:
        record = {"out": str(out), "threshold": model.threshold_, "per_class": per_class}
        record |= {**model.record_, **earlier.counts()}
        print_json(record)
    else:
        if taught:
            typer.echo(taught)
        _tell(model, out, labelled, wild)


def _asked(context: typer.Context, training: Any, frozen: bool | None, backbone: str, init: Path | None) -> Any:
    """``training`` of `wildspec.WildClassifier`: the typed one, None (frozen) or "auto". An option about training asks for
    one; --no-flip alone does not, and counts where there is one."""
    from wildspec.errors import InputError
    from wildspec.images.choosing import choose_way
    from wildspec.images.options import Training

    about_training = training != Training(flip=training.flip)
    if frozen and about_training:
        given = left_out(context, ("method", "epochs", "change", "preset", "detector"))
        raise InputError(f"a frozen backbone is not trained: leave out {given}, or take --end-to-end")
    if frozen is None and not about_training:
        if training.flip:
            return "auto"
        frozen = choose_way("auto", backbone, init) == "frozen"
    return None if frozen else training


def _save(model: Any, out: Path) -> None:
    """Where it should be or, when the disk has filled up in the meantime, where there is room: learning took long."""
    import shutil
    import tempfile

    from wildspec.errors import DataError

    try:
        model.save(out)
    except DataError as error:
        room = Path(tempfile.mkdtemp(prefix="wildspec-"))
        try:
            model.save(room / out.name)
        except DataError:
            shutil.rmtree(room, ignore_errors=True)
            raise error from None
        raise DataError(f"{error}; the model is kept in {room / out.name}") from error


def _tell(model: Any, out: Path, labelled_from: str | None = None, wild_from: str | None = None) -> None:
    """What came of it, in a few lines, and what to type next."""
    from wildspec.data.folder import not_read
    from wildspec.data.inputs import in_words, passed_over
    from wildspec.decision.shift import FEWEST
    from wildspec.images.decided import stored_rates
    from wildspec.images.train import duration
    from wildspec.report.facts import FIRM
    from wildspec.report.words import (
        broken_promise,
        cautious,
        class_words,
        hardly_better,
        hidden_classes,
        mostly_rejected,
        pool_in_words,
        shift_in_words,
    )

    record, found = model.record_, model.metrics_["validation"]
    labelled, wild = record["data"]["labelled"], record["data"]["wild"]
    for name, part in (("labelled", labelled), ("wild", wild)):
        if part and part["unreadable"]:
            first = part["unreadable_first"][0]
            many = f"{part['unreadable']:,} {name} files" if part["unreadable"] > 1 else f"1 {name} file"
            typer.echo(f"{many} could not be read and left out, first {first['name']}: {first['reason']}")
    if wild and wild["repeated"]:
        count, first = wild["repeated"], wild["repeated_first"][0]
        many = f"{count:,} wild images are labelled ones too" if count > 1 else "1 wild image is a labelled one too"
        typer.echo(f"{many}, pixel for pixel: left out of the pool, first {first}")
    for name, given in (("labelled", labelled_from), ("wild", wild_from)):
        if told := in_words(not_read(given), f"{name} file", given):
            typer.echo(told)
    if told := passed_over([labelled_from, wild_from]):
        typer.echo(told)
    typer.echo(
        f"validation ({found['count']} labelled images held out): accuracy {found['accuracy']:.1%}, "
        f"kept {found['kept']:.1%}, accuracy among kept "
        + ("–" if found["accuracy_kept"] is None else f"{found['accuracy_kept']:.1%}")
    )
    if "calibration_error" in found and found["count"] >= FIRM:
        typer.echo(f"probabilities are off by {100 * found['calibration_error']:.1f} points on average (calibration error)")
    evidence = model.fitted_.evidence
    truth, likely = evidence["validation.label"].numpy(), evidence["validation.likely"].numpy()
    if warning := hardly_better(truth, likely):
        typer.echo(warning)
    for line in hidden_classes(truth, likely, model.classes_.tolist()):
        typer.echo(line)
    calibration = model.fitted_.decision.calibration
    if warning := broken_promise(calibration, 1 - found["kept"], found["count"]):
        typer.echo(f"kept should be {1 - calibration.alpha:.0%} or more. {warning}")
    if warning := cautious(calibration):
        typer.echo(warning)
    if rates := stored_rates(model.metrics_):
        typer.echo(class_words(rates, calibration, calibration.alpha, "images"))
    if wild:
        rejected = model.metrics_["wild"]["rejected"]
        typer.echo(f"wild: {rejected:,} of {wild['count']:,} images look like none of your {len(model.classes_)} classes")
        mixture = getattr(calibration, "mixture", None)
        if mixture is not None:
            typer.echo(f"estimated without the threshold: {pool_in_words(mixture)}")
        if "unknown_interval" in model.metrics_["wild"]:
            low, high = (round(wild["count"] * share) for share in model.metrics_["wild"]["unknown_interval"])
            typer.echo(f"estimated: {low:,} to {high:,} of them belong to none of your classes")
        decision = model.fitted_.decision
        if record["training"]["method"] == "frozen" and (said := shift_in_words(decision.thresholds.raised(decision.rule))):
            typer.echo(said)
        if why := mostly_rejected(rejected, wild["count"]):
            typer.echo(why)
    typer.echo(f"{out} written after {duration(record['provenance']['seconds'])}. Next:")
    frozen = record["training"]["method"] == "frozen"
    asks = ("review {}",) if frozen and wild and wild["count"] >= FEWEST else ()
    print_next(out, "score {} IMAGES --out scores.csv", "report {} --out report.html", *asks, "serve {}")
