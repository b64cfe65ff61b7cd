"""The components of LlamaIndex, by themselves and in a query engine."""

import asyncio

import pytest
from bridges import FILLER, QUESTION, TEXTS
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import Document, ImageNode, MetadataMode, NodeWithScore, TextNode
from pydantic import ValidationError

from cogltx import ConfigError
from cogltx.integrations.llama_index import CogLTXPostprocessor, CogLTXRetriever, CogLTXSplitter


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


def test_documents_are_shortened_and_pictures_come_last(model: str) -> None:
    given = [ImageNode(image_path="a.png"), Document(text=TEXTS[1], metadata={"number": 1}), TextNode(text=" \n")]
    nodes = [NodeWithScore(node=node) for node in given]
    found = CogLTXPostprocessor(model=model, budget=30).postprocess_nodes(nodes, query_str=QUESTION)
    assert isinstance(found[0].node, Document)
    assert found[0].node.metadata == {"number": 1}
    assert "Ilse Brandt designed the bridge in 1884." in found[0].node.get_content()
    assert len(found[0].node.get_content()) < len(TEXTS[1]) / 4
    assert given[1].get_content() == TEXTS[1]
    assert [one.score for one in found[1:]] == [0.0, 0.0]
    assert (
        asyncio.run(CogLTXPostprocessor(model=model, budget=30).apostprocess_nodes(nodes, query_str=QUESTION)) == found
    )


def test_metadata_counts_where_it_is_wanted(model: str) -> None:
    nodes = [
        NodeWithScore(node=TextNode(text="It was of stone.", metadata={"about": about}, excluded_llm_metadata_keys=["about"]))
        for about in ("weather", "who designed the bridge")
    ]  # fmt: skip
    scores = {
        mode: [one.score for one in CogLTXPostprocessor(model=model, metadata_mode=mode).postprocess_nodes(nodes, query_str=QUESTION)]
        for mode in MetadataMode
    }  # fmt: skip
    for mode in (MetadataMode.NONE, MetadataMode.LLM):
        assert scores[mode][0] == scores[mode][1]
    for mode in (MetadataMode.ALL, MetadataMode.EMBED):
        assert scores[mode][0] > scores[mode][1]
    made = CogLTXPostprocessor(model=model, metadata_mode=MetadataMode.EMBED)
    assert CogLTXPostprocessor.from_dict(made.to_dict()).metadata_mode is MetadataMode.EMBED
    with_budget = CogLTXPostprocessor(model=model, metadata_mode=MetadataMode.ALL, budget=100)
    assert {one.text for one in with_budget.postprocess_nodes(nodes, query_str=QUESTION)} == {"It was of stone."}


def test_passages_are_retrieved_from_nodes_and_documents(model: str) -> None:
    given = [
        Document(text=TEXTS[0]),
        TextNode(text=TEXTS[1], metadata={"name": "b"}),
        ImageNode(image_path="a.png"),
        TextNode(text=""),
    ]
    found = CogLTXRetriever(given, model).retrieve(QUESTION)
    best = found[0].node
    assert "Ilse Brandt designed the bridge in 1884." in best.text
    assert (best.metadata, best.source_node.node_id) == ({"name": "b"}, given[1].node_id)
    for one in found:
        [source] = [node for node in given if node.node_id == one.node.source_node.node_id]
        assert source.get_content()[one.node.start_char_idx : one.node.end_char_idx] == one.node.text
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    places = [(one.node.source_node.node_id, one.node.start_char_idx) for one in found]
    again = asyncio.run(CogLTXRetriever(given, model, top_k=2).aretrieve(QUESTION))
    assert [(one.node.source_node.node_id, one.node.start_char_idx) for one in again] == places[:2]
    assert CogLTXRetriever([given[2]], model).retrieve(QUESTION) == []
    assert CogLTXRetriever(given, model).retrieve(f"{QUESTION} {FILLER * 100}"), "a long query is cut"


def test_metadata_is_the_heading_of_passages(model: str) -> None:
    given = [TextNode(text="It was of stone.", metadata={"about": about}) for about in ("weather", "the bridge")]
    best = CogLTXRetriever(given, model, metadata_mode=MetadataMode.ALL).retrieve("bridge")[0]
    assert (best.node.text, best.node.source_node.node_id) == ("It was of stone.", given[1].node_id)


def test_documents_are_split_at_sentences() -> None:
    document = Document(text=TEXTS[1], metadata={"name": "b"})
    nodes = IngestionPipeline(transformations=[CogLTXSplitter(max_tokens=40)]).run(
        documents=[document, Document(text="")]
    )
    assert len(nodes) > 5
    for node in nodes:
        assert document.text[node.start_char_idx : node.end_char_idx] == node.text
        assert (node.metadata["name"], node.source_node.node_id) == ("b", document.node_id)
        assert node.text.endswith(".")
    assert "".join("".join(node.text.split()) for node in nodes) == "".join(TEXTS[1].split())


def test_a_query_engine_from_splitting_to_a_prompt(model: str) -> None:
    nodes = CogLTXSplitter(max_tokens=64).get_nodes_from_documents([Document(text=text) for text in TEXTS])
    engine = RetrieverQueryEngine.from_args(
        CogLTXRetriever(nodes, model, top_k=4), llm=MockLLM(),
        node_postprocessors=[CogLTXPostprocessor(model=model, top_n=1)],
    )  # fmt: skip
    answer = engine.query(QUESTION)
    assert len(answer.source_nodes) == 1
    assert "Ilse Brandt designed the bridge in 1884." in str(answer)
