"""Middleware of every request: who may enter and how often, an end when its client leaves, counts for Prometheus.

Also answers HEAD wherever GET is answered.
"""

import asyncio
import hmac
import time
from collections import Counter as CounterOf
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cogltx.server._schemas import Failure, Problem

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SIZES = (1, 2, 4, 8, 16, 32)
OPEN = ("/", "/health", "/info", "/docs", "/openapi.json")  # without a key
_LOCAL = ("localhost", "localhost.localdomain")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OPEN_FOLDER = "/page/"
_LEFT = 499  # the client left before the response


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


@dataclass(frozen=True)
class Entry:
    """Rules for the requests that a server accepts.

    Attributes:
        max_bytes: size of a request.
        max_requests: of one client per minute.
        api_key: must be sent, if given.
        hosts: names of the server besides ``localhost`` and addresses; "*" allows all.
    """

    max_bytes: int
    max_requests: int
    api_key: str | None = None
    hosts: tuple[str, ...] = ()

    @property
    def too_large(self) -> str:
        """Message about a request that is too large."""
        return f"a request may have at most {self.max_bytes / 1_000_000:g} MB"

    def refusal(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """Create the response to a request that may not enter; None if it may."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_here(host):
            return failure(403, "forbidden", f"this server is not {host!r}; cogltx serve --allowed-host NAME allows it")
        if origin is not None and not self._is_ours(origin, host):
            return failure(403, "forbidden", f"pages of {origin} may not use this server; see --allowed-host")
        if not self._has_key(path, headers.get("authorization", "")):
            message = "this server needs a key: Authorization: Bearer KEY"
            return failure(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self.max_bytes:
            return failure(413, "too_large", self.too_large)
        is_form = headers.get("content-type", "").startswith("multipart/")
        if is_form and "x-requested-with" not in headers:  # a form of another site cannot send it
            return failure(403, "forbidden", "an upload needs the header X-Requested-With, with any value")
        return None

    def _is_here(self, host: str) -> bool:
        """Whether a host is an address or an allowed name; other names may be those of an attacker (DNS rebinding)."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in (*_LOCAL, *self.hosts) or "*" in self.hosts or bool(ip_address(name))
        except ValueError:
            return False

    def _is_ours(self, origin: str, host: str) -> bool:
        """Whether a page that sends a request comes from this server."""
        try:
            return urlsplit(origin).netloc == host or urlsplit(origin).hostname in self.hosts
        except ValueError:
            return False

    def _has_key(self, path: str, authorization: str) -> bool:
        if self.api_key is None or path in OPEN or path.startswith(_OPEN_FOLDER):
            return True
        scheme, _, key = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(key.strip().encode(), self.api_key.encode())


class Guard:
    """Refuses requests that may not enter or are too many, ends those whose client leaves, measures all."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, entry: Entry, stopping: asyncio.Event) -> None:
        self.app, self.metrics, self.entry, self.stopping = app, metrics, entry, stopping
        self._minute, self._n_requests = 0, CounterOf[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, statuses = time.perf_counter(), list[int]()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                message = {**message, "headers": _with_safety(message.get("headers", ()))}
            await send(message)

        try:
            await self._guarded(scope, receive, sent)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            status = str(statuses[0] if statuses else _LEFT)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.metrics.requests.labels(method, route, status).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - start)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self.entry.refusal(scope["path"], headers) or self._too_many(client_of(scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        n_bytes = 0

        async def limited() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self.entry.max_bytes:
                raise HTTPException(413, self.entry.too_large)
            return message

        if not await _run_while_wanted(self.app, scope, limited, send, self.stopping):
            await failure(503, "stopping", "the server stops", {"Retry-After": "5"})(scope, receive, send)

    def _too_many(self, client: str) -> Response | None:
        """Create the response to a client that has sent too many requests in this minute."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._n_requests = minute, CounterOf()
        self._n_requests[client] += 1
        if self._n_requests[client] <= self.entry.max_requests:
            return None
        message = f"more than {self.entry.max_requests:,} requests in a minute; try again later"
        return failure(429, "busy", message, {"Retry-After": "30"})


class Head:
    """Answers HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        is_sent = False

        async def sent(message: Message) -> None:
            nonlocal is_sent
            if message["type"] != "http.response.body":
                await send(message)
            elif not is_sent:
                is_sent = True
                await send({"type": "http.response.body"})

        as_get = {**scope, "method": "GET"}
        await self.app(as_get, receive, sent)
        scope["route"] = as_get.get("route")


def client_of(scope: Scope) -> str:
    """Name the client of a request: its address."""
    return str(scope["client"][0]) if scope.get("client") else ""


def _with_safety(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Add the headers that keep browsers from guessing and embedding, unless a route has set its own."""
    given = dict(headers)
    safety = {b"x-content-type-options": b"nosniff", b"referrer-policy": b"no-referrer"}
    if given.get(b"content-type", b"").startswith(b"text/html"):
        safety[b"content-security-policy"] = _POLICY.encode()
    return [*headers, *((name, value) for name, value in safety.items() if name not in given)]


async def _run_while_wanted(app: ASGIApp, scope: Scope, receive: Receive, send: Send, stopping: asyncio.Event) -> bool:
    """Run an application; cancel it when its client disconnects, or while it receives a request as the server stops.

    Returns:
        False if it was cancelled because the server stops.
    """
    is_read, is_gone = asyncio.Event(), asyncio.Event()

    async def received() -> Message:
        if is_read.is_set():
            await is_gone.wait()
            return {"type": "http.disconnect"}
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            is_read.set()
        return message

    async def end_with_client() -> None:
        await is_read.wait()
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone.set()
        running.cancel()

    async def end_with_server() -> None:
        await stopping.wait()
        if not is_read.is_set():
            running.cancel()

    running = asyncio.ensure_future(app(scope, received, send))
    others = [asyncio.create_task(end_with_client()), asyncio.create_task(end_with_server())]
    try:
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()
        return not running.cancelled() or is_read.is_set()
    finally:
        for task in (running, *others):
            task.cancel()
