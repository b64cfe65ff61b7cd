"""What every reader of documents has in common: predict, stream, save, load.

Knows nothing about how documents are read.
"""

import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from cogltx.blocks import Blocks
from cogltx.document import Document, Example, Query
from cogltx.errors import DataError, ModelError
from cogltx.judges import Judge, ScoringJudge
from cogltx.memrecall import Recall
from cogltx.model import ModelConfig, load_config, model_folder
from cogltx.prediction import Evidence, Prediction
from cogltx.reasoners.base import Conclusion

_BATCH_EXAMPLES = 32
_BATCH_CHARACTERS = 2_000_000


@dataclass(frozen=True)
class ReadDocument:
    """What reading gave for one example: what the reader made of it, and the evidence that rests on.

    Attributes:
        reading: the reader's own.
        blocks: of the document; None for readers that do not cut it.
        recall: how the key blocks were found, by readers that choose them.
    """

    reading: Any
    blocks: Blocks | None = None
    recall: Recall | None = None


class Reader(abc.ABC):
    """Reads documents of any length: CogLTX, or a baseline.

    Attributes:
        config: of the model.
        uses_judge: whether a judge chooses what it reads.
    """

    config: ModelConfig
    uses_judge: ClassVar[bool] = False

    @classmethod
    @abc.abstractmethod
    def new(cls, config: ModelConfig) -> Self:
        """An untrained reader."""

    @classmethod
    @abc.abstractmethod
    def load(
        cls,
        folder: Path,
        config: ModelConfig,
        device: torch.device | str | None = None,
        judge: Judge | ScoringJudge | None = None,
    ) -> Self:
        """A saved reader.

        Args:
            folder: of the model.
            config: its configuration, or a changed one.
            device: where it runs; the best there is by default.
            judge: takes the place of the model's own judge.

        Raises:
            ModelError: the folder is half-written or holds something else.
        """

    @abc.abstractmethod
    def read(self, examples: Sequence[Example]) -> list[ReadDocument]:
        """Reads a batch of documents, each with its query."""

    @abc.abstractmethod
    def conclude(self, reading: Any) -> Conclusion:
        """What a reading amounts to, by the thresholds."""

    @abc.abstractmethod
    def save_pretrained(self, folder: str | Path) -> None:
        """Writes the model to a folder.

        Raises:
            TrainingError: the folder cannot be written; what stood there before is kept.
        """

    def predict(self, document: Document | str, query: Query | str | None = None) -> Prediction:
        """Answers one query about one document.

        Args:
            document: of any length; a string is its text.
            query: the question.

        Raises:
            DataError: the document or the question is empty or no text, or the question does not fit a window.
        """
        document = Document(document) if isinstance(document, str) else document
        query = Query(query) if isinstance(query, str) else query
        if not isinstance(document, Document):
            raise DataError(f"document: expected a text or a Document, got {type(document).__name__}")
        if not isinstance(query, Query | None):
            raise DataError(f"question: expected a text, a Query or none, got {type(query).__name__}")
        return next(self.predict_many([Example(id=document.id, document=document, query=query)]))

    def predict_many(self, examples: Iterable[Example]) -> Iterator[Prediction]:
        """Answers a stream of examples, in order; only a batch of them is held at a time.

        Raises:
            DataError: as ``predict``, or one of them is no Example; those of the batches before it are answered.
        """
        for batch in batched(examples):
            for example, result in zip(batch, self.read(batch), strict=True):
                yield self.prediction(example, result)

    def prediction(self, example: Example, result: ReadDocument) -> Prediction:
        """The prediction that a reading amounts to."""
        found, blocks = self.conclude(result.reading), result.blocks
        return Prediction(
            id=example.id, answer=found.answer, start=found.start, end=found.end, score=found.score,
            alternatives=found.alternatives, labels=found.labels, entities=found.entities,
            evidence=_evidence(result.recall) if result.recall else (), n_unread=found.n_unread,
            n_tokens=blocks.n_tokens if blocks else 0, n_blocks=len(blocks) if blocks else 0,
        )  # fmt: skip

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Uploads the model to the Hugging Face hub and returns its address.

        Args:
            repository: ``owner/name``.
            private: whether others may see it.
        """
        import tempfile

        from huggingface_hub import HfApi

        api = HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(Path(folder) / "model")
            return str(api.upload_folder(repo_id=repository, folder_path=str(Path(folder) / "model")))

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        device: torch.device | str | None = None,
        judge: Judge | ScoringJudge | None = None,
    ) -> Self:
        """Loads a model.

        Args:
            name: a run, a model folder, or a name on the Hugging Face hub.
            device: where it runs; the best there is by default.
            judge: takes the place of the model's own judge.

        Raises:
            ModelError: the folder is missing, half-written or holds something else, such as a baseline's model.
            ConfigError: there is no such device.
        """
        folder = model_folder(name)
        config = load_config(folder)
        if cls.uses_judge and config.reader != "cogltx":
            raise ModelError(
                f"{name}: expected a model of reader 'cogltx', got {config.reader!r}; cogltx.cli.config.load_reader "
                "gives the class that reads it"
            )
        return cls.load(folder, config, device, judge)


def _evidence(recall: Recall) -> tuple[Evidence, ...]:
    found = []
    for block, score, step in zip(recall.key_blocks, recall.scores, recall.steps, strict=True):
        start, end = recall.blocks.trimmed(block)
        found.append(Evidence(start, end, recall.blocks.document.text[start:end], score, step, block in recall.kept))
    return tuple(sorted(found, key=lambda evidence: -evidence.score))


def batched(examples: Iterable[Example]) -> Iterator[list[Example]]:
    """Groups examples that are read together: at most 32, at most about two million characters."""
    batch: list[Example] = []
    characters = 0
    for example in examples:
        if not isinstance(example, Example):
            raise DataError(f"examples: expected an Example each, got {type(example).__name__}")
        if batch and (len(batch) == _BATCH_EXAMPLES or characters + len(example.document.text) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(example)
        characters += len(example.document.text)
    if batch:
        yield batch
