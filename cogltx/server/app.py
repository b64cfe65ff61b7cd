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
from cogltx.server import _schemas as schemas
from cogltx.server._middleware import Guard, failure
from cogltx.server._service import ServerConfig, Service
from cogltx.server._shelf import NotHeldError, ShelfFullError
from cogltx.server._worker import BusyError

_PAGE = Path(__file__).parent / "page"
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self'"
_ABOUT = "Questions about documents of any length: the answer with its evidence, key blocks, and reranking."
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Failure, "description": text}
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
    """Create the server as an ASGI application, for a model that answers questions and its name in responses."""
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
    for error in (
        RequestValidationError, CogltxError, NotHeldError, ShelfFullError, BusyError, HTTPException, Exception
    ):  # fmt: skip
        app.add_exception_handler(error, _fail)
    return app


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


_Served = Annotated[Service, Depends(_service)]


@router.post("/documents", status_code=201, tags=["documents"])
async def add_document(new: schemas.NewDocument, service: _Served) -> schemas.HeldDocument:
    """Upload a text to ask about."""
    return _hold(service, Document(new.text, new.name))


@router.post("/files", status_code=201, tags=["documents"])
async def add_file(file: UploadFile, service: _Served) -> schemas.HeldDocument:
    """Upload a file to ask about: text, Markdown, HTML, PDF, EPUB, office files, CSV or e-mail, by its ending."""
    return _hold(service, await service.read_upload(file.filename or "file", await file.read()))


@router.get("/documents/{id}", tags=["documents"])
async def get_document(id: str, service: _Served) -> schemas.HeldDocument:
    """Describe a document."""
    return _held(id, service.shelf.get(id))


@router.get("/documents/{id}/text", tags=["documents"], response_class=PlainTextResponse)
async def get_text(id: str, service: _Served) -> str:
    """Return the text of a document, which all offsets count in."""
    return service.shelf.get(id).text


@router.delete("/documents/{id}", status_code=204, tags=["documents"])
async def delete_document(id: str, service: _Served) -> None:
    """Forget a document."""
    service.shelf.remove(id)


@router.post("/answer", tags=["questions"])
async def answer(ask: schemas.Ask, service: _Served) -> Prediction:
    """Answer a question, with the evidence. An empty answer means that there is none in the text."""
    document, _ = _asked(ask, service)
    return await service.answer(document, ask.question)


@router.post("/recall", tags=["questions"])
async def recall(ask: schemas.Ask, service: _Served) -> schemas.KeyBlocks:
    """Find the key blocks for a question, without an answer."""
    document, _ = _asked(ask, service)
    recalled = await service.recall(document, ask.question)
    return schemas.KeyBlocks(blocks=[block.within(document) for block in recalled.evidence])


@router.post("/report", tags=["questions"], response_class=HTMLResponse)
async def report(ask: schemas.Ask, service: _Served, whole_page: bool = True) -> str:
    """Answer a question with an HTML page: the answer marked in the document, and the key blocks shaded."""
    document, parts = _asked(ask, service)
    prediction = await service.answer(document, ask.question)
    return await to_thread.run_sync(partial(prediction.to_html, parts, ask.question, whole_page=whole_page))


@router.post("/rerank", tags=["reranking"])
@router.post("/v1/rerank", tags=["reranking"], include_in_schema=False)
@router.post("/v2/rerank", tags=["reranking"], include_in_schema=False)
async def rerank(request: schemas.Rerank, service: _Served) -> list[schemas.RerankedText] | schemas.Reranked:
    """Rank texts of any length for a query, in the form of text-embeddings-inference, or of Cohere and Jina.

    The relevance of a text is that of its most relevant block.
    """
    if isinstance(request, schemas.RerankTexts):
        texts = request.texts
    else:
        texts = [one if isinstance(one, str) else one.text for one in request.documents]
    scores = await service.relevance(request.query, texts)
    best = sorted(range(len(scores)), key=lambda index: -scores[index])
    if isinstance(request, schemas.RerankTexts):
        shown = texts if request.return_text else [None] * len(texts)
        return [schemas.RerankedText(index=index, score=scores[index], text=shown[index]) for index in best]
    documents = [schemas.TextDocument(text=text) if request.return_documents else None for text in texts]
    results = [
        schemas.RerankedDocument(index=index, relevance_score=scores[index], document=documents[index])
        for index in best[: request.top_n]
    ]
    return schemas.Reranked(id=secrets.token_hex(8), model=service.name, results=results)


@router.get("/health", tags=["server"])
async def health(service: _Served) -> schemas.Health:
    """Say that the server runs, and with which model."""
    return schemas.Health(status="ok", model=service.name, version=__version__)


@router.get("/metrics", tags=["server"], response_class=PlainTextResponse)
async def metrics(service: _Served) -> str:
    """Counts and times in the format of Prometheus."""
    return service.metrics.text()


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The web page."""
    return FileResponse(_PAGE / "index.html", headers={"Content-Security-Policy": _POLICY})


def _hold(service: Service, document: Document) -> schemas.HeldDocument:
    return _held(service.shelf.add(document), document)


def _held(id: str, document: Document) -> schemas.HeldDocument:
    last = document.pages[-1][1] if document.pages else None
    pages = last if isinstance(last, int) else None
    return schemas.HeldDocument(id=id, name=document.id, characters=len(document.text), pages=pages)


def _asked(ask: schemas.AskText | schemas.AskDocuments, service: Service) -> tuple[Document, Sequence[Document]]:
    """Return the document to read, and those that it was joined from."""
    if isinstance(ask, schemas.AskDocuments):
        return service.shelf.together(ask.documents)
    document = Document(ask.text)
    return document, [document]


def _findings(error: RequestValidationError) -> str:
    """Describe the findings of a request's validation in one line."""

    def path(location: tuple[int | str, ...]) -> str:
        return ".".join(str(key) for key in location[1:] if not str(key).startswith("<")) or "the request"

    findings = error.errors()
    if any(finding["type"] == "json_invalid" for finding in findings):
        return "the request is not JSON"
    if any(finding["type"] == "model_attributes_type" and path(finding["loc"]) == path(()) for finding in findings):
        return "the body is not a JSON object; send one, with the header Content-Type: application/json"
    return "; ".join(dict.fromkeys(f"{path(finding['loc'])}: {finding['msg']}" for finding in findings))


async def _fail(request: Request, error: Exception) -> Response:
    """Translate an exception into a response."""
    again = {"Retry-After": "5"}
    match error:
        case RequestValidationError():
            return failure(422, "invalid", _findings(error))
        case CogltxError():
            return failure(422, "unreadable", " ".join(str(error).split()))
        case NotHeldError():
            message = "no such document; it may have been forgotten after a time without questions"
            return failure(404, "not_found", message)
        case BusyError():
            return failure(429, "busy", "too many requests wait; try again later", again)
        case ShelfFullError():
            message = "too many documents are held, and all are in use; try again later"
            return failure(429, "busy", message, again)
        case HTTPException():
            kind = {404: "not_found", 413: "too_large"}.get(error.status_code, "invalid")
            return failure(error.status_code, kind, str(error.detail))
    return failure(500, "internal", "the server failed; its log has the cause")
