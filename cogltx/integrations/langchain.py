"""LangChain: a document compressor, for ``ContextualCompressionRetriever`` and by itself."""

from collections.abc import Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from pydantic import ConfigDict

from cogltx._folders import DEFAULT_MODEL
from cogltx.integrations.compress import ranked


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
