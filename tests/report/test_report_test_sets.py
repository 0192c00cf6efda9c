"""What report is given: sets that the model learned from do not count, gaps do not shift labels, a page is no PDF."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import command
import tiny_model
from quick_wild import quick
from wildspec import SpectralClassifier
from wildspec.data.embeddings import EmbeddingTable
from wildspec.images.reading import read_known
from wildspec.report import embedding_facts, image_facts


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    return command.runner(monkeypatch, capsys)


def _test_folder(root: Path, labelled: Path, taken: list[str]) -> Path:
    """20 new images of each class, named as training images are, and copies of training images under their names."""
    images, shapes = tiny_model.pictures(dict.fromkeys(tiny_model.CLASSES, 20), 77)
    for i, (image, shape) in enumerate(zip(images, shapes, strict=True)):
        (root / shape).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / shape / f"{40 * tiny_model.CLASSES.index(shape) + i % 20:03d}.png")
    for name in taken:
        (root / name).write_bytes((labelled / name).read_bytes())
    return root


def test_images_that_taught_the_model_are_left_out_of_its_test(run: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    model = quick(method="erm").fit(labelled, wild)
    model.save(tmp_path / "m")
    taken = model.fitted_.bank.names[5:70:9]
    folder = _test_folder(tmp_path / "test", labelled, taken)
    given = read_known(folder, tiny_model.SIDE, model.fitted_.classes)
    with pytest.warns(UserWarning, match=rf"{len(taken)} of the {len(given)} images given as known, test are left out"):
        facts = image_facts.gather(model, "m", test=given)
    new = [i for i, name in enumerate(given.names) if name not in taken]
    assert len(new) == len(given) - len(taken) > 50, "a name alone is no reason"
    assert facts.known.labels is not None
    assert facts.known.labels.tolist() == given.labels[new].tolist()
    assert facts.known.scores == pytest.approx(model.decide(given.images[new]).score, rel=1e-4)
    with pytest.warns(UserWarning, match="learned from them"):
        status, _, err = run("report", tmp_path / "m", "--test", folder, "--no-map", "--out", tmp_path / "r.html")
    assert status == 0, err
    assert "the model learned from them" in (tmp_path / "r.html").read_text(encoding="utf-8")
    kept = {name.split("/")[1] for name in model.fitted_.bank.names}
    for path in labelled.rglob("*.png"):
        if path.name not in kept:
            path.unlink()
    status, _, err = run("report", tmp_path / "m", "--test", labelled, "--no-map", "--out", tmp_path / "r2.html")
    assert status == 2
    assert "the model learned from all" in err
    assert "give images that fit has not seen" in err
    assert not (tmp_path / "r2.html").exists()


@pytest.mark.filterwarnings("ignore:no wild samples")
def test_embeddings_with_gaps_and_known_ones_keep_their_labels(tmp_path: Path, rng: np.random.Generator) -> None:
    centres = 4 * np.eye(3, 12)
    labels = np.repeat([0, 1, 2], 60)
    rows = (centres[labels] + rng.normal(size=(180, 12))).astype(np.float32)
    model = SpectralClassifier(random_state=0).fit(rows, labels)
    truth = np.tile([2, 0, 1], 20)
    fresh = (centres[truth] + 0.5 * rng.normal(size=(60, 12))).astype(np.float32)
    fresh[[0, 7]] = np.nan
    pq.write_table(
        pa.table({"features": [*fresh, *rows[::30]], "label": [*truth.tolist(), *labels[::30].tolist()]}),
        tmp_path / "test.parquet",
    )
    with pytest.warns(UserWarning, match=r"6 of the 64 embeddings .*left out"):
        facts = embedding_facts.gather(model, "m", test=EmbeddingTable(tmp_path / "test.parquet"))
    good = [i for i in range(60) if i not in (0, 7)]
    assert facts.known.labels is not None
    assert facts.known.labels.tolist() == truth[good].tolist()
    assert facts.known.scores == pytest.approx(model.ood_score(fresh[good]))
    said = model.predict(fresh[good])
    assert [(one.count, one.rejected) for one in facts.rates] == [
        (int((truth[good] == c).sum()), int((said[truth[good] == c] == -1).sum())) for c in range(3)
    ], "each class is counted among the test samples"


def test_a_page_is_not_written_under_the_name_of_something_else(run: Any, tmp_path: Path) -> None:
    status, _, err = run("report", tiny_model.bundle(), "--out", tmp_path / "report.pdf")
    said = f"wildspec: the report is one HTML page, --out must end in .html; got {tmp_path / 'report.pdf'}\n"
    assert (status, err) == (2, said)
    assert not (tmp_path / "report.pdf").exists()
    assert run("report", tiny_model.bundle(), "--no-map", "--out", tmp_path / "report.HTM")[0] == 0
