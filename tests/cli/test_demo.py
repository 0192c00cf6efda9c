"""``wildspec demo`` on a tiny budget: one table, JSON, runs that other commands read, and no trouble the second time."""

import json
import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import wildspec
from wildspec.bench.demo import CONTESTANTS, neighbours, observe, summary
from wildspec.cli.main import app
from wildspec.data.digits_task import digits_task
from wildspec.evaluation import Evaluation, evaluate_scores

PER_TABLE = ("accuracy_kept", "id_kept", "covariate_kept", "detection_rate", "fs_auroc")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder, what was printed, what was printed the second time with --json."""
    out = tmp_path_factory.mktemp("demo") / "deep" / "runs"
    runner = CliRunner()
    first = runner.invoke(app, ["demo", "--quick", "--seeds", "1", "--out", str(out)], env={"COLUMNS": "80"})
    assert first.exit_code == 0, first.output
    again = runner.invoke(app, ["demo", "--quick", "--seeds", "1", "--out", str(out), "--json"])
    assert again.exit_code == 0, again.output
    return out, first.stdout, again.stdout


def test_the_table_has_a_row_for_every_contestant_in_plain_words(made: tuple[Path, str, str]) -> None:
    lines = made[1].splitlines()
    title = next(i for i, line in enumerate(lines) if "told" in line)
    head = " ".join(lines[title : title + 3])
    assert all(word in head for word in ("known", "shifted", "unknown", "kept", "rejected"))
    assert not [word for word in ("ID-Acc", "fs_", "cov.", "FPR95") if word in made[1]]
    rows = [line for line in lines if len(re.findall(r"\d\.\d\b", line)) == len(PER_TABLE)]
    assert len(rows) == len(CONTESTANTS)
    assert [row.startswith("wildspec") for row in rows] == [False, False, False, True]
    printed = " ".join(made[1].split())
    assert "the numbers mean nothing" in printed  # a quick run says so
    assert max(map(len, made[1].splitlines()[:-1])) <= 80  # the last line names paths


def test_json_is_the_document_in_the_folder(made: tuple[Path, str, str]) -> None:
    document = json.loads(made[2])
    assert document == json.loads((made[0] / "demo.json").read_text())
    assert [row["title"] for row in document["rows"]] == [contestant.title for contestant in CONTESTANTS]
    for row in document["rows"]:
        Evaluation.from_json(row["metrics"])
    assert document["splits"]["0"] == digits_task(0).hashes()


def test_the_second_run_equals_the_first(made: tuple[Path, str, str]) -> None:
    document = json.loads(made[2])
    cells = [[f"{100 * row[metric][0]:.1f}" for metric in PER_TABLE] for row in summary(document, PER_TABLE)]
    rows = [re.findall(r"\d+\.\d\b", line) for line in made[1].splitlines()]
    assert [sorted(row) for row in rows if len(row) == len(PER_TABLE)] == [sorted(row) for row in cells]


def test_runs_can_be_loaded_and_give_the_same_numbers(made: tuple[Path, str, str]) -> None:
    model = wildspec.load(made[0] / "spectral-seed0", device="cpu")
    task = digits_task(0)
    seen = observe(model.model_, task)
    bank = torch.nn.functional.normalize(seen["labelled"].features)

    def kth(name: str) -> torch.Tensor:  # brute force, not the detector
        away = torch.cdist(torch.nn.functional.normalize(seen[name].features).double(), bank.double())
        return away.sort(dim=1).values[:, neighbours(len(bank)) - 1]

    expected = evaluate_scores(
        id_scores=kth("id_test"), id_pred=seen["id_test"].logits.argmax(1), id_labels=task.id_test.labels,
        semantic_scores=kth("semantic_test"),
    )  # fmt: skip
    rows = {(row["method"], row["detector"]): row["metrics"] for row in json.loads(made[2])["rows"]}
    assert rows["spectral", "knn"]["fpr95_id"] == pytest.approx(expected.fpr95_id, abs=2 / 654)
    assert rows["spectral", "knn"]["id_acc"] == expected.id_acc


def test_evaluate_reads_the_run(made: tuple[Path, str, str]) -> None:
    done = CliRunner().invoke(app, ["evaluate", str(made[0] / "erm-seed0"), "--detector", "energy", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    rows = {(row["method"], row["detector"]): row["metrics"] for row in json.loads(made[2])["rows"]}
    assert found["detectors"][0]["evaluation"]["auroc"] == pytest.approx(rows["erm", "energy"]["auroc"], abs=1e-6)
    own = CliRunner().invoke(app, ["evaluate", str(made[0] / "spectral+-seed0"), "--json"])  # the decision in the bundle
    (mine,) = json.loads(own.stdout)["detectors"]
    assert mine["evaluation"]["joint"] == pytest.approx(rows["spectral+", "wild_knn"]["joint"], abs=1e-6)


def test_no_seeds_is_an_error() -> None:
    assert CliRunner().invoke(app, ["demo", "--seeds", "0"]).exit_code == 2


@pytest.mark.parametrize(("bank", "k"), [(3, 3), (231, 5), (2500, 5), (25_000, 50), (50_000, 100)])
def test_neighbours_follow_the_rule(bank: int, k: int) -> None:
    assert neighbours(bank) == k
