"""Votes and trees of heads: by hand on three words with a split word, against loops in the authors' terms, and planted."""

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.analyses.syntax.head_votes import NO_VOTE, offset_votes, voted_words, votes_of
from benchmark.analyses.syntax.syntax_heads import SyntaxHeads, of_all_lengths, share_of
from benchmark.analyses.syntax.trees import gold_edges, spanning_tree
from benchmark.annotations import Parse
from benchmark.errors import NotApplicable
from tests import text_models
from tests.planted_heads import WORD_KIND, Nowhere, Offset, ToKind, save_planted_heads

A = ("untoldly the film", [3, 3, 0], "amod det root")
B = ("the film was dull .", [2, 4, 4, 0, 4], "det nsubj cop root punct")
C = ("film", [0], "root")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def test_votes_on_three_words_with_a_split_word(bert, parsed):
    """un ##told ##ly the film: rows of a word are means over its pieces, columns sums."""
    votes = votes_of(bert, [parsed(bert, A)])
    layers = bert.run(bert.encode([A[0].split()]), record=("attentions",)).attentions
    groups = [[1, 2, 3], [4], [5]]
    for layer in range(2):
        for head in range(2):
            raw = layers[layer][0, head].tolist()
            words = [[sum(raw[i][j] for i in v for j in w) / len(v) for w in groups] for v in groups]
            for v in range(3):
                others = [w for w in range(3) if w != v]
                assert votes.voted[v, 0, layer, head] == max(others, key=lambda w, v=v, words=words: words[v][w])
                assert votes.voted[v, 1, layer, head] == max(others, key=lambda w, v=v, words=words: words[w][v])
    assert votes.head.tolist() == [2, 2, -1]
    assert votes.relation.tolist() == ["amod", "det", "root"]


def test_votes_and_offsets_equal_the_authors_predictors(bert, parsed):
    """Their arrays have rows and columns of [CLS] and [SEP]; self is set to 0 there, and offsets are clamped."""
    batch = parsed(bert, A, B)
    votes = votes_of(bert, [batch])
    start = 0
    for sentence in (A, B):
        words = sentence[0].split()
        n = len(words)
        layers = bert.run(bert.encode([words]), record=("attentions",)).attentions
        units = bert.encode([words]).units[0].tolist()
        pieces = [[0], *([t for t, u in enumerate(units) if u == w] for w in range(n)), [len(units) - 1]]
        for layer in range(2):
            for head in range(2):
                raw = layers[layer][0, head].numpy()
                summed = np.stack([raw[:, group].sum(-1) for group in pieces], axis=1)
                attention = np.stack([summed[group].mean(0) for group in pieces])
                for way, matrix in enumerate((attention.copy(), attention.T.copy())):
                    matrix[range(n + 2), range(n + 2)] = 0
                    predicted = np.argmax(matrix[1:-1, 1:-1], axis=-1)
                    assert votes.voted[start : start + n, way, layer, head].tolist() == predicted.tolist()
        for offset in (-3, -1, 1, 2):
            predicted = [max(0, min(i + offset + 1, n)) - 1 for i in range(n)]
            assert offset_votes(votes, offset)[start : start + n].tolist() == predicted
        start += n


def test_a_lone_word_has_no_vote(bert, parsed):
    assert (votes_of(bert, [parsed(bert, C)]).voted == NO_VOTE).all()
    unseen = voted_words(torch.rand(1, 1, 3, 3), torch.tensor([[True, False, True]]))
    assert unseen[0, :, :, 0].tolist() == [[2, 2], [NO_VOTE, NO_VOTE], [0, 0]]


def test_words_beyond_the_window_are_left_out_and_counted(tmp_path, parsed):
    model = load_model(text_models.save_bert(tmp_path, window=8), "float64", window=8)
    long = ("the film was dull . the film was", [2, 4, 4, 0, 4, 7, 8, 4], "det nsubj cop x punct det nsubj root")
    votes = votes_of(model, [parsed(model, long)])
    assert votes.lost == 3  # two words, and one whose head is one of them
    assert votes.place.tolist() == [0, 1, 2, 3, 4]
    assert votes.voted.max() <= 5


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Head 0-0 attends to the previous word, 0-1 to the next; 1-0 from the auxiliary to the subject's kind, 1-1 nowhere."""
    kinds = {"the": WORD_KIND, "dog": WORD_KIND + 1, "cat": WORD_KIND + 2, "is": WORD_KIND + 3, "here": WORD_KIND + 4}
    rules = [[Offset(-1), Offset(1)], [ToKind(WORD_KIND + 1, of=[WORD_KIND + 3]), Nowhere()]]
    return load_model(save_planted_heads(tmp_path_factory.mktemp("planted"), kinds, rules), "float64")


