"""Blocks: text cut into runs of at most B tokens by dynamic programming (CogLTX §3.1)."""

from cogltx.blocks._tokenizer import BUNDLED, load_tokenizer, save_tokenizer
from cogltx.blocks._tokens import encode, has_token, has_words
from cogltx.blocks.blocks import AnyQuery, Block, BlockQuery, Blocks
from cogltx.blocks.splitter import MIN_BLOCK_TOKENS, split

__all__ = [
    "BUNDLED",
    "MIN_BLOCK_TOKENS",
    "AnyQuery",
    "Block",
    "BlockQuery",
    "Blocks",
    "encode",
    "has_token",
    "has_words",
    "load_tokenizer",
    "save_tokenizer",
    "split",
]
