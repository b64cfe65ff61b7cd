"""Print the difference of two rows of peers.md and its 95 % interval, by paired bootstrap over the questions.

    python data/peers/interval.py qa-minilm.json bm25s.json

The files are those that `answers.py` and `ranking.py` write with `--scores FILE`: a score per question, in percent.
"""

import argparse
import json
from pathlib import Path

from cogltx.tasks.metrics import paired_bootstrap


def main() -> None:
    """Read the two files and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    arguments = parser.parse_args()
    first, second = (json.loads(path.read_text()) for path in (arguments.first, arguments.second))
    if len(first) != len(second):
        parser.error("the files have scores of different questions")
    first, second = ([{str(number): (score, 1.0) for number, score in enumerate(one)}] for one in (first, second))
    found = paired_bootstrap(first, second)
    print(f"{found['mean_difference']:+.1f} [{found['low']:.1f}, {found['high']:.1f}]")


if __name__ == "__main__":
    main()
