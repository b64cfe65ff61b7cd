"""CogLTX: from a document and a query to an answer with evidence.

    Document + Query → blocks → judge → MemRecall → what is read → reasoner → answer (exact slice) + evidence

``CogLTX.read`` is this line in code.
"""

import abc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, islice, tee
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from more_itertools import chunked, constrained_batches, consume

from cogltx._folders import model_folder
from cogltx._progress import logger
from cogltx.blocks import has_token
from cogltx.config import ModelConfig, load_config
from cogltx.document import Document, Example, Query
from cogltx.encoding.layout import Layout
from cogltx.errors import DataError, ModelError
from cogltx.index import Index
from cogltx.judges import FusionWeights, Judge, Memory, ScoringJudge, TrainedRetriever
from cogltx.model import Model
from cogltx.prediction import Prediction
from cogltx.reasoners.base import WindowOutputs
from cogltx.recall import Recall

BATCH_CHARACTERS = 2_000_000
_BATCH_TEXTS = 32
_LONGEST_PATH = 1024
_LAYOUTS_PER_RECALL = 256  # of one document whose blocks are queries
_MANY_TEXTS = FusionWeights(judge=1.0, retriever=0.5)  # of models without weights of their own
_NO_ANSWER = Prediction(id="", answer="", start=None, end=None, confidence=0.0)
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
            DataError: as ``predict``; the predictions of earlier batches have been yielded. But a document without a
                token is only logged, and its prediction has no answer.
        """
        for batch in batches_of_examples(examples):
            readable = [self.can_read(example.document) for example in batch]
            requests = [(example.document, example.query) for example in compress(batch, readable)]
            predictions = iter(self.read(requests) if requests else ())
            for example, is_readable in zip(batch, readable, strict=True):
                if not is_readable:
                    logger.warning(f"example {example.id!r}: no answer: the tokenizer finds no token in the text")
                prediction = next(predictions) if is_readable else _NO_ANSWER
                yield replace(prediction.within(example.document), id=example.id)

    def can_read(self, document: Document) -> bool:
        """Check that a document has a token."""
        return has_token(document.text, self.model.tokenizer)

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
        super().__init__(model)
        self.retriever = model.make_retriever()
        self.memrecall = model.memrecall(self.retriever)

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
        config = load_config(folder, changes)
        if config.reader != "cogltx":
            raise ModelError(f"{name}: a model of the baseline {config.reader}; cogltx.baselines.load_reader loads it")
        return cls.load(folder, config, device=device, judge=judge)

    def use_fusion(self, weights: FusionWeights) -> None:
        """Let the scores of the trained retriever join the judge's with these weights."""
        config = self.model.initial_config
        judge = config.judge.model_copy(update={"fusion": weights})
        self.model.initial_config = config.model_copy(update={"judge": judge})
        self.memrecall = self.model.memrecall(self.retriever)

    def read(self, requests: Sequence[tuple[Document, Query | None]]) -> list[Prediction]:
        """Read a batch of documents, each with its query: the whole flow."""
        layouts = [self.model.layout(document, query) for document, query in requests]
        queries = [list(self.model.reasoner.layouts(layout)) for layout in layouts]
        recalls, read = tee(self.recalls(chain.from_iterable(queries)))
        outputs = self.model.reason(recall.window for recall in read)
        predictions = [
            self._predict(layout, islice(recalls, len(of_document)), islice(outputs, len(of_document)))
            for layout, of_document in zip(layouts, queries, strict=True)
        ]
        assert next(outputs, None) is None, "every window was read"
        return predictions

    def recalls(self, layouts: Iterable[Layout]) -> Iterator[Recall]:
        """Find the key blocks of documents for their queries, in bounded memory."""
        for some in chunked(layouts, _LAYOUTS_PER_RECALL):
            yield from self.memrecall(some)

    def _predict(self, layout: Layout, recalls: Iterator[Recall], outputs: Iterator[WindowOutputs]) -> Prediction:
        """Solve the task on the key blocks of one document, which has one query, or one per block (tagging)."""
        first = next(recalls)
        evidence = first.evidence if first.layout is layout else ()
        probabilities = evidence if self.memrecall.judge.probabilities else None
        prediction = self.model.reasoner.predict(layout, outputs, probabilities, relevance=first.relevance)
        consume(recalls)
        return replace(prediction, evidence=evidence)

    def reason_over(self, recalls: Sequence[Recall]) -> list[Prediction]:
        """Solve the task on key blocks that were found before, each for the query of a document."""
        outputs = self.model.reason(recall.window for recall in recalls)
        predictions = [self._predict(recall.layout, iter([recall]), islice(outputs, 1)) for recall in recalls]
        assert next(outputs, None) is None, "every window was read"
        return predictions

    def recall_many(self, examples: Iterable[Example]) -> Iterator[Recall]:
        """Find the key blocks of a stream of examples, in order."""
        for batch in batches_of_examples(examples):
            yield from self.memrecall([self.model.layout(example.document, example.query) for example in batch])

    def recall(self, document: Document | str, query: Query | str | None = None) -> Recall:
        """Find the key blocks of a document, without reasoning over them; arguments as in ``predict``."""
        return self.memrecall([self.model.layout(*_request(document, query))])[0]

    def relevance(self, query: Query | str, texts: Sequence[str]) -> list[float]:
        """Score texts of any length for a query: the relevance of a text is that of its most relevant block.

        With ``judge.fusion``, and for more texts than the shortlist has blocks, the trained retriever ranks the texts
        first; the judge scores as many of the best as the shortlist has blocks, and both scores count.

        Args:
            query: the question.
            texts: the texts to score.

        Returns:
            a score per text, in [0, 1] for judges that give probabilities; 0 for a text without a token.

        Raises:
            DataError: the question is empty, or leaves no room for one block; ``texts`` is a text, or one is none.
        """
        question = Query(query) if isinstance(query, str) else query
        ranking, relevance = self.ranking(question, texts), dict[int, float]()
        for batch in batches_of_texts(ranking.judged, lambda number: len(texts[number])):
            recalls = self.memrecall([self.model.layout(Document(texts[number]), question) for number in batch])
            relevance |= {number: recall.relevance for number, recall in zip(batch, recalls, strict=True)}
        return ranking.scores(relevance)

    def ranking(self, query: Query | str, texts: Sequence[str]) -> "Ranking":
        """Rank texts by the trained retriever, if its scores join the judge's; otherwise the judge scores all texts.

        Raises:
            DataError: as ``relevance``.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise DataError("give a list of texts, each a string; put one text into a list")
        question = Query(query) if isinstance(query, str) else query
        with_text = [number for number, text in enumerate(texts) if has_token(text, self.model.tokenizer)]
        fusion, retriever, shortlist = self.config.judge.fusion, self.retriever, self.config.memrecall.shortlist
        if shortlist is not None and len(with_text) > shortlist and self.memrecall.judge.probabilities:
            fusion = fusion or _MANY_TEXTS
        if fusion is None or not isinstance(retriever, TrainedRetriever) or not with_text:
            return Ranking(len(texts), with_text)
        joined = Document.joined([Document(texts[number], str(number)) for number in with_text])
        layout = self.model.layout(joined, question)
        text_of = np.searchsorted([first for _, first in joined.parts], layout.blocks.starts, side="right") - 1
        retrieved = np.full(len(with_text), -np.inf)
        np.maximum.at(retrieved, text_of, retriever.log_probabilities(Memory(layout)))
        best = np.argsort(-retrieved, kind="stable")[:shortlist]
        judged = [with_text[place] for place in np.sort(best).tolist()]
        return Ranking(len(texts), judged, fusion, dict(zip(with_text, retrieved.tolist(), strict=True)))

    def open(
        self, document: Document | str | Sequence[Document | str] | None = None, *, index: str | Path | None = None
    ) -> "OpenDocument":
        """Open a document, or several that are searched together, to ask questions about it.

        Args:
            document: a document of any length, its text, or several documents; None takes it from the index.
            index: a file that ``OpenDocument.save`` has written.

        Raises:
            DataError: the index is missing, incomplete, of another text, or of a model with other blocks; there is no
                document.
        """
        if document is not None and not isinstance(document, Document | str | os.PathLike):
            document = Document.joined([Document(one) if isinstance(one, str) else one for one in document])
        if index is None:
            if document is None:
                raise DataError("give a document, or an index")
            return OpenDocument(self, _request(document, None)[0])
        judge = self.memrecall.judge
        loaded = Index.load(Path(index), self.model.tokenizer, self.config.max_block_tokens, judge.index_key)
        blocks = loaded.blocks
        if document is not None:
            given, _ = _request(document, None)
            if given.text != blocks.document.text or any(given.heading(one.start) != one.heading for one in blocks):
                raise DataError(f"{index}: the index of another text; delete it, or name another file")
            blocks = replace(blocks, document=given)  # the same text may have another name now
        self.model.keep(blocks)
        if judge.index_key:
            judge.use_vectors(blocks, loaded.vectors)
        return OpenDocument(self, blocks.document)


@dataclass(frozen=True)
class Ranking:
    """Ranking of texts for a question, before the judge has scored them.

    Attributes:
        count: number of texts.
        judged: the texts that the judge scores, in their order.
        fusion: weights of judge and retriever; None: the judge alone.
        retrieved: log-probability, by the retriever, that the relevant block is in a text and is its best.
    """

    count: int
    judged: list[int]
    fusion: FusionWeights | None = None
    retrieved: Mapping[int, float] = field(default_factory=dict)

    def scores(self, relevance: Mapping[int, float]) -> list[float]:
        """Score each text, given the judge's relevance of the ``judged`` ones; 0 for a text without a token."""
        if self.fusion is None:
            return [relevance.get(number, 0.0) for number in range(self.count)]
        judge, retriever = (
            np.array([scores.get(number, 0.0) for number in range(self.count)])
            for scores in (relevance, self.retrieved)
        )
        fused = self.fusion.fused(judge, retriever).tolist()
        return [fused[number] if number in self.retrieved else 0.0 for number in range(self.count)]


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
        model, judge = self.reader.model, self.reader.memrecall.judge
        layout = model.layout(self.document, None)
        index = Index(layout.blocks, judge.vectors(layout), judge.index_key)
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
