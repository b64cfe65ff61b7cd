"""The cost of every cut in a run of tokens, and the cheapest cuts by dynamic programming (CogLTX §3.1).

The cost of a cut:

    0  after a line break
    1  after a sentence end: . ? ! before white space, a closing quote or bracket, or the end of the text;
       。？！ anywhere
    2  after a clause end: , ; : likewise; ，；：、 anywhere; a space in Thai, Lao, Khmer and Burmese
    8  at any other token boundary between two words

Every block costs 4 more. No cut is inside a word, unless the word is longer than B tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import UInt8

from cogltx.blocks._characters import SPACES, among, code_points, scans
from cogltx.blocks._script import UNSPACED, joined, kinds
from cogltx.errors import ConfigError

BLOCK_COST, LINE_COST, SENTENCE_COST, CLAUSE_COST, WORD_COST = 4, 0, 1, 2, 8


def _set(characters: str) -> np.ndarray:
    return np.array(sorted(map(ord, characters)), dtype=np.uint32)


_LINE_BREAKS = _set("\n\r\v\f\x85\u2028\u2029")
_CLOSERS = _set("\"')]}»”’›」』】》〉）］｝＂＇")
_SENTENCE_ENDS, _WIDE_SENTENCE_ENDS = _set(".?!"), _set("。？！｡．؟۔।॥։።‼⁇⁈⁉။។៕།")
_CLAUSE_ENDS, _WIDE_CLAUSE_ENDS = _set(",;:"), _set("，；：、､،؛﹐﹑﹔﹕၊")
_END_OF_TEXT, _FIRST_CHINESE = 0xFFFFFFFF, 0x2E80
_INSIDE_WORD, _INSIDE_CHARACTER = 254, 255
_CUT_TOKENS, _ORIGIN_STEPS = 1 << 14, 1 << 12


def cut_costs(
    text: str, starts: np.ndarray, ends: np.ndarray, segment_ends: Sequence[int], max_tokens: int
) -> UInt8[np.ndarray, " tokens"]:
    """Compute the cost of a cut after every token; 254 and 255 forbid a cut inside a word or a character."""
    costs = np.empty(len(starts), dtype=np.uint8)
    for first, last, start, end in scans(text, starts, ends):
        characters = np.append(code_points(text, start, end), np.uint32(_END_OF_TEXT))
        token_starts, after = starts[first:last] - start, ends[first:last] - start
        following = np.append(starts[first + 1 : last + 1], ends[-1:])[: last - first] - start
        costs[first:last] = _boundary_costs(characters, token_starts, after, following)
    costs[np.array([last for last in segment_ends if last]) - 1] = LINE_COST  # no word crosses a segment
    return _allow_cuts_in_long_words(costs, max_tokens)


def _boundary_costs(characters: np.ndarray, starts: np.ndarray, after: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Compute the costs of the boundaries after tokens ``starts:after``; the next tokens begin at ``following``."""
    mark = characters[np.maximum(after - 1, 0)]
    mark = np.where(after > starts, mark, np.uint32(0))
    beyond = characters[np.minimum(after, len(characters) - 1)]
    breaks = among(characters, _LINE_BREAKS)
    breaks[:-1] &= ~((characters[:-1] == ord("\r")) & (characters[1:] == ord("\n")))
    lines = np.concatenate([[0], np.cumsum(breaks)])
    spaces = np.concatenate([[0], np.cumsum(among(characters, SPACES))])
    free = among(beyond, SPACES) | (beyond == _END_OF_TEXT)
    closing = free | among(beyond, _CLOSERS)
    gap = np.maximum(following, after)
    of_character = np.append(kinds(characters[:-1]), np.uint8(0))
    left = np.where(after > starts, of_character[np.maximum(after - 1, 0)], np.uint8(0))
    right = of_character[np.minimum(following, len(characters) - 1)]
    apart = (spaces[gap] > spaces[after]) | (((left | right) & UNSPACED) != 0) & ~joined(left, right)
    costs = np.where(apart | free, WORD_COST, _INSIDE_WORD)
    phrase = ((left & UNSPACED) != 0) & (mark < _FIRST_CHINESE) & among(beyond, SPACES)
    clause = among(mark, _WIDE_CLAUSE_ENDS) | among(mark, _CLAUSE_ENDS) & closing | phrase
    costs = np.where(clause, CLAUSE_COST, costs)
    costs = np.where(among(mark, _WIDE_SENTENCE_ENDS) | among(mark, _SENTENCE_ENDS) & closing, SENTENCE_COST, costs)
    costs = np.where(lines[gap] > lines[after], LINE_COST, costs)
    return np.where((following < after) | (following == starts), _INSIDE_CHARACTER, costs)


