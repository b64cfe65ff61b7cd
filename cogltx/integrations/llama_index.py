"""LlamaIndex: a node postprocessor, a retriever of passages, and a text splitter."""

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.node_parser import TextSplitter
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, NodeWithScore, QueryBundle, TextNode
from pydantic import ConfigDict

from cogltx._folders import DEFAULT_MODEL
from cogltx.errors import ConfigError
from cogltx.integrations._shared import CHUNK_TOKENS, TOKENIZER, Corpus, pieces, ranked


class CogLTXPostprocessor(BaseNodePostprocessor):
    """Ranks nodes of any length by their relevance, and optionally shortens them to the relevant passages.

    Nodes without text, such as pictures, come last.

    Attributes:
        model: a name (also of the Hugging Face hub), a run, or a model folder.
        top_n: maximum number of nodes; None keeps all.
        budget: tokens of each node's text to keep, or the share, up to 1.0; None keeps nodes whole.
        metadata_mode: metadata that is ranked together with the text, such as ``MetadataMode.EMBED``.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = DEFAULT_MODEL
    top_n: int | None = None
    budget: int | float | None = None
    metadata_mode: MetadataMode = MetadataMode.NONE

    @classmethod
    def class_name(cls) -> str:
        """The name of the component."""
        return "CogLTXPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise ConfigError("CogLTXPostprocessor needs the query")
        bodies = [_text(one.node) for one in nodes]
        texts = [
            one.node.get_content(self.metadata_mode) if body else "" for one, body in zip(nodes, bodies, strict=True)
        ]
        best = []
        for index, score, text in ranked(self.model, query_bundle.query_str, texts, self.top_n, self.budget, bodies):
            node = nodes[index].node
            if text != bodies[index]:
                node = node.model_copy()
                node.set_content(text)
            best.append(NodeWithScore(node=node, score=score))
        return best

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._postprocess_nodes, nodes, query_bundle)


class CogLTXRetriever(BaseRetriever):
    """Finds the passages that matter for a query in documents or nodes of any length, which are searched together.

    Args:
        nodes: where to search; those without text are left out.
        model: a name (also of the Hugging Face hub), a run, or a model folder.
        top_k: maximum number of passages; None: all that fit one window of the model.
        metadata_mode: metadata of a node that the model sees as the heading of its passages.
    """

    def __init__(
        self,
        nodes: Sequence[BaseNode],
        model: str = DEFAULT_MODEL,
        top_k: int | None = None,
        metadata_mode: MetadataMode = MetadataMode.NONE,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._nodes, self._top_k = list(nodes), top_k
        headings = [" ".join(node.get_metadata_str(metadata_mode).split()) for node in self._nodes]
        self._corpus = Corpus(model, [_text(node) for node in self._nodes], headings)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Find passages, best first, as nodes with their characters in the node that they come from."""
        found = []
        for number, passage in self._corpus.search(query_bundle.query_str, self._top_k):
            source = self._nodes[number]
            node = TextNode(
                text=passage.text, metadata=dict(source.metadata), start_char_idx=passage.start,
                end_char_idx=passage.end, relationships={NodeRelationship.SOURCE: source.as_related_node_info()},
                excluded_embed_metadata_keys=source.excluded_embed_metadata_keys,
                excluded_llm_metadata_keys=source.excluded_llm_metadata_keys,
            )  # fmt: skip
            found.append(NodeWithScore(node=node, score=passage.score))
        return found

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class CogLTXSplitter(TextSplitter):
    """Splits documents at the ends of paragraphs, sentences and clauses, by dynamic programming, without overlap.

    Attributes:
        max_tokens: of a node.
        tokenizer: the name of an encoder, whose tokens count.
    """

    max_tokens: int = CHUNK_TOKENS
    tokenizer: str = TOKENIZER

    @classmethod
    def class_name(cls) -> str:
        """The name of the component."""
        return "CogLTXSplitter"

    def split_text(self, text: str) -> list[str]:
        """Split a text into exact slices, without the white space between them."""
        return [text[start:end] for start, end in pieces(text, self.max_tokens, self.tokenizer)]


def _text(node: BaseNode) -> str:
    """Return the text of a node; empty if it has none, or only white space."""
    text = node.get_content(MetadataMode.NONE)
    return text if text.strip() else ""
