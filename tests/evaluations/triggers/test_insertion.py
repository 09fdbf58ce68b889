"""Where the words of a trigger land: by hand, against a slow transcription, and at the edge of the window."""

from itertools import product

import numpy as np
import pytest
import torch

from benchmark.errors import NotApplicable
from benchmark.evaluations.triggers.insertion import encode, insert, relative_positions, segments
from benchmark.evaluations.triggers.patterns import Placed, Trigger
from tests import text_models

WORDS = ("good", "fine")


def trigger(*words: Placed) -> Trigger:
    return Trigger(words, source="good", attacks=("bad",), score=1.0)


def inserted(model, inputs, words):
    """The tokens of each row with one trigger in it, and the tensors."""
    batch = model.encode(inputs)
    encoded = encode(model, [trigger(*words)] * len(batch))
    found = insert(model, batch.tensors, batch.units, encoded)
    mask = found.tensors["attention_mask"].bool()
    rows = [
        model.tokenizer.convert_ids_to_tokens(ids[keep].tolist())
        for ids, keep in zip(found.tensors["input_ids"], mask, strict=True)
    ]
    for ids, places in zip(found.tensors["input_ids"], found.places, strict=True):
        assert torch.equal(ids[places], encoded.ids[0])
    return rows, found.tensors


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (0.0, "[CLS] good a dull plot was bad [SEP]"),
        (0.2, "[CLS] a good dull plot was bad [SEP]"),
        (0.29, "[CLS] a good dull plot was bad [SEP]"),
        (0.5, "[CLS] a dull plot good was bad [SEP]"),
        (0.7, "[CLS] a dull plot was good bad [SEP]"),  # 3.5 up, also in the memory of a float
        (1.0, "[CLS] a dull plot was bad good [SEP]"),
    ],
)
def test_single_text(bert, position, expected):
    rows, _ = inserted(bert, ["a dull plot was bad"], [Placed("good", 0, position)])
    assert " ".join(rows[0]) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (0.0, 0.0, "[CLS] good a film [SEP] fine the plot was dull [SEP]"),
        (0.5, 0.5, "[CLS] a good film [SEP] the plot fine was dull [SEP]"),
        (1.0, 1.0, "[CLS] a film good [SEP] the plot was dull fine [SEP]"),
        (1.0, 0.0, "[CLS] a film good [SEP] fine the plot was dull [SEP]"),
    ],
)
def test_pair(bert, first, second, expected):
    words = [Placed("good", 0, first), Placed("fine", 1, second)]
    rows, tensors = inserted(bert, [("a film", "the plot was dull")], words)
    assert " ".join(rows[0]) == expected
    border = expected.split().index("[SEP]")
    types = [int(index > border) for index in range(len(expected.split()))]
    assert tensors["token_type_ids"][0].tolist() == types


def test_words_of_a_trigger_keep_their_order_at_the_same_place(bert):
    rows, _ = inserted(bert, ["a plot"], [Placed("good", 0, 0.5), Placed("fine", 0, 0.5)])
    assert rows[0] == ["[CLS]", "a", "good", "fine", "plot", "[SEP]"]


def test_no_word_is_split_and_the_nearer_end_is_taken(bert):
    text = "the untoldly plot"  # the | un ##told ##ly | plot
    for position, place in ((0.4, 1), (0.6, 4)):
        rows, _ = inserted(bert, [text], [Placed("good", 0, position)])
        expected = ["the", "un", "##told", "##ly", "plot"]
        expected.insert(place, "good")
        assert rows[0][1:-1] == expected


def test_a_word_of_several_pieces_stays_together(bert):
    rows, _ = inserted(bert, ["a plot"], [Placed("untold", 0, 0.5)])
    assert rows[0] == ["[CLS]", "a", "un", "##told", "plot", "[SEP]"]