SENTENCES = (
    ("the dog the cat is here", [2, 5, 4, 2, 0, 5], "det nsubj det nmod root advmod"),
    ("the cat the dog is here", [2, 4, 4, 5, 0, 5], "det nmod det nsubj root advmod"),
    ("the dog is here the cat", [2, 3, 0, 3, 6, 4], "det nsubj root advmod det obj"),
)


def test_planted_heads_find_all_of_their_relation(planted, parsed, given):
    test, validation = parsed(planted, *SENTENCES), parsed(planted, *SENTENCES[::-1])
    relations, trees, shown = SyntaxHeads(limit=None, least=3, trees=3)(given(planted, [test], [validation]))
    rows = relations.rows.set_index(["relation", "by", "metric"])
    subject = rows.loc[("nsubj", "best head", "accuracy")]
    assert subject["value"] == 1
    assert subject["which"] == "1-0, head → dependent"
    assert subject["n"] == 3
    assert subject["low"] < 1
    assert rows.loc[("det", "best head", "accuracy"), "value"] == 1
    assert rows.loc[("det", "best head", "accuracy"), "which"] in ("0-1, dependent → head", "0-0, head → dependent")
    assert rows.loc[("advmod", "best head", "accuracy"), "which"] in ("0-0, dependent → head", "0-1, head → dependent")
    assert rows.loc[("nsubj", "best offset", "accuracy"), "value"] < 1
    less = rows.loc[("nsubj", "best head", "less offset"), "value"]
    assert less == pytest.approx(1 - rows.loc[("nsubj", "best offset", "accuracy"), "value"])
    of_map = shown.rows.set_index(["relation", "layer", "head"])["value"]
    assert of_map[("det", 0, 1)] == 1
    assert set(trees.rows["metric"]) == {"UUAS"}
    for table in (relations, trees, shown):
        table.check()


def test_heads_are_chosen_on_other_sentences_than_they_are_measured_on(planted, parsed, given):
    """On the validation split the object follows the root at once, in the scored sentence it does not."""
    validation = parsed(
        planted, ("dog is cat", [2, 0, 2], "nsubj root obj"), ("cat is dog", [2, 0, 2], "nsubj root obj")
    )
    test = parsed(planted, ("dog is the cat", [2, 0, 4, 2], "nsubj root det obj"))
    relations = SyntaxHeads(limit=None, least=1, trees=1)(given(planted, [test], [validation]))[0]
    rows = relations.rows.set_index(["relation", "by", "metric"])
    chosen = rows.loc[("obj", "best head")]
    assert chosen.loc["accuracy where it was chosen", "value"] == 1
    assert chosen.loc["accuracy", "value"] == 0


def test_spanning_trees_by_hand():
    weights = np.array([[0, 5, 1, 0], [0, 0, 4, 1], [0, 0, 0, 0], [3, 0, 0, 0]], dtype=float)
    assert spanning_tree(weights) == {(0, 1), (1, 2), (0, 3)}
    assert len(spanning_tree(np.zeros((4, 4)))) == 3
    parse = Parse((1, -1, 1, 2), ("a", "root", "punct", "b"))
    assert gold_edges(parse, [0, 1, 3]) == {(0, 1)}
    assert gold_edges(parse, [0, 1, 2, 3]) == {(0, 1), (1, 2), (2, 3)}


def test_a_share_of_one_has_a_score_interval():
    sure = share_of(np.array([[2.0, 2.0]] * 9))
    assert (sure.value, sure.n) == (1, 9)
    assert 0.5 < sure.low < 1
    mixed = share_of(np.array([[1.0, 2.0], [2.0, 2.0], [0.0, 1.0], [3.0, 4.0]]))
    assert mixed.value == pytest.approx(6 / 9)


def test_sentences_of_all_lengths_are_taken(bert):
    batches = [bert.encode(["the film"] * 4), bert.encode(["the film was"] * 3)]
    assert [len(part) for part in of_all_lengths(batches, 3)] == [2, 1]
    assert sum(len(part) for part in of_all_lengths(batches, 100)) == 7


def test_examples_without_a_parse_are_refused(bert, given):
    batch = bert.encode(["the film was dull"])
    with pytest.raises(NotApplicable, match="no parse"):
        SyntaxHeads(limit=None)(given(bert, [batch], [batch]))
