"""Tiny encoders for the tests: a real fast tokenizer and a random two-layer model for each architecture.

They have the shape of the real ones (special tokens, position offsets, how offsets treat spaces, which
inputs the model takes), built in process in well under a second. They have learned nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex as TokenRegex
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModel, AutoModelForQuestionAnswering, PreTrainedTokenizerFast

CORPUS = (
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.",
    "In 1969 the first people walked on the Moon; 12 people have walked there since.",
    "Who wrote the report? Anna Karlsson wrote it in Stockholm (Sweden), on 3 May 2014.",
    "What is the capital of France? Paris is the capital and the largest city of France.",
    "A question asks for a fact; the answer is a piece of the text, and the evidence says why.",
    "The film was directed by John Smith and released in the United States in 1998.",
    'She said: "Prices rose by 4.5% to $1,200 per tonne" - that\'s a record [see page 7].',
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu omicron pi rho sigma tau",
    "yes no noise filler word words sentence paragraph heading title document block window key judge",
    "Le café était fermé à Noël; Zürich, São Paulo, Łódź, naïve, façade, señor.",
    "巴黎是法国的首都。谁写了这份报告?",
    "باريس هي عاصمة فرنسا. من كتب هذا التقرير؟",
    "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 .,;:!?'\"()[]{}<>-_/\\@#$%^&*+=|~`",
)
"""What the vocabularies are made from: Latin with accents, digits, punctuation, Chinese, Arabic; no emoji."""

BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA_TOKENS = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
DEBERTA_TOKENS = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "unk": "[UNK]", "mask": "[MASK]"}
MODERNBERT_TOKENS = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}

WITH_TYPES = ("input_ids", "token_type_ids", "attention_mask")
WITHOUT_TYPES = ("input_ids", "attention_mask")

HIDDEN = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What sets one architecture apart. The order of `special` gives the tokens their ids."""

    model_type: str
    algorithm: str
    special: dict[str, str]
    inputs: Sequence[str] = WITHOUT_TYPES
    positions_after_padding: bool = False
    config: dict[str, Any]


ARCHITECTURES = {
    "bert": Architecture(
        model_type="bert", algorithm="wordpiece", special=BERT_TOKENS, inputs=WITH_TYPES, config=HIDDEN
    ),
    "roberta": Architecture(
        model_type="roberta",
        algorithm="bytes",
        special=ROBERTA_TOKENS,
        positions_after_padding=True,
        config=HIDDEN | {"type_vocab_size": 1},
    ),
    "deberta": Architecture(
        model_type="deberta-v2",
        algorithm="unigram",
        special=DEBERTA_TOKENS,
        inputs=WITH_TYPES,
        config=HIDDEN
        | {
            "type_vocab_size": 0,
            "position_biased_input": False,
            "relative_attention": True,
            "position_buckets": 16,
            "pos_att_type": ["p2c", "c2p"],
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
        },
    ),
    "electra": Architecture(
        model_type="electra",
        algorithm="wordpiece",
        special=BERT_TOKENS,
        inputs=WITH_TYPES,
        config=HIDDEN | {"embedding_size": 16},
    ),
    "modernbert": Architecture(
        model_type="modernbert",
        algorithm="bytes",
        special=MODERNBERT_TOKENS,
        config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "embedding_dropout": 0.0,
            "mlp_dropout": 0.0,
            "attention_dropout": 0.0,
            "global_attn_every_n_layers": 2,
            "local_attention": 32,
        },
    ),
    "distilbert": Architecture(
        model_type="distilbert",
        algorithm="wordpiece",
        special=BERT_TOKENS,
        config={
            "dim": 32,
            "n_layers": 2,
            "n_heads": 2,
            "hidden_dim": 64,
            "dropout": 0.0,
            "attention_dropout": 0.0,
        },
    ),
    "xlm-roberta": Architecture(
        model_type="xlm-roberta",
        algorithm="unigram",
        special=ROBERTA_TOKENS,
        positions_after_padding=True,
        config=HIDDEN | {"type_vocab_size": 1},
    ),
}


