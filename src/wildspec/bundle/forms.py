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
)  # fmt: skip
from wildspec.errors import CheckpointError

LARGEST_SIDE = 4096  # pixels of a network's input
SCALAR = either(maybe(text()), flag(), number())
COUNT, SHARE = whole(), number(0, 1)
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
    "n_components": whole(1), "n_neighbors": whole(1), "search": one_of("auto", "exact", "ivf", "hnsw"),
    "engine": one_of("local", "ray"), "seed": SEED,
}, {"eta_u": number(0), "eta_l": number(0), "mutual": flag(), "time": number(0)})  # fmt: skip  # earlier bundles have them
PLACING = fields(
    {"recall": SHARE, "n_neighbors": whole(1), "index": INDEX}, {"scaling": text(100), "mutual": flag()}  # likewise
)
OF_EMBEDDINGS = {
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
}, {"graph": PLACING, "strength": SHARE, "nearest": whole(1)})  # fmt: skip
PROMISE = {"alpha": ALPHA, "shifted": maybe(number()), "unknown": SHARE, "interval": INTERVAL}
MAY_LACK = ("held.classes", "held.alarms", "origin", "index.centroids", "graph.index.centroids")  # older, or not needed
GIVEN = list_of(either(maybe(text(1000)), flag(), number()), 1)
DRAWN = fields({"alpha": ALPHA, "everywhere": flag(), "given": GIVEN}, {"skipped": list_of(whole(0))})
THRESHOLDS = fields(PROMISE, {"per_class": flag(), "promise": DRAWN, "apart": flag(), "in_turns": flag()})
ANSWERS = fields({"given": GIVEN, "known": whole(1), "centre": number(), "spread": number(above=0)})
EMBEDDINGS = fields(
    {**OF_EMBEDDINGS, "rule": RULE, "thresholds": THRESHOLDS},
    {"answers": ANSWERS, "pool": text(12), "temperature": number(above=0), "rows_seen": COUNT},
)
FROZEN = fields({
    **OF_IMAGES,
    "frozen": fields({"rule": RULE, "thresholds": THRESHOLDS, "temperature": number(above=0)}, {"answers": ANSWERS}),
})  # fmt: skip
PROBES = {
    f"{probe}.{part}": ("float", shape)
    for probe in ("probe", "naming")
    for part, shape in (("weights", "C d"), ("bias", "C"))
}
ROWS = {
    "labelled": ("float", "n d"), "labels": ("of C", "n"), "index.centroids": ("float", "i d"), **PROBES,
}  # fmt: skip
RULE_ROWS = {
    **ROWS, "held.scores": ("float", "s"), "held.classes": ("of C", "s"), "held.alarms": ("bool", "s"),
    "origin": ("float", "d"), "bank.rows": ("float", "b d"), "bank.labels": ("of C", "b"), "shift.direction": ("float", "d"),
    "shift.means": ("float", "2 d"), "centre": ("float", "3"), "spread": ("positive", "3"), "usual": ("float", "2 2"),
    "reference": ("int", "r"), "wild.score": ("float", "r"), "wild.shifted": ("float", "r"),
}  # fmt: skip
GRAPH_ROWS = {
    "graph.rows": ("float", "g d"), "graph.radii": ("float", "g"), "reference": ("of g", "r"),
    **{f"graph.{one}": ("positive", "g") for one in ("scales", "mass", "source_mass")},
    "graph.coordinates": ("float", "g k"), "graph.embedding": ("float", "g k"), "graph.values": ("float", "k"),
    "graph.filter": ("float", "k e"), "graph.index.centroids": ("float", "j d"),
}  # fmt: skip
ANSWER_ROWS = {
    "answers.rows": ("of g", "a"), "answers.weights": ("float", "h d"), "answers.bias": ("float", "h"),
    "answers.score": ("float", "r"),
}  # fmt: skip
DRAWN_ROWS = {"promise.rows": ("of g", "a"), "promise.scores": ("float", "b")}
EVIDENCE = {"score": "float", "p_value": "share", "likely": "of C", "rejected": "bool"}


