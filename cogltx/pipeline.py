"""CogLTX: the whole flow from a document and a query to an answer with evidence; save and load.

Document + Query → blocks → windows → judge → MemRecall → key blocks → reasoner → answer + evidence
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from cogltx.blocks import Blocks, split
from cogltx.document import Document, Example
from cogltx.encoding.encoder import run_windows
from cogltx.encoding.layout import Window
from cogltx.errors import ConfigError, ModelError
from cogltx.judges import Judge, ScoringJudge, as_judge, make_judge
from cogltx.memrecall import MemRecall, Recall
from cogltx.model import ModelConfig, Parts, load_parts, new_parts
from cogltx.reader import ReadDocument, Reader
from cogltx.reasoners import ReasonerConfig
from cogltx.reasoners.base import Conclusion, Relevant
from cogltx.storage import new_folder, save_tensors, write_json

_REMEMBERED_TOKENS = 4_000_000  # about 50 MB
_BLOCKS_AT_ONCE = 256


class WindowReader(Reader):
    """A reader whose reasoner reads windows: CogLTX, or a baseline.

    Args:
        parts: what it is made of.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.config = parts.config
        self.form = parts.form
        self.reasoner = parts.reasoner
        self._split: OrderedDict[int, Blocks] = OrderedDict()
        self._remembered = 0
        for model in (parts.reasoner, parts.judge):
            if isinstance(model, nn.Module):
                model.to(parts.precision.device).eval()

    @classmethod
    def new(cls, config: ModelConfig) -> Self:
        """See ``Reader.new``."""
        return cls(new_parts(config, uses_judge=cls.uses_judge))

    @classmethod
    def load(
        cls,
        folder: Path,
        config: ModelConfig,
        device: torch.device | str | None = None,
        judge: Judge | ScoringJudge | None = None,
    ) -> Self:
        """See ``Reader.load``."""
        return cls(load_parts(folder, config, device, make_judge(judge) if judge is not None else None))

    def split(self, document: Document) -> Blocks:
        """The document's blocks; the last documents are remembered, as many as four million tokens make."""
        blocks = self._split.pop(id(document), None)
        if blocks is None:
            blocks = split(document, self.parts.tokenizer, max_tokens=self.config.max_block_tokens)
            self._remembered += blocks.n_tokens
        self._split[id(document)] = blocks  # which holds the document, so that no other one gets its id
        while self._remembered > _REMEMBERED_TOKENS and len(self._split) > 1:
            self._remembered -= self._split.popitem(last=False)[1].n_tokens
        return blocks

    def reason(self, windows: Iterable[Window], blocks: Sequence[Blocks]) -> list[Any]:
        """What the reasoner makes of each window, in order.

        Raises:
            ModelError: it gives NaN.
        """
        self.reasoner.eval()
        outputs = run_windows(
            windows, self.reasoner, padding_id=self.form.padding_id, precision=self.parts.precision,
            batch_tokens=self.config.encoder.batch_tokens,
        )  # fmt: skip
        readings = []
        for (window, values), own in zip(outputs, blocks, strict=True):
            if np.isnan(values).any():
                raise ModelError("reasoner: expected numbers, got NaN")
            readings.append(self.reasoner.read(values, window, own))
        return readings

    def conclude(self, reading: Any) -> Conclusion:
        """What a reading amounts to, by the reasoner's thresholds."""
        return self.reasoner.conclude(reading)

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


class CogLTX(WindowReader):
    """Finds the key blocks of a document, reasons over them, and shows the evidence.

    Args:
        parts: what it is made of; the judge is needed.
    """

    uses_judge = True

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        if parts.judge is None:
            raise ModelError("model: expected a judge, found none")
        if parts.reasoner.joins:
            raise ConfigError("reasoner.over_windows: expected mean or max for cogltx (one window), got a network")
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
        return [ReadDocument(reading, recall.blocks, recall) for recall, reading in zip(recalls, readings, strict=True)]

    def read_by_block(self, documents: Sequence[Blocks]) -> list[ReadDocument]:
        """Every block in turn is the query, to which MemRecall brings context from the rest of its document."""
        pairs = [(blocks, block) for blocks in documents for block in range(len(blocks))]
        readings = iter(self.reason(self.windows_by_block(pairs), [blocks for blocks, _ in pairs]))
        return [
            ReadDocument(self.reasoner.merged([next(readings) for _ in range(len(blocks))]), blocks)
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
