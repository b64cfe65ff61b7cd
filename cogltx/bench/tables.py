"""The tables that every measurement prints: aligned text, or Markdown."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], *, markdown: bool = False) -> str:
    """Format rows, the first of which has the headings; the first column is aligned left, the others right.

    >>> print(table([["", "f1"], ["CogLTX", "81.5"]]))
              f1
    CogLTX  81.5
    >>> print(table([["", "f1"], ["CogLTX", "81.5"]], markdown=True))
    |  | f1 |
    |---|---:|
    | CogLTX | 81.5 |
    """
    if markdown:
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], f"|---|{'---:|' * (len(rows[0]) - 1)}", *lines[1:]])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join(lines)
