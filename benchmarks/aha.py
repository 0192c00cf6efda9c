"""AHA's setting: CIFAR-10, half of it labelled; noisy CIFAR-10 and SVHN in the wild pool; 100 and 500 answers.

    wildspec bench cifar10 --methods erm --preset paper --semantic svhn --data DIR --out RUN
    python benchmarks/aha.py --run RUN/cifar10/labelled-only/erm-paper/seed-0 --data DIR --features FOLDER \
        --out benchmarks/results/aha.json

The network has learned from the protocol's 25,000 labelled images and is frozen from then on. `SpectralClassifier` learns
from its features of the ID validation images, which it has not learned from, and of the wild pool, then from answers (the
truth). FOLDER: features in half precision, made where they are missing; after that neither RUN nor DIR is needed. So that
two cores can do it, the pool and the test sets are random parts of the protocol's (sizes are in the JSON). A draw is a part
of that pool. The same command goes on where it was stopped.
"""

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measure_weights import load_network
from review import COMPARED, judge, person
from wildspec import SpectralClassifier
from wildspec.bench.embedding_methods import Answer
from wildspec.bench.pacs_embeddings import Task, measure
from wildspec.bench.prepare import prepare
from wildspec.bench.protocols import Protocol, protocol
from wildspec.bench.store import Store
from wildspec.data import ImageArrays, Preprocess
from wildspec.data.mixture import COVARIATE, IN_DIST, SEMANTIC
from wildspec.decision.questions import QUESTION_RULES
from wildspec.detectors.energy import energy_score
from wildspec.evaluation import collect
from wildspec.files import read_json, replacing, write_json
from wildspec.provenance import environment
from wildspec.training.checkpoint import load_newest

SEMANTIC_SET = "svhn"
ROUNDS = (20, 50, 100, 200, 500)  # each by the model that has learned from the rounds before
REPORTED = (100, 500)
POOL, DRAWN = 12_000, 8_000  # wild images with features, and of these in the pool of a draw; in the protocol's shares
TESTS = 4_000  # of each test set
TESTED = ("id_test", "covariate", "semantic")
SEARCH = "search"  # AHA's own, which no rule of the registry is: it looks at each answer before the next question
ALL = "all"
SCORED = ("id_acc", "ood_acc", "fpr95_id", "auroc", "fs_auroc")
KEPT = (*SCORED, "id_kept", "covariate_kept", "detection_rate")
NETWORK = "wildspec bench cifar10 --methods erm --preset paper --semantic svhn --data DIR --out RUN"
COMMAND = (
    "python benchmarks/aha.py --run RUN/cifar10/labelled-only/erm-paper/seed-0 --data DIR --features FOLDER "
    "--out benchmarks/results/aha.json"
)
NOBODY = np.random.default_rng(0)  # the person makes no mistakes
KIND = {"covariate": COVARIATE, "semantic": SEMANTIC}
Sets = dict[str, dict[str, np.ndarray]]


def chosen_images(plan: Protocol, store: Store) -> dict[str, tuple[ImageArrays, np.ndarray, np.ndarray]]:
    """Set -> images, their kinds (0 in-distribution, 1 covariate, 2 semantic) and the truth: a class, -1: unknown."""
    prepared = prepare(plan, SEMANTIC_SET, store, unseen=False)
    rng = np.random.default_rng(plan.split_seed)
    sets = {"labelled": prepared.id_validation}
    tests = {"id_test": prepared.id_test, "covariate": prepared.covariate_test[prepared.severity]}
    for name, images in {**tests, "semantic": prepared.semantic_test}.items():
        sets[name] = images.subset(np.sort(rng.permutation(len(images))[:TESTS]))
    kinds = {name: np.full(len(images), KIND.get(name, IN_DIST)) for name, images in sets.items()}
    pool, typical = prepared.wild.pool, prepared.wild.typical(plan.split_seed)
    assert isinstance(pool, ImageArrays)
    rows = typical[in_shares(prepared.wild.component[typical], POOL, rng)]
    sets["wild"], kinds["wild"] = pool.subset(rows), prepared.wild.component[rows]
    own = plan.in_distribution  # labels of the pool are hidden; names tell them
    known = [store.load(own["set"], own[split], own["size"]) for split in ("train", "test")]
    label = {name: number for images in known for name, number in zip(images.names, images.labels.tolist(), strict=True)}
    return {
        name: (images, kinds[name], np.array([-1 if kind == SEMANTIC else label[title] for title, kind in zip(
            images.names, kinds[name], strict=True)]))
        for name, images in sets.items()
    }  # fmt: skip


