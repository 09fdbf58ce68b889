"""The sentences that a probe is trained and measured on, with the states of their words in a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.analyses.probing.word_finders import Sentences
from benchmark.analyses.syntax.head_votes import visible_words
from benchmark.annotations import KEYS, Marked
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.embeddings import embedding_modules
from benchmark.models.words import hidden_states, word_states
from benchmark.randomness import generator
from benchmark.types import Batch

PARTS = ("train", "test", "generalisation")


@dataclass(frozen=True)
class Probed:
    """The sentences of one probe in one model, by part.

    Attributes:
        parts: states of the words alone, then those before the first block and after every block.
        control: the word that the control task asks for, by part.
        known: by part, the number of a sentence's first word whose type some training sentence asks for, −1 without one.
        split_words: sentences whose word to find the tokenizer splits.
        lost: sentences that lie beyond the model's window in part, which are left out.
        by_place: whether the word to find is asked for by its place alone.
    """

    parts: Mapping[str, Sentences]
    control: Mapping[str, Sentences]
    known: Mapping[str, Int[Tensor, " N"]]
    split_words: int
    lost: int
    by_place: bool = False


def probed_sentences(model: Classifier, batches: Sequence[Batch], seed: int) -> dict[str, Probed]:
    """The sentences of every probe among these examples; others are passed over.

    Args:
        model: whose states they are.
        batches: examples.
        seed: of the control task.

    Raises:
        NotApplicable: no example has a word to find, a probe lacks a part, or the model has two sequences.
    """
    found: dict[str, _Collected] = {}
    for batch in batches:
        for part, word in _marked(model, batch):
            found.setdefault(word.probe, _Collected()).add(part, word, seed)
    if not found:
        raise NotApplicable("no example has a word to find (benchmark.annotations.Marked)")
    return {probe: collected.whole() for probe, collected in found.items()}


class _Collected:
    """Sentences of one probe while they are read."""

    def __init__(self) -> None:
        self.split_words, self.lost, self.by_place = 0, 0, False
        self.states: dict[str, list[Float[Tensor, "S W F"]]] = {part: [] for part in PARTS}
        self.targets: dict[str, list[tuple[int, int]]] = {part: [] for part in PARTS}
        self.words: dict[str, list[tuple[str, ...]]] = {part: [] for part in PARTS}

    def add(self, part: "_Row", word: Marked, seed: int) -> None:
        if part.visible < len(part.words):
            self.lost += 1
            return
        self.split_words += part.split
        self.by_place |= word.by_place
        self.states[word.part].append(part.states)
        self.words[word.part].append(part.words)
        ranks = [_rank(seed, name) for name in part.words]
        self.targets[word.part].append((word.word, int(np.argmax(ranks))))

    def whole(self) -> Probed:
        if empty := [part for part in PARTS if not self.targets[part]]:
            raise NotApplicable(f"a probe has no sentence of the {empty[0]} set")
        parts, control = {}, {}
        for part in PARTS:
            states = [each.transpose(0, 1) for each in self.states[part]]
            padded = torch.nn.utils.rnn.pad_sequence(states, batch_first=True)  # [N W S F]
            words = torch.arange(padded.shape[1])[None] < torch.tensor([len(each) for each in states])[:, None]
            targets = torch.tensor(self.targets[part])
            parts[part] = Sentences(padded.permute(2, 0, 1, 3).contiguous(), words, targets[:, 0])
            control[part] = replace(parts[part], target=targets[:, 1])
        return Probed(parts, control, self._known(), self.split_words, self.lost, self.by_place)

    def _known(self) -> dict[str, Int[Tensor, " N"]]:
        """What vocabulary alone can tell: the first word of a sentence that training sentences ask for."""
        pairs = zip(self.words["train"], self.targets["train"], strict=True)
        asked = {words[target] for words, (target, _) in pairs}
        return {
            part: torch.tensor([next((n for n, word in enumerate(words) if word in asked), -1) for words in sentences])
            for part, sentences in self.words.items()
        }


@dataclass(frozen=True)
class _Row:
    """A sentence: the states of its words, the words, how many of them the model sees, and whether the target is split."""

    states: Float[Tensor, "S W F"]
    words: tuple[str, ...]
    visible: int
    split: bool


def _marked(model: Classifier, batch: Batch) -> Iterator[tuple[_Row, Marked]]:
    """The sentences of a batch that have a word to find, with their states."""
    rows = [row for row, meta in enumerate(batch.meta) if isinstance(meta.get(KEYS[Marked]), Marked)]
    if not rows:
        return
    for part, _ in model.parts(batch.select(rows)):
        (module, *_) = embedding_modules(model.model, model.family, model.name)
        with torch.no_grad():
            alone = module(part.tensors["input_ids"])
        kinds = [word_states(state.to(torch.float32), part.units) for state in (alone, *hidden_states(model, part))]
        states, visible = torch.stack(kinds, dim=1).cpu(), visible_words(part).sum(1).tolist()
        for row, meta in enumerate(part.meta):
            word: Marked = meta[KEYS[Marked]]
            split = int((part.units[row] == word.word).sum()) > 1
            words = tuple(name.lower() for name in part.words[row])
            yield _Row(states[row, :, : len(words)], words, visible[row], split), word


@cache
def _rank(seed: int, name: str) -> float:
    """The rank of a word type in the control task; many sentences ask for the same."""
    return float(generator(seed, "control task", name).random())


def drawn_sentences(batches: Sequence[Batch], count: int, seed: int) -> list[Batch]:
    """Of every probe as many sentences, drawn by the seed: batches are in the order of lengths."""
    places: dict[str, list[tuple[int, int]]] = {}
    for number, batch in enumerate(batches):
        for row, meta in enumerate(batch.meta):
            if isinstance(word := meta.get(KEYS[Marked]), Marked):
                places.setdefault(word.probe, []).append((number, row))
    chosen: dict[int, list[int]] = {}
    for probe, found in places.items():
        for place in generator(seed, "training sentences", probe).permutation(len(found))[:count]:
            number, row = found[int(place)]
            chosen.setdefault(number, []).append(row)
    return [batches[number].select(sorted(rows)) for number, rows in sorted(chosen.items())]


def random_model(model: Classifier, seed: int) -> Classifier:
    """A model of the same shape with new weights, drawn as its family draws them; the process's random state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model.model)(model.model.config)
    return replace(model, model=fresh.to(model.device, model.dtype).eval().requires_grad_(requires_grad=False))
