"""Every method with every detector on digits: writes docs/results/digits.json and the page docs/results/digits.md.

    python benchmarks/digits.py --seeds 3

Interrupted, it goes on where it was; ``--minutes-limit 4`` stops training after four minutes (exit status 1: the same
command goes on). About half an hour on one CPU core. ``--page`` only makes the page again from the JSON.
"""

import argparse
import sys
from pathlib import Path

from wildspec.files import read_json, write_json, write_text
from wildspec.runs.matrix import run_matrix, to_page

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds")
    parser.add_argument("--work", type=Path, default=Path("runs/digits"), help="where the run folders are kept")
    parser.add_argument("--page", action="store_true", help="only make the page again")
    parser.add_argument("--minutes-limit", type=float, help="stop training after so many minutes")
    given = parser.parse_args()
    if not given.page:
        seconds = None if given.minutes_limit is None else 60 * given.minutes_limit
        document = run_matrix(
            given.work, range(given.seeds), seconds=seconds, say=lambda text: print(text, file=sys.stderr, flush=True)
        )
        if document is None:
            raise SystemExit(1)
        write_json(RESULTS / "digits.json", document)
    write_text(RESULTS / "digits.md", to_page(read_json(RESULTS / "digits.json")))


if __name__ == "__main__":
    main()
