"""Conversion of any task's file to JSON Lines, and downloads of data sets from their official homes."""

import sys
from pathlib import Path

from cogltx._progress import progress
from cogltx.errors import DataError
from cogltx.tasks.base import ReadReport, Split, Task
from cogltx.tasks.jsonl import write_examples

_HOTPOTQA = "http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"

SOURCES: dict[str, dict[Split, tuple[str, str]]] = {  # address and sha256 (by Hugging Face datasets) of each file
    "hotpotqa": {
        "train": (_HOTPOTQA + "train_v1.1.json", "26650cf50234ef5fb2e664ed70bbecdfd87815e6bffc257e068efea5cf7cd316"),
        "validation": (
            _HOTPOTQA + "dev_distractor_v1.json",
            "4e9ecb5c8d3b719f624d66b60f8d56bf227f03914f5f0753d6fa1b359d7104ea",
        ),
    },
    "squad": {
        "train": (_SQUAD + "train-v2.0.json", "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002"),
        "validation": (_SQUAD + "dev-v2.0.json", "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"),
    },
}

_NOT_PUBLIC = {
    "newsqa": (
        "its stories may not be redistributed: make combined-newsqa-data-v1.json with the scripts of "
        "github.com/Maluuba/newsqa from the questions (newsqa-data-v1.csv) and CNN's stories (cnn_stories.tgz), and "
        "give that file"
    ),
    "cuad": "unpack data.zip of github.com/TheAtticusProject/cuad, and give its files to the task cuad",
    "jsonl": "this is the format of your own data; give its file",
}


def prepare(task: Task, source: Path | None, output: Path, split: Split) -> ReadReport:
    """Read a file of a task, or download it to the folder of ``output``, and write its examples as JSON Lines."""
    if source is None:
        source = _download(task.name, split, output.parent)
    if source.exists() and output.exists() and source.samefile(output):
        raise DataError(f"{output}: is both the source and the output; choose another output")
    report = ReadReport()
    examples = task.read(source, split=split, report=report)
    write_examples(output, iter(progress(examples, source.name, unit="examples")))
    return report


def _download(data_set: str, split: Split, folder: Path) -> Path:
    """Download one split into a folder, under its official name, unless a file with the right checksum is there."""
    if data_set == "newsgroups":
        raise DataError("newsgroups: name its archive or folder with --source; --source fetch downloads it")
    if data_set in _NOT_PUBLIC:
        raise DataError(f"{data_set} cannot be downloaded: {_NOT_PUBLIC[data_set]}")
    if data_set not in SOURCES:
        raise DataError(f"{data_set}: there is no download; name its file with --source")
    if split not in SOURCES[data_set]:
        raise DataError(f"{data_set}: the split {split} is not public; choose {' or '.join(SOURCES[data_set])}")
    import pooch

    url, sha256 = SOURCES[data_set][split]
    pooch.get_logger().setLevel("WARNING")
    name, bar = url.rpartition("/")[2], sys.stderr.isatty()
    try:
        path = Path(pooch.retrieve(url, f"sha256:{sha256}", fname=name, path=folder, progressbar=bar))
        path.chmod(0o644)
    except (OSError, ValueError) as error:
        raise DataError(f"{url} cannot be downloaded: {' '.join(str(error).split())}") from None
    return path
