"""The HTTP routes, described at /openapi.json, and the web page."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from cogltx import __version__
from cogltx.document import Document
from cogltx.errors import CogltxError
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.server.middleware import Guard, failure
from cogltx.server.schemas import (
    Ask,
    AskDocuments,
    AskText,
    Failure,
    Health,
    HeldDocument,
    KeyBlocks,
    NewDocument,
    Rerank,
    Reranked,
    RerankedDocument,
    RerankedText,
    RerankTexts,
    TextDocument,
)
from cogltx.server.service import ServerConfig, Service
from cogltx.server.shelf import NotHeldError, ShelfFullError
from cogltx.server.worker import BusyError

_PAGE = Path(__file__).parent / "page"
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self'"
_ABOUT = "Questions about documents of any length: the answer with its evidence, key blocks, and reranking."
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": text}
    for status, text in {
        401: "The API key is missing or wrong.",
        404: "No such document, or it was forgotten after a time without questions.",
        413: "The request is too large.",
        422: "The request, the text or the file is not valid.",
        429: "Too many requests wait, or too many documents are held; try again.",
    }.items()
}
router = APIRouter(responses=_FAILURES)


def create_app(reader: CogLTX, name: str = "cogltx", config: ServerConfig | None = None) -> FastAPI:
    """Create the server as an ASGI application.

    Args:
        reader: a model that answers questions.
        name: the name of the model in responses.
        config: limits and the API key.
    """
    config = config or ServerConfig()
    service = Service(reader, name, config)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.worker.close()

    app = FastAPI(
        title="cogltx", version=__version__, description=_ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.service = service
    app.include_router(router)
    app.mount("/page", StaticFiles(directory=_PAGE))
    app.add_middleware(
        Guard, metrics=service.metrics, max_bytes=config.max_megabytes * 1_000_000, api_key=config.api_key
    )
    for error, handler in _HANDLERS.items():
        app.add_exception_handler(error, handler)
    return app


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(_service)]


@router.post("/documents", status_code=201, tags=["documents"])
async def add_document(new: NewDocument, service: Served) -> HeldDocument:
    """Upload a text to ask about."""
    return _hold(service, Document(new.text, new.name))


@router.post("/files", status_code=201, tags=["documents"])
async def add_file(file: UploadFile, service: Served) -> HeldDocument:
    """Upload a file to ask about: text, Markdown, HTML, PDF, Word or EPUB, by the ending of its name."""
    return _hold(service, await service.read_upload(file.filename or "file", await file.read()))


@router.get("/documents/{id}", tags=["documents"])
async def get_document(id: str, service: Served) -> HeldDocument:
    """Describe a document."""
    return _held(id, service.shelf.get(id))


@router.get("/documents/{id}/text", tags=["documents"], response_class=PlainTextResponse)
async def get_text(id: str, service: Served) -> str:
    """Return the text of a document, which all offsets count in."""
    return service.shelf.get(id).text


@router.delete("/documents/{id}", status_code=204, tags=["documents"])
async def delete_document(id: str, service: Served) -> None:
    """Forget a document."""
    service.shelf.remove(id)


@router.post("/answer", tags=["questions"])
async def answer(ask: Ask, service: Served) -> Prediction:
    """Answer a question, with the evidence. An empty answer means that there is none in the text."""
    document, _ = _asked(ask, service)
    return await service.answer(document, ask.question)


@router.post("/recall", tags=["questions"])
async def recall(ask: Ask, service: Served) -> KeyBlocks:
    """Find the key blocks for a question, without an answer."""
    document, _ = _asked(ask, service)
    recalled = await service.recall(document, ask.question)
    return KeyBlocks(blocks=[block.within(document) for block in recalled.evidence])


@router.post("/report", tags=["questions"], response_class=HTMLResponse)
async def report(ask: Ask, service: Served, whole_page: bool = True) -> str:
    """Answer a question with an HTML page: the answer marked in the document, and the key blocks shaded."""
    document, parts = _asked(ask, service)
    prediction = await service.answer(document, ask.question)
    return await to_thread.run_sync(partial(prediction.to_html, parts, ask.question, whole_page=whole_page))


@router.post("/rerank", tags=["reranking"])
@router.post("/v1/rerank", tags=["reranking"], include_in_schema=False)
@router.post("/v2/rerank", tags=["reranking"], include_in_schema=False)
async def rerank(request: Rerank, service: Served) -> list[RerankedText] | Reranked:
    """Rank texts of any length for a query, in the form of text-embeddings-inference, or of Cohere and Jina.

    The relevance of a text is that of its most relevant block.
    """
    if isinstance(request, RerankTexts):
        scores = await service.relevance(request.query, request.texts)
        return [
            RerankedText(index=index, score=scores[index], text=request.texts[index] if request.return_text else None)
            for index in _best_first(scores)
        ]
    texts = [one if isinstance(one, str) else one.text for one in request.documents]
    scores = await service.relevance(request.query, texts)
    results = [
        RerankedDocument(
            index=index,
            relevance_score=scores[index],
            document=TextDocument(text=texts[index]) if request.return_documents else None,
        )
        for index in _best_first(scores)[: request.top_n]
    ]
    return Reranked(id=secrets.token_hex(8), model=service.name, results=results)


@router.get("/health", tags=["server"])
async def health(service: Served) -> Health:
    """Say that the server runs, and with which model."""
    return Health(status="ok", model=service.name, version=__version__)


@router.get("/metrics", tags=["server"], response_class=PlainTextResponse)
async def metrics(service: Served) -> str:
    """Counts and times in the format of Prometheus."""
    return service.metrics.text()


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The web page."""
    return FileResponse(_PAGE / "index.html", headers={"Content-Security-Policy": _POLICY})