def _allow_cuts_in_long_words(costs: np.ndarray, max_tokens: int) -> np.ndarray:
    """Allow cuts between the characters of words with more than B tokens."""
    joined = costs >= _INSIDE_WORD
    edges = np.flatnonzero(np.diff(joined, prepend=False, append=False))
    for first, last in edges.reshape(-1, 2)[(edges[1::2] - edges[::2]) >= max_tokens]:
        word = costs[first:last]
        word[word == _INSIDE_WORD] = WORD_COST
    return costs


def cheapest_cuts(costs: UInt8[np.ndarray, " boundaries"], max_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield the token spans of the blocks of one segment; ``costs[i]`` is the cost of a cut after token i.

    A long segment is solved part by part, to bound memory. A cut is final once every optimal continuation contains it.
    """
    total = len(costs) + 1
    first, reach = 0, max(_CUT_TOKENS, max_tokens)
    while first < total:
        last = min(first + reach, total)
        cuts = _settled_cuts(costs[first : last - 1], max_tokens, whole=last == total)
        yield from pairwise(first + cut for cut in cuts)
        first += cuts[-1]
        reach = reach if cuts[-1] else 8 * reach


def _settled_cuts(costs: UInt8[np.ndarray, " boundaries"], max_tokens: int, *, whole: bool) -> list[int]:
    """Find the block boundaries in a part of a segment that its rest cannot change; ``whole``: there is no rest.

    A monotone queue holds the cuts, at most B tokens back, that later cuts may follow; the cheapest is at its head.
    """
    total = len(costs) + 1
    if whole and total <= max_tokens:
        return [0, total]
    allowed = np.flatnonzero(costs < _INSIDE_WORD)
    positions = [0, *(allowed + 1).tolist()] + [total] * whole
    prices = [0, *(costs[allowed].astype(np.int64) + BLOCK_COST).tolist()] + [BLOCK_COST] * whole
    least = [0] * len(positions)
    came_from = [0] * len(positions)
    queue = [0]
    head = 0
    for cut in range(1, len(positions)):
        reach = positions[cut] - max_tokens
        while head < len(queue) and positions[queue[head]] < reach:
            head += 1
        if head == len(queue):
            raise ConfigError(f"max_tokens is {max_tokens}; one character of the text has more tokens")
        came_from[cut] = queue[head]
        value = least[cut] = least[queue[head]] + prices[cut]
        while len(queue) > head and least[queue[-1]] > value:
            queue.pop()
        queue.append(cut)
    cuts = [len(positions) - 1 if whole else _common_origin(queue[head:], came_from)]
    while cuts[-1]:
        cuts.append(came_from[cuts[-1]])
    return [positions[cut] for cut in reversed(cuts)]


def _common_origin(cuts: Iterable[int], came_from: Sequence[int]) -> int:
    """Find the last cut on the optimal paths to all given cuts; 0 if it is not found soon (uniform text)."""
    ways = set(cuts)
    for _ in range(_ORIGIN_STEPS):
        if len(ways) == 1:
            return ways.pop()
        latest = max(ways)
        ways.remove(latest)
        ways.add(came_from[latest])
    return 0
