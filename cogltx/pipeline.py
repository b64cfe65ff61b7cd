"""CogLTX: from a document and a query to an answer with evidence.

    Document + Query → blocks → judge → MemRecall → key blocks → reasoner → Prediction

``CogLTX.read`` is this line in code.
"""

import abc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Self, TypeVar

import torch
from more_itertools import constrained_batches

from cogltx.document import Document, Example, Query
from cogltx.encoding.layout import Layout, Window
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.folders import model_folder
from cogltx.judges import Judge, ScoringJudge
from cogltx.memrecall import Recall
from cogltx.model import Model, ModelConfig
from cogltx.model_judge import ModelJudge
from cogltx.prediction import Prediction
from cogltx.retrieval import Index, Retriever

BATCH_CHARACTERS = 2_000_000
_BATCH_TEXTS = 32
_LONGEST_PATH = 1024
_LAYOUTS_PER_RECALL = 256  # of one document whose blocks are queries
Item = TypeVar("Item")


class Reader(abc.ABC):
    """Reads documents of any length with a model: CogLTX, or a baseline.

    Attributes:
        uses_judge: whether a judge selects what is read, so that predictions have evidence.
    """

    uses_judge: ClassVar[bool] = False

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model."""
        return self.model.config

    @classmethod
    def create(cls, config: ModelConfig, *, device: torch.device | str | None = None) -> Self:
        """Create an untrained reader."""
        return cls(Model.create(config, with_judge=cls.uses_judge, device=device))

    @classmethod
    def load(
        cls,
        folder: Path,
        config: ModelConfig,
        *,
        device: torch.device | str | None = None,
        judge: Judge | ScoringJudge | str | None = None,
    ) -> Self:
        """Load a reader from a model folder, with its configuration or a changed one."""
        return cls(Model.load(folder, config, device=device, judge=judge))

    @abc.abstractmethod
    def read(self, requests: Sequence[tuple[Document, Query | None]]) -> list[Prediction]:
        """Read a batch of documents, each with its query."""

    def save_pretrained(self, folder: str | Path, *, name: str | None = None) -> None:
        """Write the model to a folder; see ``Model.save``."""
        self.model.save(Path(folder), name=name)

    def predict(self, document: Document | str, query: Query | str | None = None) -> Prediction:
        """Answer one query about one document.

        Args:
            document: a document of any length, or its text.
            query: the question; None for tasks without one.

        Raises:
            DataError: the document or the question is empty, or the question leaves no room for one block.
        """
        request = _request(document, query)
        return self.read([request])[0].within(request[0])

    def predict_many(self, examples: Iterable[Example]) -> Iterator[Prediction]:
        """Answer a stream of examples in order; only one batch is in memory at a time.

        Raises:
            DataError: as ``predict``; the predictions of earlier batches have been yielded.
        """
        for batch in batches_of_examples(examples):
            predictions = self.read([(example.document, example.query) for example in batch])
            for example, prediction in zip(batch, predictions, strict=True):
                yield replace(prediction.within(example.document), id=example.id)

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload the model to ``owner/name`` on the Hugging Face hub and return its address."""
        import tempfile

        from huggingface_hub import HfApi

        api = HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(Path(folder) / "model", name=repository)
            return str(api.upload_folder(repo_id=repository, folder_path=str(Path(folder) / "model")))


