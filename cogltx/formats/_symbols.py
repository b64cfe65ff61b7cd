"""Private characters of symbol fonts as those of Unicode: Adobe's Symbol encoding, and the usual signs of Wingdings.

Office files and PDF files write the character with the code 0xB3 of such a font as U+F0B3.
"""

import re


def _signs(first: int, signs: str) -> dict[str, str]:
    return {chr(code): sign for code, sign in enumerate(signs, first)}


_PIECES = {  # of large brackets
    **_signs(0xF0E6, "⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪"), "\uf0f4": "⎮", **_signs(0xF0F6, "⎞⎟⎠⎤⎥⎦⎫⎬⎭"),
    **_signs(0xF8EB, "⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪⎮⎞⎟⎠⎤⎥⎦⎫⎬⎭"), "\uf8e5": "‾", "\uf8e6": "⏐", "\uf8e7": "⎯",
}  # fmt: skip
_SYMBOL = {
    **_signs(0xF020, " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"),
    **_signs(0xF0A0, "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…"), "\uf0f1": "⟩", "\uf0f2": "∫", "\uf0f3": "∫",
    **_signs(0xF0BF, "↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑"), **_signs(0xF8E8, "®©™"), "\uf6be": "ȷ",
    "\ue083": "+", "\ue09e": "(", "\ue09f": ")",  # of OpenSymbol, in formulas
}  # fmt: skip
_UNKNOWN = {**_SYMBOL, "\uf0a7": "▪", "\uf076": "❖"}  # bullets of Wingdings are more common than ♣ and ϖ
_FONTS = {
    "symbol": _SYMBOL,
    "wingdings": {
        **_signs(0xF0DF, "←→↑↓"), **_signs(0xF0FB, "✗✓☒☑"), "\uf028": "☎", "\uf02a": "✉", "\uf046": "☞", "\uf06c": "●",
        "\uf06e": "■", "\uf06f": "□", "\uf071": "❑", "\uf075": "◆", "\uf076": "❖", "\uf09f": "•", "\uf0a7": "▪",
        "\uf0a8": "◻", "\uf0ab": "★", "\uf0d8": "➢", "\uf0e8": "➔", "\uf0f0": "⇨",
    },
    "wingdings 2": {**_signs(0xF04F, "✗✓☒☑☒"), "\uf0a3": "☐"},
    "wingdings 3": {},
    "webdings": {},
}  # fmt: skip
_PRIVATE = re.compile("[\uf020-\uf0ff\uf8e5-\uf8fe\uf6be\ue083\ue09e\ue09f]")


def plain(text: str, font: str = "") -> str:
    """Replace private characters; pieces of large brackets, and signs that are not known, are left out.

    >>> plain("\\uf0b3 5 \\uf06dg"), plain("\\uf0fc", "Wingdings"), plain("\\uf8eb1\\uf8f6")
    ('≥ 5 μg', '✓', '1')
    """
    signs = _FONTS.get(font.lower(), _UNKNOWN)
    return _PRIVATE.sub(lambda match: signs.get(match[0], ""), text)


def one_by_one(text: str) -> str:
    """Replace private characters, each by one, as the layout of a PDF page needs them."""
    return _PRIVATE.sub(lambda match: _PIECES.get(match[0]) or _UNKNOWN.get(match[0], match[0]), text)


def character(code: int, font: str) -> str:
    """The character with a code of a font; empty if it is private and the font is not known."""
    if font.lower() in _FONTS:
        return plain(chr(0xF000 | code & 0xFF), font)
    return "" if code >= 0xE000 else chr(code)
