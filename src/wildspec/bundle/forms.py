"""The form of the two kinds of bundle: what model.json and the tensors must be, and how they hang together.

Checked when a bundle is read, before anything is built from it: no number in it makes room for what is not there. What a
detector or a calibration holds is checked where it is restored.
"""

from collections.abc import Callable
from typing import Any

from wildspec.bundle.schema import (
    Misfit,
    anything,
    either,
    fields,
    finite,
    flag,
    list_of,
    maybe,
    number,
    one_of,
    shapes,
    table,
    text,
    whole,
    within,
)  # fmt: skip
from wildspec.errors import CheckpointError

LARGEST_SIDE = 4096  # pixels of a network's input
SCALAR = either(maybe(text()), flag(), number())
COUNT, SHARE, PAIR = whole(), number(0, 1), list_of(number(), 2, 2)
ALPHA, INTERVAL = number(above=0, below=1), list_of(SHARE, 2, 2)

MIXTURE = fields({
    "n": COUNT, "pi_s": SHARE, "pi_s_interval": INTERVAL, "pi_c": maybe(SHARE), "pi_c_interval": maybe(INTERVAL),
    "eta": number(), "cut": number(), "separated": flag(), "confidence": ALPHA,
})  # fmt: skip
UNREADABLE = {"unreadable": COUNT, "unreadable_first": list_of(table(SCALAR))}
OF_IMAGES = {
    "classes": list_of(text(), 1, distinct=True),
    "preprocess": fields({
        "size": whole(1, LARGEST_SIDE), "mean": list_of(number(), 3, 3), "std": list_of(number(above=0), 3, 3),
    }),
    "network": fields(
        {"num_classes": whole(1), "size": whole(1, LARGEST_SIDE)},
        {"name": text(1000), "adapter": text(1000), "foreign": text(1000), "onnx": text(), "bytes": whole(1),
         "features": whole(1), "dropout": number(0, below=1)},
    ),
    "training": fields({
        "method": text(100), "hparams": maybe(table(anything)), "preset": text(100), "seed": COUNT, "seconds": number(0),
        "stages": list_of(fields({"name": text(100), "epochs": number(0), "steps": whole(1)}, {"taken": COUNT})),
    }),
    "data": fields({
        "labelled": fields(
            {**UNREADABLE, "count": COUNT, "per_class": table(COUNT),
             "split": fields({"parts": table(fields({"count": COUNT}))})},
            {"held_out_taught": maybe(COUNT)},
        ),
        "wild": maybe(fields({**UNREADABLE, "count": COUNT}, {"repeated": COUNT, "repeated_first": list_of(text())})),
    }, {
        "source": fields({"kind": one_of("digits", "files")}, {
            "labelled": maybe(text()), "wild": maybe(text()), "environments": maybe(text()), "init": maybe(text()),
            "size": maybe(whole(1, LARGEST_SIDE)), "held_out": ALPHA, "alpha": ALPHA, "seed": COUNT, "max_unreadable": SHARE,
        }),
    }),
    "metrics": fields(
        {"validation": fields({
            "count": COUNT, "accuracy": maybe(SHARE), "kept": SHARE, "accuracy_kept": maybe(SHARE),
            "confusion_kept": list_of(list_of(COUNT)),
        })},
        {"wild": maybe(fields({"count": COUNT, "rejected": COUNT})),
         "classes": list_of(fields({"class": text(), "count": COUNT, "rejected": COUNT}))},
    ),
    "provenance": fields({
        "created": text(100), "command": text(), "seconds": number(0), "versions": fields({"wildspec": text(100)}),
    }),
}  # fmt: skip
IMAGES = fields({
    **OF_IMAGES,
    "decision": fields({
        "detector": fields({"name": text(100), "config": table(either(SCALAR, list_of(SCALAR)))}),
        "calibration": fields({"alpha": ALPHA}, {"mixture": MIXTURE, "pool_kept": SHARE, "shifted": number()}),
    }),
    "bank_in_detector": maybe(text(100)),
})  # fmt: skip
NAMES = fields({"labelled": list_of(text()), "wild": list_of(text())}, {"pool": list_of(text())})
LOG = list_of(table(SCALAR))

