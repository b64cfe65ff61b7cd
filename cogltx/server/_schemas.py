"""Requests and responses of the server."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from cogltx.prediction import Evidence

Question = Annotated[str, Field(min_length=1, max_length=4000, examples=["Who designed the bridge?"])]
Text = Annotated[str, Field(min_length=1, examples=["The bridge was designed by Ilse Brandt. It opened in 1932."])]
Id = Annotated[str, Field(min_length=1, max_length=64)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AskText(_Request):
    """A question about a text."""

    question: Question
    text: Text


class AskDocuments(_Request):
    """A question about documents that were uploaded before; several are searched together."""

    question: Question
    documents: list[Id] = Field(min_length=1, max_length=100, examples=[["Xb2Vn0cQ5sJk1a9d"]])


def has(key: str) -> Discriminator:
    """Discriminate between two forms of a request by a key, so that messages are about one of them."""
    return Discriminator(lambda given: "<a>" if isinstance(given, dict) and key in given else "<b>")


Ask = Annotated[Annotated[AskDocuments, Tag("<a>")] | Annotated[AskText, Tag("<b>")], has("documents")]


class NewDocument(_Request):
    """A text to ask about."""

    text: Text
    name: str = Field("text", min_length=1, max_length=200, description="Names the document in answers.")


class HeldDocument(BaseModel):
    """A document that the server holds."""

    id: str
    name: str
    characters: int
    pages: int | None = Field(description="Number of pages; null for formats without pages.")
    kind: Literal["pdf", "text"] = Field(description="Whether the server draws its pages.")
    notes: list[str] = Field(description="What could not be read, a line each.")
    prepared: float = Field(description="Share that is prepared for questions, in [0, 1].")


class Outline(BaseModel):
    """First characters of the pages, and spans of the sections, of a document."""

    pages: list[tuple[int, int | str]] = Field(description="First character and number or name of each page.")
    segments: list[tuple[int, int, str]] = Field(description="Start, end and heading of each section.")


class PageSize(BaseModel):
    """A page of a PDF file, in points (1/72 inch)."""

    number: int
    width: float
    height: float


class PrintedLine(BaseModel):
    """A printed line of a page: its characters in the text, and its box in points from the upper left corner."""

    start: int
    end: int
    text: str
    box: tuple[float, float, float, float] = Field(description="Left, top, right and bottom.")


class KeyBlocks(BaseModel):
    """The key blocks of documents for a question, highest score first."""

    blocks: list[Evidence]


class Health(BaseModel):
    """The state of the server."""

    status: str
    model: str
    version: str


class Problem(BaseModel):
    """An error, for programs and for people."""

    type: str
    message: str


class Failure(BaseModel):
    """The body of every response that is not a success."""

    error: Problem
