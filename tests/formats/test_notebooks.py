"""Jupyter notebooks: their cells, outputs and places."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cogltx.errors import DataError
from cogltx.formats import read_document

BRIDGE = "The Harbour Bridge was designed by the engineer Ilse Brandt."
MILL = "The mill on the river was sold in 1924 to the family Okoro."


def notebook(path: Path, cells: Sequence[dict[str, object]], **parts: object) -> Path:
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **parts}))
    return path


def code(source: str, *outputs: dict[str, object]) -> dict[str, object]:
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": source, "outputs": outputs}


def test_cells_of_a_notebook(tmp_path: Path) -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "iVBO", "text/plain": "<Figure size 640x480>"}}
    result = {"output_type": "execute_result", "data": {"text/plain": ["   metres\n", "0     503"]}, "metadata": {}}
    shown = {
        "output_type": "display_data",
        "data": {"text/html": "<p>Owner: <b>Okoro</b>", "text/plain": "<HTML object>"},
    }
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# The *bridge*\n", "\n", BRIDGE]},
        code("length = 503\nprint(length)", {"output_type": "stream", "name": "stdout", "text": ["503\n"]}, picture),
        code("show()", shown),
        code("table", result),
        code("1 / 0", {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": []}),
        {"cell_type": "markdown", "metadata": {}, "source": f"## Mills\n{MILL}"},
    ]  # fmt: skip
    document = read_document(notebook(tmp_path / "a.ipynb", cells))
    assert document.text == (
        f"The bridge\n\n{BRIDGE}\n\nlength = 503\nprint(length)\n\n503\n\nshow()\n\nOwner: Okoro\n\ntable\n\nmetres\n0     503\n\n"
        f"1 / 0\n\nZeroDivisionError: division by zero\n\nMills\n\n{MILL}"
    )
    assert [(one.heading, one.start) for one in document.segments] == [
        ("The bridge", 0),
        ("Mills", document.text.index("Mills")),
    ]
    assert document.page(document.text.index("503\n\nshow")) == "cell 2"
    assert document.page(document.text.index("ZeroDivision")) == "cell 5"
    assert document.page(document.text.index(MILL)) == "cell 6"


def test_a_notebook_of_the_third_format(tmp_path: Path) -> None:
    printed = {"output_type": "pyout", "text": ["\x1b[31m503\x1b[0m"]}
    sheet = {
        "cells": [
            {"cell_type": "heading", "level": 1, "source": "Bridges"},
            {
                "cell_type": "code",
                "input": ["length"],
                "outputs": [printed, {"output_type": "display_data", "png": "iVBO"}],
            },
        ]
    }
    (tmp_path / "a.ipynb").write_text(json.dumps({"worksheets": [sheet], "nbformat": 3}))
    assert read_document(tmp_path / "a.ipynb").text == "Bridges\n\nlength\n\n503"


@pytest.mark.parametrize(
    ("content", "wording"),
    [
        ("{}", r"a\.ipynb: not a notebook: it has no cells$"),
        ("[1]", r"a\.ipynb: not a notebook: it has no cells$"),
        ('{"cells": 1}', r"a\.ipynb: not a readable notebook \("),
        ('{"cells": [1]}', r"a\.ipynb: not a readable notebook \("),
        ("[" * 100_000, r"a\.ipynb: not a readable notebook \("),
        ('{"cells": [{"cell_type": "code", "source": ""}]}', r"a\.ipynb: the document has no text$"),
        ("cells", r"a\.ipynb: not a readable notebook \(Expecting value"),
    ],
)
def test_a_broken_notebook(tmp_path: Path, content: str, wording: str) -> None:
    (tmp_path / "a.ipynb").write_text(content)
    with pytest.raises(DataError, match=wording):
        read_document(tmp_path / "a.ipynb")
