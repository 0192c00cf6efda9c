"""The guide is true: its Python runs as printed on tiny data, its commands and options exist, its links lead somewhere.

A page that gets a block of Python must be given what the block needs, here or in a test of its own: `ELSEWHERE`.
"""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import tiny_model
from wildspec.data import Preprocess, load_digits_images
from wildspec.detectors import REGISTRY
from wildspec.methods import METHODS
from wildspec.methods.hparams import HPARAMS
from wildspec.models import build_model

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
ELSEWHERE = {  # page: the test that runs it
    "README.md": "tests/test_readme.py",
    "data.md": "tests/data/test_docs_data.py",
    "howto-embeddings.md": "tests/embeddings/test_docs_embeddings.py",
    "learner.md": "tests/training/test_docs_learner.py",
    "theory.md": "tests/theory/test_documents.py",
}
QUICK = (("size=128", "size=12, training=wildspec.Training(epochs=1)"),)  # the only words that are changed
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def samples(classes: list[int], seed: int, shift: float = 0.0) -> SimpleNamespace:
    """Features (n, 8) around a mean for each class, logits that know classes 0 to 2, labels; class 3 and above: -1."""
    rng = np.random.default_rng(seed)
    means = 6 * np.eye(8)
    features = torch.from_numpy(means[classes] + shift + rng.normal(size=(len(classes), 8))).float()
    labels = torch.tensor([c if c < 3 else -1 for c in classes])
    return SimpleNamespace(features=features, logits=features[:, :3] - 2, labels=labels)


def for_coming_from(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    for domain in ("art", "photo", "sketch"):
        for shape in tiny_model.CLASSES:
            (folder / "PACS" / domain / shape).mkdir(parents=True)
            for i in range(24):
                image = Image.fromarray(tiny_model.picture(shape, rng, shifted=domain == "sketch"))
                image.save(folder / "PACS" / domain / shape / f"{i}.png")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 60, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(60, 3))
    loaders = {
        f"{name}_loader": [(torch.randn(60, 3, 8, 8) + i, torch.arange(60) % 3)]
        for i, name in enumerate(("train", "test", "shifted", "held_out", "cifar100", "svhn", "textures"))
    }
    known, train = [0, 1, 2] * 40, samples([0, 1, 2] * 40, 1)
    wild = samples([0, 1, 2] * 30 + [3] * 30, 2).features
    return {
        **loaders, "network": network,
        "train": train, "held_out": samples(known, 3), "id_test": samples(known, 4), "csid": samples(known, 5, 0.5),
        "ood": samples([3] * 40, 6), "mixed": samples(known + [3] * 40, 7), "X": train.features, "y": train.labels,
        "X_wild": wild, "X_held_out": samples(known, 8).features, "X_batch": samples([0, 1, 2] * 20 + [3] * 60, 9).features,
    }  # fmt: skip


def for_images(folder: Path) -> dict[str, Any]:
    tiny_model.write_folders(folder)
    (folder / "photos").mkdir()
    for name in ("labelled", "wild"):
        (folder / name).rename(folder / "photos" / name)
    (folder / "photos" / "incoming").mkdir()
    Image.fromarray(tiny_model.pictures({"disc": 1}, 5)[0][0]).save(folder / "photos" / "incoming" / "0001.jpg")
    reviewed = "image,decision,class\nphotos/wild/w000.png,rejected,\nphotos/wild/w070.png,rejected,schräg\n"
    (folder / "review.csv").write_text(reviewed, encoding="utf-8-sig")  # as a table calculator writes it
    return {}


def for_backbone(folder: Path) -> dict[str, Any]:
    import wildspec

    class MyBackbone(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU())

    tiny_model.write_folders(folder)
    return {"MyBackbone": MyBackbone, "wildspec": wildspec}


def for_detectors(folder: Path) -> dict[str, Any]:
    digits = load_digits_images()
    labels = digits.labels[:300]
    model = build_model("small", 10).eval()
    return {
        "model": model, "train_images": digits.images[:300], "labels": labels, "images": digits.images[300:320],
        "preprocess": Preprocess(size=8, mean=(0.3,) * 3, std=(0.3,) * 3), "features": torch.randn(4, model.feature_dim),
    }  # fmt: skip


