"""LangChain: a document compressor, for ``ContextualCompressionRetriever`` and by itself."""

from collections.abc import Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from pydantic import ConfigDict

from cogltx.integrations.compress import DEFAULT_MODEL, cached_model, compress


class CogLTXCompressor(BaseDocumentCompressor):
    """Orders documents of any length by their relevance, and shortens them to the relevant passages.

    Attributes:
        model: a name (also of the Hugging Face hub), a run, or a model folder.
        top_n: number of documents at most; None keeps all.
        budget: tokens of each document to keep, or the share, up to 1.0; None keeps documents whole.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = DEFAULT_MODEL
    top_n: int | None = None
    budget: int | float | None = 512

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Rank and shorten documents; their metadata gains ``relevance_score`` in [0, 1].

        Args:
            documents: documents of any length.
            query: the question.
            callbacks: not used.
        """
        reader = cached_model(self.model)
        scores = reader.relevance(query, [one.page_content for one in documents])
        order = sorted(range(len(documents)), key=lambda i: -scores[i])[: self.top_n]
        return [
            Document(
                id=documents[i].id,
                page_content=documents[i].page_content
                if self.budget is None or not documents[i].page_content.strip()
                else compress(documents[i].page_content, query, self.budget, model=reader),
                metadata={**documents[i].metadata, "relevance_score": scores[i]},
            )
            for i in order
        ]
