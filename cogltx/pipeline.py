"""CogLTX: the whole flow from a document and a query to an answer with evidence; save and load.

Document + Query → blocks → windows → judge → MemRecall → key blocks → reasoner → answer + evidence
"""

import abc
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn

from cogltx.blocks import Blocks, split
from cogltx.document import Document, Example, Query
from cogltx.encoder import run_windows
from cogltx.errors import ModelError
from cogltx.judges import Judge, ScoringJudge, as_judge, make_judge
from cogltx.memrecall import MemRecall, Recall
from cogltx.parts import Parts, load_config, load_parts, model_folder
from cogltx.prediction import Evidence, Prediction
from cogltx.reasoners import ReasonerConfig
from cogltx.reasoners.base import Relevant
from cogltx.storage import new_folder, save_tensors, write_json
from cogltx.window import Window

_BATCH_EXAMPLES = 32
_BATCH_CHARACTERS = 2_000_000
_REMEMBERED_DOCUMENTS = 4
_BLOCKS_AT_ONCE = 256


@dataclass(frozen=True)
class ReadDocument:
    """What reading gave for one example: what the reasoner made of it, and the evidence that rests on."""

    blocks: Blocks
    reading: Any
    recall: Recall | None = None


class Reader(abc.ABC):
    """Reads documents of any length: CogLTX, or a baseline.

    Args:
        parts: what it is made of.
    """

    uses_judge: ClassVar[bool] = False

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.config = parts.config
        self.form = parts.form
        self.reasoner = parts.reasoner
        self._split: OrderedDict[int, Blocks] = OrderedDict()
        for model in (parts.reasoner, parts.judge):
            if isinstance(model, nn.Module):
                model.to(parts.precision.device).eval()

    @abc.abstractmethod
    def read(self, examples: Sequence[Example]) -> list[ReadDocument]:
        """Reads a batch of documents, each with its query."""

    def split(self, document: Document) -> Blocks:
        """The document's blocks; the last few documents are remembered."""
        blocks = self._split.pop(id(document), None)
        if blocks is None or blocks.document is not document:
            blocks = split(document, self.parts.tokenizer, max_tokens=self.config.max_block_tokens)
        self._split[id(document)] = blocks
        if len(self._split) > _REMEMBERED_DOCUMENTS:
            self._split.popitem(last=False)
        return blocks

    def reason(self, windows: Iterable[Window], blocks: Sequence[Blocks]) -> list[Any]:
        """What the reasoner makes of each window, in order."""
        self.reasoner.eval()
        outputs = run_windows(
            windows, self.reasoner, padding_id=self.form.padding_id, precision=self.parts.precision,
            batch_tokens=self.config.encoder.batch_tokens,
        )  # fmt: skip
        return [
            self.reasoner.read(values, window, own)
            for (window, values), own in zip(outputs, blocks, strict=True)
        ]  # fmt: skip

    def predict(self, document: Document | str, query: Query | str | None = None) -> Prediction:
        """Answers one query about one document.

        Args:
            document: of any length; a string is its text.
            query: the question.

        Raises:
            DataError: the document or the question is empty, or the question does not fit a window.
        """
        document = Document(document) if isinstance(document, str) else document
        query = Query(query) if isinstance(query, str) else query
        return next(self.predict_many([Example(id=document.id, document=document, query=query)]))

    def predict_many(self, examples: Iterable[Example]) -> Iterator[Prediction]:
        """Answers a stream of examples, in order; only a batch of them is held at a time."""
        for batch in batched(examples):
            for example, result in zip(batch, self.read(batch), strict=True):
                yield self.prediction(example, result)

    def prediction(self, example: Example, result: ReadDocument) -> Prediction:
        """The prediction that a reading amounts to, by the reasoner's thresholds."""
        found = self.reasoner.conclude(result.reading)
        blocks = result.blocks
        return Prediction(
            id=example.id, answer=found.answer, start=found.start, end=found.end, score=found.score,
            alternatives=found.alternatives, labels=found.labels, entities=found.entities,
            evidence=_evidence(result.recall) if result.recall else (), n_tokens=blocks.n_tokens, n_blocks=len(blocks),
            n_unread=found.n_unread,
        )  # fmt: skip

    def with_reasoner(self, config: ReasonerConfig) -> None:
        """Sets the reasoner's configuration, for other thresholds."""
        self.reasoner.config = config
        self.config = self.parts.config = self.config.model_copy(update={"reasoner": config})

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes the model to a folder: configuration, safetensors, tokenizer.

        Raises:
            TrainingError: the folder cannot be written; what stood there before is kept.
        """
        with new_folder(Path(folder)) as target:
            self.parts.tokenizer.save_pretrained(target / "tokenizer")
            self.reasoner.encoder.model.config.save_pretrained(target / "encoder")
            save_tensors(target / "reasoner.safetensors", self.reasoner.state_dict())
            if isinstance(self.parts.judge, nn.Module):
                save_tensors(target / "judge.safetensors", self.parts.judge.state_dict())
            write_json(target / "config.json", self.config.model_dump(mode="json"))

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
            ModelError: the folder is missing, half-written or holds something else.
        """
        folder = model_folder(name)
        parts = load_parts(folder, load_config(folder), device, make_judge(judge) if judge is not None else None)
        return cls(parts)


