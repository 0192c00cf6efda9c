"""``wildspec theory``: the printed numbers are the library's, JSON is whole, mistakes are one line, figures are files."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from wildspec.cli.main import app, main
from wildspec.theory import first_order, five_node


def run(*words):
    result = CliRunner().invoke(app, ["theory", *words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_table_shows_exact_beside_first_order():
    text = run("separate", "--alpha", "0.02", "--beta", "0.015")
    world, form = five_node("separate", 1.0, 0.02, 0.015), first_order("separate", 0.02, 0.015)
    for exact, printed in zip(world.eigen[0], form.values, strict=True):
        assert any(f"{exact:.5f}" in line and f"{printed:.5f}" in line for line in text.splitlines())
    assert f"{world.separability:.5f}" in text
    assert "Classes win: 2 of 2 paintings" in text
    assert "domains win above beta = 0.022" in text
    assert all(name in text for name in ("4.1", "4.2", "B.1", "B.2", "C.1", "C.2"))


def test_predictions_and_vectors_stand_beside_each_other():
    """Each printed number is the library's; closed forms take order and sign of the exact vectors."""
    text = run("separate", "--alpha", "0.02", "--beta", "0.015", "--vectors")
    world, form = five_node("separate", 1.0, 0.02, 0.015), first_order("separate", 0.02, 0.015)
    line = next(line for line in text.splitlines() if "tiger painting: tiger" in line)
    assert f"{world.probe.scores[1, 1]:.5f}" in line
    assert f"{form.probe.scores[1, 1]:.5f}" in line
    vectors, embedding = (text.split(title)[1] for title in ("V_k, eigenvectors", "Z, the embedding"))
    for body, exact, printed in (
        (vectors, world.eigen[1][:, :3], form.vectors[:, :3]), (embedding, world.embedding, form.embedding),
    ):  # fmt: skip
        for node, name in enumerate(("angel sketch", "tiger sketch", "angel painting", "tiger painting", "panda")):
            row = next(line for line in body.splitlines() if name in line)
            numbers = [float(word) for word in row.replace("│", " ").split() if word[-1].isdigit()]
            assert numbers[:3] == pytest.approx(exact[node], abs=6e-4)
            assert sorted(map(abs, numbers[3:])) == pytest.approx(sorted(map(abs, printed[node])), abs=6e-4)
            assert numbers[3:] == pytest.approx(numbers[:3], abs=0.05)  # alike, as V-hat is close to V


def test_domains_win_and_a_failing_theorem_is_called_so():
    assert "Domains win: 0 of 2" in run("--alpha", "0.03", "--beta", "0.05")
    line = next(line for line in run("--alpha", "0.1", "--beta", "0.11").splitlines() if line.startswith("4.1 "))
    assert "fails" in line  # between the exact boundary and the straight line


@pytest.mark.parametrize("scenario", ["separate", "shared", "unlabelled"])
def test_json_is_the_analysis(scenario):
    report = json.loads(run(scenario, "--gamma", "0.001", "--eta-u", "3", "--eta-l", "0.5", "-k", "2", "--json"))
    world = five_node(scenario, 1.0, 0.05, 0.03, 0.001, 3.0, 0.5, 2)
    assert report["exact"]["eigenvalues"] == pytest.approx(world.eigen[0].tolist())
    assert report["exact"]["separability"] == pytest.approx(world.separability)
    assert report["transition"] == world.transition.tolist()
    total = 3.0 * np.array(report["A_u"]) + 0.5 * np.array(report["A_l"])
    assert total / total.sum() == pytest.approx(np.array(report["exact"]["adjacency"]))
    assert report["first_order"]["separability"] == pytest.approx(
        first_order(scenario, 0.05, 0.03, label_weight=5 * 0.5 / 3, k=2).separability
    )
    assert [check["theorem"] for check in report["theorems"]] == ["4.1", "4.2", "B.1", "B.2", "C.1", "C.2"]


def test_without_alpha_there_is_no_closed_form():
    report = json.loads(run("shared", "--alpha", "0", "--json"))
    assert "first_order" not in report
    assert report["theorems"] == []
    assert "lambda_5" in run("shared", "--alpha", "0")


def test_a_world_and_a_question():
    text = run("--classes", "5", "--unknown", "1", "--domains", "3", "--more", "domain 1=4")
    assert "World of 15 cells" in text
    assert "The change " in text
    report = json.loads(run("--classes", "5", "--domains", "3", "--more", "domain 1=4", "--json"))
    assert report["what_if"]["more"] == {"domain 1": 4.0}
    assert {cell["role"] for cell in report["cells"]} == {"labelled", "covariate", "semantic"}
    assert "try -k" in run("--classes", "6", "--unknown", "1", "--domains", "3", "--alpha", "0.03", "--beta", "0.02")


def test_plane_counts_the_claims():
    report = json.loads(run("--plane", "--json"))
    facts = report["plane"]
    assert facts["cells"] == 2500
    assert facts["4.1: cells where the exact problem disagrees with 9/8 alpha > beta"] == 18
    assert facts["B.2: cells with S(f) < S(f_1), exact"] == 95
    assert report["slopes"]["C.1"]["classes win"] == {"eigenvalues": pytest.approx(2, abs=0.01), "eigenspace": "exact"}
    text = run("--plane")
    assert "power, classes win" in text


def test_figures_are_written(tmp_path):
    text = run("--out", str(tmp_path / "new"))
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {f"theory-{n}.png" for n in ("surface", "difference", "eigenvalues", "graph", "convergence")}
    for path in (tmp_path / "new").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 20_000
        assert str(path.name) in text.replace("\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["moon"], "scenario must be one of"),
        (["--alpha", "-1"], "alpha"),
        (["-k", "5"], "k must be at most 4"),
        (["--more", "domain 1=4"], "--classes"),
        (["--classes", "3", "--more", "domain 1"], "--more must look like"),
        (["--classes", "3", "--unknown", "3"], "--unknown"),
    ],
)
def test_mistakes_are_one_line_and_status_2(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["wildspec", "theory", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_help_has_an_example():
    assert "wildspec theory shared" in " ".join(run("--help").split())
