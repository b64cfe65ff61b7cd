"""Fetching data sets from their official homes, checked against their known checksums.

Knows nothing about formats. The checksums are those that Hugging Face datasets (``dataset_infos.json``)
recorded; those of SQuAD agree with TensorFlow Datasets and ParlAI, the sizes of HotpotQA with GluonNLP.
"""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path

from tqdm import tqdm

from cogltx.errors import DataError
from cogltx.tasks.base import Split
from cogltx.tasks.files import open_binary, write_binary

_CHUNK = 1 << 18  # bytes read at once
_SECONDS = 60  # a server that is silent for so long has failed
_HOTPOTQA = "http://curtis.ml.cmu.edu/datasets/hotpot/"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"


@dataclass(frozen=True)
class Source:
    """A file at its official home: its address and the sha256 of its bytes, in hexadecimal."""

    url: str
    sha256: str


@dataclass(frozen=True)
class Downloaded:
    """A fetched file and the sha256 of its bytes, in hexadecimal."""

    path: Path
    sha256: str


SOURCES: dict[str, dict[Split, Source]] = {
    "hotpotqa": {
        "train": Source(
            _HOTPOTQA + "hotpot_train_v1.1.json",
            "26650cf50234ef5fb2e664ed70bbecdfd87815e6bffc257e068efea5cf7cd316",
        ),
        "validation": Source(
            _HOTPOTQA + "hotpot_dev_distractor_v1.json",
            "4e9ecb5c8d3b719f624d66b60f8d56bf227f03914f5f0753d6fa1b359d7104ea",
        ),
    },
    "squad": {
        "train": Source(
            _SQUAD + "train-v2.0.json",
            "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
        ),
        "validation": Source(
            _SQUAD + "dev-v2.0.json",
            "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
        ),
    },
    "squad-1.1": {
        "train": Source(
            _SQUAD + "train-v1.1.json",
            "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
        ),
        "validation": Source(
            _SQUAD + "dev-v1.1.json",
            "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
        ),
    },
}

_BRING = {
    "newsqa": (
        "its stories may not be redistributed: make combined-newsqa-data-v1.json with the scripts of "
        "github.com/Maluuba/newsqa from the questions (newsqa-data-v1.csv) and CNN's stories "
        "(cnn_stories.tgz), and name that file"
    ),
    "cuad": "unpack data.zip of github.com/TheAtticusProject/cuad, and give its files to the task squad",
    "jsonl": "this is the format of your own data; name its file",
}


def download(
    data_set: str, split: Split, folder: Path, *, url: str | None = None, sha256: str | None = None
) -> Downloaded:
    """Fetches one split of a data set into a folder, unless it already lies there whole.

    Args:
        data_set: a key of ``SOURCES``; "squad" is SQuAD 2.0.
        split: which part.
        folder: where the file goes, under its official name; made if need be.
        url: a mirror to fetch from instead of the official home; the checksum stays the same.
        sha256: the checksum to require instead of the known one.

    Raises:
        DataError: there is no such download, it fails, or the bytes are not the expected ones.
    """
    source = _source(data_set, split)
    target = folder / source.url.rpartition("/")[2]
    wanted = sha256 or source.sha256
    if target.exists():
        found = _checksum(target)
        if found == wanted:
            return Downloaded(target, found)
    return fetch(url or source.url, target, sha256=wanted)


def fetch(url: str, target: Path, *, sha256: str | None = None) -> Downloaded:
    """Fetches a file, with a progress bar on a terminal; it comes to be only when all is there and checked.

    Args:
        url: http, https or file.
        target: where it goes.
        sha256: the checksum to require, in hexadecimal; if None, the found one is printed, to be required
            next time.

    Raises:
        DataError: the download fails or the checksum is another.
    """
    try:
        answer = urllib.request.urlopen(url, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{url}: expected a file to download, got HTTP {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DataError(f"{url}: expected a file to download, got: {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DataError(f"{url}: expected a file to download, got: {error}") from None
    with answer, write_binary(target) as file:
        length = answer.headers.get("Content-Length")
        found = _copy(_chunks(answer.read, url), file, target.name, int(length) if length else None, url)
        if sha256 is not None and found != sha256.lower():
            raise DataError(f"{url}: expected the sha256 {sha256.lower()}, got {found}")
    if sha256 is None:
        tqdm.write(f"{target}: sha256 {found}")
    return Downloaded(target, found)


def _source(data_set: str, split: Split) -> Source:
    if data_set in _BRING:
        raise DataError(f"{data_set}: expected a file that you bring, got none; {_BRING[data_set]}")
    if data_set not in SOURCES:
        raise DataError(f"download: expected one of {', '.join(SOURCES)}, got {data_set!r}")
    splits = SOURCES[data_set]
    if split not in splits:
        known = " or ".join(splits)
        raise DataError(f"{data_set}: expected the split {known}, got {split!r}, which is not public")
    return splits[split]


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with open_binary(path, packed=True) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _chunks(read: Callable[[int], bytes], url: str) -> Iterator[bytes]:
    """The answer piece by piece; a connection that breaks is a DataError."""
    try:
        while chunk := read(_CHUNK):
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{url}: expected a whole file, got a broken connection: {error}") from None


def _copy(chunks: Iterator[bytes], file: BufferedWriter, name: str, length: int | None, url: str) -> str:
    """Copies everything; the sha256 of it."""
    digest = hashlib.sha256()
    done = 0
    with tqdm(total=length, desc=name, unit="B", unit_scale=True, unit_divisor=1024, disable=None) as bar:
        for chunk in chunks:
            digest.update(chunk)
            bar.update(file.write(chunk))
            done += len(chunk)
    if length is not None and done != length:
        raise DataError(f"{url}: expected {length} bytes, got {done}")
    return digest.hexdigest()