def in_shares(kind: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` random rows, each kind with the share it has among all; all rows where there are no more."""
    share = min(1.0, count / len(kind))
    parts = [rng.permutation(np.flatnonzero(kind == one)) for one in np.unique(kind)]
    return np.sort(np.concatenate([part[: round(share * len(part))] for part in parts]))


def make_features(run: Path, data: Path, folder: Path, plan: Protocol) -> None:
    """A file for each set: ``features`` (n, d) and ``logits`` (n, C) of the frozen network, ``truth`` (n,)."""
    saved = load_newest(run / "checkpoints")
    if saved is None or saved.path is None:
        raise SystemExit(f"{run} has no checkpoint; train the network with the command above")
    own = plan.in_distribution
    record, weights = {"method": "spectral", "config": {"model": plan.model}}, saved.path / "tensors.safetensors"
    network = load_network(record, weights, own["classes"], own["size"])
    for name, (images, kind, truth) in chosen_images(plan, Store(data, folder / "cache")).items():
        file = folder / f"{name}.npz"
        if not file.exists():
            seen = collect(network, images, Preprocess(size=own["size"]), batch_size=128)
            halves = {"features": seen.features.numpy().astype(np.float16), "logits": seen.logits.numpy().astype(np.float16)}
            with replacing(file) as temporary, open(temporary, "wb") as stream:
                np.savez_compressed(stream, kind=kind, truth=truth, **halves)
            print(f"features of {len(images)} images: {name}", flush=True)


def read_features(folder: Path) -> Sets:
    found: Sets = {}
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as stored:
            found[file.stem] = {key: stored[key] for key in stored.files}
    return found


def make_task(sets: Sets, draw: int) -> tuple[Task, np.ndarray, np.ndarray]:
    """With the draw's part of the pool in random order; the truth of that part, and its rows among all wild ones."""
    rng = np.random.default_rng(draw)
    rows = rng.permutation(in_shares(sets["wild"]["kind"], DRAWN, rng))
    features = {name: one["features"].astype(np.float32) for name, one in sets.items()}
    like, shifted, unknown = np.bincount(sets["wild"]["kind"][rows], minlength=3).tolist()
    return Task(
        labelled=features["labelled"], labels=sets["labelled"]["truth"], wild=features["wild"][rows],
        counts=(like, shifted, unknown), id_test=features["id_test"], id_labels=sets["id_test"]["truth"],
        covariate=features["covariate"], covariate_labels=sets["covariate"]["truth"], semantic=features["semantic"],
        seed=draw,
    ), sets["wild"]["truth"][rows], rows  # fmt: skip


def search(energy: np.ndarray, unknown: np.ndarray, budget: int, rng: np.random.Generator) -> np.ndarray:
    """Rows that AHA asks about. Samples stand by energy, the highest first; a threshold t says: the first t are unknown, the
    others are not. Half of the budget goes to random samples of an interval of thresholds; after each answer its worse end
    moves in, by as much as lets it close with the last one. The other half goes to the samples nearest to the best t."""
    order = np.argsort(-energy, kind="stable")
    answers = np.zeros(len(order))  # by place: 1 unknown, -1 known, 0 not asked
    low, high, steps = 0, len(order) - 1, budget // 2

    def right(t: int) -> float:
        return float(answers[:t].sum() - answers[t:].sum())

    shrink = float(len(order)) ** (1 / max(steps, 1))
    for _ in range(steps):
        left = np.flatnonzero(answers[low : high + 1] == 0) + low
        if not len(left):
            break
        place = int(rng.choice(left))
        answers[place] = 1 if unknown[order[place]] else -1
        wanted = int(np.ceil((high - low + 1) / shrink))
        while high - low + 1 > wanted:
            worse_low = right(low) - right(high)
            if worse_low < 0 or (worse_low == 0 and rng.random() < 0.5):
                low += 1
            else:
                high -= 1
    totals = np.r_[0, np.cumsum(answers)] - np.r_[np.cumsum(answers[::-1])[::-1], 0]
    near = np.argsort(np.abs(np.arange(len(order)) + 0.5 - totals.argmax()), kind="stable")
    asked = np.flatnonzero(answers)
    rest = near[answers[near] == 0][: budget - len(asked)]
    return np.asarray(order[np.r_[asked, rest]])


def heads(task: Task, rows: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """AHA's two heads on frozen features: classes from labelled and answered samples, and a logistic unit that tells
    labelled samples from those answered "unknown". No decision: AHA sets no threshold."""
    from sklearn.linear_model import LogisticRegression

    known, strange = rows[truth[rows] >= 0], rows[truth[rows] < 0]
    classes = LogisticRegression(max_iter=1000).fit(
        np.r_[task.labelled, task.wild[known]], np.r_[task.labels, truth[known]]
    )
    unit = LogisticRegression(max_iter=1000, class_weight="balanced").fit(
        np.r_[task.labelled, task.wild[strange]], np.r_[np.zeros(len(task.labelled)), np.ones(len(strange))]
    )
    scores = tuple(unit.decision_function(test) for test in task.tests)
    return measured(task, scores, tuple(classes.predict(test) for test in task.tests))


def measured(task: Task, scores: Any, named: Any) -> dict[str, float]:
    """Without a threshold."""
    found = measure(task, Answer(scores, named))
    return {name: round(float(found[name]), 5) for name in SCORED}


def network_alone(task: Task, sets: Sets) -> dict[str, float]:
    """The frozen network's own classes, and its energy."""
    logits = [sets[name]["logits"] for name in TESTED]
    return measured(task, tuple(energy(one) for one in logits), tuple(one.argmax(axis=1) for one in logits))


def energy(logits: np.ndarray) -> np.ndarray:
    return energy_score(torch.from_numpy(logits.astype(np.float64))).numpy()


def run_draw(sets: Sets, draw: int, parts: list[str | None]) -> list[dict[str, Any]]:
    """Records of one draw. ``parts``: question rules, `SEARCH`, None: without answers, `ALL`: the whole pool is answered, a
    bound for what features of a frozen network can do. ``learner``: network (no answers), wildspec, or heads (AHA's)."""
    task, truth, rows = make_task(sets, draw)
    kind, energies = sets["wild"]["kind"][rows], energy(sets["wild"]["logits"][rows])
    start = None if parts == [ALL] else SpectralClassifier(random_state=draw).fit(task.labelled, task.labels, task.wild)
    possible = [count for count in ROUNDS if 2 * count <= len(truth)]
    records: list[dict[str, Any]] = []

    def keep(learner: str, part: str | None, asked: list[int], found: dict[str, float]) -> None:
        head = {"draw": draw, "learner": learner, "rule": part, "answers": len(asked)}
        records.append(head | {"asked": np.bincount(kind[asked], minlength=3).tolist()} | found)

    def said(names: list[int]) -> dict[int, Any]:
        return dict(zip(names, person(truth[names], 0, 0.0, NOBODY), strict=True))

    for part in parts:
        model, asked = copy.deepcopy(start), list[int]()
        if part == ALL:
            keep("heads", ALL, list(range(len(truth))), heads(task, np.arange(len(truth)), truth))
            continue
        assert model is not None
        if part is None:
            keep("network", None, [], network_alone(task, sets))
            keep("wildspec", None, [], judge(model, task, KEPT))
        for wanted in possible if part in QUESTION_RULES else []:
            names = model.questions(wanted - len(asked), part).tolist()
            model.answer(said(names))
            asked += names
            if wanted in REPORTED:
                keep("wildspec", part, asked, judge(model, task, KEPT))
        for wanted in [count for count in REPORTED if count in possible] if part == SEARCH else []:
            names = search(energies, truth < 0, wanted, np.random.default_rng([draw, wanted])).tolist()
            keep("heads", SEARCH, names, heads(task, np.array(names), truth))
            keep("wildspec", SEARCH, names, judge(copy.deepcopy(model).answer(said(names)), task, KEPT))
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, help="folder of the trained network; not needed where --features is complete")
    parser.add_argument("--data", type=Path, help="likewise")
    parser.add_argument("--features", type=Path, required=True, help="a folder of features, made where they are missing")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rules", nargs="+", choices=sorted(QUESTION_RULES), default=COMPARED)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.run is not None and given.data is not None:
        make_features(given.run, given.data, given.features, protocol("cifar10"))
    sets = read_features(given.features)
    if missing := {"labelled", "wild", *TESTED} - set(sets):
        parser.error(f"{given.features} has no {', '.join(sorted(missing))}; give --run and --data to make them")
    document = read_json(given.out) if given.out.exists() else {"schema": "wildspec.aha/1", "records": []}
    records: list[dict[str, Any]] = document["records"]
    done = {(record["draw"], record["rule"]) for record in records}
    made = environment() | {"command": COMMAND, "network": NETWORK}
    sizes = {name: np.bincount(one["kind"], minlength=3).tolist() for name, one in sets.items()}
    for draw in range(given.draws):
        parts = [part for part in (None, *given.rules, SEARCH, ALL) if (draw, part) not in done]
        if parts:
            records += run_draw(sets, draw, parts)
            write_json(given.out, {**document, "environment": made, "images": sizes, "pool": DRAWN, "records": records})
            print(f"draw {draw}", flush=True)


if __name__ == "__main__":
    main()
