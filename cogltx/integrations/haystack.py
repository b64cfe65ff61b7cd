"""Haystack: an extractive reader, and a ranker that can also shorten documents."""

from collections import OrderedDict
from copy import copy
from dataclasses import replace

from haystack import Document, component
from haystack.dataclasses import ExtractedAnswer

from cogltx._folders import DEFAULT_MODEL
from cogltx.blocks import has_token
from cogltx.document import Document as CogltxDocument
from cogltx.integrations.compress import cached_model, ranked
from cogltx.pipeline import CogLTX
from cogltx.prediction import Answer, Prediction

_CANDIDATES = 20  # of which some may overlap


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

        Sequence length, stride, batch size and ``answers_per_seq`` are ignored. Documents without text are skipped.
        """
        reader = cached_model(self.model)
        tokenizer = reader.model.tokenizer
        readable = {str(i): one for i, one in enumerate(documents) if has_token(one.content or "", tokenizer)}
        if not readable:
            return {"answers": []}
        joined = CogltxDocument.joined([CogltxDocument(one.content or "", id) for id, one in readable.items()])
        n_answers = top_k or self.top_k
        prediction = _answering(reader, max(n_answers, _CANDIDATES)).predict(joined, query)
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
    span = ExtractedAnswer.Span(answer.start, answer.end)
    extracted = ExtractedAnswer(
        query=query, score=answer.confidence, data=answer.text, document=document, document_offset=span
    )
    for block in prediction.evidence:
        if block.document == answer.document and block.start <= answer.start and answer.end <= block.end:
            offset = ExtractedAnswer.Span(answer.start - block.start, answer.end - block.start)
            return replace(extracted, context=block.text, context_offset=offset)
    return extracted
