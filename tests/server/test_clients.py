"""The clients of other servers, as they are installed, against this one in a process of its own.

Infinity's client needs an older httpx than the others, so its requests and the types that it expects are written here.
"""

import asyncio
import gc
from collections.abc import Iterator, Sequence
from typing import Any

import cohere
import httpx
import huggingface_hub
import openai
import pytest
from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference
from served import serve

QUESTION = "Who designed the bridge?"
TEXTS = ["Rain fell on the hills.", "Ilse Brandt designed the bridge in 1884.", "Snow fell."]
KEY = "s3cret"

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve("--api-key", KEY) as server:
        yield server.address.rstrip("/")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Collect connections that clients leave open, while their warnings are ignored."""
    yield
    gc.collect()


def is_right(results: Sequence[Any]) -> bool:
    """Check that the best of two results is the text with the answer."""
    values = [
        one if isinstance(one, dict) else {"index": one.index, "relevance_score": one.relevance_score}
        for one in results
    ]
    first, second = values
    return bool(first["index"] == 1 and first["relevance_score"] > 0.5 > second["relevance_score"])


def test_cohere(address: str) -> None:
    with cohere.Client(KEY, base_url=address) as client:
        given = client.rerank(model="rerank-v3.5", query=QUESTION, documents=TEXTS, top_n=2, return_documents=True)
        assert is_right(given.results)
        assert given.results[0].document.text == TEXTS[1]
        assert given.meta.billed_units.search_units == 1
        objects = [{"title": "A book", "text": text} for text in TEXTS]
        by_fields = client.rerank(
            model="rerank-v3.5", query=QUESTION, documents=objects, top_n=2, rank_fields=["title", "text"],
            return_documents=True,
        )  # fmt: skip
        assert is_right(by_fields.results)
        assert by_fields.results[0].document.title == "A book"
        with pytest.raises(cohere.UnprocessableEntityError, match="texts of any length are read whole"):
            client.rerank(model="rerank-v3.5", query=QUESTION, documents=TEXTS, max_chunks_per_doc=3)
    with cohere.Client("wrong", base_url=address) as stranger, pytest.raises(cohere.UnauthorizedError):
        stranger.rerank(model="rerank-v3.5", query=QUESTION, documents=TEXTS)


def test_cohere_v2(address: str) -> None:
    with cohere.ClientV2(KEY, base_url=address) as client:
        given = client.rerank(model="rerank-v3.5", query=QUESTION, documents=TEXTS, top_n=2, max_tokens_per_doc=100)
    assert is_right(given.results)
    assert given.meta.tokens.input_tokens > 10


def test_cohere_async(address: str) -> None:
    async def both() -> None:
        async with (
            cohere.AsyncClient(KEY, base_url=address) as first,
            cohere.AsyncClientV2(KEY, base_url=address) as second,
        ):
            request: Any = {"model": "rerank-v3.5", "query": QUESTION, "documents": TEXTS, "top_n": 2}
            for given in await asyncio.gather(first.rerank(**request), second.rerank(**request)):
                assert is_right(given.results)

    asyncio.run(both())


def test_langchain_cohere(address: str) -> None:
    reranker = CohereRerank(model="rerank-v3.5", base_url=address, cohere_api_key=KEY, top_n=2)
    found = reranker.compress_documents([Document(text) for text in TEXTS], QUESTION)
    assert found[0].page_content == TEXTS[1]
    assert found[0].metadata["relevance_score"] > 0.5
    reranker.client.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("provider", "base"),
    [("cohere", ""), ("jina_ai", ""), ("huggingface", ""), ("infinity", "/infinity"), ("hosted_vllm", ""), ("hosted_vllm", "/v1")],
)  # fmt: skip
def test_litellm(address: str, provider: str, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # prices from the network, otherwise
    import litellm  # takes three seconds

    given = litellm.rerank(
        model=f"{provider}/qa-minilm",
        query=QUESTION,
        documents=TEXTS,
        top_n=2,
        api_base=f"{address}{base}",
        api_key=KEY,
    )
    assert is_right(given.results)
    assert given.results[0]["document"]["text"] == TEXTS[1], "litellm asks for documents by default"


def test_llama_index(address: str) -> None:
    reranker = TextEmbeddingInference(base_url=address, top_n=2, auth_token=f"bearer {KEY}")
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in TEXTS]
    found = reranker.postprocess_nodes(nodes, query_str=QUESTION)
    assert found[0].text == TEXTS[1]
    assert found[0].score > 0.5 > found[1].score


def test_huggingface_hub(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)  # this machine only
    with huggingface_hub.InferenceClient(address, provider="hf-inference", token=KEY) as client:
        assert client.health_check()
        info = client.get_endpoint_info()
    assert info["model_id"] == "qa-minilm"
    assert "reranker" in info["model_type"]


def test_openai_lists_the_model(address: str) -> None:
    with openai.OpenAI(base_url=f"{address}/v1", api_key=KEY) as client:
        assert [model.id for model in client.models.list()] == ["qa-minilm"]
        assert client.models.retrieve("qa-minilm").owned_by == "cogltx"


@pytest.mark.parametrize("base", ["", "/infinity"])
def test_requests_of_infinity_client(address: str, base: str) -> None:
    body = {"query": QUESTION, "documents": TEXTS, "return_documents": True, "raw_scores": False,
            "model": "default/not-specified", "top_n": 2}  # fmt: skip
    given = httpx.post(f"{address}{base}/rerank", json=body, headers={"Authorization": f"Bearer {KEY}"}).json()
    assert is_right(given["results"])
    assert given["results"][0]["document"] == TEXTS[1]
    assert given["object"] == "rerank"
    assert {type(given[name]) for name in ("id", "model")} == {str}
    assert {type(value) for value in (given["created"], *given["usage"].values())} == {int}
    assert set(given["usage"]) == {"prompt_tokens", "total_tokens"}
