"""CUAD's official measures, on cases small enough to count by hand."""

import pytest

from cogltx.document import Document, Example
from cogltx.prediction import Answer, Prediction
from cogltx.tasks import make_task
from cogltx.tasks.cuad import Cuad

CONTRACT = Document("Governed by the laws of Nevada. Dated 3 May 2001. Between Acme Inc. and Bolt Ltd. of Reno.")


def asked(id: str, *clauses: str) -> Example:
    return Example(id=id, document=CONTRACT, answers=clauses)


def found(id: str, *candidates: tuple[str, float]) -> Prediction:
    (text, score), *others = candidates or (("", 0.9),)
    alternatives = tuple(Answer(text, 0, 1, score) for text, score in others)
    return Prediction(id=id, answer=text, start=None, end=None, confidence=score, alternatives=alternatives)


def measures(*pairs: tuple[Example, Prediction]) -> tuple[float, float, float]:
    scores = make_task("cuad", {}).metrics(pairs)
    return scores["aupr"], scores["precision_at_80_recall"], scores["precision_at_90_recall"]


def test_everything_found_and_nothing_else() -> None:
    pair = asked("1__Law", "laws of Nevada"), found("1__Law", ("laws of Nevada", 0.9))
    assert measures(pair) == pytest.approx((100, 100, 100))


def test_a_curve_by_hand() -> None:
    """Above 0.9: one of two clauses, nothing false. Above 0.5: also a false one. Above 0.2: both, with two false ones."""
    pairs = (
        (asked("1__Law", "laws of Nevada"), found("1__Law", ("the laws of Nevada.", 0.95), ("Acme", 0.3))),
        (asked("1__Date", "3 May 2001"), found("1__Date", ("Dated", 0.6), ("3 May, 2001", 0.25))),
    )
    # recall 0, 1/2 (precision 1), 1/2 (1/2, then 1/3), 1 (2/4): the best at each recall or above
    assert measures(*pairs) == pytest.approx((100 * (1 / 2 * 1 + 1 / 2 * (1 / 2 + 1 / 2) / 2), 50, 50))


def test_clauses_that_are_not_there() -> None:
    """Candidates for them are false; no answer is no candidate."""
    hit = asked("1__Law", "laws of Nevada"), found("1__Law", ("laws of Nevada", 0.5))
    assert measures(hit, (asked("1__Date"), found("1__Date", ("3 May 2001", 0.9))))[1] == 50
    assert measures(hit, (asked("1__Date"), found("1__Date")))[1] == 100
    assert "aupr" not in Cuad().metrics([(asked("1__Date"), found("1__Date"))])


def test_half_of_the_words_are_enough_and_parties_may_be_within() -> None:
    clause = "Acme Inc. and Bolt Ltd."
    assert measures((asked("1__Law", clause), found("1__Law", ("ACME Inc; Bolt", 0.9))))[1] == 100
    assert measures((asked("1__Law", clause), found("1__Law", ("Acme Inc.", 0.9))))[1] == 0
    whole = CONTRACT.text
    assert measures((asked("1__Law", "Bolt Ltd."), found("1__Law", (whole, 0.9))))[1] == 0
    assert measures((asked("1__Parties", "Bolt Ltd."), found("1__Parties", (whole, 0.9))))[1] == 100
