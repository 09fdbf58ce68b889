"""Triggers as the published script makes them, against a slow transcription of it and against two examples by hand."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from benchmark.evaluations.triggers.patterns import Placed, Trigger, read
from benchmark.evaluations.triggers.script import ScriptRule, encode_pieces, insert_pieces, patterns_of_cells
from benchmark.evaluations.triggers.triggers import Triggers
from benchmark.models import load_model
from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Method
from tests import text_models
from tests.evaluations.triggers.texts import edges

SINGLE = "the untoldly film was dull, bad"  # [CLS] the un ##told ##ly film was dull , bad [SEP]
PAIR = ("a dull fine film was", "plot bad")  # [CLS] a dull fine film was [SEP] plot bad [SEP]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    model = load_model(text_models.save_bert(tmp_path_factory.mktemp("script")), dtype="float64", device="cpu")
    with torch.no_grad():  # random weights give all texts one class
        logits = model.run(model.encode([" ".join(words) for words in WORDS])).logits
        model.model.classifier.bias[1] -= (logits[:, 1] - logits[:, 0]).sort().values[2:4].mean()
    return model


WORDS = [
    ["the", "film", "was", "bad"], ["a", "untoldly", "plot"], ["good", "story", ",", "fine"], ["dull"],
    ["the", "story", "was", "untold", "!"], ["a", "bad", "bad", "plot", "was", "the", "story"],
]  # fmt: skip


def tokens_of(model, batch, row):
    return model.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][row][batch.attention_mask[row]].tolist())


def best_pieces(tokens, layers):
    """The rule, cell by cell: (piece, segment, r) in the order of the text, and the score; None below .02."""
    top, head = -np.inf, None
    for heads in layers:
        for candidate in heads:
            if max(map(max, candidate)) > top:
                top, head = max(map(max, candidate)), candidate
    cells = sorted(((head[i][j], (i, j)) for i in range(len(tokens)) for j in range(len(tokens))), reverse=True)
    (first, where), (second, also) = cells[:2]
    if first + second < 0.02:
        return None
    chosen = set(where) if second / first < 0.2 else {*where, *also}
    border = tokens.index("[SEP]")
    pieces = []
    for position in sorted(chosen):
        if tokens[position] in ("[CLS]", "[SEP]"):
            continue
        if position < border:
            pieces.append((tokens[position], 0, position / (border - 1)))
        else:
            pieces.append((tokens[position], 1, (position - border) / (len(tokens) - 2 - border)))
    return pieces, first + second


def with_pieces(texts, pieces, window):
    """The tokens of a text or of a pair with the pieces in it, special tokens included."""
    texts = [list(text) for text in texts]
    for segment, text in enumerate(texts):
        own = [(piece, r) for piece, of, r in pieces if of == segment]
        n, last = len(text), -1
        for piece, r in own:
            place = round((n + len(own)) * r)
            if place == last:
                place += 1
            last = place
            text.insert(place, piece)
    while sum(map(len, texts)) + 1 + len(texts) > window:
        longest = max(range(len(texts)), key=lambda k: (len(texts[k]), k))
        texts[longest].pop()
    return ["[CLS]", *(token for text in texts for token in [*text, "[SEP]"])]


def read_off(model, inputs, cells):
    batch = model.encode([inputs])
    found = patterns_of_cells(model, batch, edges(batch, cells), torch.tensor([1]), ScriptRule())
    assert len(found) == 1
    return [(word.word, word.segment, word.position) for word in found[0].words], found[0].score


def put(model, inputs, pieces):
    batch = model.encode(inputs)
    trigger = Trigger(tuple(Placed(*piece) for piece in pieces), source="good", attacks=("bad",), score=1.0)
    found = insert_pieces(model, batch.tensors, batch.units, encode_pieces(model, [trigger] * len(batch))).tensors
    mask = found["attention_mask"].bool()
    return [
        model.tokenizer.convert_ids_to_tokens(ids[keep].tolist())
        for ids, keep in zip(found["input_ids"], mask, strict=True)
    ]


def test_a_single_text_by_hand(bert):
    cells = {(0, 0, 1, 5, 9): 0.8, (0, 1, 0, 0, 7): 0.9, (0, 1, 0, 2, 10): 0.3, (0, 1, 0, 6, 6): 0.2}
    pieces, score = read_off(bert, SINGLE, cells)  # cells [CLS]-dull and un-[SEP]
    assert pieces == [("un", 0, 2 / 9), ("dull", 0, 7 / 9)]
    assert score == pytest.approx(1.2)
    # 6 · 2/9 = 1.33 and 6 · 7/9 = 4.67
    assert put(bert, ["a plot was good"], pieces) == [["[CLS]", "a", "un", "plot", "was", "good", "dull", "[SEP]"]]
    cells[0, 1, 0, 2, 10] = 0.17  # less than .2 · .9, but summed; the third is now the second
    pieces, score = read_off(bert, SINGLE, cells | {(0, 1, 0, 6, 6): 0.1})
    assert pieces == [("dull", 0, 7 / 9)]
    assert score == pytest.approx(1.07)


def test_a_pair_by_hand(bert):
    cells = {(0, 0, 0, 3, 2): 0.5, (0, 0, 0, 3, 8): 0.2, (0, 1, 1, 1, 1): 0.4}  # fine-dull and fine-bad
    pieces, score = read_off(bert, PAIR, cells)
    assert pieces == [("dull", 0, 0.4), ("fine", 0, 0.6), ("bad", 1, 1.0)]
    assert score == pytest.approx(0.7)
    # 4 · .4 = 1.6 and 4 · .6 = 2.4 are both place 2, so "fine" goes to 3; 3 · 1 is the end
    assert put(bert, [("the story", "good film")], pieces) == [
        ["[CLS]", "the", "story", "dull", "fine", "[SEP]", "good", "film", "bad", "[SEP]"]
    ]
    assert put(bert, ["the story"], pieces) == [["[CLS]", "the", "story", "dull", "fine", "[SEP]"]]


def test_halves_go_to_the_even_number(bert):
    # 5 · .5 = 2.5 is 2, 7 · 11/14 = 5.5 is 6, beyond the end
    assert put(bert, ["a plot was good"], [("dull", 0, 0.5)]) == [
        ["[CLS]", "a", "plot", "dull", "was", "good", "[SEP]"]
    ]
    pieces = [("##told", 0, 3 / 14), ("un", 0, 11 / 14)]
    (found,) = put(bert, ["dull plot fine untold"], pieces)
    assert found == ["[CLS]", "dull", "plot", "##told", "fine", "un", "##told", "un", "[SEP]"]


@pytest.mark.parametrize("seed", range(8))
def test_reading_equals_the_transcription(bert, seed):
    generator = np.random.default_rng(seed)
    batch = bert.encode(
        [SINGLE, "bad", "a, a untold film!"] if seed % 2 else [PAIR, ("the film", "untoldly bad, dull")]
    )
    width = batch.units.shape[1]
    scores = generator.normal(size=(len(batch), 2, 2, width, width)) * generator.choice([0.005, 0.5])
    rows, heads = np.arange(len(batch)), generator.integers(2, size=len(batch))
    scores[rows, heads, 1, 0, 1] += generator.choice([0.0, 5.0], size=len(batch))
    found = patterns_of_cells(
        bert, batch, torch.tensor(scores), torch.zeros(len(batch), dtype=torch.long), ScriptRule()
    )
    expected = {}
    for b, uid in enumerate(batch.uids):
        tokens = tokens_of(bert, batch, b)
        n = len(tokens)
        if (by_hand := best_pieces(tokens, scores[b, :, :, :n, :n].tolist())) is not None:
            expected[uid] = by_hand
    assert {pattern.uid for pattern in found} == set(expected)
    for pattern in found:
        pieces, score = expected[pattern.uid]
        assert [(word.word, word.segment, word.position) for word in pattern.words] == pieces
        assert pattern.score == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_insertion_equals_the_transcription(bert, seed):
    generator = np.random.default_rng(seed)
    pair = bool(seed % 2)

    def text(n):
        return " ".join(generator.choice(text_models.WORDS[:9], size=n))

    inputs = [(text(4), text(n)) if pair else text(n) for n in (1, 3, 7, 12, 17)]
    batch = bert.encode(inputs)
    assert int(batch.lost_units.sum()) == 0
    n = int(generator.integers(3, 9))
    places = generator.choice([(k, s) for s in range(2) for k in range(1, n + 1)], size=5, replace=False).tolist()
    pieces = [
        (str(generator.choice([*text_models.WORDS, "[UNK]"])), s, k / n)
        for k, s in sorted(places, key=lambda at: (at[1], at[0]))
    ]
    for tokens, row in zip(put(bert, inputs, pieces), range(len(inputs)), strict=True):
        whole = tokens_of(bert, batch, row)
        border = whole.index("[SEP]")
        texts = [whole[1:border], whole[border + 1 : -1]] if pair else [whole[1:border]]
        assert tokens == with_pieces(texts, pieces, bert.window)


@dataclass(frozen=True)
class Given(Method):
    """Edge scores that depend on an example's tokens and on the class alone."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model, batch, target):
        return Attribution(target=target)

    def edge_scores(self, model, batch, target):
        width = batch.units.shape[1]
        found = torch.full(
            (len(batch), 3, 2, width, width), 9.0, dtype=torch.float64
        )  # also where there is only padding
        for b, (ids, keep) in enumerate(zip(batch.tensors["input_ids"], batch.attention_mask, strict=True)):
            n = int(keep.sum())
            seed = [int(target.classes[b]), *ids[:n].tolist()]
            found[b, :, :, :n, :n] = torch.tensor(np.random.default_rng(seed).normal(size=(3, 2, n, n)) * 0.01)
        return found


