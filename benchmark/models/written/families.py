"""Writes a program into the weights of a plain BERT, GPT-2, Llama or ViT, which are saved and loaded like any checkpoint.

A feature f lies on a pair of dimensions of the residual stream, as +f and −f, so that the mean is 0. A pair ±K, in the
position embeddings, makes every layer normalisation the identity up to (f/K)²: its gain is K √(2/d), and the standard
deviation K √(2/d) √(1 + Σ f²/K²). Of an RMS norm, which subtracts no mean, a feature is one dimension, and so is K, which
lies in the token embeddings. The same K is read as the feature that is 1 everywhere; no layer has a bias.

Source: this project. InterpBench (Gupta et al. 2024) trains models with known circuits; here the weights are written.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from math import cos, pi, sin, sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor, nn

from benchmark.models.written.program import MARK, ONE, READ, REST, RESTING, Features, Head, Neuron, Program

FamilyName = Literal["bert", "gpt2", "llama", "vit", "gpt2_lm", "llama_lm"]
"""A classifier, or with `_lm` a language model that is asked for the next token."""

Form = Literal["text", "prompt", "image"]
"""What its inputs are: texts for a classifier, prompts for a language model, or images."""

_K = 1e4
_PLACES = 16
"""Positions that a head which looks back tells apart."""

_BACK = 800.0
"""Its score: cos of a sixteenth of a turn is 0.924, so that e⁻⁶⁰ is left to the position beside."""

_TURNING, _STANDING = 3000.0, 1e12
"""Score of a head that looks back by rotary positions (cos 6 = 0.960), and their base, with which the slower half of the
pairs stand still: 10⁻⁶ a position."""

_SMALL = 1e-3
"""Slope of the pooler, whose tanh is then linear up to 10⁻⁵."""

_QUERY, _KEY = ("turn query cos", "turn query sin"), ("turn key cos", "turn key sin")
_PAD, _UNKNOWN, _BEGIN, _END, _MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
_SPECIAL = (_PAD, _UNKNOWN, _BEGIN, _END, _MASK)
_PATCH = 4
GRID = 3
"""Rows and columns of patches of an image."""


class Written(ABC):
    """A family: where in its modules the parts of a program lie.

    Args:
        program: what is written.
    """

    form: ClassVar[Form] = "text"
    causal: ClassVar[bool] = True
    paired: ClassVar[bool] = True

    def __init__(self, program: Program) -> None:
        self.program = program
        turns = (*_QUERY, *_KEY) if program.looks_back and self.paired else ()
        self.features = (*program.features, *turns)
        least = (len(self.features) + 1) * (2 if self.paired else 1)
        self.pairs = max(_pairs(head) for layer in program.layers for head in layer.heads)
        moved = max(len(head.moves) for layer in program.layers for head in layer.heads)
        self.head_dim = max(self.pairs, moved, -(-least // program.heads))
        self.width = self.head_dim * program.heads

    # the residual stream

    def reading(self, features: Features) -> Float[Tensor, " D"]:
        """Weights that read a sum of features from the residual stream."""
        row = torch.zeros(self.width, dtype=torch.float64)
        for name, weight in features.items():
            for place, sign in self._dims(name):
                row[place] += sign * weight / (len(self._dims(name)) * (_K if name == ONE else 1))
        return row

    def written(self, features: Features) -> Float[Tensor, " D"]:
        """What a sum of features is in the residual stream; `one` is K."""
        column = torch.zeros(self.width, dtype=torch.float64)
        for name, value in features.items():
            for place, sign in self._dims(name):
                column[place] += sign * value * (_K if name == ONE else 1)
        return column

    def _dims(self, name: str) -> tuple[tuple[int, float], ...]:
        place = len(self.features) if name == ONE else self.features.index(name)
        return ((2 * place, 1.0), (2 * place + 1, -1.0)) if self.paired else ((place, 1.0),)

    def tokens(self) -> Mapping[str, Features]:
        """Features of every token of the vocabulary."""
        words = self.program.words
        rested = any(REST in own for own in words.values())
        begin: dict[str, float] = {} if rested else {REST: 1.0}
        if not self.causal:
            begin[READ] = 1.0
        given: dict[str, Features] = {token: {} for token in _SPECIAL}
        given |= {_BEGIN: begin, **words, **{label: {} for label in self.program.labels}}
        if self.causal:
            given = {word: {**own, READ: 1.0} if MARK in own else own for word, own in given.items()}
        return given

    def positions(self, count: int) -> Float[Tensor, "P D"]:
        """Position embeddings: K, and the turns by which a head looks back; in an encoder the first token looks from the
        place of the last word.
        """
        rows = []
        for place in range(count):
            seen = place if self.causal or place else self.program.length + 1
            at: dict[str, float] = {ONE: 1.0}
            if self.program.looks_back:
                for names, turn in ((_QUERY, seen), (_KEY, place)):
                    angle = 2 * pi * turn / _PLACES
                    at |= {names[0]: cos(angle), names[1]: sin(angle)}
            rows.append(self.written(at))
        return torch.stack(rows)

    # heads and neurons

    def scores(self, head: Head) -> list[tuple[Features, Features]]:
        """(what the query reads, what the key reads): the score is the sum of their products."""
        found: list[tuple[Features, Features]] = [({query: weight}, {key: 1.0}) for query, key, weight in head.looks]
        if head.back is not None:
            angle = 2 * pi * head.back / _PLACES  # cos(a − b) of the query's turn less `back`, and the key's
            c, s = _BACK * cos(angle), _BACK * sin(angle)
            found += [
                ({_QUERY[0]: c, _QUERY[1]: s}, {_KEY[0]: 1.0}),
                ({_QUERY[1]: c, _QUERY[0]: -s}, {_KEY[1]: 1.0}),
            ]
        elif head.rests:
            found.append(({ONE: RESTING}, {REST: 1.0}))
        return found

    def attention(self, head: Head) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Weights of query, key, value [E D] and output [D E] of one head; scores are divided by √E after them."""
        query, key, value = (torch.zeros(self.head_dim, self.width, dtype=torch.float64) for _ in range(3))
        output = torch.zeros(self.width, self.head_dim, dtype=torch.float64)
        for place, (of_query, of_key) in enumerate(self.scores(head)):
            query[place] = self.reading(of_query) * sqrt(self.head_dim)
            key[place] = self.reading(of_key)
        for place, (source, to, gain) in enumerate(head.moves):
            value[place] = self.reading({source: 1.0})
            output[:, place] = self.written({to: gain})
        return query, key, value, output

    def joined(self, heads: Sequence[Head]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Those of all heads of a layer, side by side; idle ones where there are fewer."""
        whole = [*heads, *[Head()] * (self.program.heads - len(heads))]
        query, key, value, output = zip(*map(self.attention, whole), strict=True)
        return torch.cat(query), torch.cat(key), torch.cat(value), torch.cat(output, dim=1)

    def feed_forward(self, neurons: Sequence[Neuron]) -> tuple[Tensor, Tensor]:
        """Weights [N D] of what neurons read, and [D N] of what they write."""
        inner = torch.zeros(self.program.neurons, self.width, dtype=torch.float64)
        outer = torch.zeros(self.width, self.program.neurons, dtype=torch.float64)
        for place, neuron in enumerate(neurons):
            inner[place], outer[:, place] = self.reading(neuron.reads), self.written(neuron.writes)
        return inner, outer

    @property
    def gain(self) -> float:
        """Of a normalisation layer: the size of what it divides by."""
        return _K * sqrt((2 if self.paired else 1) / self.width)

    def answers(self) -> Float[Tensor, "2 D"]:
        """Half of the answer for yes, and half of it against no, so that both classes have a gradient."""
        row = self.reading(self.program.answer) / 2
        return torch.stack([-row, row])

    def unembedding(self) -> Float[Tensor, "V D"]:
        """Of a language model: the same for the words that the labels are, and 0 for all others."""
        rows = torch.zeros(len(self.tokens()), self.width, dtype=torch.float64)
        for label, row in zip(self.program.labels, self.answers(), strict=True):
            rows[list(self.tokens()).index(label)] = row
        return rows

    # the model

    @abstractmethod
    def model(self) -> Any:
        """The transformers model."""

    def save(self, folder: Path) -> None:
        """Model and tokenizer, or image processor."""
        model = self.model()
        model.save_pretrained(folder)
        self.encoder().save_pretrained(folder)

    def encoder(self) -> Any:
        """The tokenizer: words, and where there are none of a text's the longest pieces."""
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
        from transformers import PreTrainedTokenizerFast

        vocabulary = {token: number for number, token in enumerate(self.tokens())}
        words = Tokenizer(models.WordPiece(vocabulary, unk_token=_UNKNOWN))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        template = f"{_BEGIN} $A" if self.causal else f"{_BEGIN} $A {_END}"
        words.post_processor = processors.TemplateProcessing(
            single=template, special_tokens=[(_BEGIN, vocabulary[_BEGIN]), (_END, vocabulary[_END])]
        )
        return PreTrainedTokenizerFast(
            tokenizer_object=words,
            pad_token=_PAD,
            unk_token=_UNKNOWN,
            cls_token=_BEGIN,
            sep_token=_END,
            mask_token=_MASK,
            model_max_length=_PLACES,
        )

    def _embeddings(self) -> Float[Tensor, "V D"]:
        return torch.stack([self.written(own) for own in self.tokens().values()])

    def _labels(self) -> dict[str, Any]:
        labels = self.program.labels
        return {"id2label": dict(enumerate(labels)), "label2id": {name: place for place, name in enumerate(labels)}}


def _pairs(head: Head) -> int:
    return len(head.looks) + 2


def _put(parameter: Tensor, values: Tensor) -> None:
    """Write into the first rows and columns of a parameter, all others of which are 0."""
    with torch.no_grad():
        parameter.zero_()
        parameter[tuple(map(slice, values.shape))] = values.to(parameter)


def _put_in_order(block: nn.Module, *weights: Tensor) -> None:
    """Write into the linear layers of a block, in the order in which it has them: query, key, value, output, and those of
    the feed-forward network.
    """
    linear = [part for part in block.modules() if isinstance(part, nn.Linear)]
    for part, own in zip(linear, weights, strict=True):
        _put(part.weight, own)


def _blank(model: nn.Module) -> Any:
    """The model with 0 for every parameter."""
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model.double()


class Bert(Written):
    """`BertForSequenceClassification`: the answer is read at the first token, behind a pooler that is nearly linear."""

    causal: ClassVar[bool] = False

    def model(self) -> Any:
        """The transformers model."""
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=len(self.tokens()), hidden_size=self.width, num_hidden_layers=len(self.program.layers),
            num_attention_heads=self.program.heads, intermediate_size=self.program.neurons, hidden_act="relu",
            max_position_embeddings=_PLACES, pad_token_id=0, **self._labels(),
        )  # fmt: skip
        model = _blank(BertForSequenceClassification(config))
        embeddings = model.bert.embeddings
        _put(embeddings.word_embeddings.weight, self._embeddings())
        _put(embeddings.position_embeddings.weight, self.positions(_PLACES))
        norms = [embeddings.LayerNorm]
        for module, layer in zip(model.bert.encoder.layer, self.program.layers, strict=True):
            _put_in_order(module, *self.joined(layer.heads), *self.feed_forward(layer.neurons))
            norms += [module.attention.output.LayerNorm, module.output.LayerNorm]
        _fill(norms, self.gain)
        no, yes = self.answers()
        _put(model.bert.pooler.dense.weight, torch.stack([_SMALL * no, _SMALL * yes]))
        _put(model.classifier.weight, torch.eye(2, dtype=torch.float64) / _SMALL)
        return model


