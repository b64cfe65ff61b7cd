"""Middleware of every request: limit its size, check the API key, and count it in the format of Prometheus."""

import hmac
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cogltx.server._schemas import Failure, Problem

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SIZES = (1, 2, 4, 8, 16, 32)
_OPEN = ("/", "/health", "/openapi.json")  # without a key
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OPEN_FOLDER = "/page/"


def failure(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """Create an error response."""
    text = message.encode(errors="replace").decode()  # a client's lone surrogate cannot be sent
    body = Failure(error=Problem(type=kind, message=text))
    return JSONResponse(body.model_dump(), status, headers=headers)


class Metrics:
    """Counts and times of one server."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("cogltx_requests", "Requests by route and status.", labels, registry=registry)
        self.seconds = Histogram(
            "cogltx_request_seconds", "Seconds per request.", ("route",), buckets=_SECONDS, registry=registry
        )
        self.batch_size = Histogram(
            "cogltx_batch_size", "Requests that are read together.", buckets=_SIZES, registry=registry
        )
        self.waiting = Gauge("cogltx_waiting_requests", "Requests in the queue.", registry=registry)
        self.documents = Gauge("cogltx_documents", "Documents held.", registry=registry)
        self.characters = Gauge("cogltx_characters", "Characters of the documents held.", registry=registry)

    def text(self) -> str:
        """All metrics as text."""
        return generate_latest(self._registry).decode()


class Guard:
    """Refuses requests without the key or with too large a body, and measures all."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, max_bytes: int, api_key: str | None) -> None:
        self.app, self.metrics, self.max_bytes, self.api_key = app, metrics, max_bytes, api_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, statuses = time.perf_counter(), list[int]()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            await send(message)

        try:
            await self._guarded(scope, receive, sent)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            status = str(statuses[0] if statuses else 500)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.metrics.requests.labels(method, route, status).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - start)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        if not self._may_enter(scope["path"], headers.get(b"authorization", b"")):
            message = "this server needs a key: Authorization: Bearer KEY"
            await failure(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        too_large = f"a request may have at most {self.max_bytes / 1_000_000:g} MB"
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.max_bytes:
            await failure(413, "too_large", too_large)(scope, receive, send)
            return
        n_bytes = 0

        async def limited() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self.max_bytes:
                raise HTTPException(413, too_large)
            return message

        await self.app(scope, limited, send)

    def _may_enter(self, path: str, authorization: bytes) -> bool:
        if self.api_key is None or path in _OPEN or path.startswith(_OPEN_FOLDER):
            return True
        return hmac.compare_digest(authorization, f"Bearer {self.api_key}".encode())
