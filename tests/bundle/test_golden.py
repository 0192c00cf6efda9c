"""Bundles that were written long ago: what format version 1 holds is still read, and still says the same."""

import hashlib
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from changed import Parts
from golden_backbone import Backbone

import tiny_model
import wildspec
from wildspec.errors import CheckpointError
from wildspec.models import MODELS, build_model

GOLDEN = Path(__file__).parent / "golden"
# sha256 of the names and shapes of all tensors at 3 classes and 32 px: a bundle holds weights under these names.
NETWORKS = {
    "small": "282a06e2bb783d2ccdaffb49590084326a84942091266698e90082bd70b0ed22",
    "small_resnet": "65d1efacffbd6b32370fe1fbcda2f6dba453107c2b25b02e1655496163d8f723",
    "wrn16_2": "efc39f0d0a8016f282b2e3b8fdf05302d00bc12221c1e15101d4220ae1699a8a",
    "wrn40_2": "92ae93d7785031a16f7937e5c0a709c82a52a2109581aa9491a46a569583a7da",
    "resnet34": "aed4dd5ae29fff328c21f985e578a22fb9ae294ed30b6028fc292755a86a2bec",
    "resnet50": "e1fab3dddbc4c7cfd5a4efa4476f904435d000059831876dda24558ccd8bcf60",
    "efficientnet_lite0": "d34554b90c6b36e559eb810ea5fa5a98d6ce3708d7ac00d72bc05a52f5acd9d5",
    "efficientnet_lite1": "58a5df08345b4f5ee7126f386ec50394e2fada0c4cdf031d0b98f9758aa4c477",
    "efficientnet_lite2": "5376430fa6f00d5341adf9256935accc7ad7ff8a06e1b3b6eb5fbdf514a16196",
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return json.loads((GOLDEN / "answers-v1.json").read_text())


def _same(model: Any, asked: np.ndarray, expected: dict[str, Any]) -> None:
    assert model.classes_.tolist() == expected["classes"]
    said = expected["predict"]
    if model.classes_.dtype.kind == "U":  # by name since 0.2
        names = model.classes_.tolist()
        said = ["rejected" if p == -1 else p if isinstance(p, str) else names[p] for p in said]
    assert model.predict(asked).tolist() == said
    assert "rejected" in said, "one of them is"
    assert model.ood_score(asked) == pytest.approx(expected["ood_score"], abs=1e-5)
    assert model.p_value(asked) == pytest.approx(expected["p_value"])


def test_an_image_model_of_version_1(answers: dict[str, Any]) -> None:
    pictures, _ = tiny_model.pictures({"bar": 2, "disc": 2, "ring": 2, "stripes": 2}, answers["pictures_seed"])
    model = wildspec.load(GOLDEN / "images-v1", backbone=Backbone(), device="cpu")
    _same(model, pictures, answers["images"])
    assert [e.decision for e in model.explain(pictures)].count("rejected") == answers["images"]["predict"].count(-1)


def test_an_image_model_with_a_linear_rule_of_version_1(answers: dict[str, Any]) -> None:
    """Its detector was called wild_linear then."""
    pictures, _ = tiny_model.pictures({"bar": 2, "disc": 2, "ring": 2, "stripes": 2}, answers["pictures_seed"])
    model = wildspec.load(GOLDEN / "images-linear-v1", backbone=Backbone(), device="cpu")
    _same(model, pictures, answers["images_linear"])
    assert model.fitted_.decision.detector.config() == {"k": 3, "rule": "linear"}


def test_a_model_of_embeddings_of_version_1(answers: dict[str, Any]) -> None:
    _same(wildspec.load(GOLDEN / "embeddings-v1"), np.array(answers["rows"], dtype=np.float32), answers["embeddings"])


def test_a_model_of_embeddings_of_version_0_1_is_refused_in_one_line(tmp_path: Path) -> None:
    parts = Parts.of(GOLDEN / "embeddings-v1").with_value(("model.json", "mode"), "joint")
    with pytest.raises(CheckpointError, match=r"0\.1.*fit it again") as raised:
        wildspec.load(parts.write(tmp_path / "m"))
    assert "\n" not in str(raised.value)


def test_nothing_that_could_run_code_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any, **options: Any) -> None:
        raise AssertionError("a pickle was opened")

    for module, names in ((pickle, ("load", "loads", "Unpickler")), (torch, ("load",))):
        for name in names:
            monkeypatch.setattr(module, name, never)
    for name in ("images-v1", "images-linear-v1"):
        wildspec.load(GOLDEN / name, backbone=Backbone(), device="cpu")
    wildspec.load(GOLDEN / "embeddings-v1")


@pytest.mark.parametrize("name", MODELS)
def test_networks_keep_the_names_of_their_weights(name: str) -> None:
    content = "".join(f"{k} {tuple(v.shape)}\n" for k, v in sorted(build_model(name, 3, size=32).state_dict().items()))
    assert hashlib.sha256(content.encode()).hexdigest() == NETWORKS[name], "bundles with this network could not be loaded"


def test_a_bundle_from_the_future_says_to_upgrade(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "embeddings-v1", tmp_path / "m")
    path = tmp_path / "m" / "manifest.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(CheckpointError, match=r"newer wildspec .*upgrade"):
        wildspec.load(tmp_path / "m")
