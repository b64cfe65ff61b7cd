"""MemRecall: find the key blocks of documents by retrieval, rehearsal and decay (CogLTX §3.2), many documents at once.

    z = nothing but the query
    for each step with stride s:
        shortlist  a retriever proposes blocks (optional; without it all blocks)
        retrieve   coarse scores of these blocks outside z; the best enter z while they fit the window
        rehearse   fine scores of the blocks in z, scored together
        decay      only the blocks with the highest fine scores stay in z; their limit grows by s

The last step removes no blocks: all of z is the reasoner's window, and the blocks within the limit are marked as kept.
Or the reasoner reads whole passages around the best blocks: twice as many are rehearsed together, the best are read;
or a model of pairs finds those that belong together. It may read the best of these a second time, in a window of their
own.
Between steps, two or more blocks take at most half of the room, so that new blocks fit. A document that fits one window
is read whole. A block that is the query is not a candidate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Annotated, Any, Self

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, model_validator

from cogltx.blocks import BUNDLED, AnyQuery, Blocks, load_tokenizer, split
from cogltx.display import report
from cogltx.document import Document, Query
from cogltx.encoding.encoder import BatchRunner, Precision
from cogltx.encoding.layout import Layout, Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError
from cogltx.judges import Judge, Memory, ScoringJudge, as_judge
from cogltx.prediction import Evidence
from cogltx.progress import logger
from cogltx.retrieval import BlockEncoder, PairModel, Retriever, RetrieverName

BlockScores = Float[np.ndarray, " blocks"]


class MemRecallConfig(BaseModel):
    """Parameters of MemRecall.

    Attributes:
        capacity: L, tokens per window.
        strides: number of additional blocks that each step keeps.
        shortlist: number of blocks that the judge scores per step, proposed by a retriever for the query and the blocks
            in z; None scores every block, as in the paper.
        later_shortlist: number of blocks that the judge scores in the second and each later step, where z leaves less
            room per window; None: as many as ``shortlist``.
        retriever: proposes the shortlist: ``bm25``, ``embedding`` (sentence vectors), ``both`` in turn, or ``trained``:
            vectors that are trained with the judge, together with BM25.
        retriever_layers: number of the encoder's layers that compute the trained vectors.
        rehearse: compute fine scores and decay by them; without, coarse scores decide.
        neighbour_bonus: weight of the better neighbour's score, added to a block's score in retrieval; 0 as in
            the paper.
        lexical_bonus: weight of the BM25 score (relative to the best block of the document), added in retrieval and in
            decay; helps where questions repeat words of the document. 0 as in the paper.
        mention_bonus: weight of the best score of a block that mentions this block's heading or whose heading this
            block mentions, added in retrieval, in decay and to the scores of key blocks; to the latter two also for a
            heading that the question mentions. Key blocks' scores stay at most 1 if they are probabilities. Helps where
            paragraphs have titles and name each other. 0 as in the paper.
        most_blocks: number of blocks in z that the reasoner reads, the best by fine score and bonuses; None reads
            all (the paper's). A small reasoner makes fewer errors among few blocks.
        passages: number of passages that the reasoner reads instead of single blocks. Of twice as many around the best
            blocks of z, those with the best fine scores are read (or see ``pairs``). A passage is a block's paragraph
            or, if that is too long, its share of the window around the block. None reads blocks, as in the paper.
        pairs: read the passages that a question most probably needs, by a linear model of which two it needs together.
            The model is trained on questions whose marked evidence lies in two passages. The score of a key block is
            the mean of the judge's and the probability of its passage. Needs ``passages`` of at least 2. False as in
            the paper.
        reread: number of these passages (without ``passages``: of blocks) that the reasoner reads a second time, in a
            window of their own, without the distraction of the others: the best by fine score and bonuses or, with
            ``pairs``, the most probable. An answer's probability is the mean of both readings. Half of the reasoner's
            training windows are of the second kind. Less than ``passages`` or ``most_blocks``; a document that fits one
            window is read once. None reads once, as in the paper.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    capacity: int = Field(512, ge=32)
    strides: tuple[Annotated[int, Field(ge=1)], ...] = Field((3, 5), min_length=1)
    shortlist: int | None = Field(None, ge=1)
    later_shortlist: int | None = Field(None, ge=1)
    retriever: RetrieverName = "both"
    retriever_layers: int = Field(1, ge=1)
    rehearse: bool = True
    neighbour_bonus: float = Field(0.0, ge=0)
    lexical_bonus: float = Field(0.0, ge=0)
    mention_bonus: float = Field(0.0, ge=0)
    most_blocks: int | None = Field(None, ge=1)
    passages: int | None = Field(None, ge=1)
    pairs: bool = False
    reread: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.most_blocks is not None and self.passages is not None:
            raise ValueError("most_blocks and passages exclude each other; set one of them to null")
        if self.later_shortlist is not None and self.shortlist is None:
            raise ValueError("later_shortlist needs shortlist; set it, or later_shortlist to null")
        if self.pairs and (self.passages or 0) < 2:
            raise ValueError("pairs needs passages of at least 2; set it, or pairs to false")
        for name, n_read in (("passages", self.passages), ("most_blocks", self.most_blocks)):
            if self.reread is not None and n_read is not None and self.reread >= n_read:
                raise ValueError(
                    f"reread is {self.reread} and {name} is {n_read}; set reread to less, or to null to read once"
                )
        return self

    @property
    def trains_retriever(self) -> bool:
        """Whether a trained retriever proposes the shortlist."""
        return self.shortlist is not None and self.retriever == "trained"


@dataclass(frozen=True)
class Step:
    """One step of MemRecall.

    Attributes:
        coarse: coarse score of every block, shape [blocks]; NaN for blocks already in z or not in the shortlist.
        retrieved: the blocks that entered z, best first.
        fine: score of every block in z after rehearsal.
        kept: the blocks that stay, best first.
        decayed: the blocks that leave z (after the last step: that only fill the window), best first.
    """

    coarse: BlockScores
    retrieved: tuple[int, ...]
    fine: dict[int, float]
    kept: tuple[int, ...]
    decayed: tuple[int, ...]


@dataclass(frozen=True)
class Recall:
    """The key blocks of a document.

    Attributes:
        layout: the query and the document.
        key_blocks: the reasoner's blocks, in document order: the paper's z, filled up to the capacity or to
            ``most_blocks``, or the blocks of its ``passages``.
        scores: fine score per key block; with ``pairs``, the mean of it and the probability of its passage.
        kept: the key blocks that survived the last decay.
        steps: the step that retrieved each key block, from 1; 0 if the document was read whole.
        trace: the steps.
        reread: the key blocks that the reasoner reads again, in document order; none by default.
        relevance: the judge's highest score of a key block, without bonuses: how relevant the document is to the query.
    """

    layout: Layout
    key_blocks: tuple[int, ...]
    scores: tuple[float, ...]
    kept: frozenset[int]
    steps: tuple[int, ...]
    trace: tuple[Step, ...] = ()
    reread: tuple[int, ...] = ()
    relevance: float = 1.0

    @property
    def query(self) -> AnyQuery:
        """The question, a block of the document, or None."""
        return self.layout.query

    @property
    def blocks(self) -> Blocks:
        """The blocks of the document."""
        return self.layout.blocks

    @property
    def window(self) -> Window:
        """The reasoner's window: the query and all key blocks, in document order."""
        return self.layout.window(self.key_blocks)

    @property
    def windows(self) -> list[Window]:
        """The reasoner's window and, if it reads some of the key blocks again, their window."""
        return [self.window, *([self.layout.window(self.reread)] if self.reread else [])]

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """The key blocks with offsets and scores, highest score first."""
        evidence = []
        for block, score, step in zip(self.key_blocks, self.scores, self.steps, strict=True):
            start, end = self.blocks.trimmed(block)
            document = self.blocks.document
            text, page = document.text[start:end], document.page(start)
            evidence.append(Evidence(start, end, text, score, step, block in self.kept, page=page))
        return tuple(sorted(evidence, key=lambda block: -block.score))

    def to_html(self, *, whole_page: bool = True) -> str:
        """Show the document with its key blocks and the steps that found them on a self-contained HTML page.

        ``whole_page=False`` gives a fragment for a notebook.
        """
        document, question = self.blocks.document, self.query.text if self.query else ""
        blocks = [asdict(block) for block in self.evidence]
        return report({document.id: document.text}, blocks, question=question, whole_page=whole_page)

    def _repr_html_(self) -> str:
        return self.to_html(whole_page=False)


class MemRecall:
    """Finds the key blocks of documents.

    Args:
        judge: scores blocks: ``bm25``, ``embedding``, ``package.module:Class``, an object with a ``score`` method (see
            ``ScoringJudge``), or a judge model over windows.
        config: strides and options.
        tokenizer: a fast tokenizer of ``transformers``, or the name of an encoder.
        max_block_tokens: B, the maximum number of tokens per block.
        runner: device, arithmetic and batch size of a judge model.
        retriever: the encoder of a trained retriever.
        pairs: the trained model of pairs of passages.
        form: the form of windows; by default that of the tokenizer and the capacity.

    Raises:
        ConfigError: there is no judge or retriever of that name, or it or the model of pairs needs a trained run.
        ModelError: the class cannot be imported or created, or the object is not a judge.

    >>> text = "The bridge was built in 1932. " + "Rain fell on the hills. " * 60
    >>> recall = MemRecall(judge="bm25").recall(text, "Who built the bridge?")
    >>> recall.evidence[0].start, recall.evidence[0].text[:29]
    (0, 'The bridge was built in 1932.')
    """

    def __init__(
        self,
        judge: Judge | ScoringJudge | str | Any = "bm25",
        config: MemRecallConfig | None = None,
        *,
        tokenizer: Any = BUNDLED,
        max_block_tokens: int = 63,
        runner: BatchRunner | None = None,
        retriever: BlockEncoder | None = None,
        pairs: PairModel | None = None,
        form: WindowFormat | None = None,
    ) -> None:
        self.config = config or MemRecallConfig()
        self.tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.max_block_tokens = max_block_tokens
        self.form = form or WindowFormat(self.tokenizer, self.config.capacity)
        encoder = EncoderConfig()
        runner = runner or BatchRunner(Precision.of(encoder), encoder.batch_tokens, self.form.padding_id)
        self.judge = as_judge(judge, runner)
        trained = self.config.retriever == "trained"
        name = "bm25" if trained and not self.config.shortlist else self.config.retriever
        self.retriever = Retriever(name, retriever, runner, self.config.capacity)
        if self.config.pairs and pairs is None:
            raise ConfigError("memrecall.pairs needs a model that was trained with it; set it to false")
        self.pairs = pairs if self.config.pairs else None

    def recall(self, document: Document | str, query: Query | str | None = None) -> Recall:
        """Find the key blocks of one document.

        Args:
            document: text of any length.
            query: the question; None for judges that need none.

        Raises:
            ConfigError: the judge needs a question.
            DataError: the text or the question is empty, or the question leaves no room for one block.
        """
        query = Query(query) if isinstance(query, str) else query
        blocks = split(document, self.tokenizer, max_tokens=self.max_block_tokens)
        return self([self.form.layout(query, blocks)])[0]

    def __call__(self, layouts: Sequence[Layout]) -> list[Recall]:
        """Find the key blocks of each document for its query."""
        searches = [_Search(layout, self.lexical_bonus(layout), self.config.mention_bonus) for layout in layouts]
        self._read_whole([search for search in searches if search.layout.fits])
        long = [search for search in searches if not search.layout.fits]
        for number, stride in enumerate(self.config.strides, start=1):
            logger.debug("step %d of MemRecall: %d documents", number, len(long))
            self._step(long, number, stride)
        if self.pairs is not None:
            for search in searches:
                search.passage_probabilities = self._probabilities_of_passages(search, self.pairs)
        if self.config.passages is not None:
            self._read_passages(long, self.config.passages)
        return [self._result(search) for search in searches]

    def retrieve(self, memories: Sequence[Memory]) -> list[BlockScores]:
        """Compute coarse scores of all blocks outside z, or of the shortlist; NaN for the others.

        Raises:
            ConfigError: there is no query, which a shortlist needs.
        """
        return self.judge.retrieve(list(map(self.shortlisted, memories)))

    def shortlisted(self, memory: Memory) -> Memory:
        """Restrict the candidates to the shortlist, if there is one."""
        count = self.config.shortlist
        if count is None:
            return memory
        if memory.kept:
            count = self.config.later_shortlist or count
        return replace(memory, shortlist=self.retriever.shortlist(memory, count))

    def compete(
        self, coarse: BlockScores, fine: Mapping[int, float], blocks: Blocks, lexical_bonus: BlockScores
    ) -> BlockScores:
        """Add the bonuses to coarse scores, which are NaN for blocks that are no candidates.

        Args:
            coarse: the scores, shape [blocks].
            fine: the fine scores of the blocks in z.
            blocks: the blocks of the document.
            lexical_bonus: see ``lexical_bonus``.
        """
        known = coarse.copy()
        known[list(fine)] = list(fine.values())
        mentions = _mention_bonus(blocks, known, self.config.mention_bonus)
        return np.asarray(coarse + _neighbour_bonus(known, self.config.neighbour_bonus) + mentions + lexical_bonus)

    def lexical_bonus(self, layout: Layout) -> BlockScores:
        """Compute what each block gains from words that it shares with the query.

        Raises:
            ConfigError: there is no query.
        """
        blocks, weight = layout.blocks, self.config.lexical_bonus
        if not weight:
            return np.zeros(len(blocks))
        if layout.query is None:
            raise ConfigError("memrecall.lexical_bonus needs a question; set it to 0 for tasks without one")
        scores = self.retriever.bm25.text_scores(layout.query.text, blocks)
        best = scores[layout.candidates].max(initial=0.0)
        return np.asarray(weight * scores / best) if best > 0 else np.zeros(len(blocks))

    def _read_whole(self, searches: Sequence["_Search"]) -> None:
        memories = [search.memory(search.layout.candidates) for search in searches]
        for search, memory, fine in zip(searches, memories, self._rehearse(memories), strict=True):
            search.kept = search.read = list(memory.kept)
            search.first_step = dict.fromkeys(memory.kept, 0)
            search.fine = dict(zip(memory.kept, fine.tolist(), strict=True))

    def _rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """Fine scores; z is empty for a document of one block that is the query."""
        not_empty = [memory for memory in memories if memory.kept]
        scores = iter(self.judge.rehearse(not_empty) if not_empty else [])
        return [next(scores) if memory.kept else np.empty(0) for memory in memories]

    def _step(self, searches: Sequence["_Search"], number: int, stride: int) -> None:
        """Retrieve, rehearse and decay once, in all documents."""
        if not searches:
            return
        is_last = number == len(self.config.strides)
        coarse = self.retrieve([search.memory(search.kept) for search in searches])
        retrieved = []
        for search, scores in zip(searches, coarse, strict=True):
            blocks, fine_of_kept = search.layout.blocks, {block: search.fine[block] for block in search.kept}
            scores = self.compete(scores, fine_of_kept, blocks, search.lexical_bonus)
            retrieved.append(fill(scores, blocks, search.layout.room - blocks.total_size(search.kept)))
        memories = [search.memory([*search.kept, *new]) for search, new in zip(searches, retrieved, strict=True)]
        fine = self._rehearse(memories) if self.config.rehearse else [None] * len(memories)
        for search, memory, block_scores, new, fine_scores in zip(
            searches, memories, coarse, retrieved, fine, strict=True
        ):
            for block in new:
                search.first_step.setdefault(block, number)
                search.fine[block] = float(block_scores[block])
            if fine_scores is not None:
                search.fine.update(zip(memory.kept, fine_scores.tolist(), strict=True))
            ranked = sorted(memory.kept, key=search.strengths(memory.kept).__getitem__, reverse=True)
            search.n_kept += stride
            kept = ranked[: search.n_kept] if is_last else _affordable(search, ranked)
            decayed = [block for block in ranked if block not in set(kept)]
            fine_of_z = {block: search.fine[block] for block in memory.kept}
            search.trace.append(Step(block_scores, tuple(new), fine_of_z, tuple(kept), tuple(decayed)))
            search.kept = kept
            search.read = ranked[: self.config.most_blocks]
            search.reread = ranked[: self.config.reread or 0]
            if not is_last:
                for block in decayed:
                    search.first_step.pop(block)

    def _read_passages(self, searches: Sequence["_Search"], count: int) -> None:
        """Replace z by the best passages: of twice as many around its best blocks, which are rehearsed together.

        With a model of pairs, by the passages that are most probably needed.
        """
        if not self.config.rehearse:
            for search in searches:
                self._choose(search, passages_of(search.proposed, search.layout, count))
            return
        proposed = [
            passages_of(search.proposed, search.layout, count if search.passage_probabilities else 2 * count)
            for search in searches
        ]
        memories = [
            search.memory(list(chain.from_iterable(passages)))
            for search, passages in zip(searches, proposed, strict=True)
        ]
        for search, passages, memory, fine in zip(searches, proposed, memories, self._rehearse(memories), strict=True):
            search.fine.update(zip(memory.kept, fine.tolist(), strict=True))
            if not search.passage_probabilities:
                strengths = search.strengths(memory.kept)
                passages = sorted(passages, key=lambda passage: -max(map(strengths.__getitem__, passage)))
            self._choose(search, passages[:count])

    def _probabilities_of_passages(self, search: "_Search", pairs: PairModel) -> dict[int, float]:
        """Compute how probably the question needs each passage; see ``PairModel.probabilities``.

        Raises:
            ConfigError: there is no question.
        """
        query = search.layout.query
        if not isinstance(query, Query):
            raise ConfigError("memrecall.pairs needs a question; set it to false for tasks without one")
        return pairs.probabilities(query.text, search.layout.blocks, self._scaled(search.latest_scores, search))

    def _scaled(self, scores: BlockScores, search: "_Search") -> BlockScores:
        """Bring scores into [0, 1]; those of a judge without probabilities by the document's lowest and highest."""
        low, high = 0.0, 1.0
        if not self.judge.probabilities:
            low, high = float(np.nanmin(search.latest_scores)), float(np.nanmax(search.latest_scores))
        return np.asarray(np.clip((scores - low) / (high - low or 1.0), 0.0, 1.0))

    def _choose(self, search: "_Search", passages: Sequence[list[int]]) -> None:
        """Note the passages, best first, for the reasoner to read and to read again."""
        search.read = list(chain.from_iterable(passages))
        search.reread = list(chain.from_iterable(passages[: self.config.reread or 0]))
        search.note_added(len(self.config.strides))

    def _result(self, search: "_Search") -> Recall:
        key_blocks = tuple(sorted(search.read))
        scores = search.relevance(key_blocks)
        if search.passage_probabilities:
            passages = search.layout.blocks.paragraphs[list(key_blocks)].tolist()
            probabilities = [search.passage_probabilities.get(passage, 0.0) for passage in passages]
            scores = (self._scaled(scores, search) + probabilities) / 2
        limit = 1.0 if self.judge.probabilities else np.inf
        return Recall(
            layout=search.layout,
            key_blocks=key_blocks,
            scores=tuple(np.minimum(scores, limit).tolist()),
            kept=frozenset(search.kept).intersection(key_blocks) or frozenset(key_blocks),
            steps=tuple(search.first_step[block] for block in key_blocks),
            trace=tuple(search.trace),
            reread=tuple(sorted(search.reread)) if len(search.reread) < len(key_blocks) else (),
            relevance=max((search.fine[block] for block in key_blocks), default=0.0),
        )


@dataclass
class _Search:
    """The state of one document.

    Besides z and its limit: the blocks of the reasoner's windows, best first, the first step and latest score of each
    block that was in z, and the probability that the question needs a passage, by the model of pairs.
    """

    layout: Layout
    lexical_bonus: BlockScores
    mention_bonus: float
    kept: list[int] = field(default_factory=list)
    n_kept: int = 0
    read: list[int] = field(default_factory=list)
    reread: list[int] = field(default_factory=list)
    first_step: dict[int, int] = field(default_factory=dict)
    fine: dict[int, float] = field(default_factory=dict)
    passage_probabilities: dict[int, float] = field(default_factory=dict)
    trace: list[Step] = field(default_factory=list)

    def memory(self, kept: Sequence[int]) -> Memory:
        return Memory(self.layout, tuple(sorted(kept)))

    @property
    def latest_scores(self) -> BlockScores:
        """The latest fine score of each block, or else its best coarse score; NaN if it has none."""
        coarse = [step.coarse for step in self.trace] or [np.full(len(self.layout.blocks), np.nan)]
        scores = np.fmax.reduce(coarse)
        scores[list(self.fine)] = list(self.fine.values())
        return np.asarray(scores)

    @property
    def proposed(self) -> list[int]:
        """The blocks whose passages are read, best first: one of each passage that is paired, then those of z."""
        scores, passages = self.latest_scores, self.layout.blocks.paragraphs
        scores = np.nan_to_num(scores, nan=float(np.nanmin(scores)))
        best = [np.where(passages == passage, scores, -np.inf).argmax() for passage in self.passage_probabilities]
        return [*map(int, best), *self.read]

    def note_added(self, step: int) -> None:
        """Note the step of the blocks that passages have added, and their last coarse score if they have no other."""
        coarse = self.trace[-1].coarse
        lowest = float(np.nanmin(coarse)) if not np.isnan(coarse).all() else 0.0
        for block in self.read:
            self.first_step.setdefault(block, step)
            self.fine.setdefault(block, float(np.nan_to_num(coarse[block], nan=lowest)))

    def relevance(self, kept: Sequence[int]) -> Float[np.ndarray, " kept"]:
        """Add what blocks that are read together gain from mentions to their fine scores."""
        scores = np.full(len(self.layout.blocks), np.nan)
        scores[list(kept)] = [self.fine[block] for block in kept]
        mentions = _mention_bonus(self.layout.blocks, scores, self.mention_bonus, self.layout.query)
        return np.asarray((scores + mentions)[list(kept)])

    def strengths(self, kept: Sequence[int]) -> dict[int, float]:
        """Add up relevance and lexical bonus, which decay compares."""
        return dict(zip(kept, (self.relevance(kept) + self.lexical_bonus[list(kept)]).tolist(), strict=True))


def fill(scores: BlockScores, blocks: Blocks, room: int, max_blocks: int | None = None) -> list[int]:
    """Select the best-scoring blocks that fit ``room`` tokens, best first.

    A block that does not fit is skipped; earlier blocks win ties; NaN marks blocks that are not candidates.
    """
    chosen: list[int] = []
    smallest = int(blocks.sizes.min())
    for block in np.argsort(-scores, kind="stable"):
        if room < smallest or np.isnan(scores[block]) or len(chosen) == max_blocks:
            break
        if blocks.sizes[block] <= room:
            chosen.append(int(block))
            room -= int(blocks.sizes[block])
    return chosen


def passages_of(ranked: Sequence[int], layout: Layout, count: int, certain: Sequence[int] = ()) -> list[list[int]]:
    """Select the passages around the best blocks: a block's paragraph, or what fits of it.

    Args:
        ranked: blocks, best first.
        layout: the query and the document.
        count: maximum number of passages.
        certain: blocks that are selected whatever else fits, and whose passages come first.

    Returns:
        the blocks of each passage, in document order; the best passage first.
    """
    blocks, candidates = layout.blocks, set(layout.candidates)
    cost = {block: 0 if block in certain else int(blocks.sizes[block]) for block in candidates}
    room = layout.room - blocks.total_size(certain)
    passages: list[list[int]] = []
    for block in [*certain, *ranked]:
        if block not in candidates:
            continue
        if len(passages) >= count and block not in certain:
            break
        paragraph = int(blocks.paragraphs[block])
        first, end = np.searchsorted(blocks.paragraphs, [paragraph, paragraph + 1]).tolist()
        around = sorted(candidates.intersection(range(first, end)), key=lambda one: (abs(one - block), one))
        fits = sum(map(cost.__getitem__, around)) <= room
        share = room if fits else max(cost[block], room // max(1, count - len(passages)))
        passage = _leading(around, cost, min(share, room))
        room -= sum(map(cost.__getitem__, passage))
        candidates.difference_update(passage)
        passages += [sorted(passage)] if passage else []
    return passages


def _leading(blocks: Sequence[int], cost: Mapping[int, int], room: int) -> list[int]:
    """The first blocks that fit together."""
    totals = accumulate(cost[block] for block in blocks)
    return [block for block, total in zip(blocks, totals, strict=True) if total <= room]


def _neighbour_bonus(scores: BlockScores, weight: float) -> BlockScores:
    """Compute a share of the better neighbour's score; unknown scores are NaN.

    >>> _neighbour_bonus(np.array([0.1, 0.9, 0.2, np.nan, 0.5]), weight=0.5).tolist()
    [0.45, 0.1, 0.45, 0.25, 0.0]
    """
    if not weight:
        return np.zeros(len(scores))
    padded = np.pad(scores, 1, constant_values=np.nan)
    return np.asarray(weight * np.nan_to_num(np.fmax(padded[:-2], padded[2:])))


def _mention_bonus(blocks: Blocks, scores: BlockScores, weight: float, query: AnyQuery = None) -> BlockScores:
    """Compute what blocks gain from mentions: of their heading by others or by a question, and of others' headings."""
    if not weight:
        return np.zeros(len(scores))
    named = blocks.mentions.named(query.text) if isinstance(query, Query) else 0.0
    return np.asarray(weight * (blocks.mentions.best(scores) + named))


def _affordable(search: _Search, ranked: Sequence[int]) -> list[int]:
    """Select the best blocks that leave room for any other block; two or more use at most half of the room."""
    sizes, room = search.layout.blocks.sizes, search.layout.room
    kept: list[int] = []
    for block in ranked[: search.n_kept]:
        used = int(sizes[[*kept, block]].sum())
        largest_other = int(np.delete(sizes, [*kept, block]).max())
        if used + largest_other > room or (kept and used > room // 2):
            break
        kept.append(block)
    return kept
