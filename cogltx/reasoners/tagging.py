"""The tagging reasoner: a label for every word of a document (CogLTX figure 2c).

A word takes the tag of its first token; its other tokens are ignored in the loss and in predictions. So entities begin
and end at words, and gold entities are rounded to the words that they touch. Where several windows score a word, the
scores with the most text on both sides are used. A search over the whole document then finds the best tag sequence that
BIO allows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Literal, NamedTuple, Self, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cogltx._messages import unknown_label
from cogltx.blocks import Blocks
from cogltx.display import entities_text
from cogltx.document import Document, Entity, Example
from cogltx.encoding.encoder import Batch, Encoder
from cogltx.encoding.layout import Layout, Window
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import PredictedEntity, Prediction
from cogltx.reasoners._crf import FORBIDDEN, OUTSIDE, begin, decode, forbidden, inside, negative_log_likelihood
from cogltx.reasoners.base import KeyBlocks, Reasoner, ReasonerConfig, WindowOutputs, whole_document


class TaggingConfig(ReasonerConfig):
    """Settings of the tagging reasoner.

    Attributes:
        name: ``tagging``.
        labels: the types of entities, in the order of the outputs; training collects them from the data.
        crf: learn transitions between tags and train on whole sequences; without, each word is trained separately and
            decoding only excludes what BIO forbids.
    """

    default_task: ClassVar[str] = "tagging"
    pipeline_tag: ClassVar[str] = "token-classification"
    gold: ClassVar[str] = "entities"
    default_judge: ClassVar[str] = "bm25"
    least_steps: ClassVar[int] = 80  # the first 30 or so learn that most words are in no entity

    name: Literal["tagging"] = "tagging"
    labels: tuple[str, ...] = ()
    crf: bool = True

    def fitted(self, examples: Sequence[Example]) -> Self:
        """Collect the types of entities; see ``ReasonerConfig.fitted``."""
        types = {entity.label for example in examples for entity in example.entities or ()}
        if not types:
            raise DataError("no example has an entity, which the reasoner tagging learns")
        return self.model_copy(update={"labels": self.labels or tuple(sorted(types))})

    def unknown_labels(self, example: Example) -> list[str]:
        """See ``ReasonerConfig.unknown_labels``."""
        return [entity.label for entity in example.entities or () if entity.label not in self.labels]

    def format(
        self, prediction: Prediction, documents: Sequence[Document] = (), *, bold: Callable[[str], str] = str
    ) -> str:
        """Format the entities as text, one per line."""
        return entities_text(prediction.to_dict(), documents)


class _Run(NamedTuple):
    """Consecutive words to predict: positions of their first tokens in the window, their tags, and the tag before."""

    positions: Int[np.ndarray, " words"]
    tags: Int[np.ndarray, " words"]
    before: int


_Target: TypeAlias = tuple[_Run, ...]
"""The words to predict in a window; several runs where the window leaves out words between them."""


class TaggingReasoner(Reasoner[_Target]):
    """A score per tag from the vectors of an encoder, with or without a CRF over the words.

    Raises:
        ConfigError: there is no type.
    """

    config_class = TaggingConfig

    def __init__(self, encoder: Encoder, config: TaggingConfig) -> None:
        super().__init__(encoder, config)
        if not config.labels:
            raise ConfigError("reasoner.labels: the data has no entities; tagging needs at least one type")
        n_tags = 1 + 2 * len(config.labels)
        self.head = nn.Linear(encoder.width, n_tags)
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags)) if config.crf else None
        self._forbidden = torch.from_numpy(forbidden(len(config.labels)))
        self._gold_tags: WeakKeyDictionary[Blocks, tuple[tuple[Entity, ...], Int[np.ndarray, " words"]]]
        self._gold_tags = WeakKeyDictionary()

    def forward(self, batch: Batch) -> Float[Tensor, "windows tokens tags"]:
        """Compute a logit per tag and token."""
        logits: Tensor = self.head(self.encoder(batch))
        return logits

    def layouts(self, layout: Layout) -> Iterator[Layout]:
        """Yield a layout per block, with the block as the query."""
        return map(layout.for_block, range(len(layout.blocks)))

    def windows_per_epoch(self, n_windows: int) -> int:
        """Train on all windows, each of which has labels of its own."""
        return n_windows

    def target(self, example: Example, blocks: Blocks, window: Window) -> _Target | None:
        """Return the tags of the words to predict; None for a window without words.

        Raises:
            DataError: the type of an entity is unknown, or two entities overlap.
        """
        if example.entities is None:
            return None
        positions, words = _words_to_predict(blocks, window)
        if not len(words):
            return None
        cached = self._gold_tags.get(blocks)
        if cached is None or cached[0] is not example.entities:
            tags = _word_tags(example.id, example.entities, blocks, self.config.labels)
            cached = self._gold_tags[blocks] = (example.entities, tags)
        tags = np.append(cached[1], OUTSIDE)  # index -1: before the document
        gaps = np.flatnonzero(np.diff(words) > 1) + 1
        runs = zip(np.split(positions, gaps), np.split(words, gaps), strict=True)
        return tuple(_Run(first_tokens, tags[run], int(tags[run[0] - 1])) for first_tokens, run in runs)

    def losses(
        self, outputs: Float[Tensor, "windows tokens tags"], windows: Sequence[Window], targets: Sequence[_Target]
    ) -> Float[Tensor, " windows"]:
        """Compute minus the log-probability of the words' tags per window, divided by the number of words."""
        device = outputs.device
        runs = [run for target in targets for run in target]
        window = torch.tensor([row for row, target in enumerate(targets) for _ in target], device=device)
        positions = [torch.from_numpy(run.positions).to(device) for run in runs]
        rows = [outputs[row, words] for row, words in zip(window.tolist(), positions, strict=True)]
        emissions = pad_sequence(rows, batch_first=True).float()
        tags = pad_sequence([torch.from_numpy(run.tags) for run in runs], batch_first=True).to(device)
        lengths = torch.tensor([len(run.tags) for run in runs], device=device)
        if self.transitions is None:
            in_run = torch.arange(tags.shape[1], device=device) < lengths[:, None]
            log_probabilities = emissions.log_softmax(dim=-1).gather(2, tags[..., None]).squeeze(-1)
            losses = -log_probabilities.masked_fill(~in_run, 0.0).sum(dim=1)
        else:
            before = torch.tensor([run.before for run in runs], device=device)
            transitions = self._allowed_transitions(self.transitions.float())
            losses = negative_log_likelihood(emissions, lengths, transitions, before, tags)
        total = losses.new_zeros(len(targets)).index_add(0, window, losses)
        return total / torch.zeros_like(total).index_add(0, window, lengths.to(total))

    def intervention_losses(
        self, outputs: Float[Tensor, "windows tokens tags"], windows: Sequence[Window], targets: Sequence[_Target]
    ) -> Float[Tensor, " windows"]:
        """Compute the loss of each window as a sum over its words, not a mean: one block changes few of the words."""
        n_words = torch.tensor([sum(len(run.tags) for run in target) for target in targets], device=outputs.device)
        return self.losses(outputs, windows, targets) * n_words

    def _allowed_transitions(self, learned: Float[Tensor, "tags tags"]) -> Float[Tensor, "tags tags"]:
        return learned.masked_fill(self._forbidden.to(learned.device), FORBIDDEN)

    def is_negative(self, target: _Target) -> bool:
        """Check whether all words are outside entities."""
        return not any(run.tags.any() for run in target)

    def predict(
        self, layout: Layout, outputs: Iterable[WindowOutputs], evidence: KeyBlocks = None, relevance: float = 1.0
    ) -> Prediction:
        """Find the entities of the best tag sequence over the whole document; words in no window are "O"."""
        blocks = layout.blocks
        words, n_tags = blocks.words, 1 + 2 * len(self.config.labels)
        emissions = np.full((len(words), n_tags), FORBIDDEN)
        emissions[:, OUTSIDE] = 0
        centrality = np.full(len(words), -1)
        for window, logits in outputs:
            positions, in_window = _words_to_predict(blocks, window)
            if len(in_window):
                ends = window.target_tokens[[0, -1]]
                distance = np.minimum(positions - ends[0], ends[1] - positions)
                better = distance > centrality[in_window]
                emissions[in_window[better]] = logits[positions[better]].astype(np.float64)
                centrality[in_window[better]] = distance[better]
        if not len(words):
            return Prediction(answer="", start=None, end=None, confidence=1.0, **whole_document(layout))
        learned = torch.zeros(self._forbidden.shape) if self.transitions is None else self.transitions.detach().cpu()
        transitions = self._allowed_transitions(learned).double().numpy()
        entities = []
        for run in decode(emissions, transitions):
            start, end = int(words.starts[run.first]), int(words.ends[run.last])
            text, label = blocks.document.text[start:end], self.config.labels[run.label]
            entities.append(PredictedEntity(start, end, text, label, run.probability))
        tokens_per_word = np.diff(words.first_tokens, append=blocks.n_tokens)
        n_unread = int(tokens_per_word[centrality < 0].sum())
        return Prediction(
            answer="", start=None, end=None, confidence=min((entity.score for entity in entities), default=1.0),
            entities=tuple(entities),
            n_unread=n_unread, **whole_document(layout),
        )  # fmt: skip


