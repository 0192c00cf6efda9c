"""Every method with every detector on digits: writes docs/results/digits.json, then: python tools/make_results.py digits

    python benchmarks/digits.py --seeds 3

Interrupted, it goes on where it was; ``--minutes-limit 4`` stops training after four minutes (exit status 1: the same
command goes on). About half an hour on one CPU core.
"""

import argparse
import sys
from pathlib import Path

from wildspec.files import write_json
from wildspec.runs.matrix import run_matrix

OUT = Path(__file__).resolve().parent.parent / "docs" / "results" / "digits.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds")
    parser.add_argument("--work", type=Path, default=Path("runs/digits"), help="where the run folders are kept")
    parser.add_argument("--minutes-limit", type=float, help="stop training after so many minutes")
    given = parser.parse_args()
    seconds = None if given.minutes_limit is None else 60 * given.minutes_limit
    document = run_matrix(
        given.work, range(given.seeds), seconds=seconds, say=lambda text: print(text, file=sys.stderr, flush=True)
    )
    if document is None:
        raise SystemExit(1)
    write_json(OUT, document)


if __name__ == "__main__":
    main()
