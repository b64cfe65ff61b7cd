"""A server of the Model Context Protocol: a language model asks documents, and cites exact places of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from cogltx import __version__
from cogltx.display import sureness
from cogltx.document import Document, named_apart
from cogltx.errors import CogltxError, one_line
from cogltx.pipeline import CogLTX
from cogltx.prediction import Answer, Evidence

_MOST_CHARACTERS = 20_000  # of a passage
_MOST_HEADINGS = 100  # of a document
_MOST_JOINED = 8  # combinations of documents whose blocks are kept
_INSTRUCTIONS = """\
Documents that can be asked and searched. `ask` gives a short answer with its confidence; `recall` finds the passages
that matter for a question; `read_passage` reads around a place. Cite document, page or heading, and the exact text.
Characters count from 0 in the text of a document; the text of a place is exactly what is between start and end."""

_Question = Annotated[str, Field(description="A whole question rather than keywords.", max_length=4000)]
_Names = Annotated[list[str] | None, Field(description="Names of documents as in list_documents; null: all.")]


class Place(BaseModel):
    """A place in a document and its exact text."""

    document: str
    page: int | str | None = Field(description="Number or name of its page; null without pages.")
    heading: str = Field(description="Heading of its section; empty without one.")
    start: int
    end: int
    text: str


class Passage(Place):
    """A passage that was found for a question."""

    relevance: float


class Found(BaseModel):
    """The passages for a question, most relevant first."""

    passages: list[Passage]


class Candidate(BaseModel):
    """An answer; its place is null for yes and no."""

    answer: str
    confidence: float = Field(description="Probability that it is right.")
    place: Place | None


class Answered(BaseModel):
    """The answer to a question, or that there is none, with the passages that it rests on."""

    answer: str = Field(description="Empty if the documents have no answer.")
    confidence: float = Field(description="Probability that the answer, or that there is none, is right.")
    sureness: str = Field(description="The confidence in words.")
    place: Place | None = Field(description="Where the answer is; null for yes, no and no answer.")
    alternatives: list[Candidate]
    passages: list[Passage]


class Read(Place):
    """A part of a document."""

    continues: bool = Field(description="Whether the part that was asked for is longer; read on from its end.")


class Listed(BaseModel):
    """A document."""

    name: str
    characters: int
    pages: list[int | str] = Field(description="First and last page; empty without pages.")
    headings: list[str] = Field(description=f"The first {_MOST_HEADINGS} headings.")
    notes: list[str] = Field(description="What could not be read.")


class Documents(BaseModel):
    """All documents."""

    documents: list[Listed]


class _Library:
    """Documents by their names, and the model that reads them, one question at a time."""

    def __init__(self, reader: CogLTX, documents: Sequence[Document]) -> None:
        named = [one if one.id else replace(one, id="document") for one in documents]
        self.reader, self.documents = reader, {one.id: one for one in named_apart(named)}
        join = lru_cache(_MOST_JOINED)
        self._joined = join(lambda *names: Document.joined([self.documents[name] for name in names]))
        self._lock = Lock()

    def list_documents(self) -> Documents:
        """List the documents with their sizes, pages and headings."""
        return Documents(documents=[_listed(one) for one in self.documents.values()])

    def ask(self, question: _Question, documents: _Names = None) -> Answered:
        """Answer a question from the documents, with the exact place of the answer and the passages around it."""
        with self._reading():
            joined = self._together(documents)
            prediction = self.reader.predict(joined, question)
        best = Answer(prediction.answer, prediction.start, prediction.end, 0.0, prediction.document)
        alternatives = [
            Candidate(answer=one.text, confidence=one.confidence, place=self._place(one, joined))
            for one in prediction.alternatives
        ]
        answer_first = sorted(prediction.evidence, key=lambda block: not _holds(block, best))
        return Answered(
            answer=prediction.answer, confidence=prediction.confidence, sureness=sureness(prediction.confidence),
            place=self._place(best, joined), alternatives=alternatives,
            passages=[self._passage(one, joined) for one in answer_first],
        )  # fmt: skip

    def recall(self, question: _Question, documents: _Names = None) -> Found:
        """Find the passages that matter for a question, without an answer."""
        with self._reading():
            joined = self._together(documents)
            blocks = [block.within(joined) for block in self.reader.recall(joined, question).evidence]
        return Found(passages=[self._passage(one, joined) for one in blocks])

    def read_passage(
        self,
        document: Annotated[str, Field(description="Name of the document.")],
        start: Annotated[int | None, Field(ge=0, description="First character; null: the beginning.")] = None,
        end: Annotated[int | None, Field(ge=1, description="One past the last character; null: the end.")] = None,
        page: Annotated[int | str | None, Field(description="A page in place of start and end.")] = None,
    ) -> Read:
        """Read a part of a document by its characters or its page, at most 20,000 characters at once."""
        [one] = self._named([document])
        if page is not None and (start, end) != (None, None):
            raise ToolError("give either a page, or start and end")
        first, last = (start or 0, end or len(one.text)) if page is None else _page_span(one, page)
        if not first < min(last, len(one.text)):
            raise ToolError(f"{document} has {len(one.text):,} characters; none is in {first}:{last}")
        last = min(last, len(one.text))
        shown = min(last, first + _MOST_CHARACTERS)
        return Read(**_described(one, first, shown), continues=shown < last)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read alone, and translate what is wrong with a request for the language model."""
        try:
            with self._lock:
                yield
        except CogltxError as error:
            raise ToolError(one_line(" ".join(str(error).split()))) from None

    def _named(self, names: Sequence[str]) -> list[Document]:
        unknown = [name for name in names if name not in self.documents]
        if unknown:
            raise ToolError(one_line(f"no document {unknown[0]!r}; there are: {', '.join(self.documents)}"))
        return [self.documents[name] for name in dict.fromkeys(names)]

    def _together(self, names: Sequence[str] | None) -> Document:
        """Return one document, or one joined from several, whose blocks the model keeps."""
        if names is not None and not names:
            raise ToolError("documents is empty; leave it out to search all")
        documents = self._named(list(self.documents) if names is None else names)
        return documents[0] if len(documents) == 1 else self._joined(*(one.id for one in documents))

    def _passage(self, block: Evidence, joined: Document) -> Passage:
        return Passage(**_described(self._of(block, joined), block.start, block.end), relevance=block.score)

    def _place(self, answer: Answer, joined: Document) -> Place | None:
        if answer.start is None or answer.end is None:
            return None
        return Place(**_described(self._of(answer, joined), answer.start, answer.end))

    def _of(self, found: Answer | Evidence, joined: Document) -> Document:
        return self.documents[found.document or joined.id]


