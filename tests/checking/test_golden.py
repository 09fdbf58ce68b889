"""Arrays of another program."""

import numpy as np
import pytest

import benchmark
from benchmark.checking import golden, small_models
from benchmark.checking.subject import Subject
from benchmark.errors import UserError
from tests.checking.cheap import built


@pytest.fixture(scope="module")
def place():
    return small_models.place("bert")


@pytest.fixture(scope="module")
def arrays(place, tmp_path_factory):
    """What a method's own scores are, as they are written."""
    file = tmp_path_factory.mktemp("golden") / "rollout.npz"
    golden.write(file, Subject(built("rollout"), "rollout", place))
    return dict(np.load(file))


def asked(place, file):
    (outcome,) = benchmark.check("rollout", place, ["golden"], golden_file=file).outcomes
    return outcome


def test_what_was_written_is_found_again(place, arrays, tmp_path):
    np.savez(tmp_path / "own.npz", **arrays)
    outcome = asked(place, tmp_path / "own.npz")
    assert (outcome.status, outcome.tolerance) == ("pass", 1e-5)
    assert outcome.words == "tokens, heads, layers, totals equal those of own.npz"


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (lambda one: {"tokens": one["tokens"] * 1.001}, "fail", "tokens differ by 0.001 of the largest from those of"),
        (
            lambda one: {"tokens": one["tokens"] * 1.001, "tolerance": 0.01},
            "pass",
            "tokens, heads, layers, totals equal",
        ),
        (lambda one: {"tokens": one["tokens"][:, :5]}, "fail", "tokens are [3, 9], and [3, 5] in"),
        (lambda one: {"nodes": one["tokens"]}, "fail", "has nodes, and the method does not score them"),
    ],
)
def test_differences_are_told(place, arrays, tmp_path, change, status, words):
    np.savez(tmp_path / "other.npz", **(arrays | change(arrays)))
    outcome = asked(place, tmp_path / "other.npz")
    assert outcome.status == status
    assert words in outcome.words


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (("input_ids", "tokens"), "has no classes: one of target; it has input_ids, tokens"),
        (("target", "tokens"), "has no inputs: one of texts, input_ids, pixel_values"),
        (("target", "input_ids"), "has no scores: one of tokens, heads"),
    ],
)
def test_what_a_file_lacks_is_one_line(place, arrays, tmp_path, kept, words):
    np.savez(tmp_path / "less.npz", **{name: arrays[name] for name in kept})
    with pytest.raises(UserError, match=r"^golden=.*less\.npz") as caught:
        asked(place, tmp_path / "less.npz")
    assert words in str(caught.value)


def test_no_archive(place, tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("text.npz", "nowhere.npz"):
        with pytest.raises(UserError, match="cannot be read as an archive of arrays"):
            asked(place, tmp_path / name)
