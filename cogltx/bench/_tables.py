"""The Markdown tables that every measurement prints, with footnotes."""

from collections.abc import Sequence
from statistics import fmean

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows, the first of which has the headings; the first column is aligned left, the others right.

    >>> print(table([["", "f1"], ["CogLTX", "81.5"]]))
    |  | f1 |
    |---|---:|
    | CogLTX | 81.5 |
    """
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|---|{'---:|' * (len(rows[0]) - 1)}", *lines[1:]])


def spread(values: Sequence[float | None], digits: int = 1) -> str:
    """Format the mean of some numbers and half their range; `–` if none is defined.

    >>> spread([51.9, 53.9]), spread([1234.2], digits=0), spread([None])
    ('52.9 ± 1.0', '1,234', '–')
    """
    defined = [value for value in values if value is not None]
    if not defined:
        return "–"
    mean = f"{fmean(defined):,.{digits}f}"
    return f"{mean} ± {(max(defined) - min(defined)) / 2:,.{digits}f}" if len(defined) > 1 else mean


class Notes:
    """Footnotes, numbered in the order of their first use.

    >>> notes = Notes()
    >>> notes.mark("trained on a GPU"), notes.mark("one seed"), notes.mark("trained on a GPU"), notes.lines
    ('¹', '²', '¹', ['¹ trained on a GPU', '² one seed'])
    """

    def __init__(self) -> None:
        self._texts: list[str] = []

    def mark(self, text: str) -> str:
        """Return the mark of a footnote."""
        if text not in self._texts:
            self._texts.append(text)
        return str(self._texts.index(text) + 1).translate(_SUPERSCRIPTS)

    @property
    def lines(self) -> list[str]:
        """The footnotes with their marks."""
        return [f"{self.mark(text)} {text}" for text in self._texts]