class CogLTX(Reader):
    """Finds the key blocks of a document, reasons over them, and returns the answer with the evidence."""

    uses_judge = True

    def __init__(self, model: Model) -> None:
        if model.judge is None:
            raise ModelError("the model has no judge, which CogLTX needs")
        if model.reasoner.joins_windows:
            raise ConfigError(
                "reasoner.over_windows: a network over windows needs reader: sliding_window; use mean or max"
            )
        if model.reasoner.by_block and model.config.memrecall.reread is not None:
            raise ConfigError("memrecall.reread: a reasoner that labels every block reads once; set it to null")
        super().__init__(model)
        self.memrecall = model.memrecall()

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        device: torch.device | str | None = None,
        judge: Judge | ScoringJudge | str | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> Self:
        """Load a trained model.

        Args:
            name: a released model such as ``qa-minilm``, a run, a model folder, or ``owner/name`` on the Hugging Face
                hub, with ``@REVISION`` for a branch, tag or commit.
            device: where it runs; the best available by default.
            judge: replaces the judge of the model: an object, ``bm25``, ``embedding`` or ``package.module:Class``. If
                the model's own judge is a class, name it here: loading runs its code.
            changes: settings to replace, by dotted key, such as ``{"memrecall.strides": [8]}``.

        Raises:
            ModelError: the folder is missing or incomplete, or is the model of a baseline.
            ConfigError: the device is not available, or a change is invalid.
        """
        folder = model_folder(name)
        config = ModelConfig.load(folder, changes)
        if config.reader != "cogltx":
            raise ModelError(f"{name}: a model of the baseline {config.reader}; cogltx.baselines.load_reader loads it")
        return cls.load(folder, config, device=device, judge=judge)

    def read(self, requests: Sequence[tuple[Document, Query | None]]) -> list[Prediction]:
        """Read a batch of documents, each with its query: the whole flow."""
        layouts = [self.model.layout(*request) for request in requests]
        if self.model.reasoner.by_block:
            windows = (self.windows_by_block(layout, range(len(layout.blocks))) for layout in layouts)
            outputs = map(self.model.reason, windows)
            return list(map(self.model.reasoner.predict, layouts, outputs))
        return self.reason_over(self.memrecall(layouts))

    def recall_many(self, examples: Iterable[Example]) -> Iterator[Recall]:
        """Find the key blocks of a stream of examples, in order."""
        for batch in batches_of_examples(examples):
            yield from self.memrecall([self.model.layout(example.document, example.query) for example in batch])

    def reason_over(self, recalls: Sequence[Recall]) -> list[Prediction]:
        """Solve the task on the key blocks of each document."""
        outputs = self.model.reason(window for recall in recalls for window in recall.windows)
        predictions = []
        for recall in recalls:
            first, *second_reading = islice(outputs, 2 if recall.reread else 1)
            by_judge, relevance = self.memrecall.judge.probabilities, self.model.reasoner.relevance_of(first)
            if relevance:
                scores = tuple(relevance[block] for block in recall.key_blocks)
                if by_judge:
                    scores = tuple(map(fmean, zip(recall.scores, scores, strict=True)))
                recall = replace(recall, scores=scores, relevance=max(scores))
            probabilities = recall.evidence if by_judge or relevance else None
            prediction = self.model.reasoner.predict(
                recall.layout, [first], probabilities, second_reading, recall.relevance
            )
            predictions.append(replace(prediction, evidence=recall.evidence))
        assert next(outputs, None) is None, "every window was read"
        return predictions

    def windows_by_block(self, layout: Layout, blocks: Sequence[int]) -> Iterator[Window]:
        """Build ``[CLS] block [SEP] z`` for each of some blocks, with z from the rest, in bounded memory."""
        for first in range(0, len(blocks), _LAYOUTS_PER_RECALL):
            chunk = blocks[first : first + _LAYOUTS_PER_RECALL]
            for recall in self.memrecall([layout.for_block(block) for block in chunk]):
                yield recall.window

    def recall(self, document: Document | str, query: Query | str | None = None) -> Recall:
        """Find the key blocks of a document, without reasoning over them; arguments as in ``predict``."""
        return self.memrecall([self.model.layout(*_request(document, query))])[0]

    def relevance(self, query: Query | str, texts: Sequence[str]) -> list[float]:
        """Score texts of any length for a query: the relevance of a text is that of its most relevant block.

        Args:
            query: the question.
            texts: the texts to score.

        Returns:
            a score per text, in [0, 1] for judges that give probabilities; 0 for a text without a character.

        Raises:
            DataError: the question is empty, or leaves no room for one block.
        """
        question = Query(query) if isinstance(query, str) else query
        scores = [0.0] * len(texts)
        with_text = (number for number, text in enumerate(texts) if text.strip())
        for batch in batches_of_texts(with_text, lambda number: len(texts[number])):
            recalls = self.memrecall([self.model.layout(Document(texts[number]), question) for number in batch])
            for number, recall in zip(batch, recalls, strict=True):
                scores[number] = recall.relevance
        return scores

    @property
    def indexer(self) -> Retriever | ModelJudge:
        """The retriever, whose vectors an index keeps: the model's own, or that of the model whose judge it has."""
        judge = self.memrecall.judge
        return judge if isinstance(judge, ModelJudge) else self.memrecall.retriever

    def open(
        self, document: Document | str | Sequence[Document | str] | None = None, *, index: str | Path | None = None
    ) -> "OpenDocument":
        """Open a document, or several that are searched together, to ask questions about it.

        Args:
            document: a document of any length, its text, or several documents; None takes it from the index.
            index: a file that ``OpenDocument.save`` or ``cogltx index`` has written.

        Raises:
            DataError: the index is missing, incomplete, of another text, or of a model with other blocks; there is no
                document.
        """
        if document is not None and not isinstance(document, Document | str | os.PathLike):
            document = Document.joined([Document(one) if isinstance(one, str) else one for one in document])
        if index is None:
            return OpenDocument(self, _request(document or "", None)[0])
        retriever = self.indexer
        loaded = Index.load(Path(index), self.model.tokenizer, self.config.max_block_tokens, retriever.encoder)
        blocks = loaded.blocks
        if document is not None and _request(document, None)[0].text != blocks.document.text:
            raise DataError(f"{index}: the index of another text; make one with cogltx index")
        self.model.keep(blocks)
        retriever.keep(loaded)
        return OpenDocument(self, blocks.document)


@dataclass(frozen=True)
class OpenDocument:
    """A document that is split once and answers any number of questions."""

    reader: CogLTX
    document: Document

    def ask(self, query: Query | str | None = None) -> Prediction:
        """Answer a question; see ``Reader.predict``."""
        return self.reader.predict(self.document, query)

    def save(self, path: str | Path) -> None:
        """Write the index: text, blocks, and their vectors for ``memrecall.shortlist``.

        Raises:
            TrainingError: the file cannot be written.
        """
        model = self.reader.model
        index = self.reader.indexer.index(model.layout(self.document, None))
        index.save(Path(path), model.tokenizer, model.config.max_block_tokens)


def _request(document: Document | str, query: Query | str | None) -> tuple[Document, Query | None]:
    if isinstance(document, str) and len(document) < _LONGEST_PATH and os.path.isfile(document):
        raise DataError(f"{document}: the name of a file, not a text; read the file with cogltx.read_document")
    return (
        document if isinstance(document, Document) else Document(document),
        query if query is None or isinstance(query, Query) else Query(query),
    )


def batches_of_examples(examples: Iterable[Example]) -> Iterator[tuple[Example, ...]]:
    """Group examples that are read together; raises DataError for one that is none."""

    def n_characters(example: object) -> int:
        if not isinstance(example, Example):
            raise DataError(f"examples: {type(example).__name__} is not an Example")
        return len(example.document.text)

    yield from batches_of_texts(examples, n_characters)


def batches_of_texts(texts: Iterable[Item], n_characters: Callable[[Item], int]) -> Iterator[tuple[Item, ...]]:
    """Group texts that are read together: at most 32, and about two million characters."""
    yield from constrained_batches(texts, BATCH_CHARACTERS, _BATCH_TEXTS, n_characters, strict=False)