def make_encoder(
    folder: Path,
    architecture: str = "bert",
    *,
    max_positions: int = 512,
    texts: Iterable[str] | None = None,
    seed: int = 0,
) -> Path:
    """Write a tiny encoder and its tokenizer to a folder that `AutoModel` and `AutoTokenizer` load.

    Args:
        folder: where to write; made if missing.
        architecture: one of `ARCHITECTURES`.
        max_positions: how many tokens a window may have.
        texts: more text for the vocabulary to know; the small corpus above alone if not given.
        seed: of the random weights. The global random state is left as it was.

    Returns:
        The folder.
    """
    kind = ARCHITECTURES[architecture]
    tokenizer = make_tokenizer(architecture, max_positions=max_positions, texts=texts)
    token_ids = {
        "pad_token_id": tokenizer.pad_token_id,
        "cls_token_id": tokenizer.cls_token_id,
        "sep_token_id": tokenizer.sep_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
    }
    config = AutoConfig.for_model(
        kind.model_type,
        vocab_size=len(tokenizer),
        max_position_embeddings=max_positions + (tokenizer.pad_token_id + 1 if kind.positions_after_padding else 0),
        initializer_range=0.1,
        **token_ids,
        **kind.config,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModel.from_config(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)


def make_question_answering(folder: Path, architecture: str = "bert") -> Path:
    """Write a tiny question answering model with random weights, as `transformers` saves one."""
    make_encoder(folder, architecture)
    model = AutoModelForQuestionAnswering.from_config(AutoConfig.from_pretrained(folder))
    if hasattr(model, "qa_outputs"):
        torch.nn.init.normal_(model.qa_outputs.weight)  # answers differ more than with small weights
    model.save_pretrained(folder)
    return folder


def make_tokenizer(
    architecture: str = "bert", *, max_positions: int = 512, texts: Iterable[str] | None = None
) -> PreTrainedTokenizerFast:
    """Make the fast tokenizer of an architecture from the small corpus and any more texts."""
    kind = ARCHITECTURES[architecture]
    build = {"wordpiece": _wordpiece, "bytes": _bytes, "unigram": _unigram}[kind.algorithm]
    tokenizer = build([*CORPUS, *(texts or ())], list(kind.special.values()), kind.special["unk"])
    cls, sep = kind.special["cls"], kind.special["sep"]
    ids = [(token, tokenizer.token_to_id(token)) for token in (cls, sep)]
    if architecture == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(
            ids[1], ids[0], trim_offsets=True, add_prefix_space=False
        )
    else:
        middle = f"{sep} {sep}" if architecture == "xlm-roberta" else sep
        second = 1 if "token_type_ids" in kind.inputs else 0
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{cls} $A {sep}",
            pair=f"{cls} $A {middle} $B:{second} {sep}:{second}",
            special_tokens=ids,
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_positions,
        model_input_names=list(kind.inputs),
        clean_up_tokenization_spaces=False,
        **{f"{name}_token": token for name, token in kind.special.items()},
    )


def _wordpiece(texts: list[str], special: list[str], unknown: str) -> Tokenizer:
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words, characters = _words(texts, normalizer, splitter)
    pieces = dict.fromkeys([*special, *characters, *(f"##{character}" for character in characters), *words])
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _unigram(texts: list[str], special: list[str], unknown: str) -> Tokenizer:
    normalizer = normalizers.Sequence(
        [
            normalizers.Replace(TokenRegex(r"\s{2,}|[\n\r\t]"), " "),
            normalizers.NFC(),
            normalizers.Strip(left=False, right=True),
        ]
    )
    splitter = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    words, characters = _words(texts, normalizer, splitter)
    pieces = dict.fromkeys([*special, *characters, *words])
    scores = [(piece, 0.0 if piece in special else -10.0) for piece in pieces]  # the fewest pieces win
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=special.index(unknown), byte_fallback=False))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return tokenizer


def _words(
    texts: list[str], normalizer: normalizers.Normalizer, splitter: pre_tokenizers.PreTokenizer
) -> tuple[list[str], list[str]]:
    """All words and all characters of the texts, in order: the library's trainers are not repeatable."""
    split_texts = (splitter.pre_tokenize_str(normalizer.normalize_str(text)) for text in texts)
    words = dict.fromkeys(word for text in split_texts for word, _ in text)
    return list(words), list(dict.fromkeys("".join(words)))


def _bytes(texts: list[str], special: list[str], unknown: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
