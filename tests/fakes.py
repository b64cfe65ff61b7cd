"""What the tests put in the place of trained models and real data: predictable judges, small documents and readers."""

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cogltx.config import MemRecallConfig, ModelConfig
from cogltx.document import Document, Example, Query, Segment, Span
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.judges import JudgeConfig
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.reasoners import SpanReasonerConfig


def words(text: str) -> set[str]:
    """The lower-cased words of a text."""
    return set(re.findall(r"\w+", text.lower()))


class WordOverlap:
    """Scores a text by the words it shares with the query and the other kept texts; remembers every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str], list[str]]] = []

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        self.calls.append((query, kept, candidates))
        return [
            float(len(words(text) & set().union(words(query), *(words(other) for other in kept if other != text))))
            for text in candidates
        ]


class Checksums:
    """Scores that look random and depend on the text alone."""

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        return [zlib.crc32(f"{query}|{text}".encode()) / 2**32 for text in candidates]


class Counting(nn.Module):
    """A judge model of a user's own: an embedding of each token and nothing around it."""

    def __init__(self, vocabulary: int = 4096, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, 1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embed(input_ids)).squeeze(-1)
        return logits


class WrongShape(Counting):
    """One value a window where one a token is wanted."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return super().forward(input_ids, attention_mask, token_type_ids).mean(dim=1)


class NotFinite(Counting):
    """Not a number."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return super().forward(input_ids, attention_mask, token_type_ids) * torch.nan


class NoTensor(Counting):
    """A list where a tensor is wanted."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Any:
        return super().forward(input_ids, attention_mask, token_type_ids).tolist()


class NoGradient(Counting):
    """Logits that nothing can be learned from."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return super().forward(input_ids, attention_mask, token_type_ids).detach()


class NoParameters(nn.Module):
    """A model that has nothing to learn."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return torch.zeros(input_ids.shape)


class OtherArguments(nn.Module):
    """A model of something else."""

    def forward(self, pixels: Tensor) -> Tensor:
        return pixels


class NoForward(nn.Module):
    """A module without a forward method."""


class NoJudge:
    """A class without a method ``score``."""


class NotCallable:
    """A class whose ``score`` is none."""

    score = 5


class Failing:
    """A judge that fails, with a message of two lines."""

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        raise RuntimeError("the remote model\nis down")


class Unshown:
    """Something that cannot be printed."""

    def __repr__(self) -> str:
        raise ValueError("no repr")


class Fussy:
    """A judge that cannot be made without arguments."""

    def __init__(self, *, weight: float) -> None:
        self.weight = weight

    def score(self, query: str, kept: list[str], candidates: list[str]) -> list[float]:
        return [self.weight * len(text) for text in candidates]


def sentences(*texts: str, headings: Sequence[str] = ()) -> Document:
    """A document of which every given text is a segment, and so a block unless it is long."""
    segments = []
    text = ""
    for number, sentence in enumerate(texts):
        text += " " if text else ""
        heading = headings[number] if headings else ""
        segments.append(Segment(len(text), len(text) + len(sentence), heading))
        text += sentence
    return Document(text, "made", tuple(segments))


def paragraphs(*texts: Sequence[str]) -> Document:
    """A document of paragraphs of sentences, each sentence a segment; line breaks end paragraphs."""
    document = sentences(*(sentence for paragraph in texts for sentence in paragraph))
    ends = [document.segments[sum(map(len, texts[:number])) - 1].end for number in range(1, len(texts))]
    text = "".join("\n" if place in ends else character for place, character in enumerate(document.text))
    return replace(document, text=text)


def example(document: Document, question: str, answer: str, *relevant: str, id: str = "1") -> Example:
    """An example whose answer and relevant texts are looked up in the document."""
    spans = [Span(document.text.index(text), document.text.index(text) + len(text)) for text in (answer, *relevant)]
    return Example(
        id=id,
        document=document,
        query=Query(question),
        answers=(answer,),
        answer_spans=tuple(spans[:1]),
        relevant=tuple(spans[1:]) if relevant else None,
    )


def config(
    encoder: Path,
    *,
    capacity: int = 64,
    max_block_tokens: int = 16,
    strides: tuple[int, ...] = (1, 2),
    judge: str = "encoder",
    **encoder_options: Any,
) -> ModelConfig:
    """The configuration of a small model with exact arithmetic and without dropout."""
    options = {"precision": "float32", "hidden_dropout": 0.0, "batch_tokens": 256, "freeze_embeddings": False}
    return ModelConfig(
        encoder=EncoderConfig(name=str(encoder), **(options | encoder_options)),
        max_block_tokens=max_block_tokens,
        judge=JudgeConfig(name=judge),
        memrecall=MemRecallConfig(capacity=capacity, strides=strides),
        reasoner=SpanReasonerConfig(),
    )


def reader(encoder: Path, **options: Any) -> CogLTX:
    """An untrained CogLTX; see ``config``."""
    return CogLTX(Model.create(config(encoder, **options), with_judge=True, device="cpu"))


def logged(run: Path, name: str) -> list[float]:
    """One of the numbers that a run logs, in the order of its steps."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if name in line]


class Recording(Counting):
    """Remembers every window that it is trained on."""

    def __init__(self, vocabulary: int = 4096, width: int = 8) -> None:
        super().__init__(vocabulary, width)
        self.seen: list[tuple[int, ...]] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        if self.training:
            rows = zip(input_ids, attention_mask, strict=True)
            self.seen += [tuple(ids[mask].tolist()) for ids, mask in rows]
        return super().forward(input_ids, attention_mask, token_type_ids)


class Asked(Counting):
    """Counts the windows that it scores."""

    n_asked = 0

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        self.n_asked += 0 if self.training else len(input_ids)
        return super().forward(input_ids, attention_mask, token_type_ids)


class Exploding(Counting):
    """Gives something that is not a number after a few training steps."""

    def __init__(self, vocabulary: int = 4096, width: int = 8, steps: int = 5) -> None:
        super().__init__(vocabulary, width)
        self.left = steps

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        self.left -= self.training
        logits = super().forward(input_ids, attention_mask, token_type_ids)
        return logits * torch.nan if self.left < 0 and self.training else logits
