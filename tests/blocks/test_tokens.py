"""Whether a tokenizer knows the words of a text."""

import pytest
import tiny

from cogltx.blocks import has_words

TEXTS = {
    "The bridge was designed by the engineer Ilse Brandt in 1884 and stands to this day.": True,
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.": False,
    "ყველა": True,
    "12 - 34, 56": True,
}


@pytest.mark.parametrize("architecture", ["bert", "xlm-roberta"])
@pytest.mark.parametrize("text", TEXTS)
def test_words_of_a_language_that_the_tokenizer_spells(architecture: str, text: str) -> None:
    """Texts that are too short to say pass."""
    assert has_words(text, tiny.make_tokenizer(architecture)) == TEXTS[text]
