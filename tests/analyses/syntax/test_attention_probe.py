"""Probes over all heads: features by hand, planted syntax is found, and noise stays at chance with selectivity 0."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.analyses.syntax.attention_probe import AttentionProbe
from benchmark.analyses.syntax.probe_data import first_word_baseline, probe_data
from benchmark.analyses.syntax.probes import AttentionAndEmbeddings, AttentionOnly, predicted, trained
from tests import text_models
from tests.planted_heads import WORD_KIND, Nowhere, Offset, ToKind, save_planted_heads

A = ("untoldly the film", [3, 3, 0], "amod det root")
B = ("the film was dull .", [2, 4, 4, 0, 4], "det nsubj cop root punct")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def test_pairs_of_three_words_with_a_split_word(bert, parsed):
    data = probe_data(bert, [parsed(bert, A)])
    raw = torch.cat([layer[0] for layer in bert.run(bert.encode([A[0].split()]), record=("attentions",)).attentions])
    groups = [[1, 2, 3], [4], [5]]
    assert data.maps.shape == (3 * 4, 8)
    assert not data.maps[data.candidate < 0].any()
    for k in range(4):
        for v in range(3):
            for w in range(3):
                pair = v * 4 + 1 + w
                to = sum(raw[k, i, j] for i in groups[v] for j in groups[w]) / len(groups[v])
                back = sum(raw[k, i, j] for i in groups[w] for j in groups[v]) / len(groups[w])
                assert data.maps[pair, k].item() == pytest.approx(to.item(), abs=1e-6)
                assert data.maps[pair, 4 + k].item() == pytest.approx(back.item(), abs=1e-6)
            assert data.first[v, k].item() == pytest.approx(raw[k, groups[v], 0].mean().item(), abs=1e-6)
            assert data.last[v, 4 + k].item() == pytest.approx(raw[k, 6, groups[v]].sum().item(), abs=1e-6)
    assert data.gold.tolist() == [3, 7, 8]
    assert data.candidate[data.gold].tolist() == [2, 2, -1]
    embeddings = bert.model.bert.embeddings.word_embeddings(bert.encode([A[0].split()]).tensors["input_ids"])[0]
    assert torch.allclose(data.embeddings[0], embeddings[1:4].mean(0).float(), atol=1e-6)
    ahead = data.distances[4:8]  # of the second word: the root, one before, itself, one behind
    assert ahead.tolist()[0] == [0] * 7
    assert ahead[1].tolist() == pytest.approx([0, 1 / 3, 0, 0, 1, 0, 0])
    assert ahead[2].tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert ahead[3].tolist() == pytest.approx([1 / 3, 0, 0, 1, 0, 0, 0])


def test_parts_hold_every_pair_once_and_point_to_their_own(bert, parsed):
    data = probe_data(bert, [parsed(bert, A, B), parsed(bert, B, A)])
    parts = data.parts(3, seed=0)
    assert [int(part.sentence.max()) + 1 for part in parts] == [3, 1]
    assert sum(len(part.maps) for part in parts) == len(data.maps)
    for part in parts:
        assert (part.word[part.gold] == torch.arange(len(part.start))).all()
        for word, pair in enumerate(part.gold.tolist()):
            head = part.candidate[pair]
            assert head < 0 or part.sentence[head] == part.sentence[word]
    golden = sorted(tuple(row.tolist()) for part in parts for row in part.maps[part.gold])
    assert golden == sorted(tuple(row.tolist()) for row in data.maps[data.gold])


def test_control_heads_hang_on_the_type_alone(bert, parsed):
    data = probe_data(bert, [parsed(bert, A, B), parsed(bert, B, A)])
    control = data.control(0)
    behaviours = {}
    for word, pair in enumerate(control.gold.tolist()):
        sentence = [w for w in range(len(data.start)) if data.sentence[w] == data.sentence[word]]
        at = sentence.index(int(control.candidate[pair]))
        place = sentence.index(word)
        options = {name for name, where in (("self", place), ("first", 0), ("last", len(sentence) - 1)) if at == where}
        assert options
        behaviours.setdefault(data.types[word], []).append(options)
    assert all(set.intersection(*found) for found in behaviours.values())
    assert torch.equal(control.gold, data.control(0).gold)


def test_scores_are_the_equations(bert, parsed):
    data = probe_data(bert, [parsed(bert, A)])
    torch.manual_seed(0)
    only, both = AttentionOnly(8, 16), AttentionAndEmbeddings(8, 16)
    for parameter in (*only.parameters(), *both.parameters()):
        torch.nn.init.normal_(parameter)
    with torch.no_grad():
        scores, scores_of_both = only(data), both(data)
        for v in range(3):
            weights = both.dependent.weight @ data.embeddings[v] + both.dependent.bias
            root = sum(only.weights * (only.start * data.first[v] + only.end * data.last[v])) + only.root
            assert scores[v * 4].item() == pytest.approx(root.item(), abs=1e-4)
            for w in range(3):
                pair = v * 4 + 1 + w
                assert scores[pair].item() == pytest.approx((only.weights @ data.maps[pair]).item(), abs=1e-4)
                mixed = (weights + both.head.weight @ data.embeddings[w]) @ data.maps[pair]
                assert scores_of_both[pair].item() == pytest.approx(mixed.item(), abs=1e-4)


def sentences(count, seed):
    """Chains: every word's head is the next one, the last is the root."""
    draw = random.Random(seed)
    for _ in range(count):
        n = draw.randrange(3, 9)
        words = " ".join(draw.choice(("a", "b", "c", "d", "e", "f", "g", "h")) for _ in range(n))
        yield words, [*range(2, n + 1), 0], " ".join(["dep"] * (n - 1) + ["root"])


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    words = {letter: WORD_KIND + i % 5 for i, letter in enumerate("abcdefgh")}
    rules = [[Offset(1), Nowhere()], [ToKind(0), Nowhere()]]
    return load_model(save_planted_heads(tmp_path_factory.mktemp("planted"), words, rules), "float32")


