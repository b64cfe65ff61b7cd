"""Haystack: an extractive reader, a ranker that can also shorten documents, and a splitter."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from haystack import Document, component
from haystack.dataclasses import ExtractedAnswer

from cogltx._folders import DEFAULT_MODEL
from cogltx.blocks import has_token
from cogltx.document import Document as CogltxDocument
from cogltx.integrations._shared import CHUNK_TOKENS, TOKENIZER, cached_model, fitting, pieces, ranked, reading
from cogltx.pipeline import CogLTX
from cogltx.prediction import Answer, Prediction

_CANDIDATES = 20  # of which some may overlap
Inputs = ParamSpec("Inputs")
Outputs = TypeVar("Outputs")


def _in_thread(
    run: Callable[Concatenate[Any, Inputs], Outputs],
) -> Callable[Concatenate[Any, Inputs], Coroutine[Any, Any, Outputs]]:
    """Make the method ``run_async`` of a component, which calls ``run`` in a thread."""

    @wraps(run, assigned=("__doc__", "__annotations__"))
    async def run_async(reader: Any, /, *inputs: Inputs.args, **options: Inputs.kwargs) -> Outputs:
        outputs: Outputs = await asyncio.to_thread(reader.run, *inputs, **options)
        return outputs

    return run_async


@component
class CogLTXReader:
    """Answers a question from documents of any length, read together; replaces ``TransformersExtractiveReader``.

    Args:
        model: a name (also of the Hugging Face hub), a run, or a model folder.
        top_k: maximum number of answers, without the one for "no answer".
        score_threshold: lowest score of an answer.
        no_answer: add an answer without text, with the probability that the documents have none.
        overlap_threshold: share of an answer, or of a better one, that may lie in the other; None keeps all.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        top_k: int = 20,
        score_threshold: float | None = None,
        no_answer: bool = True,
        overlap_threshold: float | None = 0.01,
    ) -> None:
        self.model, self.top_k, self.score_threshold = model, top_k, score_threshold
        self.no_answer, self.overlap_threshold = no_answer, overlap_threshold

    def warm_up(self) -> None:
        """Load the model."""
        cached_model(self.model)

    @component.output_types(answers=list[ExtractedAnswer])
    def run(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        score_threshold: float | None = None,
        max_seq_length: int | None = None,
        stride: int | None = None,
        max_batch_size: int | None = None,
        answers_per_seq: int | None = None,
        no_answer: bool | None = None,
        overlap_threshold: float | None = None,
    ) -> dict[str, list[ExtractedAnswer]]:
        """Find the answers, best first, with the passage around each; options replace those of the constructor.

        Sequence length, stride, batch size and ``answers_per_seq`` are ignored. Documents without text are skipped. The
        end of a query that leaves no room in the model's window is cut, with a warning. If the metadata of a document
        has ``page_number``, that of an answer has ``answer_page_number``; form feeds separate pages.
        """
        with reading(self.model) as reader:
            tokenizer = reader.model.tokenizer
            readable = {str(i): one for i, one in enumerate(documents) if has_token(one.content or "", tokenizer)}
            if not readable:
                return {"answers": []}
            joined = CogltxDocument.joined([CogltxDocument(one.content or "", id) for id, one in readable.items()])
            answering = _answering(reader, max(top_k or self.top_k, _CANDIDATES))
            prediction = answering.predict(joined, fitting(reader, query))
        n_answers = top_k or self.top_k
        candidates = sorted(prediction.candidates, key=lambda answer: -answer.confidence)
        overlap = self.overlap_threshold if overlap_threshold is None else overlap_threshold
        kept: list[Answer] = []
        for answer in candidates:
            if answer.text and (overlap is None or all(_overlap(answer, other) <= overlap for other in kept)):
                kept.append(answer)
        lowest = self.score_threshold if score_threshold is None else score_threshold
        if lowest is not None:
            kept = [answer for answer in kept if answer.confidence >= lowest]
        answers = [_extracted(answer, prediction, query, readable) for answer in kept[:n_answers]]
        if self.no_answer if no_answer is None else no_answer:
            answers.append(ExtractedAnswer(query=query, score=prediction.no_answer_confidence or 0.0))
        return {"answers": sorted(answers, key=lambda answer: -answer.score)}

    run_async = _in_thread(run)


