"""Made the bundles in golden/ and the answers beside them, once, with format version 1.

Not run by tests: a bundle of an old version must be an old one. When the format changes, the new version gets bundles of its
own, and those stay.

    PYTHONPATH=tests python tests/bundle/make_golden.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from golden_backbone import Backbone

import tiny_model
from wildspec import Files, SpectralClassifier, Training, WildClassifier
from wildspec.bundle.manifest import VERSION
from wildspec.detectors import build_detector

PLACE = Path(__file__).parent / "golden"


def answers(model: Any, asked: np.ndarray) -> dict[str, Any]:
    return {
        "classes": model.classes_.tolist(), "predict": model.predict(asked).tolist(),
        "ood_score": model.ood_score(asked).tolist(), "p_value": model.p_value(asked).tolist(),
    }  # fmt: skip


def main() -> None:
    torch.manual_seed(0)
    settings: dict[str, Any] = {"alpha": 0.1, "size": 10, "files": Files(pictures=False), "device": "cpu"}
    images = WildClassifier(Backbone(), training=Training("spectral+", epochs=20, flip=False), **settings)
    images.fit(*tiny_model.labelled_and_wild()).save(PLACE / f"images-v{VERSION}")
    learned = Training("spectral+", epochs=60, detector=build_detector("wild_linear", k=3), flip=False)
    linear = WildClassifier(Backbone(), training=learned, **settings)
    torch.manual_seed(0)
    linear.fit(*tiny_model.labelled_and_wild()).save(PLACE / f"images-linear-v{VERSION}")
    pictures, _ = tiny_model.pictures({"bar": 2, "disc": 2, "ring": 2, "stripes": 2}, 900)

    rng = np.random.default_rng(6)
    centres, y = rng.normal(size=(3, 6)), np.repeat([0, 1], 15)
    known = (centres[y] + 0.3 * rng.normal(size=(30, 6))).astype(np.float32)
    wild = (centres[np.repeat([0, 1, 2], 20)] + 0.9 * rng.normal(size=(60, 6)) + 0.4).astype(np.float32)
    embeddings = SpectralClassifier(random_state=0, alpha=0.2, n_components=4, n_neighbors=5)
    embeddings.fit(known, np.array(["cat", "dog"])[y], X_wild=wild).save(PLACE / f"embeddings-v{VERSION}")
    rows = np.concatenate([known[:3], wild[:1], wild[-3:]])
    record = {
        "pictures_seed": 900, "images": answers(images, pictures), "rows": rows.tolist(),
        "embeddings": answers(embeddings, rows), "images_linear": answers(linear, pictures),
    }  # fmt: skip
    (PLACE / f"answers-v{VERSION}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
