"""``cogltx predict``: answer a question about documents, or a file of examples."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cogltx.cli.documents import read_documents
from cogltx.cli.options import DeviceOption, Engine, Format, JudgeOption, RunArgument, SetOption, note
from cogltx.errors import ConfigError


def predict(
    run: RunArgument,
    documents: Annotated[
        list[str] | None,
        typer.Option(
            "--document",
            help="A file or a folder: UTF-8 text, PDF, Word, EPUB, HTML or Markdown; - reads standard input. "
            "Repeatable.",
        ),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="A document that cogltx index has read, in place of --document.")
    ] = None,
    questions: Annotated[
        list[str] | None,
        typer.Option(
            "--question",
            help="A question about each document; - reads one per line from standard input. By default, all label "
            "names where these are the questions.",
        ),
    ] = None,
    examples: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="A JSON Lines or Parquet file of examples, a folder, or a pattern such as 'corpus/*.jsonl.gz'.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Predictions: a file; a folder for several inputs, Parquet, --engine or --format. Resumable."
        ),
    ] = None,
    engine: Annotated[
        Engine | None, typer.Option(help="Answer the parts of a corpus in this process (local) or by Ray.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes of the engine ray; by default one per core or GPU.")
    ] = None,
    format: Annotated[Format | None, typer.Option(help="Of the predictions for a corpus.")] = None,
    judge: JudgeOption = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, or a list of them for several documents.")
    ] = False,
) -> None:
    """Answer questions about each --document or about an --index, or all examples of --input."""
    if examples is None and output is not None:
        raise ConfigError("predict: --output goes with --input; for a document, redirect what --json prints")
    if sum(map(bool, (documents, index, examples))) != 1 or (examples is None) != (output is None):
        raise ConfigError("predict needs either --document FILE, --index FILE, or --input FILE and --output FILE")
    if workers and engine != "ray":
        raise ConfigError("predict: --workers goes with --engine ray")
    if examples is not None and (questions or as_json):
        raise ConfigError("predict: --question and --json go with --document; the examples of --input have questions")
    from cogltx.cli.corpus import answer_corpus, check_parquet, is_corpus
    from cogltx.cli.predictions import Predictor

    if format == "parquet":
        check_parquet("--format parquet")

    if examples is not None and output is not None and (is_corpus(examples) or engine or format):
        n_predictions = answer_corpus(
            examples, output, Predictor(run, changes or (), judge, device),
            engine=engine or "local", workers=workers, format=format or "jsonl",
        )  # fmt: skip
        note(f"{n_predictions:,} new predictions in {output}")
        return
    if engine or format:
        raise ConfigError("predict: --engine and --format go with --input")
    from cogltx.document import Example, Query
    from cogltx.files import write_file
    from cogltx.pipeline import CogLTX
    from cogltx.reasoners import SpanReasonerConfig
    from cogltx.tasks import make_task

    asked: list[Query | None] = [Query(question) for question in _questions(questions or ())] or [None]
    texts = {document.id: document for document in read_documents(documents)} if documents else {}
    task, predictor = make_task("jsonl", {}), Predictor(run, changes or (), judge, device)
    if examples is not None and output is not None:
        source = task.read(Path(examples), split="test")
        n_predictions = sum(1 for _ in predictor.answer(task, source, title="predict", written=output))
        if not n_predictions and not output.exists():
            write_file(output, "")
        note(f"{n_predictions:,} predictions in {output}")
        return
    if index is not None:
        if not isinstance(predictor.reader, CogLTX):
            raise ConfigError(f"--index: the baseline {predictor.reader.config.reader} has no shortlist")
        texts = {str(index): predictor.reader.open(index=index).document}
    config = predictor.reader.config
    if asked == [None] and isinstance(config.reasoner, SpanReasonerConfig):
        raise ConfigError("predict: this model answers questions; give --question")
    if asked == [None] and config.task.options.get("label_queries"):
        asked = [Query(label) for label in config.task.options["labels"]]
    read = [Example(id=text.id, document=text, query=query) for text in texts.values() for query in asked]
    titles = [(name, query.text if query else "") for name in texts for query in asked]
    records = []
    for (name, text), (_, prediction) in zip(titles, predictor.answer(task, read, title="predict"), strict=True):
        records.append({"question": text, **prediction.to_dict()} if text else prediction.to_dict())
        if as_json:
            continue
        if len(read) > 1:
            title = ": ".join([name] * (len(texts) > 1) + [text] * (len(asked) > 1))
            print(f"{chr(10) * (len(records) > 1)}== {title}")
        print(config.reasoner.format(prediction))
    if as_json:
        print(json.dumps(records if len(read) > 1 else records[0], ensure_ascii=False, indent=2))


def _questions(given: Sequence[str]) -> Iterator[str]:
    """Yield the questions that ``--question`` gave; for "-", those on standard input, one per line."""
    for question in given:
        if question == "-":
            from cogltx.files import read_text

            yield from filter(None, map(str.strip, read_text("-").splitlines()))
        else:
            yield question
