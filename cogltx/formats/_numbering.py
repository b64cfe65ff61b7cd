"""Automatic numbers of Word's paragraphs: the styles of lists, and counters per list and level."""

import re
from collections import defaultdict
from dataclasses import dataclass

from lxml import etree

from cogltx.formats import _inline as inline
from cogltx.formats._xml import attribute

_STYLES = {
    "lowerLetter": "aa", "upperLetter": "AA", "lowerRoman": "i", "upperRoman": "I", "decimalZero": "01",
    "ordinal": "1st", "chineseCounting": "一", "chineseCountingThousand": "一", "japaneseCounting": "一",
    "ideographDigital": "一",
    "taiwaneseCounting": "一", "taiwaneseCountingThousand": "一", "koreanDigital2": "一",
}  # fmt: skip
_WITHOUT = ("bullet", "none")
_LEVEL = re.compile(r"%([1-9])")


@dataclass(frozen=True)
class _Level:
    """Format of the numbers of one level of a list."""

    start: int
    format: str
    text: str
    restarts: bool
    is_legal: bool  # all numbers of the text are Arabic

    def number(self, value: int) -> str:
        return "" if self.format in _WITHOUT else inline.number(value, _STYLES.get(self.format, "1"))


class Numbering:
    """Counts the numbered paragraphs of a document."""

    def __init__(self, part: etree._Element | None) -> None:
        self._levels: dict[str, dict[int, _Level]] = {}  # of each list
        self._lists: dict[str, str] = {}  # the kind of each list, which shares its counters
        self._starts: dict[tuple[str, int], int] = {}  # of lists that begin anew, until they have begun
        self._counters: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self.levels_of_styles: dict[tuple[str, str], int] = {}
        if part is not None:
            kinds = {attribute(kind, "abstractNumId"): kind for kind in part.iterfind("{*}abstractNum")}
            links = {value(kind, "styleLink"): kind for kind in kinds.values()}
            for one in part.iterfind("{*}num"):
                self._add(one, kinds, links)

    def _add(self, one: etree._Element, kinds: dict[str, etree._Element], links: dict[str, etree._Element]) -> None:
        id, kind_id = attribute(one, "numId"), value(one, "abstractNumId")
        kind = kinds.get(kind_id)
        if kind is None:
            return
        kind = links.get(value(kind, "numStyleLink") or "-", kind)
        self._lists[id] = kind_id
        levels = [*kind.iterfind("{*}lvl"), *one.iterfind("{*}lvlOverride/{*}lvl")]
        self._levels[id] = {_integer(attribute(level, "ilvl")): _level(level) for level in levels}
        for level in levels:
            if style := value(level, "pStyle"):
                self.levels_of_styles[id, style] = _integer(attribute(level, "ilvl"))
        for override in one.iterfind("{*}lvlOverride"):
            if start := value(override, "startOverride"):
                self._starts[id, _integer(attribute(override, "ilvl"))] = _integer(start)

    def label(self, id: str, level: int) -> str:
        """The number of the next paragraph of a list and level, as a reader sees it; empty for bullets."""
        levels = self._levels.get(id, {})
        if level not in levels:
            return ""
        counters = self._counters[self._lists[id]]
        start = self._starts.pop((id, level), None)
        begins = level not in counters or start is not None
        counters[level] = (levels[level].start if start is None else start) if begins else counters[level] + 1
        for deeper in [one for one in counters if one > level and (one not in levels or levels[one].restarts)]:
            del counters[deeper]

        def number(match: re.Match[str]) -> str:
            one = int(match[1]) - 1
            if one not in levels:
                return ""
            count = counters.setdefault(one, levels[one].start)
            return str(count) if levels[level].is_legal else levels[one].number(count)

        shown = "" if levels[level].format == "bullet" else _LEVEL.sub(number, levels[level].text)
        return f"{shown.strip()} " if shown.strip() else ""


def value(element: etree._Element, name: str) -> str:
    """The value of a property of an element, by its name or path; empty without it."""
    child = element.find(f"{{*}}{name}")
    return attribute(child, "val") if child is not None else ""


def _integer(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else 0


def _level(level: etree._Element) -> _Level:
    return _Level(
        start=_integer(value(level, "start")),
        format=value(level, "numFmt") or "decimal",
        text=value(level, "lvlText"),
        restarts=value(level, "lvlRestart") != "0",
        is_legal=level.find("{*}isLgl") is not None,
    )
