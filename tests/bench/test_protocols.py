"""Protocols say what the paper's appendix says, in the names the rest of the library uses."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from wildspec.bench.plan import BenchRequest
from wildspec.bench.protocols import choose_rows, protocol, protocol_names, rows, rows_of
from wildspec.bench.published import published
from wildspec.cli.main import app
from wildspec.data.splits import WILD_SCHEMES
from wildspec.errors import InputError


def test_the_five_protocols() -> None:
    assert protocol_names() == ["cifar10", "imagenet100", "office-home", "impact", "sweep"]
    for name in protocol_names():
        made = protocol(name)
        assert made.name == name
        assert made.title
        assert made.paper
    with pytest.raises(InputError, match="protocol must be one of"):
        protocol("mnist")


def test_cifar10_is_the_appendix() -> None:
    made = protocol("cifar10")
    assert (made.labelled, made.pi_c, made.pi_s) == (0.5, 0.5, 0.1)
    assert WILD_SCHEMES[made.unlabelled_scheme] == {"train": 0.6, "id_validation": 0.1, "wild_validation": 0.3}
    assert made.covariate == {"corruption": "gaussian_noise", "severity": 1, "severities": [1, 2, 3, 4, 5]}
    assert made.model == "wrn40_2"
    assert made.neighbours == 50
    in_paper = [entry.name for entry in made.semantic if entry.stand_in_for is None]
    assert in_paper == ["svhn", "lsun_c", "textures", "places365", "lsun_r"]
    stand_ins = {entry.name: entry.stand_in_for for entry in made.semantic if entry.stand_in_for}
    assert stand_ins == {
        "textures10": "textures", "miniplaces": "places365", "scenes9_crop": "lsun_c", "scenes9_resize": "lsun_r"
    }
    assert made.semantic_set("svhn").scheme == "semantic_with_test"
    assert all(entry.scheme == "semantic" for entry in made.semantic if entry.name != "svhn")


def test_etas_are_the_table_and_stand_ins_take_those_of_their_original() -> None:
    made = protocol("cifar10")
    assert made.etas("svhn") == (0.5, 2.0)
    assert made.etas("textures") == made.etas("textures10") == (0.5, 1.0)
    assert made.etas("lsun_r") == made.etas("scenes9_resize") == (0.1, 2.0)
    assert protocol("imagenet100").etas("inaturalist") == (0.1, 2.0)
    assert protocol("office-home").etas("Pr->Cl") == (0.05, 3.0)
    assert protocol("impact").etas("cifar10_unknown_gaussian_noise") == (0.5, 2.0)
    assert made.hparams("erm", "svhn") == [{}]
    plus = {"warmup_head": True, "agreement": 0.9, "views": 0, "pseudo": 0.0, "rounds": 2}
    assert made.hparams("spectral+", "svhn") == [{**made.hparams("spectral", "svhn")[0], **plus}]
    assert made.hparams("spectral", "lsun_r") == [{"eta_l": 0.1, "eta_u": 2.0}]


def test_imagenet100_classes() -> None:
    wnids = protocol("imagenet100").in_distribution["wnids"]
    assert len(set(wnids)) == 100
    assert wnids == sorted(wnids)
    assert (wnids[0], wnids[-1]) == ("n01498041", "n07745940")
    assert protocol("imagenet100").neighbours == 100


def test_office_home_pairs_are_those_of_the_table() -> None:
    made = protocol("office-home")
    pairs = [entry.name for entry in made.semantic]
    printed = [row["semantic"] for row in published("office_home", "spectral") if row["semantic"] != "average"]
    assert sorted(pairs) == sorted(printed)
    assert len(pairs) == 12
    assert (made.known, made.unknown) == (25, 40)
    assert all(entry.source != entry.target for entry in made.semantic)
    assert all(entry.name == f"{entry.source}->{entry.target}" for entry in made.semantic)


def test_impact_rows_are_those_of_the_table() -> None:
    names = {entry.name for entry in protocol("impact").semantic}
    assert {row["semantic"] for row in published("impact")} <= names
    assert protocol("impact").in_distribution["known"] == [0, 1, 2, 3, 4]


def test_sweep_is_the_grid_of_the_table_on_the_cifar10_protocol() -> None:
    made = protocol("sweep")
    points = made.hparams("spectral", "textures")
    printed = [{"eta_l": row["eta_l"], "eta_u": row["eta_u"]} for row in published("sweep")]
    assert points == printed
    assert made.pi_c == protocol("cifar10").pi_c
    assert made.semantic == protocol("cifar10").semantic


def test_rows_are_those_of_the_papers_tables() -> None:
    names = {row.row for row in rows()}
    printed = {row["method"] for name in ("main", "main_more", "spectral_methods") for row in published(name)}
    assert names == printed


def test_one_cross_entropy_model_serves_all_detectors() -> None:
    chosen = choose_rows(["msp", "knn", "erm", "spectral", "spectral+energy", "msp"])
    assert chosen == {"erm": ["msp", "knn", "energy"], "spectral": ["knn", "energy"]}
    opened = choose_rows(["open-set"])
    assert opened["osbp"] == ["unknown_logit"]
    assert opened["ovanet"] == ["one_against_rest"]
    assert set(opened) == {"sta_sum", "sta_max", "osbp", "ros", "anna", "ovanet", "sal"}
    assert rows_of("ros", "unknown_logit")[0].group == "open-set domain adaptation"
    everything = choose_rows(["all"])
    assert everything["erm"] == ["msp", "odin", "energy", "mahalanobis", "vim", "knn", "ash"]
    assert everything["oe"] == ["msp"]
    assert choose_rows(["spectral+", "spectral++energy"]) == {"spectral+": ["", "energy"]}  # both: its own, and energy
    assert choose_rows(["other", "other"]) == {"other": [""]}


def test_rows_of() -> None:
    assert [row.row for row in rows_of("spectral", "knn")] == ["spectral"]
    assert [row.row for row in rows_of("erm", "energy")] == ["energy", "erm"]
    assert rows_of("spectral", "energy") == []


def test_unknown_semantic_lists_the_known() -> None:
    with pytest.raises(InputError, match="semantic must be one of"):
        protocol("cifar10").semantic_set("moon")


@pytest.mark.parametrize(("words", "trained"), [
    (["sweep"], {"spectral"}), (["cifar10"], {"spectral", "spectral+"}), (["sweep", "--methods", "erm"], {"erm"}),
])  # fmt: skip
def test_what_is_trained_where_nobody_asked(
    words: list[str], trained: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[BenchRequest] = []

    def remember(request: BenchRequest, **more: object) -> None:
        asked.append(request)
        raise InputError("enough")

    monkeypatch.setattr("wildspec.bench.run.run", remember)
    CliRunner().invoke(app, ["bench", *words, "--data", str(tmp_path), "--out", str(tmp_path / "run")])
    assert set(asked[0].methods) == trained
