"""The scripts of the how-to pages run as written, on little time, and say what the pages promise."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tiny_model
from scripts import run_script
from wildspec.serving.bulk import score_sources
from wildspec.serving.inputs import open_inputs
from wildspec.serving.open_engine import open_engine

ROOT = Path(__file__).parent.parent


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> Callable[..., str]:
    """Run a script of examples/ with these words: what it printed."""

    def ran(script: str, *words: object) -> str:
        run_script(monkeypatch, f"examples/{script}", *words)
        return str(capfd.readouterr().out)

    return ran


def test_own_images(tmp_path: Path, run: Callable[..., str]) -> None:
    said = run("own_images.py", "--epochs", 1, "--out", tmp_path)
    assert re.search(r"\d+ of 480 wild images look like none of the classes", said)
    assert "nearest labelled:" in said
    assert (tmp_path / "model" / "manifest.json").is_file()
    assert "look like none of your 6 classes" in (tmp_path / "report.html").read_text()


def test_folders_to_try_things_on(tmp_path: Path, run: Callable[..., str]) -> None:
    said = run("digits_folders.py", tmp_path / "photos")
    assert f"labelled: {tmp_path / 'photos' / 'labelled'} (360 images)" in said
    assert f"wild: {tmp_path / 'photos' / 'wild'} (480 images)" in said
    assert len(list((tmp_path / "photos" / "wild").iterdir())) == 480


def test_half_of_the_folders_is_a_mistake_not_a_run_on_digits(
    tmp_path: Path, run: Callable[..., str], capfd: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("own_images.py", "--labelled", tmp_path)
    assert capfd.readouterr().err.strip().endswith("give --labelled and --wild, or neither")


def test_own_backbone(tmp_path: Path, run: Callable[..., str]) -> None:
    said = run("own_backbone.py", "--epochs", 1, "--out", tmp_path)
    assert "48 features" in said
    assert "or without the module: wildspec serve" in said
    assert open_engine(tmp_path / "model.onnx").classes == ("0", "1", "2", "3", "4", "5")
    assert re.search(r"unknown: \d+% rejected", said)


def test_deploying(tmp_path: Path, run: Callable[..., str]) -> None:
    said = run("deploying.py", "--epochs", 1, "--out", tmp_path)
    assert "within" in said, "the exported graph is checked"
    assert "classes: 0, 1, 2, 3, 4, 5" in said
    assert re.search(r"\.png: \w+ \(score [\d.]+, p = [\d.]+\)", said)


def test_a_graph_alone_says_what_score_says(tmp_path: Path) -> None:
    """Images of every kind, with neither torch nor wildspec to be had."""
    folder = tmp_path / "in"
    folder.mkdir()
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (31, 17), np.uint8)
    colour = np.asarray(Image.fromarray(tiny_model.picture("ring", rng)).resize((23, 40)))
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(colour).save(folder / "turned.jpg", exif=turned)
    Image.fromarray(colour).quantize(9).save(folder / "palette.png")
    Image.fromarray(np.dstack([colour, grey.repeat(3, 1).repeat(2, 0)[:40, :23]])).save(folder / "clear.png")
    Image.fromarray(grey).save(folder / "grey.png")
    Image.fromarray(grey.astype(np.uint16) * 250 + 17).save(folder / "deep.png")
    paths = sorted(map(str, folder.iterdir()))
    alone = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['wildspec'] = None; del sys.argv[0]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", alone, str(ROOT / "examples" / "onnx_alone.py"), str(tiny_model.graph()), *paths],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (rows,) = score_sources(tiny_model.fitted(), open_inputs(paths))
    said = [re.fullmatch(r"(.*): (\w+) \(score (\S+), p = (\S+)\)", line).groups() for line in done.stdout.splitlines()]  # type: ignore[union-attr]
    assert [(path, decision) for path, decision, *_ in said] == [(row["image"], row["decision"]) for row in rows]
    assert [float(score) for *_, score, _ in said] == pytest.approx([row["ood_score"] for row in rows], abs=2e-4)
    assert [float(p) for *_, p in said] == pytest.approx([row["p_value"] for row in rows], abs=1e-4)


def test_own_embeddings(tmp_path: Path, run: Callable[..., str]) -> None:
    said = run("own_embeddings.py", "--out", tmp_path)
    assert re.search(r"\d+ of \d+ wild samples look like none of the classes", said)
    assert "nearest labelled:" in said
    kept, right = map(int, re.search(r"another style: (\d+)% kept, (\d+)% named rightly", said).groups())  # type: ignore[union-attr]
    rejected = int(re.search(r"unknown: (\d+)% rejected", said).group(1))  # type: ignore[union-attr]
    assert min(kept, right, rejected) > 70
    assert (tmp_path / "model" / "manifest.json").is_file()


@pytest.mark.parametrize("page", ["howto-embeddings.md", "howto-images.md", "howto-backbone.md", "howto-deploying.md"])
def test_every_page_names_its_script_and_the_commands_exist(page: str) -> None:
    from typer.main import get_command

    from wildspec.cli.main import app

    text = (ROOT / "docs" / page).read_text()
    scripts = re.findall(r"examples/(\w+\.py)", text)
    assert scripts
    assert all((ROOT / "examples" / script).is_file() for script in scripts)
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for line in re.findall(r"^wildspec (.*)$", text, flags=re.MULTILINE):
        words = line.split()
        command = commands[words[0]]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.split("=")[0] for word in words if word.startswith("--")} <= known, line
