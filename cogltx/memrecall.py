"""MemRecall: find the key blocks of documents by retrieval, rehearsal and decay (CogLTX §3.2), many documents at once.

    z = nothing but the query
    for each step with stride s:
        retrieve   the judge scores the blocks outside z, next to z
        fill       the best of them enter z while they fit the window
        rehearse   the judge scores the blocks in z again, together
        decay      the best stay in z; how many may stay grows by s

The judge's score of a block is its relevance. Blocks enter z by their ``competition_scores`` and stay by their
``decay_scores``: the relevance, to which a judge that wraps another may add (``cogltx.judges``). The last decay removes
nothing: it marks the blocks that would stay. The reasoner then reads all of z, or what ``read`` makes of it: the
passages around the best blocks (``cogltx.reading``). A document that fits one window is read whole, with the judge's
scores as evidence. A block that is the query is not a candidate.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cogltx._progress import logger
from cogltx.blocks import BUNDLED, Blocks, load_tokenizer, split
from cogltx.config import MemRecallConfig
from cogltx.document import Document, Query
from cogltx.encoding.encoder import BatchRunner, Precision
from cogltx.encoding.layout import Layout, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError
from cogltx.judges import (
    BM25Retriever,
    Fusion,
    FusionWeights,
    Headings,
    Judge,
    Retriever,
    ScoringJudge,
    Shortlist,
    TrainedRetriever,
    make_judge,
    with_runner,
)
from cogltx.reading import PairModel, Passages, read_blocks
from cogltx.recall import BlockScores, Recall, Search, Step


class MemRecall:
    """Finds the key blocks of documents.

    Args:
        judge: scores blocks: ``bm25``, ``embedding``, ``package.module:Class``, an object with a ``score`` method (see
            ``ScoringJudge``), or a judge model over windows.
        config: strides and options.
        tokenizer: a fast tokenizer of ``transformers``, or the name of an encoder.
        max_block_tokens: B, the maximum number of tokens per block.
        runner: device, arithmetic and batch size of a judge model.
        retriever: proposes the shortlist; BM25 by default.
        pairs: the trained model of pairs of passages.
        form: the form of windows; by default that of the tokenizer and the capacity.
        fusion: weights of a judge of probabilities and a trained retriever.

    Raises:
        ConfigError: there is no judge of that name, or the judge, the retriever or the pairs need a trained run.
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
        retriever: Retriever | None = None,
        pairs: PairModel | None = None,
        form: WindowFormat | None = None,
        fusion: FusionWeights | None = None,
    ) -> None:
        self.config = config or MemRecallConfig()
        self.tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.max_block_tokens = max_block_tokens
        self.form = form or WindowFormat(self.tokenizer, self.config.capacity)
        encoder = EncoderConfig()
        runner = runner or BatchRunner(Precision.of(encoder), encoder.batch_tokens, self.form.padding_id)
        self.plain_judge = with_runner(make_judge(judge), runner)
        self.judge = self._wrapped(self.plain_judge, retriever, fusion)
        self.read = self._reading(pairs)

    def _wrapped(self, judge: Judge, retriever: Retriever | None, fusion: FusionWeights | None) -> Judge:
        """Wrap the judge as the configuration says."""
        if self.config.trains_retriever and retriever is None:
            raise ConfigError("memrecall.retriever: trained needs a model that was trained with it; use bm25")
        if self.config.shortlist is not None:
            judge = Shortlist(judge, retriever or BM25Retriever(), self.config.shortlist)
        if fusion is not None and isinstance(retriever, TrainedRetriever) and judge.probabilities:
            judge = Fusion(judge, retriever, fusion)
        return Headings(judge, self.config.headings) if self.config.headings else judge

    def _reading(self, pairs: PairModel | None) -> Callable[[Sequence[Search], Judge], list[Recall]]:
        """Choose what the reasoner reads."""
        if self.config.pairs and pairs is None:
            raise ConfigError("memrecall.pairs needs a model that was trained with it; set it to false")
        if self.config.passages is None:
            return read_blocks
        return Passages(self.config.passages, pairs if self.config.pairs else None, self.config.rehearse)

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
        searches = [Search(layout) for layout in layouts]
        self._read_whole([search for search in searches if search.layout.fits])
        long = [search for search in searches if not search.layout.fits]
        for number, stride in enumerate(self.config.strides, start=1):
            logger.debug("step %d of MemRecall: %d documents", number, len(long))
            self._step(long, number, stride)
        return self.read(searches, self.judge)

    def _read_whole(self, searches: Sequence[Search]) -> None:
        for search in searches:
            search.z = search.kept = search.layout.candidates
            search.first_step = dict.fromkeys(search.z, 0)
        self._rehearse(searches)

    def _step(self, searches: Sequence[Search], number: int, stride: int) -> None:
        """Retrieve, fill, rehearse and decay once, in all documents."""
        if not searches:
            return
        coarse = self.judge.retrieve([search.memory(search.z) for search in searches])
        retrieved = [self._fill(search, scores, number) for search, scores in zip(searches, coarse, strict=True)]
        if self.config.rehearse:
            self._rehearse(searches)
        for search, scores, new in zip(searches, coarse, retrieved, strict=True):
            self._decay(search, stride, is_last=number == len(self.config.strides))
            kept, decayed = tuple(search.kept), tuple(search.z[len(search.kept) :])
            fine = {block: search.relevance[block] for block in sorted(search.z)}
            search.trace.append(Step(scores, tuple(new), fine, kept, decayed))
            if number < len(self.config.strides):
                search.z = search.kept
                search.first_step = {block: search.first_step[block] for block in search.z}

    def _fill(self, search: Search, coarse: BlockScores, number: int) -> list[int]:
        """Let the best blocks enter z while they fit."""
        blocks = search.layout.blocks
        competing = self.judge.competition_scores(search.memory(search.z), coarse)
        new = fill(competing, blocks, search.layout.room - blocks.total_size(search.z))
        search.z = [*search.z, *new]
        search.relevance.update((block, float(coarse[block])) for block in new)
        search.first_step.update(dict.fromkeys(new, number))
        return new

    def _rehearse(self, searches: Sequence[Search]) -> None:
        """Score z again, in one window; z is empty for a document of one block that is the query."""
        filled = [search for search in searches if search.z]
        memories = [search.memory(search.z) for search in filled]
        for search, memory, fine in zip(filled, memories, self.judge.rehearse(memories) if filled else [], strict=True):
            search.rehearsed(memory.kept, fine)

    def _decay(self, search: Search, stride: int, *, is_last: bool) -> None:
        """Sort z, and choose the blocks that stay."""
        search.limit += stride
        search.z = search.best_first(search.z, self.judge)
        search.kept = search.z[: search.limit] if is_last else _affordable(search)


def fill(scores: BlockScores, blocks: Blocks, room: int) -> list[int]:
    """Select the best-scoring blocks that fit ``room`` tokens, best first.

    A block that does not fit is skipped; earlier blocks win ties; NaN marks blocks that are not candidates.
    """
    chosen: list[int] = []
    smallest = int(blocks.sizes.min())
    for block in np.argsort(-scores, kind="stable"):
        if room < smallest or np.isnan(scores[block]):
            break
        if blocks.sizes[block] <= room:
            chosen.append(int(block))
            room -= int(blocks.sizes[block])
    return chosen


def _affordable(search: Search) -> list[int]:
    """Select the best blocks of z that leave room for any other block; two or more use at most half of the room."""
    sizes, room = search.layout.blocks.sizes, search.layout.room
    kept: list[int] = []
    for block in search.z[: search.limit]:
        used = int(sizes[[*kept, block]].sum())
        largest_other = int(np.delete(sizes, [*kept, block]).max())
        if used + largest_other > room or (kept and used > room // 2):
            break
        kept.append(block)
    return kept
