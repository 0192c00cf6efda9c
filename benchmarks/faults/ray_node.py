"""A machine of a Ray cluster that dies while images are being scored: the rows are those of one machine, in their order.

    python benchmarks/faults/ray_node.py --images 2000

Two nodes on this machine, one of which is taken away after the first rows have come.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import record, small_model, write_folder


def main(model: Path, images: int) -> dict[str, Any]:
    import ray
    from ray.cluster_utils import Cluster

    import wildspec
    from wildspec.serving.bulk import score_sources
    from wildspec.serving.inputs import open_inputs
    from wildspec.serving.ray_bulk import score_on_ray

    with tempfile.TemporaryDirectory() as folder:
        root = write_folder(Path(folder) / "images", images)
        blocks = score_sources(wildspec.load(model, device="cpu"), open_inputs([str(root)]))
        alone = [row for block in blocks for row in block]
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        second = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        try:
            rows: list[dict[str, Any]] = []
            for number, block in enumerate(score_on_ray(model, [str(root)], block=128, device="cpu")):
                rows += block
                if number == 0:
                    cluster.remove_node(second, allow_graceful=False)
        finally:
            ray.shutdown()
            cluster.shutdown()
    return {
        "images": images, "rows": len(rows), "same_rows": [row["image"] for row in rows] == [row["image"] for row in alone],
        "same_decisions": [row["decision"] for row in rows] == [row["decision"] for row in alone],
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=2000)
    with tempfile.TemporaryDirectory() as place:
        record("ray_node", main(small_model(Path(place) / "model"), parser.parse_args().images))
