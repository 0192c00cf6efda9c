"""A service that is stopped (SIGSTOP, as a machine that swaps or a container that is paused) and goes on.

    python benchmarks/faults/stopped.py --seconds 5

Requests that come meanwhile are answered when it goes on; then it answers as before.
"""

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import encoded, pictures, record, serving, small_model


def main(model: Path, seconds: float) -> dict[str, Any]:
    image = encoded(pictures(1)[0][0])
    with serving(model) as service:
        before = service.ask(image)[0]
        service.process.send_signal(signal.SIGSTOP)
        answers: list[tuple[int, float]] = []
        threads = [threading.Thread(target=lambda: answers.append(service.ask(image))) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        meanwhile = len(answers)
        service.process.send_signal(signal.SIGCONT)
        for thread in threads:
            thread.join()
        after = Counter(service.ask(image)[0] for _ in range(20))
        return {
            "stopped_s": seconds, "before": before, "answered_while_stopped": meanwhile,
            "asked_while_stopped": dict(Counter(str(status) for status, _ in answers)),
            "after": {str(status): count for status, count in after.items()}, "ended_after_s": round(service.end(), 2),
        }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5)
    with tempfile.TemporaryDirectory() as place:
        record("stopped", main(small_model(Path(place) / "model"), parser.parse_args().seconds))
