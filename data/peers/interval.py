"""Print the difference of two rows of peers.md and its 95 % interval, by paired bootstrap over the questions.

    python data/peers/interval.py qa-minilm.json bm25s.json

The files are those that `answers.py` and `ranking.py` write with `--scores FILE`: a score per question, in percent.
"""

import argparse
import json
from pathlib import Path

import numpy as np

_SAMPLES = 10_000


def main() -> None:
    """Read the two files and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    arguments = parser.parse_args()
    first, second = (np.array(json.loads(path.read_text())) for path in (arguments.first, arguments.second))
    if first.shape != second.shape:
        parser.error("the files have scores of different questions")
    difference = first - second
    chosen = np.random.default_rng(0).integers(len(difference), size=(_SAMPLES, len(difference)))
    low, high = np.percentile(difference[chosen].mean(axis=1), [2.5, 97.5])
    print(f"{difference.mean():+.1f} [{low:.1f}, {high:.1f}]")


if __name__ == "__main__":
    main()
