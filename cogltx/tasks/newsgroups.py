"""20 Newsgroups, the "bydate" split: a folder or archive as distributed, or scikit-learn's download."""

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from cogltx.document import Document, Example
from cogltx.errors import DataError
from cogltx.tasks.base import ReadReport, Split
from cogltx.tasks.classification import Classification

_LONG_WORD = 60
_ASIDE = re.compile(r"\([A-Z][^()\n]*\)")
_MARKS = str.maketrans("", "", ">|-")
_Form: TypeAlias = Literal["headers", "paper", "stripped"]
_Post: TypeAlias = tuple[str, str, str]  # newsgroup, name and text


class Newsgroups(Classification):
    """20 Newsgroups. A post without text is replaced by "(no text)", so that none is missing from the evaluation.

    Attributes:
        text: the form of a post: ``headers`` (the raw post), ``paper`` (the text that CogLTX's authors use),
            or ``stripped`` (scikit-learn's ``remove=("headers", "footers", "quotes")``).
    """

    name: ClassVar[str] = "newsgroups"
    main_metric: ClassVar[str] = "accuracy"
    reads_json_lines: ClassVar[bool] = False
    text: _Form = "paper"

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the posts of ``20news-bydate.tar.gz`` or of a folder with ``20news-bydate-train`` and ``-test`` in it.

        The path ``fetch`` stands for scikit-learn's download. There is no validation split.
        """
        if split == "validation":
            raise DataError(f"{path}: 20 Newsgroups has no validation posts; hold out training posts (data.held_out)")
        report = report or ReadReport()
        posts = _fetched if str(path) == "fetch" else _from_folder if path.is_dir() else _from_archive
        part = "test" if split == "test" else "train"
        for group, name, post in posts(path, part):
            report.examples += 1
            id, text = f"{part}/{group}/{name}", _treat(post, self.text)
            if not text.strip():
                report.unmapped.append((id, f"the form {self.text!r} of the post is empty"))
                text = "(no text)"
            yield Example(id=id, document=Document(text, id), labels=(group,))


def _treat(post: str, form: _Form) -> str:
    """Convert a post to one of the three forms.

    >>> _treat("From: a@b.c\\n\\n> he said (Note well) it is well-known", "paper")
    'he said it is wellknown'
    """
    if form == "headers":
        return post
    if form == "stripped":
        from sklearn.datasets import _twenty_newsgroups as sk

        body = sk.strip_newsgroup_header(post)
        return str(sk.strip_newsgroup_quoting(sk.strip_newsgroup_footer(body)))
    lines = []
    for line in _ASIDE.sub("", post).split("\n"):
        kept = [word for word in line.split() if ":" not in word and "@" not in word and len(word) <= _LONG_WORD]
        words = [word.translate(_MARKS) for word in kept]
        if any(words):
            lines.append(" ".join(word for word in words if word))
    return "\n".join(lines)


def _fetched(_: Path, part: str) -> Iterator[_Post]:
    from sklearn.datasets import fetch_20newsgroups

    try:
        posts = fetch_20newsgroups(subset=part, shuffle=False)
    except OSError as error:
        raise DataError(f"20 Newsgroups: cannot be downloaded by scikit-learn: {error}") from error
    for name, text, label in zip(posts.filenames, posts.data, posts.target, strict=True):
        yield posts.target_names[label], Path(name).name, text


def _from_folder(path: Path, part: str) -> Iterator[_Post]:
    root = path / f"20news-bydate-{part}"
    if not root.is_dir():
        raise DataError(f"{path}: the folder {root.name} is missing in it")
    for file in sorted(file for file in root.glob("*/*") if file.is_file() and not file.name.startswith(".")):
        yield file.parent.name, file.name, file.read_bytes().decode("latin-1")


def _from_archive(path: Path, part: str) -> Iterator[_Post]:
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                folders = member.name.removeprefix("./").split("/")
                if member.isfile() and len(folders) == 3 and folders[0] == f"20news-bydate-{part}":
                    file = archive.extractfile(member)
                    assert file is not None, "an ordinary file"
                    yield folders[1], folders[2], file.read().decode("latin-1")
    except FileNotFoundError:
        raise DataError(f"{path}: file not found") from None
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{path}: not an archive of 20 Newsgroups: {error}") from error