def make_server(reader: CogLTX, documents: Sequence[Document]) -> MCPServer:
    """Create a server whose tools list, ask, search and read documents."""
    library = _Library(reader, documents)
    server = MCPServer("cogltx", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING")
    for tool in (library.list_documents, library.ask, library.recall, library.read_passage):
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    return server


def _described(document: Document, start: int, end: int) -> dict[str, Any]:
    return {
        "document": document.id, "page": document.page(start), "heading": document.heading(start), "start": start,
        "end": end, "text": document.text[start:end],
    }  # fmt: skip


def _listed(document: Document) -> Listed:
    numbers = [number for _, number in document.pages]
    return Listed(
        name=document.id, characters=len(document.text), pages=[numbers[0], numbers[-1]] if numbers else [],
        headings=list(dict.fromkeys(filter(None, (part.heading for part in document.segments))))[:_MOST_HEADINGS],
        notes=list(document.notes),
    )  # fmt: skip


def _page_span(document: Document, page: int | str) -> tuple[int, int]:
    """Find the characters of a page by its number or name."""
    if not document.pages:
        raise ToolError(one_line(f"{document.id} has no pages; give start and end"))
    ends = [*(first for first, _ in document.pages[1:]), len(document.text)]
    for (first, number), last in zip(document.pages, ends, strict=True):
        if str(number).lower() == str(page).strip().lower():
            return first, last
    numbers = f"{document.pages[0][1]} to {document.pages[-1][1]}"
    raise ToolError(one_line(f"{document.id} has no page {page!r}; its pages are {numbers}"))


def _holds(block: Evidence, answer: Answer) -> bool:
    start = answer.start
    return start is not None and block.document == answer.document and block.start <= start < block.end
