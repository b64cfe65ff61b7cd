"""LangChain: a document compressor, a retriever of passages, and a text splitter."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.retrievers import BaseRetriever
from langchain_text_splitters import TextSplitter
from pydantic import ConfigDict, PrivateAttr

from cogltx._folders import DEFAULT_MODEL
from cogltx.integrations._shared import CHUNK_TOKENS, TOKENIZER, Corpus, pieces, ranked


class CogLTXCompressor(BaseDocumentCompressor):
    """Ranks documents of any length by their relevance, and shortens them to the relevant passages.

    Attributes:
        model: a name (also of the Hugging Face hub), a run, or a model folder.
        top_n: maximum number of documents; None keeps all.
        budget: tokens of each document to keep, or the share, up to 1.0; None keeps documents whole.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = DEFAULT_MODEL
    top_n: int | None = None
    budget: int | float | None = 512

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Rank and shorten documents; their metadata gains ``relevance_score`` in [0, 1]."""
        texts = [document.page_content for document in documents]
        return [
            Document(
                id=documents[index].id,
                page_content=text,
                metadata={**documents[index].metadata, "relevance_score": score},
            )
            for index, score, text in ranked(self.model, query, texts, self.top_n, self.budget)
        ]


class CogLTXRetriever(BaseRetriever):
    """Finds the passages that matter for a query in documents of any length, which are searched together.

    Attributes:
        documents: where to search.
        model: a name (also of the Hugging Face hub), a run, or a model folder.
        top_k: maximum number of passages; None: all that fit one window of the model.
    """

    model_config = ConfigDict(extra="forbid")

    documents: list[Document]
    model: str = DEFAULT_MODEL
    top_k: int | None = None
    _corpus: Corpus = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Prepare the search."""
        super().model_post_init(context)
        self._corpus = Corpus(self.model, [document.page_content for document in self.documents])

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        """Find passages, best first; metadata gains ``relevance_score``, and ``start_index`` in the document."""
        return [
            Document(
                page_content=passage.text,
                metadata={
                    **self.documents[number].metadata,
                    "relevance_score": passage.score,
                    "start_index": passage.start,
                },
            )
            for number, passage in self._corpus.search(query, self.top_k)
        ]


class CogLTXSplitter(TextSplitter):
    """Splits texts at the ends of paragraphs, sentences and clauses, by dynamic programming, without overlap.

    Args:
        max_tokens: of a piece.
        tokenizer: the name of an encoder, whose tokens count.
        add_start_index: let metadata gain ``start_index``.
    """

    def __init__(
        self, max_tokens: int = CHUNK_TOKENS, *, tokenizer: str = TOKENIZER, add_start_index: bool = False
    ) -> None:
        super().__init__(chunk_size=max_tokens, chunk_overlap=0, add_start_index=add_start_index)
        self._tokenizer = tokenizer

    def split_text(self, text: str) -> list[str]:
        """Split a text into exact slices, without the white space between them."""
        return [text[start:end] for start, end in pieces(text, self._chunk_size, self._tokenizer)]