INDEX = fields({"method": one_of("exact", "ivf", "hnsw")}, {"probes": whole(1), "recall": maybe(SHARE), "centred": flag()})
SEED = whole(0, (1 << 64) - 1)
GRAPH = fields({
    "n_components": whole(1), "n_neighbors": whole(1), "eta_u": number(0), "eta_l": number(0), "mutual": flag(),
    "search": one_of("auto", "exact", "ivf", "hnsw"), "engine": one_of("local", "ray"), "seed": SEED, "time": number(0),
})  # fmt: skip
PLACING = {"recall": SHARE, "n_neighbors": whole(1), "scaling": text(100), "mutual": flag(), "index": INDEX}
COMMON = {
    "estimator": one_of("SpectralClassifier"),
    "params": table(SCALAR),
    "classes": list_of(either(text(), flag(), number()), 1, distinct=True),
    "classes_kind": one_of("U", "i", "u", "f", "b"),
    "n_features": whole(1),
    "feature_names": list_of(text()),
    "scale": number(above=0),
    "seed": SEED,
    "n_wild": COUNT,
}
RULE = fields({
    "n_classes": whole(1),
    "settings": fields({"shift": one_of("auto", True, False), "most": whole(1), "seed": SEED, "graph": GRAPH}),
    "shift": fields({"offset": number(), "share": SHARE, "p_value": SHARE}),
    "index": INDEX,
}, {"graph": fields(PLACING)})  # fmt: skip
PROMISE = {"alpha": ALPHA, "shifted": maybe(number()), "unknown": SHARE, "interval": INTERVAL}
HELD = ("held.classes", "held.alarms")  # not in bundles of earlier versions
GIVEN = list_of(either(maybe(text(1000)), flag(), number()), 1)
DRAWN = fields({"alpha": ALPHA, "everywhere": flag(), "given": GIVEN}, {"skipped": list_of(whole(0))})
THRESHOLDS = fields(PROMISE, {"per_class": flag(), "promise": DRAWN, "apart": flag(), "in_turns": flag()})
ANSWERS = fields({"given": GIVEN, "known": whole(1), "centre": number(), "spread": number(above=0)})
EMBEDDINGS = fields({**COMMON, "rule": RULE, "thresholds": THRESHOLDS}, {"answers": ANSWERS, "pool": text(12)})
FROZEN = fields({
    **OF_IMAGES,
    "frozen": fields({"rule": RULE, "thresholds": THRESHOLDS, "temperature": number(above=0)}, {"answers": ANSWERS}),
})  # fmt: skip
FORMER_EMBEDDINGS = fields({
    **COMMON,
    "alpha": ALPHA,
    "mode": one_of("joint", "id"),
    "shifted_threshold": number(),
    "unknown": SHARE,
    "model": fields({
        "n_classes": whole(1),
        "far": PAIR,
        "settings": fields({
            "attribute": SHARE, "rounds": COUNT, "most": whole(1), "seed": SEED,
            "graph": GRAPH,
        }),
        "index": INDEX,
    }, {
        "wild": fields({
            "offset": number(), "share": SHARE, "stray": SHARE, "far": PAIR, "long": PAIR, "known": SHARE, **PLACING,
        }, {"kappa": number()}),
    }),
})  # fmt: skip
PROBES = {
    f"{probe}.{part}": ("float", shape)
    for probe in ("probe", "naming")
    for part, shape in (("weights", "C d"), ("bias", "C"))
}
ROWS = {
    "labelled": ("float", "n d"), "labels": ("int", "n"), "places": ("int", "n"), "held": ("float", "m d"),
    "index.centroids": ("float", "i d"), **PROBES,
}  # fmt: skip
RULE_ROWS = {
    "held.labels": ("int", "m"), "held.scores": ("float", "s"), "held.classes": ("int", "s"), "held.alarms": ("bool", "s"),
    "origin": ("float", "d"), "bank.rows": ("float", "b d"),
    "bank.labels": ("int", "b"), "shift.direction": ("float", "d"), "shift.means": ("float", "2 d"),
    "centre": ("float", "3"), "spread": ("float", "3"), "usual": ("float", "2 2"),
    "reference": ("int", "r"), "wild.score": ("float", "w"),
    "wild.shifted": ("float", "r"),
}  # fmt: skip
GRAPH_ROWS = {
    "graph.rows": ("float", "g d"), **{f"graph.{one}": ("float", "g") for one in ("scales", "radii", "mass", "source_mass")},
    "graph.coordinates": ("float", "g k"), "graph.embedding": ("float", "g k"), "graph.values": ("float", "k"),
    "graph.filter": ("float", "k e"), "graph.index.centroids": ("float", "j d"),
}  # fmt: skip
ANSWER_ROWS = {
    "answers.rows": ("int", "a"), "answers.weights": ("float", "h d"), "answers.bias": ("float", "h"),
    "answers.score": ("float", "r"),
}  # fmt: skip
DRAWN_ROWS = {"promise.rows": ("int", "a"), "promise.scores": ("float", "b")}
FORMER_ROWS = {"held_scores": ("float", "s"), "centre": ("float", "d")}
FORMER_WILD_ROWS = {
    **GRAPH_ROWS, "shift.direction": ("float", "d"), "shift.means": ("float", "2 d"), "shift.deviations": ("float", "2 d"),
    "bank.rows": ("float", "b d"), "bank.labels": ("int", "b"), "ranks.singles": ("float", "r 3"),
    "ranks.sums": ("float", "r"), "adapted.weights": ("float", "C d"), "adapted.bias": ("float", "C"),
    "attributed": ("int", "r"), "reference": ("int", "r"),
}  # fmt: skip
EVIDENCE = {"score": "float", "p_value": "float", "likely": "int", "rejected": "bool"}


