"""Texts of which the second has the answer, far from its beginning."""

QUESTION = "Who designed the bridge?"
FILLER = "Rain fell on the green hills again. The fishermen sang. "
TEXTS = [FILLER * 30, f"{FILLER * 20}Ilse Brandt designed the bridge in 1884. {FILLER * 20}", "Snow fell."]
