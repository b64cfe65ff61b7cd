"""Form values and annotations of a PDF page."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from cogltx.formats._pdf_lines import Line
from cogltx.formats._pdf_words import Frame, Style, to_shown

_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD = 1 << 13
_SIZE = 10.0  # type size in points of what has none
_BOXES = {pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON}
_VALUES = {pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX}
_COMMENTS = {pdfium.FPDF_ANNOT_FREETEXT, pdfium.FPDF_ANNOT_TEXT, pdfium.FPDF_ANNOT_STAMP}


def filled_in(page: pypdfium2.PdfPage, number: int, printed: Sequence[Line]) -> list[Line]:
    """Return the values of fields and the texts of annotations, as lines at their places among the printed ones."""
    frame, shown = Frame(0, *page.get_size()), to_shown(page)
    found: list[Line] = []
    for index in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        try:
            if annotation and not pdfium.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
                box = _box(annotation, shown)
                texts = _texts(page, annotation, _has_label(box, printed))
                found += _lines(texts, box, frame, number, printed)
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    return found


def _texts(page: pypdfium2.PdfPage, annotation: Any, has_label: bool) -> list[str]:
    """Return the lines of an annotation's text; none for links and the like."""
    kind = pdfium.FPDFAnnot_GetSubtype(annotation)
    if kind in _COMMENTS:
        return _read(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents").splitlines()
    form = page.formenv
    if kind != pdfium.FPDF_ANNOT_WIDGET or form is None:
        return []
    field = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    name = _read(pdfium.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    name = name or _read(pdfium.FPDFAnnot_GetFormFieldName, form, annotation)
    label = "" if has_label or not name else f"{name}: "
    if field in _BOXES:
        return [label + ("☑" if pdfium.FPDFAnnot_IsChecked(form, annotation) else "☐")]
    if field not in _VALUES or pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return []
    value = _read(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation).splitlines()
    return [label + value[0], *value[1:]] if value else []


def _read(function: Callable[..., int], *arguments: Any) -> str:
    """Call a function of pdfium that writes UTF-16 text into a buffer."""
    size = function(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0").strip()


def _box(annotation: Any, shown: Callable[[float, float], tuple[float, float]]) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom on the page as shown."""
    rectangle = pdfium.FS_RECTF()
    pdfium.FPDFAnnot_GetRect(annotation, rectangle)
    (x0, y0), (x1, y1) = shown(rectangle.left, rectangle.top), shown(rectangle.right, rectangle.bottom)
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def _has_label(box: tuple[float, float, float, float], printed: Sequence[Line]) -> bool:
    """Check for printed text beside or just above a field."""
    left, top, right, bottom = box
    return any(
        top - 2 < line.y < bottom + 2
        or (line.left < right and left < line.right and top - 2 * line.size < line.y < top)
        for line in printed
    )


def _lines(
    texts: Sequence[str], box: tuple[float, float, float, float], frame: Frame, number: int, printed: Sequence[Line]
) -> Iterator[Line]:
    left, top, right, bottom = box
    size = min(_SIZE, 0.8 * (bottom - top) / max(len(texts), 1)) or _SIZE
    first = (top + bottom) / 2 + 0.35 * size if len(texts) == 1 else top + size
    beside = [line for line in printed if top < line.y < bottom + 2 and line.frame == frame]
    if beside and len(texts) == 1:  # on the baseline of its label
        nearest = min(beside, key=lambda line: min(abs(line.right - left), abs(line.left - right)))
        first, size = nearest.y, nearest.size
    for row, text in enumerate(texts):
        if text.strip():
            style = Style(round(size, 1), False, False)
            y = first + 1.2 * size * row
            yield Line(text.strip(), left, right, y, style, False, 0.0, 1 << 30, frame, number, is_alone=True)
