"""Excel files, by openpyxl: the rows of visible sheets, with values as displayed, and the results of formulas."""

import re
import warnings
from datetime import date, datetime, time, timedelta
from io import BytesIO
from typing import Any

import openpyxl

from cogltx.formats import _tables as tables
from cogltx.formats._office import open_zip
from cogltx.formats._sections import Sections

_NOT_SHOWN = re.compile(r'"([^"]*)"|\\(.)|\[(?:\$([^\]-]*))?[^\]]*\]|_.|\*.')  # texts, currencies, colours, widths
_SCIENTIFIC = re.compile(r"[0#]E[+-]")
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.([0#?]+),*)?")  # commas at the end divide by thousands


def read(content: bytes) -> Sections:
    """Read an Excel file."""
    sections = Sections()
    open_zip(content).close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about drawings and other parts without text
        book = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True)
        for sheet in book.worksheets:
            if sheet.sheet_state == "visible":
                sheet.reset_dimensions()
                sections.heading(sheet.title)
                rows = ([_shown(cell.value, cell) for cell in row] for row in sheet.iter_rows())
                tables.add_sheet(sections, enumerate(rows, start=1), sheet.title)
    return sections


def _shown(value: Any, cell: Any) -> str:
    """A value as the sheet displays it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        has_time = value.time() != time() or "h" in cell.number_format.lower()
        return value.isoformat(" ", "minutes") if has_time else value.date().isoformat()
    if isinstance(value, date | time | timedelta):
        return str(value)
    return _number(value, cell.number_format or "") if isinstance(value, int | float) else str(value)


def _number(value: float, code: str) -> str:
    """A number in a format of Excel: its decimals, thousands, percents and currencies.

    >>> _number(1234.5, '#,##0.00 "EUR"'), _number(0.256, "0.0%"), _number(3.0, "General"), _number(-2, "0;(0)")
    ('1,234.50 EUR', '25.6%', '3', '(2)')
    >>> _number(1234567, '0.0,"k"'), _number(5000000, '#,##0,," M"')
    ('1234.6k', '5 M')
    """
    sections = code.split(";")
    is_negative = value < 0 and len(sections) > 1 and bool(sections[1])
    code = sections[1] if is_negative else sections[0]
    shown = _NOT_SHOWN.sub(lambda match: match[1] or match[2] or match[3] or "", code)
    digits = _DIGITS.search(shown)
    if digits is None or _SCIENTIFIC.search(shown) or "/" in shown or shown in ("General", "@"):
        return f"{value:.15g}"
    whole_part = digits[0].rstrip(",")
    factor = (100.0 if "%" in shown else 1.0) / 1000.0 ** (len(digits[0]) - len(whole_part))
    decimals, thousands = len(digits[1] or ""), "," if "," in whole_part else ""
    least = len((digits[1] or "").rstrip("#?"))
    number = f"{(abs(value) if is_negative else value) * factor:{thousands}.{decimals}f}"
    if least < decimals:
        whole, _, rest = number.partition(".")
        number = f"{whole}.{rest[:least]}{rest[least:].rstrip('0')}".rstrip(".")
    return f"{shown[: digits.start()]}{number}{shown[digits.end() :]}".strip()