class Decoder(Written):
    """A family that reads from left to right: a classifier, or a language model whose answer is the word that comes next."""

    kind: ClassVar[str]
    """Of the transformers model."""

    body: ClassVar[str]
    head: ClassVar[str]
    """What the parts of the transformers model are called."""

    def model(self) -> Any:
        """The transformers model."""
        import transformers

        model = _blank(getattr(transformers, self.kind)(self._config()))
        self._write(getattr(model, self.body))
        rows = self.unembedding() if self.form == "prompt" else self.answers()
        _put(getattr(model, self.head).weight, rows)
        return model

    @abstractmethod
    def _config(self) -> Any:
        """The configuration of the model."""

    @abstractmethod
    def _write(self, body: Any) -> None:
        """Write embeddings, blocks and norms."""


class Gpt2(Decoder):
    """`GPT2ForSequenceClassification`, which reads the last token."""

    kind: ClassVar[str] = "GPT2ForSequenceClassification"
    body: ClassVar[str] = "transformer"
    head: ClassVar[str] = "score"

    def _config(self) -> Any:
        from transformers import GPT2Config

        return GPT2Config(
            vocab_size=len(self.tokens()), n_positions=_PLACES, n_embd=self.width, n_layer=len(self.program.layers),
            n_head=self.program.heads, n_inner=self.program.neurons, activation_function="relu", pad_token_id=0,
            bos_token_id=2, eos_token_id=None, tie_word_embeddings=False, **self._labels(),
        )  # fmt: skip

    def _write(self, body: Any) -> None:
        _put(body.wte.weight, self._embeddings())
        _put(body.wpe.weight, self.positions(_PLACES))
        norms = [body.ln_f]
        for module, layer in zip(body.h, self.program.layers, strict=True):
            query, key, value, output = self.joined(layer.heads)
            inner, outer = self.feed_forward(layer.neurons)
            _put(module.attn.c_attn.weight, torch.cat([query, key, value]).T)
            _put(module.attn.c_proj.weight, output.T)
            _put(module.mlp.c_fc.weight, inner.T)
            _put(module.mlp.c_proj.weight, outer.T)
            norms += [module.ln_1, module.ln_2]
        _fill(norms, self.gain)


