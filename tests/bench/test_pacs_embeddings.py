"""The embeddings benchmark: its splits, its metrics, its tables, on a small made-up file of the same shape."""

import json

import numpy as np
import pytest

from command import runner
from wildspec.bench import pacs_tables as tables
from wildspec.bench.embedding_methods import METHODS, Answer
from wildspec.bench.pacs_embeddings import DOMAINS, PAIRS, load_embeddings, make_task, measure, run
from wildspec.errors import DataError, InputError


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Seven classes in four domains, 40 samples each, 16 numbers."""
    rng = np.random.default_rng(0)
    classes, moves = rng.normal(size=(7, 16)), rng.normal(size=(4, 16))
    labels, domains = np.tile(np.repeat(np.arange(7), 40), 4), np.repeat(np.arange(4), 280)
    features = classes[labels] + moves[domains] + 0.5 * rng.normal(size=(1120, 16))
    path = tmp_path_factory.mktemp("pacs") / "embeddings.npz"
    np.savez(path, features=features.astype(np.float16), labels=labels, domain=np.array(DOMAINS)[domains])
    return path


@pytest.fixture(scope="module")
def data(file):
    return load_embeddings(file)


def test_there_are_twelve_ordered_pairs():
    assert len(PAIRS) == len(set(PAIRS)) == 12
    assert all(source != target for source, target in PAIRS)


def rows_of(data, rows):
    """Which samples of the file these are."""
    index = {row.tobytes(): i for i, row in enumerate(data.features)}
    return {index[row.tobytes()] for row in rows}


def test_the_split_is_what_it_says(data):
    task = make_task(data, "photo", "sketch", seed=3)
    parts = {name: rows_of(data, getattr(task, name)) for name in ("labelled", "wild", "id_test", "covariate", "semantic")}
    assert sum(map(len, parts.values())) == len(set.union(*parts.values()))  # disjoint
    at = {name: np.array(sorted(found)) for name, found in parts.items()}
    assert set(data.domain[at["labelled"]]) == set(data.domain[at["id_test"]]) == {"photo"}
    assert set(data.domain[at["covariate"]]) == set(data.domain[at["semantic"]]) == {"sketch"}
    assert set(data.labels[at["labelled"]]) == set(data.labels[at["covariate"]]) == {0, 1, 2, 3}
    assert set(data.labels[at["semantic"]]) == {4, 5, 6}
    assert (len(at["labelled"]), len(at["id_test"]), len(at["covariate"]), len(at["semantic"])) == (80, 40, 80, 60)
    assert task.counts == (40, 80, 60)
    np.testing.assert_array_equal(np.bincount(task.labels), 20)
    kinds = [(data.domain[i] == "sketch", data.labels[i] > 3) for i in at["wild"]]
    assert (kinds.count((False, False)), kinds.count((True, False)), kinds.count((True, True))) == task.counts


class TwoClasses:
    """A task with the least a method may be given; ``turned``: the classes exchange their numbers."""

    def __init__(self, turned):
        rng = np.random.default_rng(5)
        rows = [rng.normal(size=(n, 6)).astype(np.float32) + 1 for n in (60, 40, 20, 20, 20)]
        rows[0][:30, 0] += 2
        self.labelled, self.wild, *self.tests = rows
        self.labels, self.seed = (np.arange(60) >= 30).astype(np.int64) ^ turned, 0


@pytest.mark.parametrize("name", ["lr-energy", "vim"])
def test_two_classes_are_scored_whichever_of_them_is_called_0(name):
    once, again = (METHODS[name].run(TwoClasses(turned)) for turned in (False, True))
    for found, other, one, two in zip(once.scores, again.scores, once.predictions, again.predictions, strict=True):
        np.testing.assert_allclose(found, other, atol=1e-3)
        np.testing.assert_array_equal(one, 1 - two)
    assert np.std(np.concatenate(once.scores)) > 0.05


def test_the_energy_of_two_classes_is_that_of_logits_with_their_probabilities():
    task = TwoClasses(False)
    energy, probability = (METHODS[name].run(task).scores[2] for name in ("lr-energy", "lr"))
    z = np.log(1 / probability - 1)  # of the likelier class against the other
    np.testing.assert_allclose(energy, -np.log(2 * np.cosh(z / 2)), atol=1e-4)


def test_the_papers_mixture_has_the_papers_shares(data):
    task = make_task(data, "photo", "sketch", seed=3, mixture="paper")
    assert task.counts == (40, 50, 10)
    assert rows_of(data, task.wild) <= rows_of(data, make_task(data, "photo", "sketch", seed=3).wild)


def test_the_seed_decides_the_split(data):
    one, same, other = (make_task(data, "art_painting", "photo", seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.wild, same.wild)
    assert not np.array_equal(one.labelled, other.labelled)


def test_measured_numbers_are_counted_by_hand(data):
    task = make_task(data, "photo", "sketch", seed=0)
    right, wrong = task.id_labels, (task.covariate_labels + 1) % 4
    kept = (np.arange(40) < 30, np.arange(80) < 20, np.arange(60) < 6)
    answer = Answer((np.zeros(40), np.full(80, 0.5), np.ones(60)), (right, wrong, np.zeros(60)), kept)
    found = measure(task, answer)
    assert (found["id_acc"], found["ood_acc"]) == (1, 0)
    assert (found["fpr95_id"], found["fs_auroc"]) == (0, 1)
    assert (found["id_kept"], found["covariate_kept"], found["detection_rate"]) == (0.75, 0.25, 0.9)
    assert found["accuracy_kept"] == pytest.approx(30 / 50)


@pytest.mark.filterwarnings("ignore:.*held-out labelled samples")
def test_every_method_answers_for_every_test_sample(data):
    task = make_task(data, "cartoon", "photo", seed=0)
    for name, method in METHODS.items():
        answer = method.run(task)
        for scores, predictions, rows in zip(answer.scores, answer.predictions, task.tests, strict=True):
            assert scores.shape == predictions.shape == (len(rows),), name
            assert np.isfinite(scores).all(), name
        assert np.mean(answer.predictions[0] == task.id_labels) > 0.6, name
        assert scores_point_outwards(answer), name


def scores_point_outwards(answer):
    """High = OOD: unknown samples of another domain score higher on average than ID ones. Self-training is sure of all."""
    return answer.scores[2].mean() > answer.scores[0].mean() or answer.scores[2].max() < 0.3


def records():
    """Two seeds, two pairs, three methods with numbers whose means are easy."""
    made = []
    for seed in (0, 1):
        for number, (source, target) in enumerate((("photo", "sketch"), ("sketch", "photo"))):
            for method, base in (("spectral", 0.9), ("lr", 0.8), ("vim", 0.85)):
                value = base + 0.02 * seed - 0.1 * (number == 1 and method == "spectral")
                metrics = dict.fromkeys(tables.SHOWN, value) | {"fpr95_id": 0.01}
                where = {"mixture": "all", "source": source, "target": target, "seed": seed, "method": method}
                made.append({**where, "metrics": metrics})
    return made


def test_means_are_over_pairs_and_seeds_and_spread_over_seeds():
    table = tables.summarize(records(), "all")
    assert table["lr"]["fs_auroc"] == pytest.approx((0.81, 0.02 / np.sqrt(2)))
    assert table["spectral"]["fs_auroc"][0] == pytest.approx(0.86)
    assert tables.summarize(records(), "paper") == {}


def test_the_table_shows_every_method_and_pair():
    text = tables.markdown(records(), "all")
    assert "| **SpectralClassifier** |" in text
    assert "86.0 ± 1.4" in text
    assert "| photo → sketch | **91.0 ± 1.4** | 86.0 ± 1.4 (ViM) |" in text
    assert "| sketch → photo | 81.0 ± 1.4 | 86.0 ± 1.4 (ViM) |" in text


@pytest.mark.filterwarnings("ignore:.*held-out labelled samples")
def test_a_cut_run_is_resumed_not_repeated(data):
    pairs = [("photo", "sketch"), ("sketch", "photo")]
    kept = []
    first = run(data, seeds=[0], mixtures=["all"], methods=["lr"], pairs=pairs[:1], keep=lambda r: kept.append(len(r)))
    said = []
    both = run(data, seeds=[0], mixtures=["all"], methods=["lr"], pairs=pairs, done=first, say=said.append)
    assert (len(first), len(both), len(said), kept) == (1, 2, 1, [1])
    assert both[0] is first[0]


@pytest.mark.filterwarnings("ignore:.*held-out labelled samples")
def test_the_command_writes_records_and_prints_tables(file, tmp_path, monkeypatch, capsys):
    run_command = runner(monkeypatch, capsys)
    out = tmp_path / "results.json"
    arguments = ["bench", "pacs-embeddings", "--data", str(file), "--out", str(out), "--seeds", "1", "--mixture", "all"]
    status, text, errors = run_command(*arguments, "--methods", "spectral,lr")
    assert status == 0, errors
    assert "SpectralClassifier" in text
    document = json.loads(out.read_text())
    assert len(document["records"]) == 24
    assert document["environment"]["command"].startswith("wildspec")
    again = run_command("bench", "pacs-embeddings", "--table", str(out), "--json")
    assert again[0] == 0
    mine = [record["metrics"]["fs_auroc"] for record in document["records"] if record["method"] == "spectral"]
    assert json.loads(again[1])["means"]["all"]["spectral"]["fs_auroc"] == pytest.approx(np.mean(mine))
    status, _, errors = run_command("bench", "pacs-embeddings")
    assert (status, "give --data" in errors) == (2, True)


def test_a_method_nobody_knows_is_refused(data):
    with pytest.raises(InputError, match="method must be one of"):
        run(data, seeds=[0], methods=["spektral"])


def test_wrong_files_are_one_clear_line(tmp_path, data):
    with pytest.raises(DataError, match="does not exist"):
        load_embeddings(tmp_path / "nothing.npz")
    np.savez(tmp_path / "a.npz", features=np.zeros((3, 2)), labels=np.zeros(3), domain=np.array(["photo"] * 3))
    with pytest.raises(DataError, match="no samples of the domain"):
        load_embeddings(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", features=np.zeros((3, 2)), labels=np.zeros(2), domain=np.array(["photo"] * 3))
    with pytest.raises(DataError, match="do not fit together"):
        load_embeddings(tmp_path / "b.npz")
    whole = (tmp_path / "a.npz").read_bytes()
    np.save(tmp_path / "single.npy", np.zeros((3, 2)))
    for content in (b"no archive", b"", whole[:200], b"PK\x03\x04", (tmp_path / "single.npy").read_bytes()):
        (tmp_path / "c.npz").write_bytes(content)
        with pytest.raises(DataError, match="not an embeddings file"):
            load_embeddings(tmp_path / "c.npz")


@pytest.mark.parametrize(("changes", "said"), [
    ({"labels": np.array([0, 1, 2, 7])}, "whole numbers from 0 to 6"),  # would count as unknown
    ({"labels": np.array([0, 1, 2, -1])}, "whole numbers from 0 to 6"),
    ({"labels": np.array([0, 1, 2, 2.5])}, "whole numbers from 0 to 6"),
    ({"labels": np.array(["dog"] * 4)}, "whole numbers from 0 to 6"),
    ({"features": np.array([[0.0], [1.0], [np.nan], [2.0]])}, "finite"),
    ({"features": np.array([["a"]] * 4)}, "finite"),
])  # fmt: skip
def test_values_that_no_protocol_knows_are_refused(tmp_path, changes, said):
    whole = {"features": np.zeros((4, 1)), "labels": np.array([0, 1, 2, 3]), "domain": np.array(DOMAINS)}
    np.savez(tmp_path / "a.npz", **{**whole, **changes})
    with pytest.raises(DataError, match=said):
        load_embeddings(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", **whole)
    assert load_embeddings(tmp_path / "a.npz").labels.tolist() == [0, 1, 2, 3]
