"""LlamaIndex's node postprocessor."""

import pytest
from bridges import QUESTION, TEXTS
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import ValidationError

from cogltx import ConfigError
from cogltx.integrations.llama_index import CogLTXPostprocessor


def nodes() -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(text=text, id_=str(number)), score=0.5) for number, text in enumerate([*TEXTS, ""])
    ]


def test_nodes_are_ordered_and_shortened(model: str) -> None:
    given = nodes()
    found = CogLTXPostprocessor(model=model, top_n=2, budget=30).postprocess_nodes(given, query_str=QUESTION)
    assert next(one.node.node_id for one in found) == "1"
    assert len(found) == 2
    assert "Ilse Brandt designed the bridge in 1884." in found[0].text
    assert len(found[0].text) < len(TEXTS[1]) / 4
    assert found[0].score > found[1].score
    assert given[1].text == TEXTS[1]
    assert given[1].score == 0.5


def test_nodes_stay_whole_without_a_budget(model: str) -> None:
    found = CogLTXPostprocessor(model=model).postprocess_nodes(nodes(), query_str=QUESTION)
    assert {one.text for one in found} == {one.text for one in nodes()}
    with pytest.raises(ConfigError, match="needs the query"):
        CogLTXPostprocessor(model=model).postprocess_nodes(nodes())


def test_a_mistyped_option_is_refused(model: str) -> None:
    with pytest.raises(ValidationError, match="top_k"):
        CogLTXPostprocessor(model=model, top_k=2)  # type: ignore[call-arg]
    made = CogLTXPostprocessor(model=model, top_n=2)
    assert CogLTXPostprocessor.from_dict(made.to_dict()).top_n == 2