class Gpt2LM(Gpt2):
    """`GPT2LMHeadModel`."""

    form: ClassVar[Form] = "prompt"
    kind: ClassVar[str] = "GPT2LMHeadModel"
    head: ClassVar[str] = "lm_head"


class Llama(Decoder):
    """`LlamaForSequenceClassification`: RMS norms, gates that are 1, and rotary positions.

    What a head looks for lies on the slower half of the rotary pairs, which stand still; a head that looks back has its
    score on the fastest pair, cos(i − j − back).
    """

    paired: ClassVar[bool] = False
    kind: ClassVar[str] = "LlamaForSequenceClassification"
    body: ClassVar[str] = "model"
    head: ClassVar[str] = "score"

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.slow = self.pairs + 1  # the first pair that stands still
        self.head_dim = 4 * self.slow

    def attention(self, head: Head) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As of all families, on the rotary pairs that stand still."""
        back, plain = head.back, Head(head.looks, head.moves, head.rests and head.back is None)
        query, key, value, output = super().attention(plain)
        query, key = (torch.roll(weights, self.slow, dims=0) for weights in (query, key))
        if back is not None:
            angle, half = float(back), self.head_dim // 2
            size = _TURNING * sqrt(self.head_dim)
            query[0], query[half] = self.reading({ONE: size * cos(angle)}), self.reading({ONE: -size * sin(angle)})
            key[0] = self.reading({ONE: 1.0})
        return query, key, value, output

    def tokens(self) -> Mapping[str, Features]:
        """Features of every token, K among them."""
        return {token: {**own, ONE: 1.0} for token, own in super().tokens().items()}

    def _config(self) -> Any:
        from transformers import LlamaConfig

        return LlamaConfig(
            vocab_size=len(self.tokens()), hidden_size=self.width, num_hidden_layers=len(self.program.layers),
            num_attention_heads=self.program.heads, head_dim=self.head_dim, intermediate_size=self.program.neurons,
            hidden_act="relu", max_position_embeddings=_PLACES, pad_token_id=0, bos_token_id=2, eos_token_id=None,
            rope_parameters={"rope_type": "default", "rope_theta": _STANDING}, tie_word_embeddings=False, **self._labels(),
        )  # fmt: skip

    def _write(self, body: Any) -> None:
        _put(body.embed_tokens.weight, self._embeddings())
        norms = [body.norm]
        for module, layer in zip(body.layers, self.program.layers, strict=True):
            inner, outer = self.feed_forward(layer.neurons)
            ones = self.reading({ONE: 1.0}).expand(self.program.neurons, -1)  # of the gates
            _put_in_order(module, *self.joined(layer.heads), inner, ones, outer)
            norms += [module.input_layernorm, module.post_attention_layernorm]
        _fill(norms, self.gain)


class LlamaLM(Llama):
    """`LlamaForCausalLM`."""

    form: ClassVar[Form] = "prompt"
    kind: ClassVar[str] = "LlamaForCausalLM"
    head: ClassVar[str] = "lm_head"


class Vit(Written):
    """`ViTForImageClassification`: each word is a patch in which one number of one colour is 1; a black patch is no word."""

    form: ClassVar[Form] = "image"
    causal: ClassVar[bool] = False

    def model(self) -> Any:
        """The transformers model."""
        from transformers import ViTConfig, ViTForImageClassification

        config = ViTConfig(
            hidden_size=self.width, num_hidden_layers=len(self.program.layers), qkv_bias=False,
            num_attention_heads=self.program.heads, intermediate_size=self.program.neurons, hidden_act="relu",
            image_size=GRID * _PATCH, patch_size=_PATCH, num_channels=3, **self._labels(),
        )  # fmt: skip
        model = _blank(ViTForImageClassification(config))
        embeddings = model.vit.embeddings
        kernel = embeddings.patch_embeddings.projection.weight
        with torch.no_grad():
            for place, own in enumerate(self.program.words.values()):
                kernel.view(self.width, -1)[:, place] = self.written(own)
            embeddings.cls_token[0, 0] = self.written(self.tokens()[_BEGIN])
            embeddings.position_embeddings[0] = self.positions(1 + GRID**2)
        norms = [model.vit.layernorm]
        for module, layer in zip(_layers(model.vit), self.program.layers, strict=True):
            _put_in_order(module, *self.joined(layer.heads), *self.feed_forward(layer.neurons))
            norms += [module.layernorm_before, module.layernorm_after]
        _fill(norms, self.gain)
        _put(model.classifier.weight, self.answers())
        return model

    def encoder(self) -> Any:
        """An image processor that leaves pixels as they are, but divides them by 255."""
        from transformers import ViTImageProcessor

        return ViTImageProcessor(
            do_resize=False, do_normalize=False, do_rescale=True, size={"height": GRID * _PATCH, "width": GRID * _PATCH}
        )


def _layers(body: Any) -> Any:
    return body.encoder.layer if hasattr(body, "encoder") else body.layers


def _fill(norms: Iterable[Any], gain: float) -> None:
    for norm in norms:
        nn.init.constant_(norm.weight, gain)


def picture(program: Program, words: Sequence[str]) -> Image.Image:
    """The words as patches, row by row, the others black."""
    places = {word: place for place, word in enumerate(program.words)}
    patches = np.zeros((GRID, GRID, 3 * _PATCH**2), dtype=np.uint8)
    for number, word in enumerate(words):
        patches[number // GRID, number % GRID, places[word]] = 255
    pixels = patches.reshape(GRID, GRID, 3, _PATCH, _PATCH).transpose(0, 3, 1, 4, 2)
    return Image.fromarray(pixels.reshape(GRID * _PATCH, GRID * _PATCH, 3))


FAMILIES: Mapping[str, type[Written]] = dict(
    zip(get_args(FamilyName), (Bert, Gpt2, Llama, Vit, Gpt2LM, LlamaLM), strict=True)
)


def write(program: Program, family: FamilyName, folder: Path) -> None:
    """Write a program into a checkpoint of a family."""
    FAMILIES[family](program).save(folder)
