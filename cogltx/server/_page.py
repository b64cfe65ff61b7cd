"""The web page and its files."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

_PAGE = Path(__file__).parent / "page"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_FRESH = {"Cache-Control": "no-cache"}  # browsers ask whether their copy is up to date
_router = APIRouter()


def add_page(app: FastAPI) -> None:
    """Serve the web page at ``/``, and its files in ``/page``."""
    app.include_router(_router)
    app.mount("/page", _PageFiles(directory=_PAGE))


@_router.get("/", include_in_schema=False)
async def page() -> Response:
    """The web page."""
    return FileResponse(_PAGE / "index.html", headers={"Content-Security-Policy": _POLICY, **_FRESH})


class _PageFiles(StaticFiles):
    """The files of the web page."""

    def file_response(self, *args: Any, **keywords: Any) -> Response:
        response = super().file_response(*args, **keywords)
        response.headers.update(_FRESH)
        return response
