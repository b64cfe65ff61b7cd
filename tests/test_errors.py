"""One line for everything that pydantic finds, in plain words."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from cogltx.errors import CogltxError, ConfigError, DataError, ModelError, TrainingError, describe


class Span(BaseModel, extra="forbid"):
    name: Literal["span"] = "span"
    width: int = 1


class Tags(BaseModel, extra="forbid"):
    name: Literal["tags"]
    height: int | Literal["auto"] = 1


class Settings(BaseModel, extra="forbid"):
    reasoner: Annotated[Span | Tags, Field(discriminator="name")]
    sizes: dict[str, int] = {}
    spans: list[Span] = []
    one: Span | None = None

    def model_post_init(self, context: object) -> None:
        if "odd" in self.sizes:
            raise ValueError("odd is no size")


SPAN = {"name": "span"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "reasoner is missing"),
        ({"reasoner": SPAN, "quux": 1}, "quux is not a setting; choose from reasoner, sizes, spans, one"),
        ({"reasoner": SPAN, "": 1}, "'' is not a setting; choose from reasoner, sizes, spans, one"),
        ({"reasoner": SPAN, "spams": 1}, "spams is not a setting; did you mean spans?"),
        ({"reasoner": {}}, "reasoner.name is missing"),
        ({"reasoner": {"name": "spam"}}, "reasoner.name: 'spam' is not known; did you mean span?"),
        ({"reasoner": SPAN | {"wide": 1}}, "wide is not a setting of reasoner; did you mean width?"),
        ({"reasoner": SPAN | {"width": "x"}}, "reasoner.width must be an integer, but is 'x'"),
        (
            {"reasoner": {"name": "tags", "height": "x"}},
            "reasoner.height must be an integer or 'auto', but is 'x'",
        ),
        ({"reasoner": SPAN, "sizes": {"a": "x"}}, "sizes.a must be an integer, but is 'x'"),
        ({"reasoner": SPAN, "sizes": {"odd": 1}}, "odd is no size"),
        ({"reasoner": SPAN, "spans": [{}, {"width": []}]}, "spans[1].width must be an integer, but is []"),
        ({"reasoner": SPAN, "one": 3}, "one must be an object with named settings, but is 3"),
        ({"reasoner": "span"}, "reasoner must be an object with named settings such as {name: span}, but is 'span'"),
        (
            {"reasoner": SPAN, "one": {"widht": 3}, "sizes": 3},
            "sizes must be an object with named settings, but is 3; widht is not a setting of one; did you mean width?",
        ),
    ],
)
def test_findings(values: dict[str, object], expected: str) -> None:
    with pytest.raises(ValidationError) as error:
        Settings.model_validate(values)
    assert describe(error.value, Settings) == expected


def test_the_place_of_each_finding() -> None:
    with pytest.raises(ValidationError) as error:
        Settings.model_validate({"reasoner": SPAN, "sizes": {"a": "x", "b": "y"}, "one": {"width": "z"}})
    places = {"sizes": "a.yaml:2", "one": "a.yaml:5"}
    assert describe(error.value, Settings, within="x", place=lambda path: places[path[0]]) == (
        "a.yaml:2: x.sizes.a must be an integer, but is 'x'; x.sizes.b must be an integer, but is 'y'; "
        "a.yaml:5: x.one.width must be an integer, but is 'z'"
    )


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [(DataError, ValueError), (ConfigError, ValueError), (ModelError, RuntimeError), (TrainingError, RuntimeError)],
)
def test_errors_derive_from_builtins(kind: type[CogltxError], builtin: type[Exception]) -> None:
    assert issubclass(kind, CogltxError)
    assert issubclass(kind, builtin)