def check_images(stored: Any) -> None:
    """An image model: model.json, names, weights, bank, evidence and pictures, and what they say of each other."""
    if "frozen" in stored.model:
        return _check_frozen(stored)
    model = stored.model
    IMAGES(model, "model.json")
    classes, network = len(model["classes"]), model["network"]
    if network["num_classes"] != classes:
        raise Misfit("model.json.network.num_classes", f"{classes}, the number of classes", network["num_classes"])
    names = stored.json("names.json")
    NAMES(names, "names.json")
    if "log.json" in stored:
        LOG(stored.json("log.json"), "log.json")
    weights = stored.tensors("weights.safetensors")
    head = shapes(weights, "weights.safetensors", {"head.weight": ("float", "C d"), "head.bias": ("float", "C")},
                  {"C": classes}, optional=("head.bias",))  # fmt: skip
    if "onnx" in network and ("backbone.graph" not in weights or len(weights["backbone.graph"]) != network.get("bytes")):
        raise CheckpointError("weights.safetensors does not hold the ONNX graph that model.json describes")
    bank = stored.tensors("detector/bank.safetensors")
    width = {"n": len(names["labelled"]), "d": head["d"]}
    shapes(bank, "detector/bank.safetensors", {"labels": ("int", "n"), "features": ("float", "n d")}, width, ("features",))
    within(bank, "detector/bank.safetensors", "labels", 0, classes - 1)
    shared = model["bank_in_detector"]
    if shared is None and "features" not in bank:
        raise CheckpointError("detector/bank.safetensors has no features, and model.json names no place for them")
    if shared is not None:
        found = bank.get(f"detector.{shared}")
        if found is None or found.ndim != 2 or len(found) < width["n"] or found.shape[1] != width["d"]:
            raise CheckpointError(f"detector/bank.safetensors does not hold the bank in {shared!r}, as model.json says")
    _check_shown(stored, classes, width["n"], width["d"], len(names["wild"]))


def _check_frozen(stored: Any) -> None:
    """An image model on a frozen network: its weights, its metric, its rule."""
    model, where = stored.model, "rule.safetensors"
    FROZEN(model, "model.json")
    classes, network, rule = len(model["classes"]), model["network"], model["frozen"]["rule"]
    answers = model["frozen"].get("answers")
    of_fit = classes if answers is None else answers["known"]  # answers may have added classes, the network has none of them
    for name, found, expected in (("network", network["num_classes"], of_fit), ("frozen.rule", rule["n_classes"], classes)):
        if found != expected:
            raise Misfit(f"model.json.{name}", f"of {expected} classes", found)
    names = stored.json("names.json")
    NAMES(names, "names.json")
    finite(stored.tensors("weights.safetensors"), "weights.safetensors")
    tensors = stored.tensors(where)
    sizes = shapes(tensors, where, {"labelled": ("float", "n d")})
    known = {"d": sizes["d"], "e": sizes["d"] + 1, "C": classes, "n": len(names["labelled"])}
    optional = ("places", "held", "held.labels", *HELD, "origin", "index.centroids", "graph.index.centroids")
    sizes = shapes(tensors, where, {**ROWS, **RULE_ROWS}, known, optional)
    within(tensors, where, "labels", 0, classes - 1)
    within(tensors, where, "held.classes", 0, classes - 1)
    if sizes["n"] == 0:
        raise CheckpointError(f"{where}: labelled is empty")
    _check_probes(rule, "index", sizes.get("i"))
    _check_bank(tensors, where, classes, sizes)
    if "graph" in rule:
        _check_graph(rule["graph"], tensors, where, known, optional)
        _check_answers(answers, classes, sizes["d"], tensors, where)
        _check_drawn(model["frozen"]["thresholds"], tensors, where)
    if "pool" in names:  # with the images held out, as rows
        _check_aside(stored, names["pool"], {"d": sizes["d"], "m": sizes["m"]})
    _check_shown(stored, classes, sizes["n"], sizes["d"], len(names["wild"]))