def for_metrics(folder: Path) -> dict[str, Any]:
    known, wild = samples([0, 1, 2] * 40, 1).features, samples([0, 1, 2] * 30 + [3] * 60, 2).features
    rng = np.random.default_rng(0)
    return {
        "scores_of_held_out_id_samples": rng.normal(size=100), "scores": rng.normal(1, size=7), "wild_features": wild,
        "labelled_features": known,
    }  # fmt: skip


GIVEN = {
    "coming-from.md": for_coming_from, "detectors.md": for_detectors, "howto-backbone.md": for_backbone,
    "howto-images.md": for_images, "metrics.md": for_metrics,
}  # fmt: skip


def test_every_page_with_python_is_run_by_somebody() -> None:
    with_python = {page.name for page in PAGES if blocks(page, "python")}
    assert with_python == set(GIVEN) | set(ELSEWHERE)
    assert all(name in (ROOT / test).read_text(encoding="utf-8") for name, test in ELSEWHERE.items())


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_the_python_of_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / name
    names = GIVEN[name](tmp_path)
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "python"):
        for slow, quick in QUICK:
            block = block.replace(slow, quick)
        exec(compile(block, str(page), "exec"), names)
    said = capsys.readouterr().out
    if name == "coming-from.md":
        found = names["found"]
        assert found.auroc > 0.99
        assert found.id_kept > 0.85
        assert names["is_drift"]
        assert names["rejected"][-40:].float().mean() > 0.5
        assert set(names["numbers"]) == {0, 1}
        assert "belong to no class" in said
        assert names["judged"].hos > 0.5, "SpectralClassifier, the last of the four"
        assert all(f"{system} OS* " in said for system in ("OSLPP", "DAOD", "OVANet", "SpectralClassifier"))
    elif name == "howto-images.md":
        assert (tmp_path / "model" / "manifest.json").is_file()
        record = names["model"].record_["data"]
        assert record["labelled"]["per_class"] == {"bar": 40, "disc": 40, "ring": 40, "schräg": 1}, "the reviewed image"
        assert record["wild"]["repeated_first"] == ["w070.png"]
    elif name == "howto-backbone.md":
        assert (tmp_path / "model.onnx").stat().st_size > 1000
        assert names["features"].shape == (4, 1280)
    elif name == "metrics.md":
        assert names["mixture"].pi_s == pytest.approx(0.4, abs=0.1)  # 60 of 150
    else:
        assert set(names["scores"]) == {"knn", "energy", "vim"}
        for registry, added in ((REGISTRY, "margin"), (METHODS, "smooth")):  # how they are used: tests/test_plugins.py
            dict.pop(registry, added)
        HPARAMS.pop("smooth")


def commands(page: Path) -> list[str]:
    """Command lines in the fences of a page, their comments left off; a line that ends in a backslash goes on."""
    text = "\n".join(code for kind, code in FENCE.findall(page.read_text(encoding="utf-8")) if kind in ("", "sh"))
    return [line.partition(" #")[0] for line in text.replace("\\\n", " ").splitlines() if line.startswith("wildspec ")]


def test_commands_and_options_exist() -> None:
    from typer.main import get_command

    from wildspec.cli.main import app

    count = 0
    for page in [*PAGES, *(ROOT / "docs" / "results").glob("*.md")]:
        for line in commands(page):
            command: Any = get_command(app)
            words = shlex.split(line)[1:]
            while hasattr(command, "commands"):
                assert words[0] in command.commands, f"{page.name}: {line}"
                command = command.commands[words.pop(0)]
            known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
            unknown = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)} - known
            assert not unknown, f"{page.name}: {line}"
            if line.startswith("wildspec bench "):
                assert command.make_context("bench", words).params, "a wrong value raises"
            count += 1
    assert count > 50


def anchors(text: str) -> set[str]:
    """As the site's generator names headings."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = [re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(plain)]
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), target


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if page not in listed]
