"""The service as deploy/Containerfile and deploy/wildspec.service run it: nothing can be written but a private /tmp, no
capabilities, no new privileges.

    python benchmarks/faults/confined.py          (as root, for the mounts)

Tried with the system's own tools, without Docker and without systemd: a mount namespace whose root is read-only, `setpriv`.
A small image is decoded in the service, a large one in a process that it starts: both must work there.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import encoded, pictures, record, serving, small_model

CONFINED = (
    "unshare", "--mount", "sh", "-c",
    'mount --make-rprivate / && mount -o remount,bind,ro / && mount -t tmpfs tmpfs /tmp || exit 99; '
    'touch /probe 2>/dev/null && exit 98; '
    'exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"',
    "sh",
)  # fmt: skip


def main() -> dict[str, Any]:
    photo = encoded(np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), dtype=np.uint8), "JPEG", quality=60)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".fault-") as place:
        model = small_model(Path(place) / "model")
        with serving(model, within=CONFINED) as service:
            return {
                "small_image": service.ask(encoded(pictures(1)[0][0]))[0], "photograph": service.ask(photo)[0],
                "no_image": service.ask(b"nothing")[0], "page": service.ask(path="/")[0],
                "ended_after_s": round(service.end(), 2),
            }  # fmt: skip


if __name__ == "__main__":
    record("confined", main())
