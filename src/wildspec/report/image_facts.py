"""The facts about an image model: from its bundle alone, or with images to judge it on."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from wildspec.bundle.gallery import Gallery
from wildspec.data.load import decode_all, readable
from wildspec.data.source import ImageSource, SubsetSource
from wildspec.decision.review import Learned
from wildspec.decision.verdicts import Verdicts, join
from wildspec.errors import DataError, InputError
from wildspec.images.own_tests import held_out_class_rates, taught_images
from wildspec.images.pictures import WILD_SIDE
from wildspec.images.train import duration
from wildspec.methods import METHODS
from wildspec.report.assemble import NEAREST, TITLES, Labelled, ReportedPool, put_together, rows_shown
from wildspec.report.facts import About, Facts, Group, fresh_rows, moment

BLOCK = 2048  # images decoded at a time
MOST_UNREADABLE = 0.5  # of the images reported about


def gather(
    model: Any, name: str, *, wild: ImageSource | None = None, test: Any = None, covariate: Any = None,
    semantic: Any = None, seed: int = 0,
) -> Facts:  # fmt: skip
    """Facts about a fitted `WildClassifier`. ``wild``: instead of the fit's pool; ``test``, ``covariate`` labelled and
    ``semantic`` unlabelled image sets in memory."""
    fitted, about = model.fitted_, _about(model, name)
    bank, pictures = fitted.bank, fitted.pictures["labelled"]
    labelled = Labelled(
        bank.labels, bank.features.cpu().numpy(), bank.names.__getitem__, pictures.get,
        lambda rows: bank.nearest(torch.from_numpy(rows), NEAREST)[0],
    )  # fmt: skip
    pool = None
    if wild is not None:
        pool = _judged_pool(model, wild, seed, about)
    elif "wild.score" in fitted.evidence:
        pool = _stored_pool(model)
    given = {"test": test, "covariate": covariate, "semantic": semantic}
    tests = {key: _judged_group(model, key, images, about) for key, images in given.items() if images is not None}
    taught = 0 if test is not None else model.record_["data"]["labelled"].get("held_out_taught", 0)
    rates = tuple(held_out_class_rates(model))
    unknown = None if wild is not None else model.record_["metrics"].get("wild", {}).get("unknown_interval")
    return put_together(about, _validation(fitted), pool, tests, labelled, seed, rates=rates, taught=taught, unknown=unknown)


def _about(model: Any, name: str) -> About:
    fitted, record = model.fitted_, model.record_
    data, training, made = record["data"], record["training"], record["provenance"]
    versions = made["versions"]
    parts = data["labelled"]["split"]["parts"]
    weights = sum(p.numel() for p in fitted.model.parameters())
    network = fitted.network.get("name") or fitted.network.get("foreign")
    rows = [
        ("Classes", ", ".join(f"{label} ({count:,})" for label, count in data["labelled"]["per_class"].items())),
        ("Labelled images", f"{data['labelled']['count']:,}: " + ", ".join(f"{p['count']:,} {n}" for n, p in parts.items())),
        ("Wild images", f"{data['wild']['count']:,}" if data["wild"] else "none"),
    ]
    if data["wild"] and data["wild"].get("repeated"):
        rows.append(("Left out of the pool", f"{data['wild']['repeated']:,} images that are labelled ones too"))
    unreadable = data["labelled"]["unreadable"] + (data["wild"]["unreadable"] if data["wild"] else 0)
    if unreadable:
        rows.append(("Unreadable", f"{unreadable:,} files were left out"))
    rows += [
        ("Network", f"{network}, {weights:,} weights, {fitted.preprocess.size} px input"),
        ("Method", _method(training)),
        ("Training", f"{_lengths(training)}; {duration(training['seconds'])}, seed {training['seed']}"),
        ("Detector", f"{fitted.decision.detector!r}"),
        ("Threshold", fitted.decision.describe()),
        ("Made", f"{moment(made['created'])}, wildspec {versions['wildspec']}, torch {versions.get('torch', '?')}"),
    ]
    decision = fitted.decision
    told = {"created": made["created"], "command": made["command"], "version": made["versions"]["wildspec"]}
    return About(
        name, "images", fitted.classes, float(decision.threshold), decision.calibration, float(decision.alpha), rows, told
    )


def _stored_group(evidence: dict[str, torch.Tensor], key: str, title: str) -> Group:
    labels = evidence.get(f"{key}.label")
    return Group(
        key, title, evidence[f"{key}.score"].numpy(), evidence[f"{key}.rejected"].numpy(),
        evidence[f"{key}.likely"].numpy(), None if labels is None else labels.numpy(),
    )  # fmt: skip


def _validation(fitted: Any) -> Group:
    """The labelled images held out; with the probability of the likely class and the threshold, as new images would be given
    them."""
    group = _stored_group(fitted.evidence, "validation", "known, held out")
    if "validation.probability" in fitted.evidence:
        return replace(group, confidence=fitted.evidence["validation.probability"].numpy())
    if getattr(fitted, "aside", None) is None or group.labels is None:
        return group
    judged = fitted.decision.judge(fitted.aside.validation)
    return replace(group, confidence=judged.probabilities.max(axis=1), limits=judged.threshold)


def _judged_group(model: Any, key: str, images: Any, about: About) -> Group:
    if len(images) == 0:
        raise InputError(f"the {TITLES[key]} set is empty; give at least one image")
    verdicts = _judge(model, images)
    if key == "semantic":
        return Group(key, TITLES[key], verdicts.score, verdicts.rejected, verdicts.likely, limits=verdicts.threshold)
    new = fresh_rows(taught_images(images, model.fitted_.evidence), TITLES[key], about)
    labels = images.labels.cpu().numpy()
    return Group(
        key, TITLES[key], verdicts.score[new], verdicts.rejected[new], verdicts.likely[new], labels[new],
        verdicts.probability[new], verdicts.threshold[new],
    )  # fmt: skip


def _judged_pool(model: Any, source: ImageSource, seed: int, about: About) -> ReportedPool:
    """All images of a source scored, block by block: of any number of images only the verdicts are in memory."""
    if len(source) == 0:
        raise DataError("the source holds no images")
    size, blocks, unreadable = model.fitted_.preprocess.size, [], []
    for first in range(0, len(source), BLOCK):
        part = SubsetSource(source, np.arange(first, min(first + BLOCK, len(source))), labelled=False)
        pixels = np.empty((len(part), 3, size, size), dtype=np.uint8)

        def store(i: int, found: np.ndarray, into: np.ndarray = pixels) -> None:
            into[i] = found.transpose(2, 0, 1)

        failed = decode_all(part, size, store)
        unreadable += [replace(item, index=first + item.index) for item in failed]
        good = np.setdiff1d(np.arange(len(part)), [item.index for item in failed])
        blocks += [model.decide(torch.from_numpy(pixels[good[i : i + 512]])) for i in range(0, len(good), 512)]
    kept = readable(len(source), unreadable, MOST_UNREADABLE)
    verdicts = join(blocks)
    group = Group("wild", "wild", verdicts.score, verdicts.rejected, verdicts.likely, limits=verdicts.threshold)
    rows = rows_shown(group, float(model.threshold_), seed)
    told = f"{len(kept):,} images"
    if unreadable:
        told += f"; {len(unreadable):,} could not be read, first {unreadable[0].name}: {unreadable[0].reason}"
    about.rows.append(("Reported about", told))
    pictures, names = Gallery.make(source, kept, rows.tolist(), WILD_SIDE), [source.name(int(i)) for i in kept]
    return ReportedPool(
        group, verdicts.p_value, rows, [names[row] for row in rows], verdicts.features[rows],
        [pictures.get(row) for row in rows.tolist()], np.arange(len(group)), names, verdicts.features,
    )  # fmt: skip


def _stored_pool(model: Any) -> ReportedPool:
    """The fit's own pool: all of it can be listed where its names were kept, else the images that have features in the
    bundle."""
    fitted, evidence = model.fitted_, model.fitted_.evidence
    group = _stored_group(evidence, "wild", "wild")
    rows, features = evidence["wild.rows"].numpy(), evidence["wild.features"].numpy()
    pictures = [fitted.pictures["wild"].get(row) for row in rows.tolist()]
    shown = (evidence["wild.p_value"].numpy(), rows, fitted.wild_names, features, pictures)
    graph = getattr(getattr(fitted.decision, "rule", None), "graph", None)
    if getattr(fitted, "aside", None) is None or graph is None or "wild.shifted" not in evidence:
        return ReportedPool(group, *shown, rows, fitted.wild_names, features)
    given = Learned(fitted.decision.rule, fitted.decision.thresholds, list(fitted.classes)).given
    turned = model.review().turned().tolist() if given else []
    group = replace(group, limits=fitted.decision.thresholds.at_shifted(evidence["wild.shifted"].numpy()))
    return ReportedPool(group, *shown, np.arange(len(group)), fitted.aside.pool, graph.rows, given, turned)


def _judge(model: Any, images: Any) -> Verdicts:
    blocks = [model.decide(images.gather(torch.arange(i, min(i + 512, len(images))))) for i in range(0, len(images), 512)]
    return join(blocks)


def _method(training: dict[str, Any]) -> str:
    if training["method"] == "frozen":
        return "frozen network: features of every image computed once, one rule on top"
    method = METHODS.get(training["method"])  # one's own may not be installed here
    return str(training["method"]) + (f": {method.summary}" if method is not None else "")


def _lengths(training: dict[str, Any]) -> str:
    if training["method"] == "frozen":
        return "none: the network is taken as it is"
    stages = ", ".join(f"{s['name']} {s['epochs'] * _done(s):.3g} epochs" for s in training["stages"])
    if any(_done(stage) < 1 for stage in training["stages"]):
        stages += ", fewer than planned: the time was over"
    return stages


def _done(stage: dict[str, Any]) -> float:
    """The part of a stage's planned steps that were taken; bundles of earlier versions do not say: all."""
    return float(stage.get("taken", stage["steps"]) / stage["steps"])
