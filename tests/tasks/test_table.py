"""Tables of questions as spreadsheets save them, and what is wrong with others in one line."""

import gzip
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx.errors import DataError
from cogltx.tasks._table import GivenQuestion, read_questions


def table(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def short(question: GivenQuestion) -> tuple[str, str, str, list[str]]:
    return question.id, question.text, question.document, [answer.text for answer in question.answers]


WANTED = [("2", "Who, when; why?", "a.pdf", ["Bo", "Bo Ek"]), ("3", "Where?", "a.pdf", [""])]


@pytest.mark.parametrize(
    "content",
    [
        'question,answer,answer 2,document\n"Who, when; why?",Bo,Bo Ek,a.pdf\nWhere?,,,a.pdf\n',
        '\ufeffQuestion;Answer 1;Answer 2;Document\r\n"Who, when; why?";Bo;Bo Ek;a.pdf\r\nWhere?;;;a.pdf\r\n',
        "QUESTION\tanswer_1\tanswer_2\tFile name\nWho, when; why?\tBo\tBo Ek\ta.pdf\nWhere?\t\t\ta.pdf\n\t\t\t\n",
        'answers|answers|query|doc\nBo|Bo Ek|"Who, when; why?"|a.pdf\n||Where?|a.pdf',
        'question,answer,document,answer,,\n"Who, when;  why?",Bo,a.pdf, Bo Ek ,,\nWhere?,,a.pdf\n',
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_separators_and_encodings(tmp_path: Path, content: str, encoding: str) -> None:
    raw = content.lstrip("\ufeff").encode("utf-16") if encoding == "utf-16" else content.encode()
    assert list(map(short, read_questions(table(tmp_path, raw)))) == WANTED
    assert list(map(short, read_questions(table(tmp_path, gzip.compress(raw), "t.tsv.gz")))) == WANTED


def test_an_encoding_that_is_not_stated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "question;answer\nWie groß ist die Brücke?;fünf Meter, schön gemessen\nWer mißt?;Jürgen Möller, der Müller\n"
    first, second = read_questions(table(tmp_path, text.encode("cp1252")))
    assert (first.answers[0].text, second.answers[0].text) == (
        "fünf Meter, schön gemessen",
        "Jürgen Möller, der Müller",
    )
    assert caplog.messages == [f"{tmp_path / 't.csv'}: read as windows-1252 (not stated in the file)"]


def test_a_separator_that_the_file_states(tmp_path: Path) -> None:
    (question,) = read_questions(table(tmp_path, "sep=:\nquestion:answer\na,b;c:d\n"))
    assert short(question) == ("3", "a,b;c", "", ["d"])


def test_rows_of_one_question_are_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = (
        'question,answer,document,page,evidence,Who wrote it\nA?,x,d,3,"more\nlines",me\nB?,y,d\nA?,z,d,4\nA?,x,e\n'
    )
    with caplog.at_level(logging.INFO):
        first, second, third = read_questions(table(tmp_path, content))
    assert (short(first), short(second), short(third)) == (
        ("2", "A?", "d", ["x", "z"]), ("4", "B?", "d", ["y"]), ("6", "A?", "e", ["x"])
    )  # fmt: skip
    assert [(answer.line, answer.page, answer.evidence) for answer in first.answers] == [
        (2, "3", "more\nlines"),
        (5, "4", ""),
    ]
    assert caplog.messages == [f"{tmp_path / 't.csv'}: columns that are not used: Who wrote it"]
    (named,) = read_questions(table(tmp_path, "id,question,answer\nq7,A?,x\nq7,A?,y\n"))
    assert short(named) == ("q7", "A?", "", ["x", "y"])


CELL = st.text(st.sampled_from("ab,;\t|\"'\n é猫\u2028\x0b"), max_size=6).map(str.strip)


@given(rows=st.lists(st.tuples(CELL.filter(bool), CELL), min_size=1, max_size=4, unique_by=lambda row: " ".join(row[0].split())),
       separator=st.sampled_from(",;\t|"))  # fmt: skip
def test_cells_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], separator: str) -> None:
    quoted = [separator.join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) for row in rows]
    path = table(tmp_path_factory.mktemp("table"), f"question{separator}answer\r\n" + "\r\n".join(quoted))
    found = [(question.text, question.answers[0].text) for question in read_questions(path)]
    assert found == [(" ".join(text.split()), answer) for text, answer in rows]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "t.csv: no column 'question' in the first row; its cells are "),
        ("question\nA?\n", "t.csv: no column 'answer' in the first row; its cells are 'question'"),
        ("Frage;Antwort\nA?;b\n", "t.csv: no column 'question' in the first row; its cells are "),
        ("question,answer\n", "t.csv: the table has no questions"),
        ("question,answer\nA?,b\n,c\n", "t.csv:3: the row has no question"),
        ("question,question,answer\n", "t.csv: two columns for 'question' in the first row"),
        (
            "question,answer\nA?,b,c\n",
            "t.csv:2: 3 cells, but the first row has 2; put cells with the separator in quotes",
        ),
        (
            'question,answer\nA?,"b\nC?,d\nE?,f\n',
            "t.csv:2: not a row of CSV (unexpected end of data); check its quotes",
        ),
        ('question,answer\nA?,b\n"a"b,c\n', "t.csv:3: not a row of CSV (',' expected after '\"'); check its quotes"),
        ("question,answer\nA?,b\nA?,\n", "t.csv:3: the question has an answer in only one of the lines 2 and 3"),
        ("id,question,answer\n1,A?,b\n1,C?,d\n", "t.csv:3: the id '1' is already used for another question"),
        (b"question,answer\nA?,\xff\xfe\x81\n", "t.csv: line 2: not UTF-8 (byte 0xff), and no other encoding is sure"),
    ],
)
def test_wrong_tables(tmp_path: Path, content: str | bytes, expected: str) -> None:
    with pytest.raises(DataError) as error:
        read_questions(table(tmp_path, content))
    assert str(error.value).startswith(f"{tmp_path}/{expected}")
    assert "\n" not in str(error.value)


def test_a_line_whose_number_is_the_id_of_another(tmp_path: Path) -> None:
    found = read_questions(table(tmp_path, "id,question,answer\n3,A?,b\n,C?,d\n,E?,f\n"))
    assert [question.id for question in found] == ["3", "line 3", "4"]


def test_other_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.xlsx: save the table as CSV \(UTF-8\)$"):
        read_questions(table(tmp_path, b"PK", "t.xlsx"))
    with pytest.raises(DataError, match=r"none\.csv: file not found"):
        read_questions(tmp_path / "none.csv")