def _check_aside(stored: Any, pool: list[str], sizes: dict[str, int]) -> None:
    """What a person's answers need: names of the pool, the images held out as rows, r of the wild ones."""
    tensors, evidence = stored.tensors("rule.safetensors"), stored.tensors("evidence.safetensors")
    wild = stored.model["data"]["wild"]
    sizes |= {"v": len(evidence.get("validation.score", ())), "w": len(pool)}
    shapes(tensors, "rule.safetensors", {"held": ("float", "m d"), "validation": ("float", "v d")}, sizes)
    if len(pool) != (wild["count"] if wild else 0) or len(pool) != len(tensors.get("graph.rows", pool)):
        raise CheckpointError("names.json: pool does not name the model's wild images")
    if pool:
        shapes(evidence, "evidence.safetensors", {"wild.shifted": ("float", "w")}, sizes)
        within(evidence, "evidence.safetensors", "wild.shifted", 0, 1)


def _check_shown(stored: Any, classes: int, labelled: int, width: int, shown: int) -> None:
    """Evidence and pictures."""
    wild = stored.model["data"]["wild"]
    _check_evidence(stored, classes, width, shown, wild is not None)
    pictures = stored.tensors("pictures.safetensors")
    for name, most in (("labelled", labelled), ("wild", wild["count"] if wild else 0)):
        parts = {f"{name}.rows": ("int", "p"), f"{name}.ends": ("int", "p"), f"{name}.data": ("byte", "q")}
        shapes(pictures, "pictures.safetensors", parts)
        within(pictures, "pictures.safetensors", f"{name}.rows", 0, max(most - 1, 0))


def _check_evidence(stored: Any, classes: int, width: int, shown: int, has_wild: bool) -> None:
    evidence, where = stored.tensors("evidence.safetensors"), "evidence.safetensors"
    for group in ("validation", "wild") if has_wild else ("validation",):
        sizes = shapes(evidence, where, {f"{group}.{name}": (kind, "n") for name, kind in EVIDENCE.items()})
        if sizes["n"] == 0:
            raise CheckpointError(f"{where} holds no {group} samples")
        within(evidence, where, f"{group}.likely", 0, classes - 1)
        within(evidence, where, f"{group}.p_value", 0, 1)
        if group == "validation":
            shapes(evidence, where, {"validation.label": ("int", "n")}, sizes)
            within(evidence, where, "validation.label", 0, classes - 1)
        else:
            shapes(evidence, where, {"wild.rows": ("int", "s"), "wild.features": ("float", "s d")}, {"s": shown, "d": width})
            within(evidence, where, "wild.rows", 0, sizes["n"] - 1)
    for name in evidence:
        if name.startswith("images."):  # digests of what was learned from
            shapes(evidence, where, {name: ("byte", "n 16")})


def check_embeddings(stored: Any) -> None:
    """A model of embeddings: its record, its arrays, and what they say of each other."""
    record, where = stored.model, "embeddings.safetensors"
    former = isinstance(record, dict) and "rule" not in record  # written by version 0.1
    (FORMER_EMBEDDINGS if former else EMBEDDINGS)(record, "model.json")
    key = "model" if former else "rule"
    model, tensors = record[key], stored.tensors(where)
    classes, width = len(record["classes"]), record["n_features"]
    if model["n_classes"] != classes:
        raise Misfit(f"model.json.{key}.n_classes", f"{classes}, the number of classes", model["n_classes"])
    if len(record["feature_names"]) not in (0, width):
        raise Misfit("model.json.feature_names", f"none or {width}", len(record["feature_names"]))
    known = {"d": width, "e": width + 1, "C": classes}
    optional = ("centre" if former else "origin", *HELD, "index.centroids", "graph.index.centroids")
    sizes = shapes(tensors, where, ROWS | (FORMER_ROWS if former else RULE_ROWS), known, optional)
    within(tensors, where, "labels", 0, classes - 1)
    within(tensors, where, "places", 0 if former else -1, float("inf"))
    if sizes["n"] == 0:
        raise CheckpointError(f"{where}: labelled is empty")
    _check_named(stored, sizes["n"])
    _check_probes(model, "index", sizes.get("i"))
    part = "wild" if former else "graph"
    if not former:
        _check_bank(tensors, where, classes, sizes)
    if part not in model:
        return
    if former:
        sizes = shapes(tensors, where, FORMER_WILD_ROWS, known, optional)
        within(tensors, where, "attributed", -1, classes - 1)
        _check_bank(tensors, where, classes, sizes)
        _check_positive(tensors, where, "shift.deviations")
    _check_graph(model[part], tensors, where, known, optional)
    if not former:
        _check_answers(record.get("answers"), classes, width, tensors, where)
        _check_drawn(record["thresholds"], tensors, where)


