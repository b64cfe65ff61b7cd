"""The routes of reranking, for clients of text-embeddings-inference, Cohere, Jina, Infinity and vLLM."""

import secrets
import time
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from anyio import to_thread
from fastapi import APIRouter, Request

from cogltx.blocks import encode
from cogltx.blocks._tokens import token_spans
from cogltx.server import _schemas as schemas
from cogltx.server._middleware import client_of
from cogltx.server._service import Service

_CLIP = 1e-9  # of a probability, so that log-odds are finite
_TEXTS_PER_UNIT = 100

router = APIRouter(tags=["reranking"])


@router.post("/rerank", response_model_exclude_none=True)
@router.post("/v1/rerank", response_model_exclude_none=True, include_in_schema=False)
@router.post("/v2/rerank", response_model_exclude_none=True, include_in_schema=False)
@router.post("/infinity/rerank", response_model_exclude_none=True, include_in_schema=False)
async def rerank(body: schemas.Rerank, request: Request) -> list[schemas.RerankedText] | schemas.Reranked:
    """Rank texts of any length for a query, in the form of text-embeddings-inference, or of Cohere, Jina and others.

    The relevance of a text is that of its most relevant block. Also at `/v1/rerank` and `/v2/rerank`, and for clients
    of Infinity that do not send `raw_scores` at `/infinity/rerank`.
    """
    service: Service = request.app.state.service
    if isinstance(body, schemas.RerankTexts):
        scores = await _scores(request, body.query, body.texts, is_raw=bool(body.raw_scores))
        shown = body.texts if body.return_text else [None] * len(scores)
        return [
            schemas.RerankedText(index=index, score=scores[index], text=shown[index])
            for index in _best(scores, body.top_n)
        ]
    path, tokenizer = request.url.path, request.app.state.counting_tokenizer
    n_tokens, texts = await _measured(tokenizer, body.query, body.texts, body.max_tokens_per_doc)
    is_raw = bool(body.raw_scores) or body.use_activation is False
    scores = await _scores(request, body.query, texts, is_raw=is_raw)
    is_of_infinity = body.raw_scores is not None or path.startswith("/infinity/")
    documents: Sequence[dict[str, Any] | str | None] = [None] * len(scores)
    if body.return_documents:  # as they were sent, or for Infinity as texts
        in_objects = [{"text": one} if isinstance(one, str) else one for one in body.documents]
        documents = body.texts if is_of_infinity else in_objects
    return schemas.Reranked(
        id=secrets.token_hex(8),
        object="rerank" if is_of_infinity else "list",
        created=int(time.time()),
        model=service.name,
        results=[
            schemas.RerankedDocument(index=index, relevance_score=scores[index], document=documents[index])
            for index in _best(scores, body.top_n or body.top_k)
        ],
        usage=schemas.Usage(prompt_tokens=n_tokens, total_tokens=n_tokens),
        meta=schemas.Meta(
            api_version=schemas.Version(version="1" if path.startswith("/v1/") else "2"),
            billed_units=schemas.BilledUnits(search_units=-(-len(texts) // _TEXTS_PER_UNIT)),
            tokens=schemas.Tokens(input_tokens=n_tokens),
        ),
    )


async def _scores(request: Request, query: str, texts: Sequence[str], *, is_raw: bool) -> list[float]:
    """Score texts for a query; raw scores of judges without probabilities are their scores."""
    service: Service = request.app.state.service
    scores = await service.relevance(query, texts, client_of(request.scope))
    if is_raw and service.reader.memrecall.judge.probabilities:
        return [float(score) for score in torch.tensor(scores, dtype=torch.float64).logit(eps=_CLIP)]
    return scores


def _best(scores: Sequence[float], n_results: int | None) -> list[int]:
    return sorted(range(len(scores)), key=lambda index: -scores[index])[: n_results or None]


def counting_tokenizer(tokenizer: Any) -> Any:
    """Copy a tokenizer for counting: two threads cannot use one with different settings."""
    copied = deepcopy(tokenizer)
    encode(["a"], copied)  # sets it up
    return copied


async def _measured(tokenizer: Any, query: str, texts: Sequence[str], limit: int | None) -> tuple[int, list[str]]:
    """Count the tokens of a query and of texts of at most ``limit`` tokens each; returns also the texts."""
    counts, cuts = [0] * (len(texts) + 1), [0] * (len(texts) + 1)
    batches = token_spans([query, *texts], tokenizer)
    while (batch := await to_thread.run_sync(next, batches, None)) is not None:
        for number, spans in batch:
            if limit is not None and counts[number] < limit <= counts[number] + len(spans):
                cuts[number] = int(spans[limit - counts[number] - 1, 1])
            counts[number] += len(spans)
    n_query, *n_tokens = counts
    if limit is None:
        return sum(counts), list(texts)
    is_cut = [n > limit for n in n_tokens]
    read = [text[:cut] if cuts_it else text for text, cut, cuts_it in zip(texts, cuts[1:], is_cut, strict=True)]
    return n_query + sum(min(n, limit) for n in n_tokens), read