def test_planted_syntax_is_found_and_selective(planted, parsed):
    train, test = (probe_data(planted, [parsed(planted, *sentences(60, seed))]) for seed in (0, 1))
    rows = {(row["probe"], row["metric"]): row for row in AttentionProbe(steps=60).lines("m", train, test)}
    assert rows["attention only", "UAS"]["value"] > 0.97
    assert rows["attention only", "selectivity"]["low"] > 0
    assert rows["fixed offset +1", "UAS"]["value"] == pytest.approx(1 - 60 / test.scored.sum().item())


def test_noise_is_at_chance_and_not_selective(planted, parsed):
    """Attention drawn at random, of trees drawn at random: no probe that reads it alone can do better than a guess."""

    def noisy(seed, count):
        draw = random.Random(seed)
        made = []
        for words, _, _ in sentences(count, seed):
            n = len(words.split())
            root = draw.randrange(n)
            heads = [0 if w == root else root + 1 for w in range(n)]
            made.append((words, heads, " ".join("root" if w == root else "dep" for w in range(n))))
        data = probe_data(planted, [parsed(planted, *made)])
        generator = torch.Generator().manual_seed(seed)
        found = {}
        for name in ("maps", "first", "last"):
            found[name] = torch.rand(getattr(data, name).shape, generator=generator)
        return replace(data, **found)

    train, test = noisy(0, 400), noisy(1, 400)
    rows = {(row["probe"], row["metric"]): row for row in AttentionProbe(steps=60).lines("m", train, test)}
    chance = 400 / len(test.start)  # the root for every word, the one guess that needs no attention
    figure = rows["attention only", "UAS"]
    assert figure["low"] < chance < figure["high"]
    selectivity = rows["attention only", "selectivity"]
    assert selectivity["low"] <= 0 <= selectivity["high"]


def test_training_is_the_same_twice_and_leaves_randomness_alone(planted, parsed):
    data = probe_data(planted, [parsed(planted, *sentences(10, 0))])
    before = torch.random.get_rng_state()
    first, second = (predicted(trained("words and distances", data, 5, 0), data) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())
    assert (data.word[first] == torch.arange(len(data.start))).all()


def test_offsets_are_clamped_to_the_sentence(planted, parsed):
    data = probe_data(planted, [parsed(planted, ("a b c", [2, 3, 0], "x x root"))])
    assert data.candidate[first_word_baseline(data, 1)].tolist() == [1, 2, 2]
    assert data.candidate[first_word_baseline(data, -1)].tolist() == [-1, 0, 1]
    assert np.all(data.candidate[first_word_baseline(data, -5)].numpy() == -1)
