"""A protocol of one's own: sets the catalog never heard of, another corruption, no number of the paper beside them."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.bench.tiny import pictures
from typer.testing import CliRunner

from wildspec.bench.own_protocol import own_protocol
from wildspec.bench.prepare import prepare
from wildspec.bench.protocols import protocol
from wildspec.bench.records import load_records
from wildspec.bench.store import Store
from wildspec.cli.main import app
from wildspec.data.corruptions import corrupt
from wildspec.errors import DataError, InputError

OWN = {
    "name": "colours-in-snow", "in_distribution": {"set": "colours", "classes": 3, "size": 8},
    "covariate": {"corruption": "snow", "severity": 3}, "semantic": [{"name": "stripes"}], "model": "small",
}  # fmt: skip


def write(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps({**OWN, **changes}))
    return path


def folder_of(root: Path, labels: list[int], seed: int, stripes: bool = False) -> None:
    root.mkdir(parents=True)
    for number, image in enumerate(pictures(np.array(labels), seed, size=8, stripes=stripes)):
        Image.fromarray(image).save(root / f"{number}.png")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """colours: train and test with folders of classes; stripes: loose images; shapes: domains with folders of classes."""
    data = tmp_path_factory.mktemp("own")
    for number, name in enumerate(("red", "green", "blue")):
        folder_of(data / "colours" / "train" / name, [number] * 160, number)
        folder_of(data / "colours" / "test" / name, [number] * 10, 10 + number)
        for domain in ("photo", "sketch"):
            folder_of(data / "shapes" / "all" / domain / name, [number] * 100, 20 + number, domain == "sketch")
    folder_of(data / "stripes", [0, 1, 2] * 20, 4, stripes=True)
    return data


def test_what_is_not_said_is_taken_from_the_base(tmp_path: Path) -> None:
    made, base = own_protocol(write(tmp_path / "own.json"), "cifar10"), protocol("cifar10")
    assert made.in_distribution == {"set": "colours", "train": "train", "test": "test", "size": 8, "classes": 3}
    assert made.covariate == {"corruption": "snow", "severity": 3, "severities": [1, 2, 3, 4, 5]}
    assert (made.kind, made.pi_c, made.pi_s, made.neighbours) == (base.kind, base.pi_c, base.pi_s, base.neighbours)
    assert [entry.name for entry in made.semantic] == ["stripes", *(entry.name for entry in base.semantic)]
    stripes = made.semantic_set("stripes")
    assert (stripes.set, stripes.train, stripes.test, stripes.scheme) == ("stripes", "all", None, "semantic")
    assert made.default_semantic == "stripes"
    assert made.etas("stripes") == (0.5, 2.0)
    sets = [{"name": "digits", "set": "svhn", "test": "test"}, {"name": "svhn", "scheme": "semantic"}]
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"name": "mine", "semantic": sets}))
    added = own_protocol(path, "cifar10")
    assert added.in_distribution == base.in_distribution
    digits = added.semantic_set("digits")
    assert (digits.set, digits.train, digits.test, digits.scheme) == ("svhn", "train", "test", "semantic_with_test")
    assert [entry.name for entry in added.semantic].count("svhn") == 1
    assert added.etas("textures10") == base.etas("textures10")
    assert not own_protocol(write(tmp_path / "net.json"), "imagenet100").in_distribution.get("wnids")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "cifar10"}, "needs a name of its own"),
        ({"name": "a/b"}, "needs a name of its own"),
        ({"severity": 3}, "has the unknown key severity; known are name, title"),
        ({"kind": "domains"}, "has the unknown key kind"),
        ({"covariate": {"corruption": "fog"}}, "covariate.corruption must be one of gaussian_noise"),
        ({"covariate": {"severity": 9}}, "covariate.severity must be one of 1, 2, 3, 4, 5; got 9"),
        ({"covariate": "snow"}, "covariate must be an object, got 'snow'"),
        ({"semantic": ["stripes"]}, "every semantic set must be an object with a name, got 'stripes'"),
        ({"semantic": [{"name": "stripes", "folder": "x"}]}, "has the unknown key folder"),
        ({"semantic": [{"name": "stripes", "set": 5}]}, "set of the semantic set 'stripes' must be text, got 5"),
        ({"in_distribution": {"folder": "colours"}}, "in_distribution has the unknown key folder; known are set, train"),
        ({"covariate": {"level": 3}}, "covariate has the unknown key level; known are corruption"),
        ({"covariate": {"severities": 3}}, "covariate.severities must be a list of whole numbers from 1 to 5, got 3"),
        ({"covariate": {"severities": [3, 9]}}, "covariate.severities must be a list .*9"),
        ({"in_distribution": {"size": "8"}}, "in_distribution.size must be a whole number"),
        ({"in_distribution": {"classes": 1}}, "in_distribution.classes must be at least 2"),
        ({"in_distribution": {"known": [0, 10]}}, "in_distribution.known must be a list of whole numbers from 0 to 9"),
        ({"neighbours": "50"}, "neighbours must be a whole number"),
        ({"labelled": 1}, "labelled must lie strictly between 0 and 1"),
        ({"known": 2}, "has the key known, which protocols based on cifar10 do not use"),
        ({"domains": {"P": "photo"}}, "has the key domains, which protocols based on cifar10 do not use"),
        ({"name": ".."}, "needs a name of its own"),
        ({"semantic": "stripes"}, "semantic must be a list of objects, got 'stripes'"),
        ({"semantic": [{"name": "../stripes"}]}, "a semantic set's name .* got '../stripes'"),
        ({"default_semantic": "spots"}, "default_semantic must be one of stripes, svhn"),
        ({"pi_c": 1.5}, r"own.json: pi_c must lie in \[0, 1\]"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        own_protocol(write(tmp_path / "own.json", **changes), "cifar10")


@pytest.mark.parametrize("changes", [{"pi_c": 0.5}, {"labelled": 0.2}, {"covariate": {"corruption": "snow"}}])
def test_a_shift_to_another_domain_has_no_mixture_and_no_corruption(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"name": "mine", **changes}))
    with pytest.raises(InputError, match=f"has the key {next(iter(changes))}, which protocols based on office-home"):
        own_protocol(path, "office-home")


def test_a_pair_of_domains_needs_two_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    own = {"name": "mine", "domains": {"P": "photo", "S": "sketch"}}
    path.write_text(json.dumps(own))
    with pytest.raises(InputError, match="semantic set"):
        own_protocol(path, "office-home")
    for pair in ({"name": "P->X", "source": "P", "target": "X"}, {"name": "P->S"}):
        path.write_text(json.dumps({**own, "semantic": [pair]}))
        with pytest.raises(InputError, match=r"source.*target"):
            own_protocol(path, "office-home")
    path.write_text(json.dumps({**own, "semantic": [{"name": "P->S", "source": "P", "target": "S"}]}))
    assert [entry.name for entry in own_protocol(path, "office-home").semantic] == ["P->S"], "none of Office-Home's pairs"


def test_without_unknown_classes_of_its_own_no_set_is_made_of_them(images: Path, tmp_path: Path) -> None:
    """The protocol ``impact`` tests on the unknown half of CIFAR-10; a set whose classes are all known has no such half."""
    made = own_protocol(write(tmp_path / "own.json"), "impact")
    assert not any(entry.unknown_classes for entry in made.semantic)
    assert prepare(made, "stripes", Store(images, tmp_path / "cache"), unseen=True).unseen == {}


def test_the_labelled_share_is_the_protocols(images: Path, tmp_path: Path) -> None:
    """Of 480 images: 120 are labelled, a tenth of the other 360 is for validation."""
    made = own_protocol(write(tmp_path / "own.json", labelled=0.25), "cifar10")
    found = prepare(made, "stripes", Store(images, tmp_path / "cache"))
    assert (len(found.labelled), len(found.id_validation)) == (120, 36)
    assert np.bincount(found.labelled.labels.numpy()).tolist() == [40, 40, 40]


def test_its_sets_are_folders_of_any_name(images: Path, tmp_path: Path) -> None:
    made = own_protocol(write(tmp_path / "own.json"), "cifar10")
    store = Store(images, tmp_path / "cache")
    found = prepare(made, "stripes", store)
    assert found.labelled.classes == ("blue", "green", "red")
    assert len(found.labelled) == 240
    assert len(found.id_test) == 30
    assert len(found.semantic_test) == 18  # 30 % of 60
    again = corrupt(found.id_test.images, "snow", 3, 2)
    assert np.array_equal(found.covariate_test[3].images.numpy(), again.numpy())
    assert not found.sources["colours/train"]["in_catalog"]
    with pytest.raises(DataError, match=r"stripes \(test\) is not in .*test/CLASS/"):
        store.load("stripes", "test", 8)


def test_domains_of_its_own(images: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps({
        "name": "own-domains", "in_distribution": {"set": "shapes", "classes": 2, "size": 8},
        "domains": {"P": "photo", "S": "sketch"}, "known": 2, "unknown": 1,
        "semantic": [{"name": "P->S", "source": "P", "target": "S"}], "model": "small",
    }))  # fmt: skip
    made = own_protocol(path, "office-home")
    assert not made.pretrained
    found = prepare(made, "P->S", Store(images, tmp_path / "cache"))
    assert found.labelled.classes == ("blue", "green")
    assert (len(found.labelled), len(found.covariate_test[1]), len(found.semantic_test)) == (160, 200, 100)


def test_from_the_shell_to_the_table(images: Path, tmp_path: Path) -> None:
    words = ["bench", "cifar10", "--protocol", str(write(tmp_path / "own.json")), "--methods", "knn,erm+maxlogit", "--scale",
             "0.1", "--device", "cpu", "--data", str(images), "--out", str(tmp_path / "out")]  # fmt: skip
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert "colours-in-snow, stripes in the wild pool, snow severity 3" in said.output
    assert "paper" not in said.output
    records = load_records([tmp_path / "out"])
    assert {(r["protocol"], r["semantic"], r["covariate"], r["detector"]) for r in records} == {
        ("colours-in-snow", "stripes", "snow", detector) for detector in ("knn", "maxlogit")
    }
    for name in ("table.md", "table.tex"):
        text = (tmp_path / "out" / name).read_text()
        assert "colours-in-snow" in text
        assert "the paper's number" not in text
    assert "found done: 1" in CliRunner().invoke(app, words).output
    other = tmp_path / "other images"
    shutil.copytree(images, other)
    assert "found done: 1" in CliRunner().invoke(app, [*words, "--data", str(other)]).output, "the same images elsewhere"
    picture = next((other / "colours" / "test").rglob("*.png"))
    Image.fromarray(255 - np.asarray(Image.open(picture))).save(picture)
    wrong = CliRunner().invoke(app, [*words, "--data", str(other)])
    assert isinstance(wrong.exception, InputError), "one image of the test set is another"
    assert "was made with other images of colours/test" in str(wrong.exception)
    again = {"semantic": [*OWN["semantic"], {"name": "stripes too", "set": "stripes"}]}
    write(tmp_path / "own.json", **again)
    assert "found done: 1" in CliRunner().invoke(app, words).output, "one more set changes nothing of the others"
    write(tmp_path / "own.json", **again, labelled=0.25)
    wrong = CliRunner().invoke(app, words)
    assert isinstance(wrong.exception, InputError), "what is there was made with half of the labels"
    assert "begun with another labelled: 0.5, now it is 0.25" in str(wrong.exception)


def test_sets_and_prepare_know_it_too(images: Path, tmp_path: Path) -> None:
    own = ["--protocol", str(write(tmp_path / "own.json"))]

    def call(*words: str) -> Any:
        return CliRunner().invoke(app, ["bench", *words])

    listed = json.loads(call("sets", "cifar10", *own, "--data", str(images), "--json").stdout)
    found = {row["set"]: {split: facts["there"] for split, facts in row["splits"].items()} for row in listed}
    assert list(found)[:3] == ["colours", "stripes", "svhn"], "its own first, then those of the protocol it is based on"
    assert (found["colours"], found["stripes"]) == ({"train": True, "test": True}, {"all": True})
    assert "cifar10" not in found
    assert found["svhn"] == {"train": False, "test": False}
    text = call("sets", "cifar10", *own).stdout
    assert text.startswith("colours: a set of your own\n")
    assert "colours/ with train-*.parquet (columns image, label) or image files in train/, train/<class>/: any" in text
    other = write(tmp_path / "other.json", semantic=[{"name": "digits", "set": "svhn"}])
    read = json.loads(call("sets", "cifar10", "--protocol", str(other), "--json").stdout)
    svhn = next(row for row in read if row["set"] == "svhn")
    assert list(svhn["splits"]) == ["train", "test", "all"], "a split that the catalog does not have"
    for names in ([], ["cifar10", "svhn"]):
        wrong = CliRunner().invoke(app, ["bench", "sets", *names, *own])
        assert isinstance(wrong.exception, InputError)
        assert "needs the one protocol it is based on" in str(wrong.exception)

    where = ["--data", str(images), "--cache", str(tmp_path / "cache")]
    done = call("prepare", "cifar10", *own, *where, "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert {(row["set"], row["split"]): row["decoded_now"] for row in rows} == {
        ("colours", "train"): 1, ("colours", "test"): 1, ("stripes", "all"): 1,
    }  # fmt: skip
    assert (tmp_path / "cache" / "colours" / "train.8.npy").exists(), "at the size that the file asks for"
    lacking = call("prepare", "cifar10", *own, "--semantic", "svhn", *where)
    assert lacking.exit_code == 1
    assert "svhn train      missing" in lacking.stdout


def test_svhn_in_another_protocol_is_not_compared(tmp_path: Path, data: Path, cache: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"name": "snow", "covariate": {"corruption": "snow"}}))
    words = ["bench", "cifar10", "--protocol", str(path), "--methods", "knn", "--scale", "0.05", "--device", "cpu",
             "--size", "8", "--backbone", "small", "--data", str(data), "--cache", str(cache),
             "--out", str(tmp_path / "out")]  # fmt: skip
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    with open(tmp_path / "out" / "table.csv", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert {(row["protocol"], row["semantic"]) for row in table} == {("snow", "svhn")}
    papers = [title for title in table[0] if "paper" in title]
    assert papers
    assert not any(row[title] for row in table for title in papers)
