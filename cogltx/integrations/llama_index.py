"""LlamaIndex: a node postprocessor."""

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from pydantic import ConfigDict

from cogltx._folders import DEFAULT_MODEL
from cogltx.errors import ConfigError
from cogltx.integrations.compress import ranked


class CogLTXPostprocessor(BaseNodePostprocessor):
    """Ranks nodes of any length by their relevance, and optionally shortens them to the relevant passages.

    Attributes:
        model: a name (also of the Hugging Face hub), a run, or a model folder.
        top_n: maximum number of nodes; None keeps all.
        budget: tokens of each node to keep, or the share, up to 1.0; None keeps nodes whole.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = DEFAULT_MODEL
    top_n: int | None = None
    budget: int | float | None = None

    @classmethod
    def class_name(cls) -> str:
        """The name of the component."""
        return "CogLTXPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise ConfigError("CogLTXPostprocessor needs the query")
        texts = [with_score.node.get_content(MetadataMode.NONE) for with_score in nodes]
        best = []
        for index, score, text in ranked(self.model, query_bundle.query_str, texts, self.top_n, self.budget):
            node = nodes[index].node
            if isinstance(node, TextNode) and text != texts[index]:
                node = node.model_copy(update={"text": text})
            best.append(NodeWithScore(node=node, score=score))
        return best
