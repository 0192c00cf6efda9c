"""Detectors and methods of other packages: found by name in every process, never instead of wildspec's own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.bench.tiny import write_tiny
from tests.bench.tiny_run import request_of
from torch import Tensor

from wildspec.bench.records import load_records
from wildspec.bench.run import run
from wildspec.detectors import REGISTRY, Detector, build_detector, register
from wildspec.errors import InputError
from wildspec.methods import METHODS, Method, build_method, register_method
from wildspec.methods.hparams import HPARAMS
from wildspec.training.recipe import Recipe

ROOT = Path(__file__).parent.parent
FENCE = "```python\n# my_scores.py\n"


def module_of_the_guide() -> str:
    """The module that docs/detectors.md prints."""
    page = (ROOT / "docs" / "detectors.md").read_text(encoding="utf-8")
    return page.split(FENCE)[1].split("```")[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_scores.py").write_text(module_of_the_guide(), encoding="utf-8")
    return tmp_path


@pytest.fixture
def in_this_process() -> Iterator[None]:
    exec(compile(module_of_the_guide(), "my_scores.py", "exec"), {"__name__": "my_scores"})
    yield
    dict.pop(REGISTRY, "margin")
    dict.pop(METHODS, "smooth")
    HPARAMS.pop("smooth")


def ask(folder: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    setting = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")]), **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=setting, cwd=folder, check=False)


BOTH = """
import torch
from wildspec.methods import METHODS, build_method
from wildspec.detectors import REGISTRY, build_detector
score = build_detector("margin").score(logits=torch.tensor([[3.0, 1.0, 0.0]])).item()
print(score, build_method("smooth", 3, amount=0.2).amount)
print("margin" in sorted(REGISTRY), list(METHODS)[-1], len(METHODS))
"""


def test_a_module_named_in_the_environment(folder: Path) -> None:
    first = "from wildspec.detectors import build_detector as b; print(b('margin').name)"  # methods come first below
    shown = "import sys; sys.argv = ['wildspec', 'methods', 'smooth']; from wildspec.cli.main import main; main()"
    said = ask(folder, first + BOTH + shown, WILDSPEC_PLUGINS="my_scores,")
    assert said.stdout.split("\n")[:3] == ["margin", "-2.0 0.2", f"True smooth {len(METHODS) + 1}"], said.stderr
    assert "amount = 0.1" in said.stdout
    with pytest.raises(InputError, match="'margin'"):
        build_detector("margin")


def test_an_installed_package(folder: Path) -> None:
    facts = folder / "my_scores-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-scores\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[wildspec.plugins]\nmine = my_scores\n")
    itself = "import my_scores; from wildspec.detectors import build_detector; print(build_detector('margin').name)"
    assert ask(folder, itself).stdout == "margin\n"
    (facts / "entry_points.txt").write_text("[wildspec.plugins]\nmine = my_scores\ngone = no_such_module\n")
    said = ask(folder, BOTH)
    assert said.stdout.startswith("-2.0 0.2"), said.stderr
    assert "plug-in gone (no_such_module) is left out: ModuleNotFoundError" in said.stderr


def test_one_that_was_asked_for_must_work(folder: Path) -> None:
    command = "import sys; sys.argv = ['wildspec', 'detectors']; from wildspec.cli.main import main; main()"
    said = ask(folder, command, WILDSPEC_PLUGINS="my_scores,no_such_module")
    assert said.returncode == 2
    assert said.stderr.count("\n") == 1
    assert "WILDSPEC_PLUGINS names 'no_such_module', which cannot be imported (ModuleNotFoundError" in said.stderr
    helped = ask(folder, command.replace("'detectors'", "'bench', '--help'"), WILDSPEC_PLUGINS="no_such_module")
    assert helped.returncode == 0, "nothing is imported for a page of help"


def test_bench_trains_scores_and_tabulates_them(tmp_path: Path, in_this_process: None) -> None:
    data, recipe = write_tiny(tmp_path / "data"), Recipe("fast", 0.2, model="small", changes={"train.batch_labelled": 48})
    request = request_of(data, tmp_path / "cache", tmp_path / "out", "smooth,smooth+margin,smooth+energy,erm+margin", recipe)
    assert run(request).complete
    found = {(r["method"], r["detector"], r["seed"]) for r in load_records([tmp_path / "out"])}
    pairs = (("smooth", "energy"), ("smooth", "margin"), ("erm", "margin"))
    assert found == {(*pair, seed) for pair in pairs for seed in (0, 1)}
    latex = (tmp_path / "out" / "table.tex").read_text()
    assert "smooth+energy & energy" in latex
    assert "erm+margin & margin" in latex
    assert run(request).found, "resumed: nothing is trained again"


def test_names_are_checked() -> None:
    def made(name: str) -> type[Detector]:
        class Mine(Detector):
            summary, paper, score_needs = "s", "p", ("logits",)

            def _score(self, logits: Tensor) -> Tensor:
                return logits[:, 0]

        Mine.name = name
        return Mine

    with pytest.raises(InputError, match="'knn' is wildspec's own"):
        register(made("knn"))
    assert build_detector("knn").__class__.__module__ == "wildspec.detectors.knn"
    with pytest.raises(InputError, match="'wild_linear' stands for"):
        register(made("wild_linear"))
    for bad in ("a+b", "a,b", "a/b", ""):
        with pytest.raises(InputError, match="letters, digits and _"):
            register(made(bad))
    first, second = made("again"), made("again")
    try:
        register(first)
        assert isinstance(build_detector("again"), first)
        register(second)  # a cell of a notebook run twice
        assert isinstance(build_detector("again"), second)
    finally:
        dict.pop(REGISTRY, "again")

    class Bare(Method):
        name, paper = "bare", "mine"

        def __init__(self, num_classes: int, weight: float) -> None:
            super().__init__(num_classes)

    with pytest.raises(InputError, match=r"Bare lacks summary, .*weight"):
        register_method(Bare)
    with pytest.raises(InputError, match="method must be one of"):
        build_method("bare", 3)


@pytest.mark.parametrize(("lacking", "words"), [
    ({"summary": None}, "lacks summary"), ({"paper": None}, "lacks paper"), ({"score_needs": ("logit",)}, "logit"),
    ({"score_needs": "logits"}, "tuple"), ({"fit_needs": ("inputs",)}, "inputs"), ({"score_needs": ("labels",)}, "labels"),
])  # fmt: skip
def test_a_detector_that_no_list_could_show_or_no_call_feed_is_refused(lacking: dict[str, object], words: str) -> None:
    whole = {"name": "lacking", "summary": "a score", "paper": "ours", "score_needs": ("logits",)} | lacking
    with pytest.raises(InputError, match=words):
        register(type("Lacking", (Detector,), {key: value for key, value in whole.items() if value is not None}))
    assert "lacking" not in REGISTRY


@pytest.mark.parametrize("wrong", [
    lambda logits: logits, lambda logits: logits[:, :1], lambda logits: logits.mean(), lambda logits: logits[1:, 0],
    lambda logits: logits[:, 0].numpy(), lambda logits: None,
])  # fmt: skip
def test_a_formula_that_gives_no_score_a_row_is_told(wrong: Callable[[Tensor], object]) -> None:
    class Wrong(Detector):
        name, summary, paper, score_needs = "wrong", "no score a row", "ours", ("logits",)

        def _score(self, *, logits: Tensor) -> Tensor:
            return wrong(logits)  # type: ignore[return-value]

    with pytest.raises(InputError, match=r"wrong._score must return .*\(5,\)"):
        Wrong().score(logits=torch.ones(5, 3))


def test_one_that_learns_must_name_what_it_learned() -> None:
    """Else it scores where it was fitted, and a saved model cannot."""
    class Centre(Detector):
        name, summary, paper, fit_needs, score_needs = "centre", "distance", "ours", ("features",), ("features",)

        def _fit(self, *, features: Tensor) -> None:
            self.mean_ = features.mean(dim=0)

        def _score(self, *, features: Tensor) -> Tensor:
            return (features - self.mean_).norm(dim=1)

    rows = torch.eye(3)
    with pytest.raises(InputError, match=r"centre .*state_names"):
        Centre().fit(features=rows)
    Centre.state_names = ("mean_",)
    fitted = Centre().fit(features=rows)
    assert torch.equal(Centre().load_state(fitted.state()).score(features=rows), fitted.score(features=rows))


def test_looking_for_a_name_that_may_not_be_there_finds_plug_ins_too(folder: Path) -> None:
    code = "from wildspec.methods import METHODS; print(METHODS.get('smooth').__name__, METHODS.get('none', 7))"
    said = ask(folder, code, WILDSPEC_PLUGINS="my_scores")
    assert said.stdout.split()[1:] == ["7"], said.stderr
