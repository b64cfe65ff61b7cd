"""The HTTP routes, described at /openapi.json, and the application of all of them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, UploadFile
from fastapi import Path as PathNumber
from fastapi import Query as QueryNumber
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from cogltx import __version__
from cogltx.document import Document
from cogltx.errors import CogltxError, DataError
from cogltx.formats import ending
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.server import _about, _rerank
from cogltx.server import _schemas as schemas
from cogltx.server._middleware import Entry, Guard, Head, client_of, failure
from cogltx.server._scheduler import BusyError
from cogltx.server._service import ServerConfig, Service
from cogltx.server._shelf import Held, NotHeldError, ShelfFullError
from cogltx.server._work import GivenUpError, Work

_EVENT_SECONDS = 0.5  # between reports of progress
_ABOUT = "Questions about documents of any length: the answer with its evidence, key blocks, and reranking."
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Failure, "description": text}
    for status, text in {
        400: "The body of the request is broken.",
        401: "The API key is missing or wrong.",
        403: "The host or origin is not allowed, or an upload lacks the header X-Requested-With.",
        404: "No such document, or it was forgotten after a time without questions.",
        405: "The path has other methods, which the header Allow lists.",
        413: "The request is too large.",
        415: "The body is not JSON, or is not declared as Content-Type: application/json.",
        422: "The request, the text or the file is not valid.",
        429: "Too many requests wait, or too many documents are held; try again.",
        503: "The server stops.",
    }.items()
}
_PNG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}}}
_EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
router = APIRouter(responses=_FAILURES)


def create_app(
    reader: CogLTX,
    name: str = "cogltx",
    config: ServerConfig | None = None,
    load: Callable[[str], CogLTX] | None = None,
) -> FastAPI:
    """Create the server as an ASGI application.

    Args:
        reader: a model that answers questions.
        name: its name in responses.
        config: limits.
        load: loads the released model that is used for other languages than English; None: ``reader`` reads all.
    """
    config = config or ServerConfig()
    service = Service(reader, name, config, load)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="cogltx", version=__version__, description=_ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.service, app.state.created = service, int(time.time())
    app.state.counting_tokenizer = _rerank.counting_tokenizer(reader.model.tokenizer)
    app.include_router(router)
    app.include_router(_rerank.router, responses=_FAILURES)
    app.include_router(_about.router, responses=_FAILURES)
    _about.describe(app, needs_key=config.api_key is not None)
    entry = Entry(config.max_megabytes * 1_000_000, config.max_requests, config.api_key, config.allowed_hosts)
    app.add_middleware(Head)
    app.add_middleware(Guard, metrics=service.metrics, entry=entry, stopping=service.stopping)
    for error in (
        RequestValidationError, CogltxError, NotHeldError, ShelfFullError, BusyError, GivenUpError, HTTPException,
        Exception,
    ):  # fmt: skip
        app.add_exception_handler(error, _fail)
    return app


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


_Served = Annotated[Service, Depends(_service)]


@router.post("/documents", status_code=201, tags=["documents"])
async def add_document(new: schemas.NewDocument, request: Request, service: _Served) -> schemas.HeldDocument:
    """Upload a text to ask about; it is prepared for questions in the background."""
    return _described(await service.hold(Document(new.text, new.name), client_of(request.scope)), service)


@router.post("/files", status_code=201, tags=["documents"])
async def add_file(file: UploadFile, request: Request, service: _Served) -> schemas.HeldDocument:
    """Upload a file to ask about: text, Markdown, HTML, PDF, EPUB, office files, CSV or e-mail, by its ending.

    Needs the header ``X-Requested-With``, with any value.
    """
    if len((await request.form()).getlist("file")) > 1:
        raise DataError("file: send one file per request")
    client, name, content = client_of(request.scope), file.filename or "file", await file.read()
    service.shelf.make_room(client)
    document = await service.read_upload(name, content, client)
    return _described(await service.hold(document, client, content if ending(name) == ".pdf" else None), service)


@router.get("/documents/{id}", tags=["documents"])
async def get_document(id: str, service: _Served) -> schemas.HeldDocument:
    """Describe a document."""
    return _described(service.shelf.get(id), service)


@router.get("/documents/{id}/text", tags=["documents"], response_class=PlainTextResponse)
async def get_text(id: str, service: _Served) -> str:
    """Return the text of a document, which all offsets count in, in Unicode code points."""
    return service.shelf.get(id).document.text


@router.get("/documents/{id}/outline", tags=["documents"])
async def get_outline(id: str, service: _Served) -> schemas.Outline:
    """Return where the pages and sections of a document begin."""
    document = service.shelf.get(id).document
    segments = [(one.start, one.end, one.heading) for one in document.segments]
    return schemas.Outline(pages=list(document.pages), segments=segments)


@router.get("/documents/{id}/pages", tags=["documents"])
async def get_pages(id: str, service: _Served) -> list[schemas.PageSize]:
    """Return the sizes of the pages of a PDF file."""
    sizes = await service.page_sizes(service.shelf.get(id))
    return [schemas.PageSize(number=n, width=width, height=height) for n, (width, height) in enumerate(sizes, start=1)]


@router.get("/documents/{id}/pages/{number}", tags=["documents"], response_class=Response, responses=_PNG)
async def get_page(
    id: str,
    service: _Served,
    number: Annotated[int, PathNumber(ge=1)],
    scale: Annotated[float, QueryNumber(ge=0.2, le=3, description="Pixels per point.")] = 1.5,
) -> Response:
    """Draw a page of a PDF file, as PNG."""
    picture = await service.page_picture(service.shelf.get(id), number, scale)
    return Response(picture, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


@router.get("/documents/{id}/pages/{number}/lines", tags=["documents"])
async def get_lines(id: str, service: _Served, number: Annotated[int, PathNumber(ge=1)]) -> list[schemas.PrintedLine]:
    """Return the printed lines of a page of a PDF file, with their places on the page and in the text."""
    document = service.shelf.get(id).document
    return [
        schemas.PrintedLine(start=line.start, end=line.end, text=document.text[line.start : line.end], box=line.box)
        for line in document.lines
        if line.page == number
    ]


@router.delete("/documents/{id}", status_code=204, tags=["documents"])
async def delete_document(id: str, service: _Served) -> None:
    """Forget a document."""
    service.shelf.remove(id)


@router.post("/answer", tags=["questions"], response_model=Prediction, responses=_EVENTS)
async def answer(ask: schemas.Ask, request: Request, service: _Served) -> Prediction | Response:
    """Answer a question, with the evidence. An empty answer means that there is none in the text.

    With the header ``Accept: text/event-stream``, events report the progress: ``progress`` (stage, share, seconds
    left), ``evidence`` (first preliminary, then the key blocks), and at last ``answer`` or ``error``.
    """
    document, documents, parts = _asked(ask, service)
    client = client_of(request.scope)
    if "text/event-stream" not in request.headers.get("accept", ""):
        return await service.answer(parts, document, ask.question, client)
    work = Work(client, pace=service.pace)
    future = service.ask(parts, document, ask.question, work)
    names = {one.id: held.id for one, held in zip(documents, parts, strict=True)}
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(work, future, names), media_type="text/event-stream", headers=headers)


@router.post("/recall", tags=["questions"])
async def recall(ask: schemas.Ask, request: Request, service: _Served) -> schemas.KeyBlocks:
    """Find the key blocks for a question, without an answer."""
    document, _, parts = _asked(ask, service)
    recalled = await service.recall(parts, document, ask.question, client_of(request.scope))
    return schemas.KeyBlocks(blocks=[block.within(document) for block in recalled.evidence])


@router.post("/report", tags=["questions"], response_class=HTMLResponse)
async def report(ask: schemas.Ask, request: Request, service: _Served, whole_page: bool = True) -> str:
    """Answer a question with an HTML page: the answer marked in the document, and the key blocks shaded."""
    document, documents, parts = _asked(ask, service)
    prediction = await service.answer(parts, document, ask.question, client_of(request.scope))
    return await to_thread.run_sync(partial(prediction.to_html, documents, ask.question, whole_page=whole_page))


def _described(held: Held, service: Service) -> schemas.HeldDocument:
    document = held.document
    last = document.pages[-1][1] if document.pages else None
    return schemas.HeldDocument(
        id=held.id, name=document.id, characters=held.n_characters, pages=last if isinstance(last, int) else None,
        kind="text" if held.pdf is None else "pdf", notes=list(document.notes), prepared=service.prepared(held),
    )  # fmt: skip


def _asked(
    ask: schemas.AskText | schemas.AskDocuments, service: Service
) -> tuple[Document, Sequence[Document], Sequence[Held]]:
    """Return the document to read, those that it was joined from, and what holds them."""
    if isinstance(ask, schemas.AskDocuments):
        return service.shelf.together(ask.documents)
    document = Document(ask.text)
    return document, [document], [Held("", "", len(ask.text), 0.0, loaded=document)]


async def _events(work: Work, future: "Future[Prediction]", names: Mapping[str, str]) -> AsyncIterator[str]:
    """Report the progress of a question until it is answered; the work is given up if nobody reads on."""
    answering, sent = asyncio.wrap_future(future), None
    try:
        while True:
            done, _ = await asyncio.wait([answering], timeout=_EVENT_SECONDS)
            if work.found is not sent and work.found is not None:
                sent = work.found
                evidence, is_preliminary = sent
                blocks = [asdict(block) for block in evidence]
                yield _event("evidence", {"preliminary": is_preliminary, "evidence": blocks, "names": names})
            if done:
                break
            yield _event("progress", asdict(work.progress()))
        yield _event("answer", answering.result().to_dict() | {"names": names})
    except Exception as error:
        _, kind, message = _failure_of(error)
        yield _event("error", {"error": {"type": kind, "message": message}})
    finally:
        work.give_up()


def _event(name: str, values: Mapping[str, Any]) -> str:
    """Format a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(values, ensure_ascii=False)}\n\n"


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
    status, kind, message = _failure_of(error)
    headers = {"Retry-After": "5"} if status in (429, 503) else {}
    if isinstance(error, HTTPException) and error.headers:
        headers |= error.headers
    return failure(status, kind, message, headers)


def _failure_of(error: Exception) -> tuple[int, str, str]:
    """Translate an exception into the status, the kind and the message of a response."""
    match error:
        case RequestValidationError():
            is_json = not any(isinstance(finding.get("input"), bytes) for finding in error.errors())
            return 422 if is_json else 415, "invalid", _findings(error)
        case CogltxError():
            return 422, "unreadable", " ".join(str(error).split())
        case NotHeldError():
            return 404, "not_found", "no such document; it may have been forgotten after a time without questions"
        case BusyError():
            return 429, "busy", "too many requests wait; try again later"
        case ShelfFullError():
            return 429, "busy", str(error)
        case GivenUpError():
            return 503, "stopping", "the server stops"
        case HTTPException():
            kind = {404: "not_found", 405: "not_allowed", 413: "too_large"}.get(error.status_code, "invalid")
            return error.status_code, kind, str(error.detail)
    return 500, "internal", "the server failed; its log has the cause"