def check_images(stored: Any) -> None:
    """An image model: model.json, names, weights, bank, evidence and pictures, and what they say of each other."""
    model, names = stored.model, stored.json("names.json")
    frozen = isinstance(model, dict) and "frozen" in model
    (FROZEN if frozen else IMAGES)(model, "model.json")
    NAMES(names, "names.json")
    sizes = {"C": len(model["classes"]), "n": len(names["labelled"])}
    weights = stored.tensors("weights.safetensors")
    # answers may have added classes that the network does not have
    count = model["frozen"]["answers"]["known"] if frozen and "answers" in model["frozen"] else sizes["C"]
    _same("model.json.network.num_classes", model["network"]["num_classes"], count)
    sizes |= (_check_frozen if frozen else _check_trained)(stored, model, weights, names, sizes)
    _check_evidence(stored, sizes, len(names["wild"]))
    wild = model["data"]["wild"]
    for name, most in (("labelled", sizes["n"]), ("wild", wild["count"] if wild else 0)):
        _check_gallery(stored, name, most)


def _check_trained(stored: Any, model: Any, weights: Any, names: Any, sizes: dict[str, int]) -> dict[str, int]:
    """A network that was trained, and its detector."""
    network, where = model["network"], "detector/bank.safetensors"
    if "log.json" in stored:
        LOG(stored.json("log.json"), "log.json")
    head = {"head.weight": ("float", "C d"), "head.bias": ("float", "C")}
    sizes = shapes(weights, "weights.safetensors", head, sizes, optional=("head.bias",))
    if "onnx" in network and ("backbone.graph" not in weights or len(weights["backbone.graph"]) != network.get("bytes")):
        raise CheckpointError("weights.safetensors does not hold the ONNX graph that model.json describes")
    bank, shared = stored.tensors(where), model["bank_in_detector"]
    optional = () if shared is None else ("features",)
    shapes(bank, where, {"labels": ("of C", "n"), "features": ("float", "n d")}, sizes, optional)
    if shared is not None:
        found = bank.get(f"detector.{shared}")
        if found is None or found.ndim != 2 or len(found) < sizes["n"] or found.shape[1] != sizes["d"]:
            raise CheckpointError(f"{where} does not hold the bank in {shared!r}, as model.json says")
    return sizes


def _check_frozen(stored: Any, model: Any, weights: Any, names: Any, sizes: dict[str, int]) -> dict[str, int]:
    """A network that was taken as it is, the rule, and where they are kept the images that a person's answers need."""
    finite(weights, "weights.safetensors")
    tensors, where = stored.tensors("rule.safetensors"), "rule.safetensors"
    sizes |= {"d": shapes(tensors, where, {"labelled": ("float", "n d")})["d"]}
    _check_rule(model["frozen"], tensors, where, sizes)
    if "pool" not in names:
        return sizes
    pool, wild, evidence = names["pool"], model["data"]["wild"], stored.tensors("evidence.safetensors")
    held = {"held": ("float", "m d"), "held.labels": ("int", "m"), "validation": ("float", "v d")}
    shapes(tensors, where, held, {"d": sizes["d"], "v": len(evidence.get("validation.score", ()))}, ("held.labels",))
    if len(pool) != (wild["count"] if wild else 0) or len(pool) != len(tensors.get("graph.rows", pool)):
        raise CheckpointError("names.json: pool does not name the model's wild images")
    if pool:
        shapes(evidence, "evidence.safetensors", {"wild.shifted": ("share", "w")}, {"w": len(pool)})
    return sizes


def check_embeddings(stored: Any) -> None:
    """A model of embeddings: its record, its arrays, and what they say of each other."""
    record, where = stored.model, "embeddings.safetensors"
    if isinstance(record, dict) and "mode" in record:
        raise CheckpointError("this model of embeddings was made by version 0.1, which is no longer read")
    EMBEDDINGS(record, "model.json")
    width, tensors = record["n_features"], stored.tensors(where)
    if len(record["feature_names"]) not in (0, width):
        raise Misfit("model.json.feature_names", f"none or {width}", len(record["feature_names"]))
    sizes = {"d": width, "C": len(record["classes"])}
    more = {"places": ("place", "n"), "held": ("float", "m d"), "held.labels": ("int", "m")}
    count = shapes(tensors, where, more, {"n": _check_rule(record, tensors, where, sizes), "d": width})["n"]
    if "names.json" in stored:  # of samples that came from a table with names, and thumbnails
        fields({"labelled": list_of(text(), 0, count)})(stored.json("names.json"), "names.json")
    if "pictures.safetensors" in stored:
        _check_gallery(stored, "labelled", count)


