"""Word classifiers that differ in one thing alone: how many contextual layers lie under a single attention.

They are what Jain & Wallace 2019 study (a contextual encoder or an average of embeddings under additive attention), with
self-attention in place of the recurrent network. Defined in docs/protocols.md, section 16.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from benchmark.settings.declared import Above, Count, Natural, SettingError, configurable
from benchmark.training.cached import checkpoint_directory, trained_once, write_record
from benchmark.training.trainer import descend, passes, texts_of, with_threads
from benchmark.types import Example, Task

_VERSION = 1  # enters the cache's key: raise it when the training changes
_PAD, _UNKNOWN = 0, 1


class PooledClassifier(nn.Module):
    """`logits = U Σ_j α_j h_j + b`, `α = softmax_j(v · tanh(W h_j))`, h the states after L layers over word embeddings.

    With L = 0, h_j is the embedding of word j, and nothing but α ties words together. With L > 0 positions are added to the
    embeddings, and L pre-norm transformer layers follow.
    """

    def __init__(self, vocabulary: int, classes: int, layers: int, hidden: int, heads: int, positions: int) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, hidden, padding_idx=_PAD)
        self.positions = nn.Embedding(positions, hidden) if layers else None
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                hidden, heads, 2 * hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.project = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.output = nn.Linear(hidden, classes)

    def states(self, embeddings: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The states h that attention pools."""
        states = embeddings
        if self.positions is not None:
            states = states + self.positions(torch.arange(states.shape[1], device=states.device))
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=~mask)
        return states

    def forward(
        self,
        embeddings: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"],
        attention: Float[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B T"]]:
        """Logits and attention; the attention that is given stands in for the model's own."""
        states = self.states(embeddings, mask)
        if attention is None:
            scores = self.score(torch.tanh(self.project(states)))[..., 0]
            attention = scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num()  # no word at all: no attention
        pooled = (attention[..., None] * states.masked_fill(~mask[..., None], 0)).sum(1)
        return self.output(pooled), attention


@dataclass(frozen=True)
class WordModel:
    """A trained classifier with its vocabulary.

    Attributes:
        network: in evaluation mode, on the CPU.
        words: the vocabulary; entry i has the id i + 2 (0 is padding, 1 any other word).
        max_words: how many words of an example are read.
    """

    network: PooledClassifier
    words: Sequence[str]
    max_words: int

    def encode(self, examples: Sequence[Example]) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """Ids and mask, padded on the right."""
        known = {word: index + 2 for index, word in enumerate(self.words)}
        rows = [[known.get(word, _UNKNOWN) for word in _words(example)[: self.max_words]] for example in examples]
        ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=_PAD)
        return ids, ids != _PAD


@configurable
class PooledRecipe:
    """How the word classifiers are trained: AdamW on cross-entropy, linear warm-up and decay, in float32 on the CPU.

    The same settings give the same weights on the same machine. A trained model is cached under a digest of task and
    settings. One that was killed begins anew: each takes seconds to a minute.

    More steps change little of what is measured. On `planted`, with 0, 1, 2 and 4 layers, 400 steps take a minute for all
    four on one core, and 1200 take two and a half. From 400 to 1200, accuracy goes from .79, .86, .90, .90 to .88, .96,
    1.00, .99 in training and from .81, .86, .84, .84 to .86, .85, .88, .87 on 200 texts of the test split (intervals of
    ±.05), and attention's τ_b with the gradient from .71, .11, .10, .10 to .73, .10, .11, .09.

    Attributes:
        hidden, heads: size of embeddings and states, and attention heads of each contextual layer.
        vocabulary: how many words are known, the most frequent ones of the training split in lower case.
        max_words: how many words of an example are read. A pair of texts is read as one.
        steps, batch_size, learning_rate: the training.
        seed: of weights and of the order of examples.
    """

    hidden: Count = 64
    heads: Count = 4
    vocabulary: Count = 8000
    max_words: Count = 256
    steps: Count = 400
    batch_size: Count = 32
    learning_rate: Annotated[float, Above(0)] = 2e-3
    seed: Natural = 0

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise SettingError("hidden", self.hidden, f"multiples of heads={self.heads}")

    def model(self, task: Task, layers: int) -> WordModel:
        """The classifier with so many contextual layers; trained where the cache has none."""
        covered = [_VERSION, task.fingerprint, list(task.labels), asdict(self), layers]
        directory = Path(
            trained_once(
                checkpoint_directory("pooled", covered),
                f"the word model of {layers} layers",
                lambda folder: self._train(task, layers, folder),
            )
        )
        words = json.loads((directory / "training.json").read_text(encoding="utf-8"))["words"]
        network = self._network(len(words), len(task.labels), layers)
        network.load_state_dict(load_file(directory / "model.safetensors"))
        return WordModel(network.eval().requires_grad_(requires_grad=False), words, self.max_words)

    def _network(self, words: int, classes: int, layers: int) -> PooledClassifier:
        return PooledClassifier(words + 2, classes, layers, self.hidden, self.heads, self.max_words)

    def _train(self, task: Task, layers: int, folder: Path) -> None:
        train = task.split("train")
        counts = Counter(word for example in train for word in _words(example)[: self.max_words])
        words = sorted(counts, key=lambda word: (-counts[word], word))[: self.vocabulary]
        with with_threads(1):
            torch.manual_seed(self.seed)
            network = self._network(len(words), len(task.labels), layers)
            self._fit(WordModel(network, words, self.max_words), train, layers)
        folder.mkdir()
        save_file(network.state_dict(), folder / "model.safetensors")
        write_record(folder, {"settings": asdict(self), "layers": layers, "examples": len(train), "words": words})

    def _fit(self, model: WordModel, train: Sequence[Example], layers: int) -> None:
        ids, mask = model.encode(train)
        label = torch.tensor([example.label for example in train])
        network = model.network.train()
        optimizer = torch.optim.AdamW(network.parameters(), lr=self.learning_rate)
        batches = passes(mask.sum(1).tolist(), self.batch_size)

        def learn(step: int) -> None:
            rows = next(batches)
            longest = int(mask[rows].sum(1).max())
            part, seen = ids[rows, :longest], mask[rows, :longest]
            logits, _ = network(network.embeddings(part), seen)
            torch.autograd.backward(nn.functional.cross_entropy(logits, label[rows]))

        descend(network, optimizer, self.steps, learn, f"training a word model of {layers} contextual layers")


def _words(example: Example) -> list[str]:
    return " ".join(texts_of(example)).lower().split()
