"""The text of pictures of pages, by rapidocr if it is installed; its models are in its package."""

from functools import cache
from importlib.util import find_spec
from statistics import median
from typing import Any

import pypdfium2

from cogltx.formats._limits import extend
from cogltx.formats._pdf_lines import Line
from cogltx.formats._pdf_words import Frame, Style

INSTALL = 'pip install "cogltx[ocr]" to read it'
_SCALE = 2.0  # pixels per point
_SECONDS, _MEGABYTES = 20.0, 1500.0  # for a page; for the models and one picture
_ALIKE = 1.3  # ratio of heights that are one type size


def is_installed() -> bool:
    """Check that the extra ``ocr`` is installed."""
    return bool(find_spec("rapidocr"))


def recognised(page: pypdfium2.PdfPage, number: int) -> list[Line]:
    """Recognise the lines of a page and their places."""
    extend(_SECONDS, 0.0 if _engine.cache_info().currsize else _MEGABYTES)
    frame = Frame(0, *page.get_size())
    result = _engine()(page.render(scale=_SCALE).to_numpy())
    if not result.txts:
        return []
    boxes = [(*corners.min(axis=0), *corners.max(axis=0)) for corners in result.boxes]
    usual = float(median(bottom - top for _, top, _, bottom in boxes))
    found = []
    for position, (text, box) in enumerate(zip(result.txts, boxes, strict=True)):
        left, top, right, bottom = (float(edge) / _SCALE for edge in box)
        height = usual / _SCALE if 1 / _ALIKE < (bottom - top) * _SCALE / usual < _ALIKE else bottom - top
        style = Style(round(0.8 * height, 1), bold=False, fixed=False)
        y = (top + bottom) / 2 + 0.3 * style.size
        first = (right - left) * len(text.split(" ")[0]) / max(len(text), 1)
        if text.strip():
            found.append(Line(text.strip(), left, right, y, style, False, first, position, frame, number))
    return found


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 1})
