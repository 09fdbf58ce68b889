"""What a message proposes can be typed: a shell and Hydra make of it what was meant."""

import re
import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from benchmark.commands.arguments import parsed
from benchmark.errors import UserError
from benchmark.settings.ways_out import in_plain_words, typed

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("'\"\\${}[]()=,: #!`%"), max_size=12)
KEY = "model.path"


def read(line):
    """The value of one setting, as Hydra and OmegaConf take it."""
    (word,) = shlex.split(line)
    _, override = parsed(word, None)
    return OmegaConf.to_container(OmegaConf.create({"value": override.value()}), resolve=True)["value"]


@given(TEXT)
@example(r"back\slash")
@example("ends with \\")
@example("it's")
@example(r"\'")
@example("${oc.env:HOME}")
@example(r"\${x}")
@example("$HOME `ls` !!")
@example("nan")
def test_a_text(text):
    assert read(typed(KEY, text)) == text


@given(st.lists(TEXT, min_size=1, max_size=3))
@example(["False", "True"])
def test_a_list(texts):
    assert [str(item) for item in read(typed(KEY, texts))] == texts


@given(TEXT)
@example("it's")
def test_a_mapping(text):
    assert {key: str(value) for key, value in read(typed(KEY, {"a name": text})).items()} == {"a name": text}


def proposed(message):
    return re.search(r"in others: (.*)$", message, re.DOTALL)[1]


@given(TEXT)
@example("runs/ck a=1,lr=[2]")
@example("ck lr=[2")
@example("a(b")
@example("{a} b")
def test_the_way_out_of_what_hydra_cannot_read_is_what_was_typed(text):
    try:
        parsed(f"{KEY}={text}", None)
    except UserError as error:
        message = str(error)
        if "in others" in message:
            value, said = text.strip(), read(proposed(message))
            unquoted = value[1:-1] if len(value) > 1 and value[0] == value[-1] in "'\"" else value
            assert said in (value, unquoted) or isinstance(said, list)
        else:
            assert "a bracket is open" in message


def test_a_list_with_what_hydra_cannot_read_stays_a_list():
    with pytest.raises(UserError) as caught:
        parsed("model.labels=[a=b,c(]", None)
    assert read(proposed(str(caught.value))) == ["a=b", "c("]


def test_a_name_that_none_can_have_is_not_proposed_again():
    with pytest.raises(UserError, match=r"'model path' is no name of one; write NAME=VALUE"):
        parsed("model path=a(b", None)


def test_a_launcher_of_an_extra_is_told_with_the_extra():
    """As Hydra says that it does not find it, on a machine without the extra."""
    said = "Could not find 'hydra/launcher/joblib'\n\nAvailable options in 'hydra/launcher':\n\tbasic"
    line = in_plain_words(ValueError(said), lambda group: [])
    assert line.startswith("hydra/launcher=joblib is part of an extra that is not installed: pip install")
    assert "did you mean joblib" in in_plain_words(
        ValueError(said.replace("joblib", "jobblib").replace("basic", "joblib")), lambda group: []
    )
