"""Requests and responses of the server.

Reranking has the forms of several APIs. The form follows from the fields: ``texts`` is that of
text-embeddings-inference; ``documents`` that of Cohere, Jina and vLLM, and with ``raw_scores`` that of Infinity. A
field that cannot be honoured is an error.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

from cogltx.prediction import Evidence

Question = Annotated[str, Field(min_length=1, max_length=4000, examples=["Who designed the bridge?"])]
Text = Annotated[str, Field(min_length=1, examples=["The bridge was designed by Ilse Brandt. It opened in 1932."])]
Id = Annotated[str, Field(min_length=1, max_length=64)]
MOST_TEXTS = 10_000
_WHOLE = "texts of any length are read whole; max_tokens_per_doc limits what is read of each"
_NOTHING_CUT = "Accepted; texts of any length are read whole, so nothing is cut."
_INVALID = object()
_Flag = bool | None  # some clients send null for a default


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


def _has(key: str) -> Discriminator:
    """Discriminate between two forms of a request by a key, so that messages are about one of them."""
    return Discriminator(lambda given: "<a>" if isinstance(given, dict) and key in given else "<b>")


def _asked(given: Any) -> str | None:
    """Tell by its key what a question is about; None if it has both keys or none."""
    keys = [key for key in ("documents", "text") if key in given] if isinstance(given, dict) else ["text"]
    return f"<{keys[0]}>" if len(keys) == 1 else None


Ask = Annotated[
    Annotated[AskDocuments, Tag("<documents>")] | Annotated[AskText, Tag("<text>")],
    Discriminator(_asked, custom_error_type="asked", custom_error_message="give text or documents, one of them"),
]


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


def _because(reason: str) -> WrapValidator:
    """Give the reason in place of the message about a value that is not allowed."""

    def check(value: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            valid = validate(value)
        except ValidationError:
            valid = _INVALID
        if type(valid) is not type(value):  # such as 0.0 in place of false
            raise PydanticCustomError("refused", "{reason}", {"reason": reason})
        return valid

    return WrapValidator(check)


_Item = Annotated[str | dict[str, Any], _because('a document is a text, or an object such as {"text": "…"}')]


class _Ranking(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)  # false is no number

    query: Question
    model: str | None = Field(None, description="Any name; the server has one model.")
    raw_scores: _Flag = Field(None, description="Log-odds of the relevance in place of the relevance in [0, 1].")
    top_n: int | None = Field(None, ge=0, description="Number of results, best first; 0 or null: all.")


class RerankTexts(_Ranking):
    """Texts of any length to rank, in the form of text-embeddings-inference."""

    texts: list[str] = Field(min_length=1, max_length=MOST_TEXTS, examples=[["Rain fell.", "Ilse Brandt designed it."]])
    return_text: _Flag = None
    truncate: _Flag = Field(None, description=_NOTHING_CUT)
    truncation_direction: Literal["Left", "Right", "left", "right"] | None = Field(None, description=_NOTHING_CUT)


class RerankDocuments(_Ranking):
    """Documents of any length to rank, in the form of Cohere, Jina, vLLM, and with ``raw_scores`` of Infinity."""

    documents: list[_Item] = Field(
        min_length=1, max_length=MOST_TEXTS, examples=[["Rain fell.", "Ilse Brandt designed it."]]
    )
    rank_fields: list[str] | None = Field(
        None, min_length=1, description='Fields of documents that are objects, joined in this order; "text" by default.'
    )
    top_k: int | None = Field(None, ge=0, description="Another name of top_n.")
    return_documents: _Flag = None
    max_tokens_per_doc: int | None = Field(None, ge=1, description="Read so many tokens of each document; null: all.")
    use_activation: _Flag = Field(None, description="false is another name of raw_scores (vLLM).")
    truncation: _Flag = Field(None, description=_NOTHING_CUT)
    user: str | None = Field(None, description="Accepted; nothing depends on it.")
    priority: Annotated[Literal[0] | None, _because("requests take turns, without priorities; only 0")] = None
    max_chunks_per_doc: Annotated[None, _because(_WHOLE)] = None
    max_doc_length: Annotated[None, _because(_WHOLE)] = None
    truncate_prompt_tokens: Annotated[Literal[-1] | None, _because(_WHOLE)] = None
    return_embeddings: Annotated[Literal[False] | None, _because("relevance has no embeddings to return")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if None not in (self.top_n, self.top_k) and self.top_n != self.top_k:
            raise PydanticCustomError("refused", "top_n and top_k are names of the same number, but differ")
        if self.raw_scores is not None and self.use_activation is not None and self.raw_scores is self.use_activation:
            raise PydanticCustomError("refused", "raw_scores and use_activation contradict each other")
        for number in range(len(self.documents)):
            self._text(number)
        return self

    @property
    def texts(self) -> list[str]:
        """The text of each document."""
        return [self._text(number) for number in range(len(self.documents))]

    def _text(self, number: int) -> str:
        """Return the text of a document, of which an object has several fields."""
        document, fields = self.documents[number], self.rank_fields or ["text"]
        if isinstance(document, str):
            if self.rank_fields:
                raise _refusal(number, "rank_fields needs objects, but this document is a text")
            return document
        values = [document[name] for name in fields if name in document]
        if not values:
            raise _refusal(number, f"the object has no field {', '.join(fields)}")
        if not all(isinstance(value, str) for value in values):
            raise _refusal(number, f"a field that is ranked ({', '.join(fields)}) is not a text")
        return "\n".join(values)


def _refusal(number: int, reason: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "documents.{number}: {reason}", {"number": number, "reason": reason})


Rerank = Annotated[Annotated[RerankTexts, Tag("<a>")] | Annotated[RerankDocuments, Tag("<b>")], _has("texts")]


class RerankedText(BaseModel):
    """A text of the request by its position, with its relevance in [0, 1]; the best comes first."""

    index: int
    score: float
    text: str | None = None


class RerankedDocument(BaseModel):
    """A document of the request by its position, with its relevance in [0, 1]."""

    index: int
    relevance_score: float
    document: dict[str, Any] | str | None = None


class Usage(BaseModel):
    """Tokens of the query and of all documents, each once, by the tokenizer of the model."""

    prompt_tokens: int
    total_tokens: int


class Version(BaseModel):
    """The version of Cohere's API."""

    version: str


class BilledUnits(BaseModel):
    """Units in Cohere's sense: one per search of up to 100 documents."""

    search_units: int


class Tokens(BaseModel):
    """Tokens, as in ``Usage``."""

    input_tokens: int
    output_tokens: int = 0


class Meta(BaseModel):
    """Fields of a response that Cohere's clients read besides the results."""

    api_version: Version
    billed_units: BilledUnits
    tokens: Tokens


class Reranked(BaseModel):
    """The ranked documents, best first."""

    id: str
    object: Literal["list", "rerank"]
    created: int = Field(description="Seconds since 1970.")
    model: str
    results: list[RerankedDocument]
    usage: Usage
    meta: Meta
