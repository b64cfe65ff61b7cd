"""``cogltx ask``: ask any model about documents, at once or one question after another."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from cogltx._files import printable_name, write_file
from cogltx._languages import model_for
from cogltx._progress import logger
from cogltx.blocks import has_words
from cogltx.cli._options import DeviceOption, JudgeOption, ReleasedModelOption, SetOption, load_model, note
from cogltx.document import Document
from cogltx.errors import ConfigError, DataError, one_line
from cogltx.formats import ENDINGS, find_files, read_documents

if TYPE_CHECKING:
    from cogltx.pipeline import Reader
    from cogltx.prediction import Prediction

    Answer = Callable[[str | None], Prediction]

_TRIED_WORDS, _FEWEST_TRIED = 2000, 100  # of all documents, and of each

_Given = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE|QUESTION",
        help="Files or folders: PDF, EPUB, HTML, Markdown, notebooks, office files, CSV, e-mails or text, "
        "- for the standard input; then questions. "
        "Without a question, questions are asked for; models that label texts or find entities need none.",
    ),
]
_Seconds = Annotated[
    float | None, typer.Option(min=0.1, help="Processor time to read a file; by default 40 s per megabyte, from 1.5 s.")
]
_Megabytes = Annotated[
    float | None, typer.Option(min=1.0, help="Memory to read a file; by default 250, and 50 per megabyte of the file.")
]
_AtLeast = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Show only answers that are at least so sure, such as 0.8.")
]
_Index = Annotated[
    Path | None, typer.Option(help="File that keeps the split documents: read if it exists, otherwise written.")
]


def ask(
    given: _Given,
    model: ReleasedModelOption = None,
    index: _Index = None,
    html: Annotated[Path | None, typer.Option(help="Write a report with the evidence marked in the document.")] = None,
    judge: JudgeOption = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per answer.")] = False,
    at_least: _AtLeast = 0.0,
    seconds: _Seconds = None,
    megabytes: _Megabytes = None,
) -> None:
    """Ask about files: the answer, and the evidence with its page, line or heading; or labels, or entities."""
    for option, file in (("--html", html), ("--index", index)):
        if file is not None and file.is_dir():
            raise ConfigError(f"{option}: {file} is a folder; name a file")
    paths, questions = _sort(given)
    files = {document.id: (file, document) for file, document in _read_documents(paths, seconds, megabytes)}
    documents = [document for _, document in files.values()]
    model = model or model_for(documents, questions)
    reader = load_model(model, changes, judge, device)
    documents = _readable(documents, reader)
    searches = reader.uses_judge and _answers_questions(reader)
    guesses = searches and (foreign := _in_unknown_language(documents, reader)) is not None
    if guesses:
        note(f"{model} does not know the language of {foreign}; these passages share most words with the question")
        _search_by_words(reader)
    known = [*questions] or _questions_of(reader)
    groups = [documents] if _answers_questions(reader) else [[document] for document in documents]
    if html is not None and len(groups) * len(known) != 1:
        raise ConfigError("--html: a report shows one question; give exactly one")
    if Path("-") in paths and not known:
        raise ConfigError("ask: the standard input is the text, so give a question as an argument")
    if index is not None and len(groups) > 1:
        raise ConfigError("--index: the model reads each file by itself; name one file")
    for group in groups:
        answer = _decided(_open(reader, group, index), at_least, guesses=guesses)
        for question, prediction in ((one, answer(one)) for one in known) if known else _answer_typed(answer, group):
            title = [group[0].id] * (len(groups) > 1) + [question or ""] * (len(known) > 1)
            _print(reader, group, question, prediction, None if as_json else one_line(": ".join(title)))
            if html is not None:
                _write_report(html, group, question, prediction, {id: file for id, (file, _) in files.items()})


def _answers_questions(reader: "Reader") -> bool:
    return reader.config.reasoner.pipeline_tag == "question-answering"


def _questions_of(reader: "Reader") -> list[str | None]:
    """Return the questions of a model when the user gives none: its label names, or one empty question."""
    options = reader.config.task.options
    return [] if _answers_questions(reader) else [*options["labels"]] if options.get("label_queries") else [None]


def _read_documents(
    named: Sequence[Path], seconds: float | None, megabytes: float | None
) -> Iterator[tuple[Path, Document]]:
    """Read files, named by their paths if there are several; those of a folder that cannot be read are left out."""
    files = find_files(named)
    n_documents = 0
    for file, document in read_documents(files, named, seconds=seconds, megabytes=megabytes):
        n_documents += 1
        yield file, replace(document, id=printable_name(file)) if len(files) > 1 else document
    if not n_documents:
        raise DataError(f"{named[0]}: no file that can be read")


def _readable(documents: Sequence[Document], reader: "Reader") -> list[Document]:
    """Leave out documents without a token, if there is another one."""
    is_readable = [reader.can_read(document) for document in documents]
    if not any(is_readable):
        return list(documents)
    for document, is_one in zip(documents, is_readable, strict=True):
        if not is_one:
            logger.warning(f"left out: {document.id}: the tokenizer finds no token in the text")
    return list(compress(documents, is_readable))


def _open(reader: "Reader", documents: Sequence[Document], index: Path | None) -> "Answer":
    """Open documents that are searched together; returns what answers a question about them."""
    from cogltx.pipeline import CogLTX

    document = documents[0] if len(documents) == 1 else Document.joined(documents)
    if isinstance(reader, CogLTX):
        is_there = index is not None and index.exists()
        opened = reader.open(document, index=index if is_there else None)
        if index is not None and not is_there:
            opened.save(index)
            note(f"index: {index}")
        return opened.ask
    if index is not None:
        raise ConfigError(f"--index: the baseline {reader.config.reader} has no index")
    return lambda question: reader.predict(document, question)


def _in_unknown_language(documents: Sequence[Document], reader: "Reader") -> str | None:
    """The name of the first document whose words the model's tokenizer only spells; None if there is none."""
    tokenizer, n_words = reader.model.tokenizer, max(_FEWEST_TRIED, _TRIED_WORDS // len(documents))
    return next((one.id or "the text" for one in documents if not has_words(one.text, tokenizer, n_words)), None)


def _search_by_words(reader: "Reader") -> None:
    """Let BM25 find the passages."""
    from cogltx.memrecall import MemRecall
    from cogltx.pipeline import CogLTX

    if isinstance(reader, CogLTX):
        model, config = reader.model, reader.config.memrecall.model_copy(update={"shortlist": None})
        reader.memrecall = MemRecall(
            "bm25", config, tokenizer=model.tokenizer, max_block_tokens=reader.config.max_block_tokens,
            runner=model.runner, pairs=model.pairs, form=model.form,
        )  # fmt: skip


def _decided(answer: "Answer", at_least: float, *, guesses: bool) -> "Answer":
    """Hide answers that are not sure enough among the candidates, and all answers that are guesses."""

    def decided(question: str | None) -> "Prediction":
        prediction = answer(question)
        if guesses:
            return replace(prediction.without_answer(), alternatives=(), no_answer_confidence=None)
        unsure = prediction.answer and prediction.no_answer_confidence is not None and prediction.confidence < at_least
        return prediction.without_answer() if unsure else prediction

    return decided


def _answer_typed(answer: "Answer", documents: Sequence[Document]) -> Iterator[tuple[str, "Prediction"]]:
    """Answer what a person types; a question that cannot be asked does not end the others."""
    failed = False
    for question in _typed(documents):
        try:
            yield question, answer(question)
        except DataError as error:
            failed = True
            typer.echo(f"cogltx: {error}", err=True)
    if failed:
        raise typer.Exit(2)


def _print(
    reader: "Reader", documents: Sequence[Document], question: str | None, prediction: "Prediction", title: str | None
) -> None:
    """Print a prediction under its title, or as JSON without one."""
    if title is None:
        asked = {} if question is None else {"question": question}
        print(json.dumps(asked | prediction.to_dict(), ensure_ascii=False), flush=True)
        return
    shown, named = _with_short_names(prediction, documents)
    text = reader.config.reasoner.format(shown, named, bold=partial(typer.style, bold=True))
    typer.echo(f"{title}\n\n{text}\n" if title else f"{text}\n")


def _write_report(
    html: Path, documents: Sequence[Document], question: str | None, prediction: "Prediction", files: Mapping[str, Path]
) -> None:
    """Write a report whose places lead to the files."""
    shown, named = _with_short_names(prediction, documents)
    ids = zip(named, documents, strict=True)
    links = {new.id: _address(files[old.id], html) for new, old in ids if files[old.id] != Path("-")}
    write_file(html, shown.to_html(named, question or "", links=links))
    note(f"report: {html}")


def _address(file: Path, page: Path) -> str:
    """The address of a file in a page: relative, so that both can be moved together.

    >>> _address(Path("files/a b.pdf"), Path("reports/page.html"))
    '../files/a%20b.pdf'
    """
    target, folder = os.path.abspath(file), os.path.dirname(os.path.abspath(page))
    try:
        return quote(os.fsencode(Path(os.path.relpath(target, folder)).as_posix()))
    except ValueError:  # another drive of Windows
        return Path(target).as_uri()


def _with_short_names(
    prediction: "Prediction", documents: Sequence[Document]
) -> tuple["Prediction", Sequence[Document]]:
    """Name several documents by their files, or by their paths if two files have the same name."""
    files = {document.id: Path(document.id).name for document in documents}
    if len(documents) < 2 or len({*files.values()}) < len(documents):
        return prediction, documents
    names = {"": "", **files}
    shown = replace(
        prediction, document=names[prediction.document],
        evidence=tuple(replace(one, document=names[one.document]) for one in prediction.evidence),
        alternatives=tuple(replace(one, document=names[one.document]) for one in prediction.alternatives),
    )  # fmt: skip
    return shown, [replace(document, id=names[document.id]) for document in documents]


def _sort(given: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Tell files and folders, which exist, from questions: several words, or a question mark at the end."""
    paths, questions = list[Path](), list[str]()
    for one in given:
        if not one.strip():
            raise ConfigError("an empty argument is neither a file nor a question")
        if one == "-" or os.path.exists(one):  # a question may be too long for a file name, which is no error here
            paths.append(Path(one))
        elif one.endswith(("?", "？")) or (len(one.split()) > 1 and Path(one).suffix.lower() not in ENDINGS):
            questions.append(one)
        else:
            raise DataError(f"{one}: file not found (a question has several words, or ends with a question mark)")
    if not paths:
        raise ConfigError(f"ask needs a file or a folder; {questions[0]!r} is none")
    return paths, questions


def _typed(documents: Sequence[Document]) -> Iterator[str]:
    """The questions that a person types, or the lines of the standard input."""
    asks = sys.stdin.isatty()
    if asks:
        what = documents[0].id if len(documents) == 1 else f"{len(documents)} files"
        note(f"{what}: {sum(len(one.text) for one in documents):,} characters. Ask; an empty line ends.")
    while True:
        if asks:
            typer.echo("? ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line.strip():
            if asks or not line:
                return
            continue
        yield line.strip()