@component
class CogLTXRanker:
    """Ranks documents of any length by their relevance, and optionally shortens them to the relevant passages.

    Args:
        model: a name (also of the Hugging Face hub), a run, or a model folder.
        top_k: maximum number of documents.
        budget: tokens of each document to keep, or the share, up to 1.0; None keeps documents whole.
    """

    def __init__(self, model: str = DEFAULT_MODEL, top_k: int = 10, budget: int | float | None = None) -> None:
        self.model, self.top_k, self.budget = model, top_k, budget

    def warm_up(self) -> None:
        """Load the model."""
        cached_model(self.model)

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """Rank documents, best first, with their relevance in [0, 1] as score; ``top_k`` is for this call."""
        texts = [document.content or "" for document in documents]
        best = ranked(self.model, query, texts, top_k or self.top_k, self.budget)
        ranked_documents = [
            replace(documents[index], score=score, content=text or documents[index].content)
            for index, score, text in best
        ]
        return {"documents": ranked_documents}

    run_async = _in_thread(run)


@component
class CogLTXSplitter:
    """Splits documents at the ends of paragraphs, sentences and clauses, by dynamic programming, without overlap.

    Args:
        max_tokens: of a piece.
        tokenizer: the name of an encoder, whose tokens count.
    """

    def __init__(self, max_tokens: int = CHUNK_TOKENS, tokenizer: str = TOKENIZER) -> None:
        self.max_tokens, self.tokenizer = max_tokens, tokenizer

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Split documents into exact slices; metadata as that of ``DocumentSplitter``. Those without text are left out.

        Metadata gains ``source_id``, ``split_id``, ``split_idx_start`` and ``page_number``; form feeds separate pages.
        """
        split_documents = []
        for document in documents:
            text = document.content or ""
            first_page = document.meta.get("page_number", 1)
            for number, (start, end) in enumerate(pieces(text, self.max_tokens, self.tokenizer)):
                page = first_page + text.count("\f", 0, start) if isinstance(first_page, int) else first_page
                place = {"source_id": document.id, "split_id": number, "split_idx_start": start, "page_number": page}
                split_documents.append(Document(content=text[start:end], meta={**document.meta, **place}))
        return {"documents": split_documents}


def _answering(reader: CogLTX, top_k: int) -> CogLTX:
    """Copy a model, sharing its weights, with another number of answers."""
    answering, reasoner = copy(reader), copy(reader.model.reasoner)
    reasoner.config = reasoner.config.model_copy(update={"top_k": top_k})
    answering.model = replace(reader.model, reasoner=reasoner, _blocks=OrderedDict(), _n_cached_tokens=0)
    return answering


def _overlap(answer: Answer, other: Answer) -> float:
    """Shared part of two spans, relative to the shorter one; 0 for yes and no."""
    match (answer.start, answer.end), (other.start, other.end):
        case (int(start), int(end)), (int(other_start), int(other_end)) if answer.document == other.document:
            shared = min(end, other_end) - max(start, other_start)
            return max(0, shared) / min(end - start, other_end - other_start)
    return 0.0


def _extracted(answer: Answer, prediction: Prediction, query: str, documents: dict[str, Document]) -> ExtractedAnswer:
    if answer.start is None or answer.end is None:  # yes or no
        return ExtractedAnswer(query=query, score=answer.confidence, data=answer.text)
    document = documents[answer.document]
    span, page = ExtractedAnswer.Span(answer.start, answer.end), document.meta.get("page_number")
    n_pages_before = (document.content or "").count("\f", 0, answer.start)
    extracted = ExtractedAnswer(
        query=query, score=answer.confidence, data=answer.text, document=document, document_offset=span,
        meta={"answer_page_number": page + n_pages_before} if isinstance(page, int) else {},
    )  # fmt: skip
    for block in prediction.evidence:
        if block.document == answer.document and block.start <= answer.start and answer.end <= block.end:
            offset = ExtractedAnswer.Span(answer.start - block.start, answer.end - block.start)
            return replace(extracted, context=block.text, context_offset=offset)
    return extracted