def _words_to_predict(blocks: Blocks, window: Window) -> tuple[Int[np.ndarray, " words"], Int[np.ndarray, " words"]]:
    """The words to predict in a window: positions of their first tokens, and word indices."""
    positions = window.target_tokens
    words = blocks.words.of_token[window.document_token[positions]]
    return positions[words >= 0], words[words >= 0]


def _word_tags(
    id: str, entities: Sequence[Entity], blocks: Blocks, labels: Sequence[str]
) -> Int[np.ndarray, " words"]:  # fmt: skip
    """The tag of every word, from the first entity that touches it."""
    tags = np.full(len(blocks.words), OUTSIDE, dtype=np.int64)
    end = first_free = 0
    for entity in sorted(entities):
        if entity.label not in labels:
            raise DataError(unknown_label(id, entity.label, labels))
        if entity.start < end:
            raise DataError(
                f"example {id!r}: the entity at {entity.start}:{entity.end} overlaps one that ends at {end}; "
                "the task option overlapping (innermost, outermost) selects which to keep"
            )
        touched = blocks.words.touching(entity.start, entity.end)
        touched = range(max(touched.start, first_free), max(touched.stop, first_free))
        label = labels.index(entity.label)
        tags[touched.start : touched.stop] = inside(label)
        tags[touched.start : touched.stop][:1] = begin(label)
        end, first_free = entity.end, touched.stop
    return tags