def _hold(service: Service, document: Document) -> HeldDocument:
    return _held(service.shelf.add(document), document)


def _held(id: str, document: Document) -> HeldDocument:
    pages = document.pages[-1][1] if document.pages else None
    return HeldDocument(id=id, name=document.id, characters=len(document.text), pages=pages)


def _asked(ask: AskText | AskDocuments, service: Service) -> tuple[Document, Sequence[Document]]:
    """The document to read, and those that it was joined from."""
    if isinstance(ask, AskDocuments):
        return service.shelf.together(ask.documents)
    document = Document(ask.text)
    return document, [document]


def _best_first(scores: list[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda index: -scores[index])


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return failure(422, "invalid", _findings(error))


_WHOLE = "the request"


def _findings(error: RequestValidationError) -> str:
    """The findings of a request's validation in one line."""

    def path(location: tuple[int | str, ...]) -> str:
        return ".".join(str(key) for key in location[1:] if not str(key).startswith("<")) or _WHOLE

    findings = error.errors()
    if any(finding["type"] == "json_invalid" for finding in findings):
        return "the request is not JSON"
    if any(finding["type"] == "model_attributes_type" and path(finding["loc"]) == _WHOLE for finding in findings):
        return "the body is not a JSON object; send one, with the header Content-Type: application/json"
    return "; ".join(dict.fromkeys(f"{path(finding['loc'])}: {finding['msg']}" for finding in findings))


async def _unreadable(request: Request, error: Exception) -> Response:
    return failure(422, "unreadable", " ".join(str(error).split()))


async def _not_held(request: Request, error: Exception) -> Response:
    return failure(404, "not_found", "no such document; it may have been forgotten after a time without questions")


async def _busy(request: Request, error: Exception) -> Response:
    message = (
        "too many requests wait" if isinstance(error, BusyError) else "too many documents are held, and all are in use"
    )
    return failure(429, "busy", f"{message}; try again later", {"Retry-After": "5"})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = {404: "not_found", 413: "too_large"}.get(error.status_code, "invalid")
    return failure(error.status_code, kind, str(error.detail))


async def _defect(request: Request, error: Exception) -> Response:
    return failure(500, "internal", "the server failed; its log has the cause")


_HANDLERS = {
    RequestValidationError: _invalid,
    CogltxError: _unreadable,
    NotHeldError: _not_held,
    ShelfFullError: _busy,
    BusyError: _busy,
    HTTPException: _http,
    Exception: _defect,
}
