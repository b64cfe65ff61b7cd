"""Formulas as linear text, such as ``x^2/(a+b)``: MathML, Word's formulas (OMML) and TeX."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.entities import html5

from lxml import etree

from cogltx.formats._xml import local

MARK = "[formula]"  # where a formula cannot be read
_INVISIBLE = dict.fromkeys(range(0x2061, 0x2065))  # operators that are not printed
_SINGLE = re.compile(r"[-−]?[\w.,∞^]*|\([^()]*\)")
_NO_TEXT = frozenset("annotation annotation-xml mphantom phant ctrlPr".split())
_OMML = {  # the operands of each kind of formula, as MathML has them
    "f": ("mfrac", "num den"), "sSup": ("msup", "e sup"), "sSub": ("msub", "e sub"), "rad": ("mroot", "e deg"),
    "sSubSup": ("msubsup", "e sub sup"), "limLow": ("munder", "e lim"), "limUpp": ("mover", "e lim"),
}  # fmt: skip
_TEX = re.compile(r"\\([a-zA-Z]+\*?|.)|([{}^_&])|([^\\{}^_&])", re.DOTALL)
_TEX_SIGNS = {
    "infty": "∞", "cdot": "·", "cdots": "…", "ldots": "…", "dots": "…", "partial": "∂", "neq": "≠", "to": "→",
    "circ": "∘", "epsilon": "ε", "phi": "φ", "mid": "|", "in": "∈", "star": "*", "ast": "*", "prime": "'", "vert": "|",
    "Vert": "‖", "\\": "; ",
    **dict.fromkeys([*"quad qquad , ; :".split(), " "], " "),
    **{name: f"{name} " for name in "sin cos tan log ln exp det mod".split()},
    **{name: name for name in "lim max min sup inf gcd".split()},
    **dict.fromkeys("left right big Big bigl bigr limits bar hat vec dot rm bf it tt sf !".split(), ""),
}  # fmt: skip
_TEX_FRACTIONS = frozenset("frac dfrac tfrac cfrac".split())
_TEX_LEFT_OUT = frozenset("begin end label tag hspace vspace phantom color".split())


def mathml(element: etree._Element) -> str:
    """Text of a ``math`` element, else of its TeX source, else a mark."""
    text = _safely(element)
    if not text:
        sources = (node.text for node in element.iter("{*}annotation") if "tex" in node.get("encoding", ""))
        text = tex(element.get("alttext") or next(sources, None) or "")
    return text or MARK


def omml(element: etree._Element) -> str:
    """Text of an ``oMath`` element, else a mark."""
    return _safely(element) or MARK


def tex(source: str) -> str:
    r"""Text of a formula of TeX.

    >>> tex(r"\frac{x^2}{a+b} \leq \sqrt{\alpha_{i}}")
    'x^2/(a+b) ≤ sqrt(α_i)'
    """
    tokens = iter(_TEX.findall(source))
    try:
        return " ".join(_tex_group(tokens).split())
    except RecursionError:
        return MARK


def _safely(element: etree._Element) -> str:
    try:
        return " ".join(_text(element).translate(_INVISIBLE).split())
    except RecursionError:
        return ""


def _text(element: etree._Element) -> str:
    """Text of a part of a formula."""
    name = local(element.tag)
    if name in _NO_TEXT or (name.endswith("Pr") and name != "Pr"):
        return ""
    if name in _OMML:
        name, operands = _OMML[name]
        return _combined(name, [_joined(_named(element, operand)) for operand in operands.split()])
    if name in _SPECIAL:
        return _SPECIAL[name](element)
    if name in _KINDS:
        return _combined(name, [_text(child) for child in element])
    if len(element) == 0:
        return (element.text or "").strip() if name.startswith("m") else element.text or ""
    return _joined(element)


def _named(element: etree._Element, name: str) -> Iterator[etree._Element]:
    return (child for child in element if local(child.tag) == name)


def _joined(elements: Iterable[etree._Element]) -> str:
    """Texts of parts side by side; names of several letters stay apart from letters."""
    line = ""
    for text in map(_text, elements):
        names = re.search(r"[^\W\d_]+\Z", line), re.match(r"[^\W\d_]+", text)
        apart = names[0] and names[1] and len(names[0][0]) + len(names[1][0]) > 2
        line += " " * bool(apart) + text
    return line


def _group(text: str) -> str:
    return text if _SINGLE.fullmatch(text) else f"({text})"


def _power(base: str, sign: str, text: str) -> str:
    return f"{base}{sign}{_group(text)}" if text else base


def _over(base: str, above: str) -> str:
    return base + above if len(above) == 1 and not above.isalnum() else _power(base, "^", above)


_KINDS: dict[str, Callable[..., str]] = {
    "mfrac": lambda a, b: f"{_group(a)}/{_group(b)}",
    "msup": lambda a, b: _power(_group(a) if "^" not in a else f"({a})", "^", b),
    "msub": lambda a, b: _power(a, "_", b),
    "munder": lambda a, b: _power(a, "_", b),
    "mover": _over,
    "msubsup": lambda a, b, c: _power(_power(a, "_", b), "^", c),
    "munderover": lambda a, b, c: _power(_power(a, "_", b), "^", c),
    "mroot": lambda a, b: f"{_group(a)}^(1/{_group(b)})" if b else f"sqrt({a})",
}


def _combined(name: str, parts: Sequence[str]) -> str:
    try:
        return _KINDS[name](*parts)
    except TypeError:  # too few or too many parts
        return "".join(parts)


def _value(element: etree._Element, name: str, default: str) -> str:
    """A property of a formula of Word, such as the sign of a sum."""
    all_properties = (child for child in element if local(child.tag).endswith("Pr"))
    found = next((child for properties in all_properties for child in _named(properties, name)), None)
    return default if found is None else next(iter(found.attrib.values()), "")


def _fenced(element: etree._Element) -> str:
    inner = (element.get("separators") or ",")[:1].join(map(_text, element))
    return f"{element.get('open', '(')}{inner}{element.get('close', ')')}"


def _delimited(element: etree._Element) -> str:
    inner = _value(element, "sepChr", "|").join(map(_text, _named(element, "e")))
    return f"{_value(element, 'begChr', '(')}{inner}{_value(element, 'endChr', ')')}"


def _nary(element: etree._Element) -> str:
    sub, sup, body = (_joined(_named(element, name)) for name in ("sub", "sup", "e"))
    return f"{_power(_power(_value(element, 'chr', '∫'), '_', sub), '^', sup)} {body}"


def _matrix(element: etree._Element) -> str:
    rows = (row for row in element if local(row.tag) in ("mtr", "mlabeledtr", "mr"))
    return "[" + "; ".join(", ".join(map(_text, row)) for row in rows) + "]"


_SPECIAL: dict[str, Callable[[etree._Element], str]] = {
    "semantics": lambda element: "".join(_text(child) for child in element[:1]),
    "msqrt": lambda element: f"sqrt({_joined(element)})",
    "mfenced": _fenced,
    "mtable": _matrix,
    "m": _matrix,
    "d": _delimited,
    "nary": _nary,
    "acc": lambda element: _over(_joined(_named(element, "e")), _value(element, "chr", "\u0302")),
    "eqArr": lambda element: "; ".join(map(_text, _named(element, "e"))),
    "mspace": lambda element: " ",
}


def _tex_group(tokens: Iterator[tuple[str, str, str]]) -> str:
    """Text of the tokens to the end of a group."""
    line = ""
    for command, sign, text in tokens:
        if sign == "}":
            break
        if sign in ("^", "_") and sign:
            line = _power(line.rstrip(), sign, _tex_argument(tokens))
        elif sign == "{":
            line += _tex_group(tokens)
        elif sign == "&":
            line += ", "
        elif command:
            line += _tex_command(command, tokens)
        else:
            line += text
    return line


def _tex_argument(tokens: Iterator[tuple[str, str, str]]) -> str:
    """Text of the next group, command or sign."""
    command, sign, text = next(tokens, ("", "", ""))
    if sign == "{":
        return _tex_group(tokens).strip()
    return _tex_command(command, tokens).strip() if command else text


def _tex_command(command: str, tokens: Iterator[tuple[str, str, str]]) -> str:
    if command in _TEX_FRACTIONS:
        above, below = _tex_argument(tokens), _tex_argument(tokens)
        return f"{_group(above)}/{_group(below)}"
    if command == "sqrt":
        return f"sqrt({_tex_argument(tokens)})"
    if command in _TEX_LEFT_OUT:
        _tex_argument(tokens)
        return ""
    if command in _TEX_SIGNS:
        return _TEX_SIGNS[command]
    return html5.get(f"{command};", "" if len(command) > 3 else command)
