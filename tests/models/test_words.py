"""Attention between words, by hand."""

import torch

from benchmark.models.words import membership, word_attention


def test_split_words_sum_to_and_mean_from():
    """[CLS] un ##told story [SEP]: two words, the first in two pieces."""
    attention = torch.tensor(
        [
            [0.2, 0.2, 0.2, 0.2, 0.2],
            [0.1, 0.2, 0.3, 0.4, 0.0],
            [0.3, 0.0, 0.1, 0.2, 0.4],
            [0.0, 0.25, 0.5, 0.05, 0.2],
            [0.2, 0.2, 0.2, 0.2, 0.2],
        ],
        dtype=torch.float64,
    )
    units = torch.tensor([[-1, 0, 0, 1, -1]])
    words = word_attention(attention[None, None], units)
    expected = torch.tensor([[(0.5 + 0.1) / 2, (0.4 + 0.2) / 2], [0.75, 0.05]], dtype=torch.float64)
    assert torch.allclose(words[0, 0], expected, atol=1e-12)


def test_a_word_without_pieces_has_no_attention():
    units = torch.tensor([[0, 2, -1]])
    words = word_attention(torch.full((1, 2, 3, 3), 1 / 3), units)
    assert words.shape == (1, 2, 3, 3)
    assert not words[:, :, 1].any()
    assert not words[..., 1].any()


def test_membership_leaves_special_tokens_out():
    assert membership(torch.tensor([[-1, 0, 1, 1]]), 2, torch.zeros(())).tolist() == [[[0, 1, 0, 0], [0, 0, 1, 1]]]