def _check_rule(record: Any, tensors: Any, where: str, sizes: dict[str, int]) -> int:
    """The one rule, its thresholds and its answers; how many samples are labelled."""
    rule, answers, sizes = record["rule"], record.get("answers"), {**sizes, "e": sizes["d"] + 1}
    _same("model.json: n_classes", rule["n_classes"], sizes["C"])
    sizes = shapes(tensors, where, RULE_ROWS, sizes, MAY_LACK)
    _check_labelled(rule, tensors, where, sizes)
    if "graph" in rule:
        sizes |= {"g": _check_graph(rule["graph"], tensors, where, sizes)}
        shapes(tensors, where, {"wild.rows": ("count", "g")}, sizes, ("wild.rows",))
        if "promise" in record["thresholds"]:  # answers that a promise for shifted samples rests on
            given = len(record["thresholds"]["promise"]["given"])
            shapes(tensors, where, DRAWN_ROWS, {"a": given, "g": sizes["g"]})
        if answers is not None:
            found = shapes(tensors, where, ANSWER_ROWS, {**sizes, "a": len(answers["given"])})
            if found["h"] - sizes["C"] not in (0, 1) or answers["known"] > sizes["C"]:
                raise CheckpointError(f"{where}: the answers do not fit the model's {sizes['C']} classes")
    return sizes["n"]


def _check_labelled(record: Any, tensors: Any, where: str, sizes: dict[str, int]) -> None:
    """Labelled samples, and the bank of those that are compared with, where there is one."""
    order = tensors.get("bank.labels")
    if sizes["n"] == 0 or (order is not None and (len(order) == 0 or bool((order.diff() < 0).any()))):
        raise CheckpointError(f"{where}: labelled or the bank is empty, or the bank is out of order")
    _check_probes(record, where, "index", sizes.get("i"))


def _check_graph(record: Any, tensors: Any, where: str, sizes: dict[str, int]) -> int:
    """How many wild samples it has."""
    found = shapes(tensors, where, GRAPH_ROWS, sizes, MAY_LACK)
    if found["g"] == 0 or found["r"] == 0:
        raise CheckpointError(f"{where}: the wild samples are empty")
    _check_probes(record, where, "graph.index", found.get("j"))
    return found["g"]


def _check_probes(record: Any, where: str, name: str, lists: int | None) -> None:
    """An index of lists needs their centres, and is not asked for more lists than there are."""
    if record["index"]["method"] == "ivf" and (not lists or record["index"].get("probes", 1) > lists):
        raise CheckpointError(f"{where}: {name}.centroids does not fit the index in model.json")


def _check_evidence(stored: Any, sizes: dict[str, int], shown: int) -> None:
    evidence, where = stored.tensors("evidence.safetensors"), "evidence.safetensors"
    for group in ("validation", "wild") if stored.model["data"]["wild"] is not None else ("validation",):
        forms = {f"{group}.{name}": (kind, "m") for name, kind in EVIDENCE.items()}
        if group == "validation":
            forms["validation.label"] = ("of C", "m")
        else:
            forms |= {"wild.rows": ("of m", "s"), "wild.features": ("float", "s d")}
        if shapes(evidence, where, forms, {"C": sizes["C"], "d": sizes["d"], "s": shown})["m"] == 0:
            raise CheckpointError(f"{where} holds no {group} samples")
    digests = [name for name in evidence if name.startswith("images.")]  # of what was learned from
    shapes(evidence, where, {name: ("byte", f"n{number} 16") for number, name in enumerate(digests)})


def _check_gallery(stored: Any, name: str, most: int) -> None:
    parts = {f"{name}.rows": ("of m", "p"), f"{name}.ends": ("int", "p"), f"{name}.data": ("byte", "q")}
    shapes(stored.tensors("pictures.safetensors"), "pictures.safetensors", parts, {"m": max(most, 1)})


def _same(where: str, found: int, classes: int) -> None:
    if found != classes:
        raise Misfit(where, f"{classes}, the number of classes", found)


FORMS: dict[str, Callable[[Any], None]] = {"images": check_images, "embeddings": check_embeddings}