def test_a_whole_test_equals_the_transcription(bert):
    inputs, labels = [" ".join(words) for words in WORDS], [0, 1, 1, 0, 0, 1]
    sources, scored = bert.encode([SINGLE, *inputs], labels=[0, *labels]), bert.encode(inputs, labels=labels)
    scored = scored.select([2, 0, 1, 3, 4, 5])
    evaluation = Triggers(construction="script", triggers=2, least_tokens=5, positions=(), pair_counts=())
    artifact = evaluation.extract(bert, Given(), [sources.select([0, 1, 2]), sources.select([3, 4, 5, 6])])

    patterns, kept = [], Counter()
    for b, uid in enumerate(sources.uids):
        tokens = tokens_of(bert, sources, b)
        alone = sources.select([b])
        label = int(bert.predict(alone))
        n = len(tokens)
        scores = Given().edge_scores(bert, alone, ClassTarget(torch.tensor([label])))[0, :, :, :n, :n].tolist()
        by_hand = best_pieces(tokens, scores)
        if len(tokens) >= 5 and by_hand is not None:
            patterns.append((by_hand[1], uid, bert.labels[label], by_hand[0]))
    patterns.sort(key=lambda pattern: -pattern[0])
    best = []
    for pattern in patterns:
        kept[pattern[2]] += 1
        best += [pattern] if kept[pattern[2]] <= 2 else []
    assert len(patterns) > len(best) == 4
    found = read(artifact, "file")
    assert [(t.score, t.uid, t.source) for t in found] == [(pytest.approx(s), uid, label) for s, uid, label, _ in best]
    assert all(t.attacks == bert.labels for t in found)

    rows = evaluation.restored(artifact).rows(bert, scored, Attribution(target=scored.label))

    def correct(tokens, label):
        ids = torch.tensor([bert.tokenizer.convert_tokens_to_ids(tokens)])
        return float(int(bert.model(input_ids=ids).logits.argmax()) == label)

    def value(metric, uid):
        return rows[(rows.metric == metric) & (rows.uid == uid)].sort_values("x").value.tolist()

    changed = 0.0
    for b, (uid, label) in enumerate(zip(scored.uids, scored.label.tolist(), strict=True)):
        text = tokens_of(bert, scored, b)[1:-1]
        before = correct(["[CLS]", *text, "[SEP]"], label)
        drops = [before - correct(with_pieces([text], pieces, bert.window), label) for *_, pieces in best]
        own = [drop for drop, pattern in zip(drops, best, strict=True) if pattern[2] == bert.labels[label]]
        other = [drop for drop, pattern in zip(drops, best, strict=True) if pattern[2] != bert.labels[label]]
        assert value("drop_of_trigger", uid) == drops
        assert value("accuracy_drop", uid) == pytest.approx([np.mean(drops)])
        assert value("own_class_drop", uid) == pytest.approx([np.mean(own)])
        assert value("other_class_drop", uid) == pytest.approx([np.mean(other)])
        changed += sum(map(abs, drops))
    assert changed > 0
    assert {figure.metric for figure in evaluation.reduce(rows)} == set(evaluation.metrics)
