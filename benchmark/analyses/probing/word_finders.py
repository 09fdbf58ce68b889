"""Linear classifiers that find a word in a sentence from the states of its words, many at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.randomness import generator

SENTENCES = 32
"""In a step of the optimisation."""

_RATE = 0.01


@dataclass(frozen=True)
class Sentences:
    """States of the words of N sentences, padded.

    Attributes:
        states: S kinds of states of every word.
        words: places that hold a word.
        target: the number of the word to find.
    """

    states: Float[Tensor, "S N W F"]
    words: Bool[Tensor, "N W"]
    target: Int[Tensor, " N"]

    def rows(self, rows: Int[Tensor, " M"]) -> "Sentences":
        """Some of the sentences."""
        return Sentences(self.states[:, rows], self.words[rows], self.target[rows])


@dataclass(frozen=True)
class Finders:
    """A linear layer with two outputs for each of S kinds of states.

    Attributes:
        weight: from states to outputs.
        bias: of the outputs.
    """

    weight: Float[Tensor, "S F 2"]
    bias: Float[Tensor, "S 2"]

    def found(self, sentences: Sentences) -> Int[Tensor, "S N"]:
        """The word with the largest second output."""
        scores = _outputs(sentences.states, self.weight, self.bias)[..., 1]
        return scores.masked_fill(~sentences.words, -torch.inf).argmax(-1)


def trained_finders(sentences: Sentences, steps: int, seed: int) -> Finders:
    """Minimise the mean over words of the cross-entropy of "is the word to find", for every kind of states on its own.

    Adam, from weights of 0, on the next 32 sentences of an order drawn by the seed.

    Source: Lin et al. 2019, section 3, and the authors' code (`dd_models.py`): a linear layer with two outputs on the states
    of every token, whose second output is largest at the word that is found. The authors have dropout, BertAdam and one
    pass over 40,000 sentences.
    """
    kinds, features = sentences.states.shape[0], sentences.states.shape[-1]
    weight = torch.zeros(kinds, features, 2, requires_grad=True)
    bias = torch.zeros(kinds, 2, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=_RATE)
    with torch.enable_grad():
        for rows in _orders(len(sentences.target), steps, seed):
            part = sentences.rows(rows)
            optimizer.zero_grad()
            loss = _loss(_outputs(part.states, weight, bias), part.words, part.target).sum()
            torch.autograd.backward(loss)
            optimizer.step()
    return Finders(weight.detach(), bias.detach())


@dataclass(frozen=True)
class Mixes:
    """K scalar mixes of the states, each with a linear layer.

    Attributes:
        share: softmax weights of the kinds of states; rows sum to 1.
        weight, bias: of the linear layers, after the scale of the mix.
    """

    share: Float[Tensor, "K S"]
    weight: Float[Tensor, "K F 2"]
    bias: Float[Tensor, "K 2"]

    def first(self, count: int) -> "Mixes":
        """The first mixes."""
        return Mixes(self.share[:count], self.weight[:count], self.bias[:count])

    def found(self, sentences: Sentences) -> Int[Tensor, "K N"]:
        """The word with the largest second output, mix by mix."""
        results = []
        for share, weight, bias in zip(self.share, self.weight, self.bias, strict=True):
            mixed = torch.einsum("s,snwf->nwf", share, sentences.states)
            scores = (mixed @ weight + bias)[..., 1]
            results.append(scores.masked_fill(~sentences.words, -torch.inf).argmax(-1))
        return torch.stack(results)


def trained_mixes(
    sentences: Sentences, allowed: Bool[Tensor, "K S"], weights: Float[Tensor, "K N"], steps: int, seed: int
) -> Mixes:
    """K scalar mixes, `γ Σ_s softmax(a)_s h_s` with a linear layer on top, trained side by side.

    Args:
        sentences: to train on.
        allowed: the kinds of states that each mix may use.
        weights: how often each mix has each sentence: 1, or the counts of a resample.
        steps: of Adam, on 32 sentences each, the same for all mixes.
        seed: of the order of the sentences.

    Source: Tenney et al. 2019, section 3.1 (scalar mixing weights), after Peters et al. 2018.
    """
    count, features = len(allowed), sentences.states.shape[-1]
    logits = torch.zeros(allowed.shape, requires_grad=True)
    scale = torch.ones(count, 1, 1, requires_grad=True)
    weight = torch.zeros(count, features, 2, requires_grad=True)
    bias = torch.zeros(count, 2, requires_grad=True)
    optimizer = torch.optim.Adam([logits, scale, weight, bias], lr=_RATE)
    with torch.enable_grad():
        for rows in _orders(len(sentences.target), steps, seed):
            part = sentences.rows(rows)
            share = logits.masked_fill(~allowed, -torch.inf).softmax(-1)
            read = part.states[:, part.words]  # [S words F]
            outputs = torch.einsum("ks,swf,kfo->kwo", share, read, scale * weight) + bias[:, None]
            is_target = torch.nn.functional.one_hot(part.target, part.words.shape[1])[part.words]
            picked = outputs.log_softmax(-1).gather(-1, is_target.expand(count, -1)[..., None]).squeeze(-1)
            often = weights[:, rows, None].expand(-1, -1, part.words.shape[1])[:, part.words]
            optimizer.zero_grad()
            loss = -(often * picked).mean(-1).sum()
            torch.autograd.backward(loss)
            optimizer.step()
    share = logits.detach().masked_fill(~allowed, -torch.inf).softmax(-1)
    return Mixes(share, (scale * weight).detach(), bias.detach())


def _outputs(
    states: Float[Tensor, "S N W F"], weight: Float[Tensor, "S F 2"], bias: Float[Tensor, "S 2"]
) -> Float[Tensor, "S N W 2"]:
    return torch.einsum("snwf,sfo->snwo", states, weight) + bias[:, None, None]


def _loss(
    outputs: Float[Tensor, "S N W 2"], words: Bool[Tensor, "*N W"], target: Int[Tensor, "*N"]
) -> Float[Tensor, " S"]:
    """Mean over words of −log p(is it the word to find?)."""
    is_target = torch.nn.functional.one_hot(target, words.shape[-1])
    picked = outputs.log_softmax(-1).gather(-1, is_target.expand(outputs.shape[:-1])[..., None]).squeeze(-1)
    return -torch.where(words, picked, 0).sum((-1, -2)) / words.sum((-1, -2))


def _orders(count: int, steps: int, seed: int) -> Iterator[Int[Tensor, " M"]]:
    """The rows of every step: passes over all, each in an order of its own."""
    random, left = generator(seed, "order of sentences"), torch.zeros(0, dtype=torch.long)
    for _ in range(steps):
        if len(left) < min(SENTENCES, count):
            left = torch.cat([left, torch.from_numpy(random.permutation(count))])
        yield left[:SENTENCES]
        left = left[SENTENCES:]