def test_the_second_segment_of_a_single_text_is_its_only_one(bert):
    rows, _ = inserted(bert, ["a plot"], [Placed("good", 1, 1.0)])
    assert rows[0] == ["[CLS]", "a", "plot", "good", "[SEP]"]


def test_a_full_window_loses_the_end_of_the_text_and_keeps_the_trigger(bert):
    text = " ".join(["the", "film", "was", "dull"] * 10)
    rows, tensors = inserted(bert, [text], [Placed("good", 0, 0.0), Placed("fine", 0, 1.0)])
    whole = (["the", "film", "was", "dull"] * 10)[: bert.window - 4]
    assert rows[0] == ["[CLS]", "good", *whole, "fine", "[SEP]"]
    assert tensors["input_ids"].shape == (1, bert.window)


def test_a_full_pair_loses_the_end_of_the_longer_text(bert):
    first, second = ["the", "film", "was"], ["plot"] * 17 + ["a"]
    batch = bert.encode([(" ".join(first), " ".join(second))])
    assert batch.units.shape[1] == bert.window
    words = [Placed("good", 0, 1.0), Placed("fine", 1, 1.0)]
    rows, _ = inserted(bert, [(" ".join(first), " ".join(second))], words)
    assert rows[0] == ["[CLS]", *first, "good", "[SEP]", *second[:16], "fine", "[SEP]"]
    assert len(rows[0]) == bert.window


def test_a_trigger_longer_than_the_window_is_refused(bert):
    with pytest.raises(NotApplicable, match="does not fit"):
        inserted(bert, ["a plot"], [Placed("good", 0, 0.0)] * bert.window)


def test_an_insertion_changes_nothing_else(bert):
    batch = bert.encode(["a dull plot", "the film was a good story"])
    nothing = encode(bert, [trigger(Placed("good", 0, 0.0))] * 2)
    nothing = type(nothing)(nothing.ids, torch.zeros_like(nothing.present), nothing.segment, nothing.position)
    found = insert(bert, batch.tensors, batch.units, nothing).tensors
    assert set(found) == set(batch.tensors)
    for name, tensor in batch.tensors.items():
        assert torch.equal(found[name], tensor)


def test_padding_and_company_change_nothing(bert):
    texts = ["bad", "the untoldly plot was dull , the story !"]
    words = [Placed("good", 0, 0.3), Placed("untold", 0, 0.8)]
    together, tensors = inserted(bert, texts, words)
    logits = bert.run(tensors).logits
    for row, text in enumerate(texts):
        alone, single = inserted(bert, [text], words)
        assert alone[0] == together[row]
        assert torch.allclose(bert.run(single).logits[0], logits[row], atol=1e-12)


def test_byte_level_words_are_spelled_with_the_space_before_them(gpt2):
    batch = gpt2.encode(["the plot was dull"])
    found = insert(gpt2, batch.tensors, batch.units, encode(gpt2, [trigger(Placed("good", 0, 1.0))]))
    assert gpt2.tokenizer.decode(found.tensors["input_ids"][0]) == "the plot was dull good"


def test_byte_level_words_go_before_the_space_of_the_next_word(gpt2):
    words = ["the", "untold", "story", "was", "dull"]
    batch = gpt2.encode([" ".join(words)])
    relative = relative_positions(segments(gpt2, batch.tensors, batch.units))[0]
    assert bool((batch.units < 0).any())  # this tokenizer has spaces that are tokens of their own
    for k in range(1, 5):
        first = batch.units[0].tolist().index(k)
        one = encode(gpt2, [trigger(Placed("good", 0, float(relative[first])))])
        found = insert(gpt2, batch.tensors, batch.units, one).tensors["input_ids"][0]
        assert gpt2.tokenizer.decode(found) == " ".join([*words[:k], "good", *words[k:]])


def test_a_separator_in_the_text_is_content(bert):
    batch = bert.encode(["a [SEP] plot"])  # which the tokenizer reads as five tokens of text
    assert segments(bert, batch.tensors, batch.units).tolist() == [[-1, 0, 0, 0, 0, 0, -1]]


