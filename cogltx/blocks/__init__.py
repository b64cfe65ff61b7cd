"""Blocks: text cut into runs of at most B tokens by dynamic programming (CogLTX §3.1)."""

from cogltx.blocks.splitter import MIN_BLOCK_TOKENS, Asked, Block, BlockQuery, Blocks, relevance_labels, split

__all__ = ["MIN_BLOCK_TOKENS", "Asked", "Block", "BlockQuery", "Blocks", "relevance_labels", "split"]
