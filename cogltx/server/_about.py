"""The routes that describe the server: its state, its model and limits, its API as a page; and the web page."""

import re
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape
from pydantic import BaseModel, Field

from cogltx import __version__
from cogltx.formats import ENDINGS
from cogltx.server._middleware import OPEN
from cogltx.server._schemas import MOST_TEXTS, Health
from cogltx.server._service import Service

_KEY = {"type": "http", "scheme": "bearer", "description": "The key of `cogltx serve --api-key`, if it has one."}
_FAILURE = {"$ref": "#/components/schemas/Failure"}  # of every route, also of those that answer with other types
_CODE = re.compile(r"``?([^`]+)``?")
_PAGE = Path(__file__).parent / "page"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_FRESH = {"Cache-Control": "no-cache"}  # browsers ask whether their copy is up to date
_TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
_TEMPLATES.filters["code"] = lambda text: Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))

router = APIRouter()


class Labels(BaseModel):
    """The labels of a reranker, of which there is one."""

    id2label: dict[str, str] = {"0": "relevance"}
    label2id: dict[str, int] = {"relevance": 0}


class ModelType(BaseModel):
    """The kind of the model."""

    reranker: Labels = Labels()


class Info(BaseModel):
    """The model and the limits, in the form of text-embeddings-inference, and what the page needs."""

    model_id: str
    model_dtype: Literal["float32", "bfloat16"]
    model_type: ModelType = ModelType()
    max_concurrent_requests: int = Field(description="Requests that may wait.")
    max_input_length: int = Field(description="Bytes of a text; texts of any length are read, as a request allows.")
    max_batch_tokens: int
    max_client_batch_size: int = Field(description="Texts of a request to rank.")
    auto_truncate: bool = Field(False, description="Nothing is truncated.")
    tokenization_workers: int = 1
    version: str
    max_megabytes: int = Field(description="Size of a request, so of a file.")
    max_documents: int
    store: bool = Field(description="Whether documents survive a restart.")
    formats: list[str] = Field(description="Endings of the names of files that can be read.")


class ServedModel(BaseModel):
    """A model, in the form of OpenAI."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "cogltx"


class ServedModels(BaseModel):
    """The models of the server: one."""

    object: Literal["list"] = "list"
    data: list[ServedModel]


@router.get("/health", tags=["server"])
async def health(request: Request) -> Health:
    """Say that the server runs, and with which model."""
    return Health(status="ok", model=request.app.state.service.name, version=__version__)


@router.get("/metrics", tags=["server"], response_class=PlainTextResponse)
async def metrics(request: Request) -> str:
    """Counts and times in the format of Prometheus."""
    service: Service = request.app.state.service
    return service.metrics.text()


@router.get("/info", tags=["server"])
async def info(request: Request) -> Info:
    """Describe the model and the limits of the server."""
    service: Service = request.app.state.service
    config, model = service.config, service.reader.model
    return Info(
        model_id=service.name,
        model_dtype="bfloat16" if model.runner.precision.bfloat16 else "float32",
        max_concurrent_requests=config.queue_size,
        max_input_length=config.max_megabytes * 1_000_000,
        max_batch_tokens=model.runner.batch_tokens,
        max_client_batch_size=MOST_TEXTS,
        version=__version__,
        max_megabytes=config.max_megabytes,
        max_documents=config.max_documents,
        store=config.store is not None,
        formats=sorted(ENDINGS),
    )


@router.get("/v1/models", tags=["server"])
async def models(request: Request) -> ServedModels:
    """List the model."""
    return ServedModels(data=[_served(request)])


@router.get("/v1/models/{model}", tags=["server"])
async def one_model(model: str, request: Request) -> ServedModel:
    """Describe the model by its name."""
    served = _served(request)
    if model != served.id:
        raise HTTPException(404, f"no such model; this server has {served.id}")
    return served


def _served(request: Request) -> ServedModel:
    return ServedModel(id=request.app.state.service.name, created=request.app.state.created)


@router.get("/docs", include_in_schema=False, response_class=HTMLResponse)
async def docs(request: Request) -> str:
    """The description of the API as a page, which needs no script and nothing from elsewhere."""
    schema = request.app.openapi()
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append({**operation, "path": path, "method": method.upper()})
    return _TEMPLATES.get_template("docs.html").render(schema=schema, tags=tags, parts=_parts)


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The web page."""
    return FileResponse(_PAGE / "index.html", headers={"Content-Security-Policy": _POLICY, **_FRESH})


class _PageFiles(StaticFiles):
    """The files of the web page."""

    def file_response(self, *args: Any, **keywords: Any) -> Response:
        response = super().file_response(*args, **keywords)
        response.headers.update(_FRESH)
        return response


def describe(app: FastAPI, *, needs_key: bool) -> None:
    """Add the files of the page, and the key to the description of an application, and that errors are JSON."""
    app.mount("/page", _PageFiles(directory=_PAGE))

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = FastAPI.openapi(app)
            schema["components"]["securitySchemes"] = {"key": _KEY}
            for path, methods in schema["paths"].items():
                for operation in methods.values():
                    if path not in OPEN:
                        operation["security"] = [{"key": []}] if needs_key else [{"key": []}, {}]
                    for status, response in operation["responses"].items():
                        if status >= "400":
                            response["content"] = {"application/json": {"schema": _FAILURE}}
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _parts(schema: dict[str, Any]) -> list[tuple[str, bool]]:
    """Name a type of the description for people, in parts that are links to an object or text."""
    if "$ref" in schema:
        return [(schema["$ref"].rpartition("/")[2], True)]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            alternatives = [_parts(one) for one in schema[key]]
            return [part for one in alternatives for part in ((" or ", False), *one)][1:]
    if "const" in schema or "enum" in schema:
        return [(" or ".join(map(str, schema.get("enum", [schema.get("const")]))), False)]
    if schema.get("type") == "array":
        return [("list of ", False), *_parts(schema.get("items", {}))]
    return [(schema.get("type", "anything"), False)]
