"""Which id pads the shorter rows of a batch, so that a classifier reads the same token in a batch as alone."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from benchmark.errors import UserError
from benchmark.models.embeddings import embedding_modules
from benchmark.models.families import Family
from benchmark.models.weights import n_embeddings

_WRAPPED = ("mbart", "plbart")  # their decoders begin with the last token whose id is not that of padding


@dataclass(frozen=True)
class _StandIn:
    """Hook on an embedding module that takes the id `padding`, for which there is no embedding, for `like`."""

    padding: int
    like: int

    def __call__(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0].masked_fill(args[0] == self.padding, self.like), *args[1:])


@dataclass(frozen=True)
class Padding:
    """What fills places that hold no token of a text.

    Attributes:
        id: pads the shorter rows of a batch.
        like: the id of the vocabulary that it is embedded as; itself where it has an embedding of its own.
    """

    id: int
    like: int


def padding_of(model: nn.Module, tokenizer: Any, family: Family, *, reads_end: bool = False) -> Padding:
    """What pads; the configuration of `model` is told where it is not the configuration's own.

    A decoder's classifier of transformers reads the last token whose id is not `config.pad_token_id`, and of a single text
    without such an id the last token. The tokenizer has no say in it. Batches are therefore padded

    - with `config.pad_token_id` where there is one, whatever id the tokenizer pads with, unless any token may be the last
      one that is read (`reads_end`), as that of a prompt may;
    - else, in decoders, with an id behind the vocabulary, which no text can hold, and which is embedded as the tokenizer's
      padding (or its end of sequence, or its unknown token, or id 0). Any id of the vocabulary could end a text, and the
      token before it would be read. The same holds for encoder–decoders that pad with the end of sequence, since it is
      the last of those that they read;
    - else with the tokenizer's padding, which the attention mask hides.

    Raises:
        UserError: a decoder begins with the last token that is no padding, and the configuration pads with that very token.
    """
    config: Any = model.config.get_text_config()  # type: ignore[union-attr, operator]  # a module's attribute is a tensor or a module to mypy
    own, size = config.pad_token_id, n_embeddings(model)
    ends = family.read == "last_end" and own == config.eos_token_id
    if ends and config.model_type in _WRAPPED:
        raise UserError(
            f"config.json pads with the end of sequence (pad_token_id = eos_token_id = {own}), with which a decoder of "
            f"the family {config.model_type} begins; give the pad_token_id that the model was trained with"
        )
    if own is not None and 0 <= own < size and not ends and not reads_end:
        return Padding(int(own), int(own))
    names = ("pad_token_id", "eos_token_id", "unk_token_id")
    like = next((known for name in names if (known := getattr(tokenizer, name, None)) is not None), 0)
    fills = like
    if family.read in ("last", "last_end"):
        for module in embedding_modules(model, family, str(config.model_type)):
            module.register_forward_pre_hook(_StandIn(size, like))
        fills = size
    config.pad_token_id = fills
    return Padding(int(fills), int(like))