def slow(tokens, types, units, window, words):
    """The rule of `insert`, token by token: `tokens` with [CLS] and [SEP], `words` as (pieces, segment, position)."""
    parts, at = [], 0
    for segment in sorted(set(types)):
        n = sum(kind == segment for kind in types)
        parts.append(list(zip(tokens, units, strict=True))[at + (segment == 0) : at + n - 1])
        at += n
    n_extra = sum(len(pieces) for pieces, _, _ in words)
    while sum(map(len, parts)) + n_extra + 1 + len(parts) > window:
        longest = max(range(len(parts)), key=lambda s: (len(parts[s]), s))
        parts[longest].pop()
    result = ["[CLS]"]
    for s, part in enumerate(parts):
        before = {place: [] for place in range(len(part) + 1)}
        for pieces, segment, position in words:
            if min(segment, len(parts) - 1) != s:
                continue
            exact = int(np.floor(position * len(part) + 0.5 + 1e-9))
            boundaries = [
                place
                for place in range(len(part) + 1)
                if place in (0, len(part)) or part[place][1] != part[place - 1][1]
            ]
            place = min(boundaries, key=lambda boundary: (abs(boundary - exact), boundary))
            before[place] += pieces
        for place in range(len(part) + 1):
            result += before[place]
            result += [part[place][0]] if place < len(part) else []
        result.append("[SEP]")
    return result


@pytest.mark.parametrize("seed", range(12))
def test_equals_a_slow_transcription(bert, seed):
    generator = np.random.default_rng(seed)
    vocabulary = [*text_models.WORDS[:9], "untold", "untoldly"]

    def text(n):
        return " ".join(generator.choice(vocabulary, size=n))

    pair = bool(seed % 2)
    inputs = [(text(4), text(n)) if pair else text(n) for n in (1, 3, 7, 12)]
    batch = bert.encode(inputs)
    placed = sorted(
        (int(generator.integers(2)), float(position), str(generator.choice(vocabulary)))
        for position in generator.choice(np.linspace(0, 1, 13), size=4)
    )
    words = [Placed(word, segment, position) for segment, position, word in placed]
    if not pair:  # both segments are one: in the order of the text
        words = sorted(words, key=lambda word: word.position)
    rows, _ = inserted(bert, inputs, words)
    spelled = [(bert.tokenizer.tokenize(word.word), word.segment, word.position) for word in words]
    for b, row in enumerate(rows):
        n = int(batch.attention_mask[b].sum())
        ids = batch.tensors["input_ids"][b, :n].tolist()
        types, units = (tensor[b, :n].tolist() for tensor in (batch.tensors["token_type_ids"], batch.units))
        assert row == slow(bert.tokenizer.convert_ids_to_tokens(ids), types, units, bert.window, spelled)


def test_relative_positions_put_words_back_where_they_were(bert):
    batch = bert.encode([("the untold story was", "a dull plot"), ("film", "was the bad film fine")])
    relative = relative_positions(segments(bert, batch.tensors, batch.units))
    assert relative[0].tolist() == [0, 0, 0.2, 0.4, 0.6, 0.8, 0, 0, 1 / 3, 2 / 3, 0]
    for b, t in product(range(2), range(batch.units.shape[1])):
        if (
            batch.units[b, t] < 0
            or bert.tokenizer.convert_ids_to_tokens(int(batch.tensors["input_ids"][b, t]))[0] == "#"
        ):
            continue
        segment = int(batch.tensors["token_type_ids"][b, t])
        one = encode(bert, [trigger(Placed("good", segment, float(relative[b, t])))])
        tensors = {name: tensor[b : b + 1] for name, tensor in batch.tensors.items()}
        assert insert(bert, tensors, batch.units[b : b + 1], one).places.item() == t