def _check_named(stored: Any, labelled: int) -> None:
    """Names and thumbnails of labelled samples that came from a table with such columns."""
    if "names.json" in stored:
        fields({"labelled": list_of(text(), 0, labelled)})(stored.json("names.json"), "names.json")
    if "pictures.safetensors" in stored:
        pictures = stored.tensors("pictures.safetensors")
        shapes(pictures, "pictures.safetensors",
               {"labelled.rows": ("int", "p"), "labelled.ends": ("int", "p"), "labelled.data": ("byte", "q")})  # fmt: skip
        within(pictures, "pictures.safetensors", "labelled.rows", 0, labelled - 1)


def _check_graph(
    record: dict[str, Any], tensors: Any, where: str, known: dict[str, int], optional: tuple[str, ...]
) -> None:
    sizes = shapes(tensors, where, GRAPH_ROWS, known, optional)
    if sizes["g"] == 0 or len(tensors["reference"]) == 0:
        raise CheckpointError(f"{where}: the wild samples are empty")
    within(tensors, where, "reference", 0, sizes["g"] - 1)
    _check_positive(tensors, where, "graph.scales", "graph.mass", "graph.source_mass")
    _check_probes(record, "graph.index", sizes.get("j"))


def _check_answers(answers: dict[str, Any] | None, classes: int, width: int, tensors: Any, where: str) -> None:
    """The numbers of the wild rows, and what a person said about some of them."""
    count = len(tensors["graph.rows"])
    shapes(tensors, where, {"wild.rows": ("int", "g")}, {"g": count}, ("wild.rows",))
    within(tensors, where, "wild.rows", 0, float("inf"))
    if answers is None:
        return
    known = {"a": len(answers["given"]), "d": width, "r": len(tensors["reference"])}
    found = shapes(tensors, where, ANSWER_ROWS, known)
    within(tensors, where, "answers.rows", 0, count - 1)
    if found["h"] not in (classes, classes + 1) or answers["known"] > classes:
        raise CheckpointError(f"{where}: the answers do not fit the model's {classes} classes")


def _check_drawn(thresholds: dict[str, Any], tensors: Any, where: str) -> None:
    """Answers that a promise for shifted samples rests on."""
    if "promise" in thresholds:
        shapes(tensors, where, DRAWN_ROWS, {"a": len(thresholds["promise"]["given"])})
        within(tensors, where, "promise.rows", 0, len(tensors["graph.rows"]) - 1)
        if max(thresholds["promise"].get("skipped", ()), default=0) >= len(tensors["graph.rows"]):
            raise CheckpointError(f"{where}: samples that were passed over are not in the wild pool")


def _check_bank(tensors: Any, where: str, classes: int, sizes: dict[str, int]) -> None:
    within(tensors, where, "bank.labels", 0, classes - 1)
    if sizes["b"] == 0 or bool((tensors["bank.labels"].diff() < 0).any()):
        raise CheckpointError(f"{where}: the bank is empty or out of order")
    if "spread" in tensors:
        _check_positive(tensors, where, "spread")


def _check_positive(tensors: Any, where: str, *names: str) -> None:
    for name in names:
        if bool((tensors[name] <= 0).any()):
            raise Misfit(f"{where}: {name}", "greater than 0", float(tensors[name].min()))


def _check_probes(record: dict[str, Any], name: str, lists: int | None) -> None:
    """An index of lists needs their centres, and is not asked for more lists than there are."""
    if record["index"]["method"] == "ivf" and (not lists or record["index"].get("probes", 1) > lists):
        raise CheckpointError(f"embeddings.safetensors: {name}.centroids does not fit the index in model.json")


FORMS: dict[str, Callable[[Any], None]] = {"images": check_images, "embeddings": check_embeddings}
