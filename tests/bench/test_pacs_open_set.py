"""The open-set protocol: its splits, what it measures, resuming, the command; on a small made-up file of the same shape."""

import itertools
import json

import numpy as np
import pytest

from command import runner
from wildspec.bench.open_set_systems import SYSTEMS, Predictions
from wildspec.bench.pacs_embeddings import DOMAINS, load_embeddings
from wildspec.bench.pacs_open_set import CHOICES, NAMES, make_task, measure, run
from wildspec.bench.pacs_tables import markdown, mean_by, parts, summarize
from wildspec.errors import InputError

PAIR = [("photo", "sketch")]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Seven classes in four domains, 40 samples each, 12 numbers."""
    rng = np.random.default_rng(0)
    classes, moves = rng.normal(size=(7, 12)), 0.5 * rng.normal(size=(4, 12))
    labels, domains = np.tile(np.repeat(np.arange(7), 40), 4), np.repeat(np.arange(4), 280)
    features = 1 + classes[labels] + moves[domains] + 0.3 * rng.normal(size=(1120, 12))
    path = tmp_path_factory.mktemp("pacs") / "embeddings.npz"
    np.savez(path, features=features.astype(np.float16), labels=labels, domain=np.array(DOMAINS)[domains])
    return path


@pytest.fixture(scope="module")
def data(file):
    return load_embeddings(file)


def test_the_choices_overlap_as_little_as_three_of_four_in_seven_can():
    def overlaps(choices):
        return sorted((len(set(a) & set(b)) for a, b in itertools.combinations(choices, 2)), reverse=True)

    fours = list(itertools.combinations(NAMES, 4))
    rest = [(CHOICES[0], *two) for two in itertools.combinations(fours, 2) if CHOICES[0] not in two]
    assert overlaps(CHOICES) == min(map(overlaps, rest)) == [2, 2, 1]
    assert next(choices for choices in rest if overlaps(choices) == [2, 2, 1]) == CHOICES
    assert set.union(*(set(NAMES) - set(known) for known in CHOICES)) == set(NAMES)


def test_the_split_is_what_it_says(data):
    task = make_task(data, CHOICES[1], "photo", "art_painting", 0, "inductive")
    assert task.known == (0, 1, 4, 5)
    assert (len(task.labelled), len(task.id_test), len(task.wild), len(task.test)) == (128, 32, 140, 140)
    np.testing.assert_array_equal(np.bincount(task.test_labels), 20)
    parts = [{row.tobytes() for row in rows} for rows in (task.labelled, task.id_test, task.wild, task.test)]
    assert sum(map(len, parts)) == len(set.union(*parts))
    whole = make_task(data, CHOICES[1], "photo", "art_painting", 0, "transductive")
    np.testing.assert_array_equal(whole.wild, whole.test)
    assert len(whole.wild) == 280
    np.testing.assert_array_equal(whole.labelled, task.labelled)
    other = make_task(data, CHOICES[1], "photo", "art_painting", 1, "inductive")
    assert not np.array_equal(other.wild, task.wild)


def test_measured_numbers_are_counted_by_hand(data):
    task = make_task(data, CHOICES[0], "photo", "sketch", 0, "inductive")
    known = task.test_labels < 4
    predicted = np.where(known, task.test_labels, -1)
    predicted[np.flatnonzero(task.test_labels == 0)[:10]] = -1  # half of class 0 rejected
    predicted[np.flatnonzero(task.test_labels == 5)] = 1  # one unknown class of three taken for a known one
    found = measure(task, Predictions(predicted, (~known).astype(float), task.id_labels, np.zeros(32)))
    assert (found["os_star"], found["unk"], found["unk_macro"]) == (0.875, pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (found["auroc"], found["fpr95"], found["id_auroc"], found["id_fpr95"], found["id_acc"]) == (1, 0, 1, 0, 1)
    assert found["unknown_share"] == pytest.approx(3 / 7)


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
@pytest.mark.filterwarnings("ignore:.*labelled samples for calibration", "ignore:.*held-out labelled samples")
def test_every_system_answers_for_every_sample(data, setting):
    task = make_task(data, CHOICES[0], "photo", "sketch", 0, setting)
    for name, system in SYSTEMS.items():
        told = system.run(task)
        assert told.predicted.shape == told.scores.shape == (len(task.test),), name
        assert told.id_predicted.shape == told.id_scores.shape == (len(task.id_test),), name
        assert set(told.predicted.tolist()) <= {-1, *task.known}, name
        kept = told.predicted != -1
        assert not kept.any() or kept.all() or told.scores[~kept].mean() > told.scores[kept].mean(), name


def test_a_cut_run_is_resumed_and_a_system_is_made_again(data):
    kept, said = [], []
    options = {"seeds": [0], "settings": ["inductive"], "choices": CHOICES[:1], "systems": ["osnn", "lr-msp"]}
    first = run(data, pairs=PAIR, keep=lambda records: kept.append(len(records)), **options)
    both = run(data, pairs=[*PAIR, ("sketch", "photo")], done=first, say=said.append, **options)
    assert (len(first), kept, len(both), len(said)) == (2, [2], 4, 1)
    assert both[0] is first[0]
    again = run(data, pairs=PAIR, done=[first[1]], **options)
    assert [record["system"] for record in again] == ["lr-msp", "osnn"]
    assert again[1]["metrics"] == first[0]["metrics"]
    with pytest.raises(InputError, match="system must be one of"):
        run(data, seeds=[0], systems=["osn"])


def test_scaled_recipes_are_records_of_their_own(data):
    """Records that do not say are those of the whole recipe."""
    options = {"seeds": [0], "settings": ["inductive"], "choices": CHOICES[:1], "systems": ["osnn"], "pairs": PAIR}
    whole = run(data, **options)
    both = run(data, done=whole, scale=0.1, **options)
    assert [record.get("scale") for record in both] == [None, 0.1]
    for scale in (1.0, 0.1):
        assert len(run(data, done=both, scale=scale, **options)) == 2, "nothing is missing"
    assert len(run(data, done=both, scale=0.5, **options)) == 3
    assert parts(both) == ["inductive", "inductive, scale 0.1"]
    both[1]["metrics"] = dict.fromkeys(both[1]["metrics"], 0.125)
    assert summarize(both, "inductive")["osnn"]["hos"][0] == whole[0]["metrics"]["hos"], "no table mixes them"
    assert "12.5" in markdown(both, "inductive, scale 0.1")


def test_a_row_with_fewer_records_says_so():
    full = records()
    assert " of 8]" not in markdown(full, "inductive")
    last = max(n for n, record in enumerate(full) if record["system"] == "oslpp")
    lines = markdown(full[:last] + full[last + 1 :], "inductive").splitlines()
    assert ["[7 of 8]" in line for line in lines if "OSLPP" in line] == [True]
    assert sum("of 8]" in line for line in lines) == 1


def records():
    """Two seeds, two pairs, two choices; HOS of ours 0.6 and 0.8 by pair, of OSLPP 0.65 throughout, +0.1 in seed 1."""
    made = []
    for seed, known, (number, target), (system, base) in itertools.product(
        (0, 1), CHOICES[:2], enumerate(("sketch", "photo")), (("spectral", 0.6), ("oslpp", 0.65))
    ):
        value = base + 0.1 * seed + (0.2 * number if system == "spectral" else 0)
        names = ("os_star", "unk", "unk_macro", "os", "hos", "hos_macro", "auroc", "fpr95", "id_auroc", "id_acc")
        where = {"setting": "inductive", "known": list(known), "source": "cartoon", "target": target, "seed": seed}
        made.append({**where, "system": system, "metrics": dict.fromkeys(names, value)})
    return made


def test_means_and_tables():
    assert summarize(records(), "inductive")["spectral"]["hos"] == pytest.approx((0.75, 0.1 / np.sqrt(2)))
    by_target = mean_by(records(), "inductive", "target", metric="hos")
    assert by_target[("sketch",)] == pytest.approx({"spectral": 0.65, "oslpp": 0.7})
    text = markdown(records(), "inductive")
    assert "| **SpectralClassifier** |" in text
    assert "**75.0 ± 7.1**" in text
    assert text.count("**70.0") == 0


@pytest.mark.filterwarnings("ignore:.*labelled samples for calibration", "ignore:.*held-out labelled samples")
def test_the_command_writes_records_and_prints_tables(file, tmp_path, monkeypatch, capsys):
    run_command = runner(monkeypatch, capsys)
    out = tmp_path / "results.json"
    options = ["--data", str(file), "--out", str(out), "--seeds", "1", "--setting", "inductive"]
    status, text, errors = run_command("bench", "pacs-open-set", *options, "--systems", "osnn,osnn-means")
    assert status == 0, errors
    assert "## inductive" in text
    document = json.loads(out.read_text())
    assert len(document["records"]) == 72
    before = [record for record in document["records"] if record["system"] == "osnn-means"]
    status, _, errors = run_command(
        "bench", "pacs-open-set", *options, "--systems", "osnn,osnn-means", "--again", "osnn", "--json"
    )
    assert status == 0, errors
    after = json.loads(out.read_text())["records"]
    assert (len(after), after[:36]) == (72, before)
    status, text, _ = run_command("bench", "pacs-open-set", "--table", str(out), "--json")
    assert set(json.loads(text)["means"]["inductive"]) == {"osnn", "osnn-means"}
    status, _, errors = run_command("bench", "pacs-open-set")
    assert (status, "give --data" in errors) == (2, True)
    status, _, errors = run_command("bench", "pacs-open-set", *options, "--again", "osn")
    assert (status, "system must be one of" in errors) == (2, True)


def test_the_command_keeps_scales_apart(data, tmp_path, monkeypatch, capsys):
    """Of networks; one on rows stands for them, so that nothing is trained."""
    monkeypatch.setattr("wildspec.bench.pacs_images.load_pacs_images", lambda folder, cache: data)
    monkeypatch.setattr("wildspec.bench.open_set_networks.network_systems", lambda trainer: {"osnn": SYSTEMS["osnn"]})
    run_command, out = runner(monkeypatch, capsys), tmp_path / "results.json"
    options = ["--data", str(tmp_path), "--out", str(out), "--seeds", "1", "--setting", "inductive", "--choices", "1"]

    def scales(*more):
        status, text, errors = run_command("bench", "pacs-open-set", *options, *more)
        assert status == 0, errors
        found = json.loads(out.read_text())["records"]
        return [record.get("scale", 1) for record in found], text

    assert scales("--scale", "0.1")[0] == [0.1] * 12
    assert scales()[0] == [0.1] * 12 + [1] * 12
    found, text = scales("--scale", "0.1", "--again", "osnn")
    assert found == [1] * 12 + [0.1] * 12, "made again were those of this scale"
    assert "## inductive\n" in text
    assert "## inductive, scale 0.1\n" in text