class CogLTX(Reader):
    """Finds the key blocks of a document, reasons over them, and shows the evidence.

    Args:
        parts: what it is made of; the judge is needed.
    """

    uses_judge = True

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        if parts.judge is None:
            raise ModelError("model: expected a judge, found none")
        self.judge = as_judge(parts.judge, self.form, parts.precision, self.config.encoder.batch_tokens)
        self.memrecall = MemRecall(self.judge, self.form, self.config.memrecall)

    def read(self, examples: Sequence[Example]) -> list[ReadDocument]:
        """From documents and queries to answers and evidence."""
        if self.reasoner.by_block:
            return self.read_by_block([self.split(example.document) for example in examples])
        items = [(example.query, self.split(example.document)) for example in examples]
        recalls = self.memrecall(items)
        return self.reason_over(recalls)

    def reason_over(self, recalls: Sequence[Recall]) -> list[ReadDocument]:
        """Solves the task on the key blocks of each document."""
        windows = (self.window(recall) for recall in recalls)
        readings = self.reason(windows, [recall.blocks for recall in recalls])
        if self.judge.probabilities:
            readings = [
                self.reasoner.weighed(reading, _relevant(recall))
                for recall, reading in zip(recalls, readings, strict=True)
            ]  # fmt: skip
        return [ReadDocument(recall.blocks, reading, recall) for recall, reading in zip(recalls, readings, strict=True)]

    def read_by_block(self, documents: Sequence[Blocks]) -> list[ReadDocument]:
        """Every block in turn is the query, to which MemRecall brings context from the rest of its document."""
        pairs = [(blocks, block) for blocks in documents for block in range(len(blocks))]
        readings = iter(self.reason(self.windows_by_block(pairs), [blocks for blocks, _ in pairs]))
        return [
            ReadDocument(blocks, self.reasoner.merged([next(readings) for _ in range(len(blocks))]))
            for blocks in documents
        ]  # fmt: skip

    def windows_by_block(self, pairs: Sequence[tuple[Blocks, int]]) -> Iterator[Window]:
        """``[CLS] block [SEP] z`` for each of some blocks; as many recalls are held as are made at once."""
        for first in range(0, len(pairs), _BLOCKS_AT_ONCE):
            some = pairs[first : first + _BLOCKS_AT_ONCE]
            yield from map(self.window, self.memrecall([(blocks.query(block), blocks) for blocks, block in some]))

    def window(self, recall: Recall) -> Window:
        """What the reasoner sees: the query and all key blocks, in document order."""
        prefix = self.form.prefix(recall.query, int(recall.blocks.sizes.max()))
        return self.form.window(prefix, recall.blocks, recall.key_blocks, recall.query)


def _relevant(recall: Recall) -> list[Relevant]:
    blocks = recall.blocks
    return [
        Relevant(blocks[block].start, blocks[block].end, score)
        for block, score in zip(recall.key_blocks, recall.scores, strict=True)
    ]  # fmt: skip


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
        if batch and (len(batch) == _BATCH_EXAMPLES or characters + len(example.document.text) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(example)
        characters += len(example.document.text)
    if batch:
        yield batch
