"""Docstrings in their parts, and on lines of a width."""

from benchmark.settings.docstrings import Docstring, wrapped

TEXT = """\
`E = A^a` in general.

More of it, on two
lines.

- `one`: an item that is
  long
- two

Attributes:
    first, second: what they are,
        on two lines.
    third: σ.

Raises:
    UserError: never.

Source: A 2020; B 2021,
section 3.
Cost: many passes.

With factors=attention, gradient:
    `E = A G`.
    Source: C 2022.
    Cost: one pass.

With factors=attention:
    `E = A`.
"""


def test_a_docstring_is_taken_apart():
    said = Docstring.of(TEXT)
    assert said.settings == dict.fromkeys(("first", "second"), "what they are, on two lines.") | {"third": "σ."}
    assert [case[:2] for case in said.cases] == [("factors", "attention, gradient"), ("factors", "attention")]
    assert "Raises" not in said.text
    assert "With" not in said.text


def test_a_case_that_holds_comes_first_with_its_own_source_and_cost():
    said = Docstring.of(TEXT)
    both = said.read({"factors": ["gradient", "attention"]})  # in any order
    assert both.startswith("`E = A G`.\nSource: C 2022.\nCost: one pass.\n\n`E = A^a` in general.")
    assert both.count("Source:") == both.count("Cost:") == 1
    assert said.read({"factors": ["attention"]}).startswith("`E = A`.\n\n`E = A^a`")  # which names none
    for text in (said.read({"factors": ["attention"]}), said.read({})):
        assert text.endswith("Source: A 2020; B 2021,\nsection 3.\nCost: many passes.")


def test_paragraphs_and_items_are_filled_to_a_width():
    lines = wrapped(Docstring.of(TEXT).read({}), 30).splitlines()
    assert max(map(len, lines)) <= 30
    assert lines[:3] == ["`E = A^a` in general.", "", "More of it, on two lines."]
    assert lines[4:7] == ["- `one`: an item that is long", "- two", ""]
    assert lines[-1] == "Cost: many passes."
    assert wrapped("one two", 7, indent="   ") == "   one\n   two"
