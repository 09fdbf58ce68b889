"""Causal language models as classifiers of what comes next.

The classes of an example are its candidates for the next token, the tokens of the vocabulary, or whether a continuation of
several tokens comes (`Over`).

Notation: B examples, T tokens, V tokens of the vocabulary, C candidates, N tokens of a continuation; class 0 is the answer,
the others are its foils.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from benchmark.errors import NotApplicable, UserError
from benchmark.models.families import last_token
from benchmark.words import is_unspaced

Answers = Literal["class", "next_token"]
"""What a model is asked: which of its classes an input is of, or which of an example's candidates comes next."""

Around = tuple[tuple[int, ...], tuple[int, ...]]
"""Ids of the tokens that a template puts before and behind a text."""

Over = Literal["candidates", "vocabulary", "continuation"]
"""What a probability is among: the candidates of an example for the next token, all tokens, or a continuation of several
tokens and anything else."""

VOCABULARY: Literal["vocabulary"] = "vocabulary"
"""In place of names for the candidates (`model.labels`): the classes are all tokens."""

CONTINUATION: Literal["continuation"] = "continuation"
"""In place of names for the candidates: the classes are the continuation of each example and anything else. It is also the
name of the model's input that holds its ids, [B N 1], −1 behind a shorter one."""

CANDIDATES = "candidates"
"""Name of the model's input that holds the candidates' ids, [B C 1]: three dimensions, so that it is no column of tokens."""

ASKED = (CANDIDATES, CONTINUATION)
"""The inputs of the model that say what is asked, and are no columns of tokens."""

CLOSING = tuple(",.;:!?)]}%”’")
"""Punctuation behind which a word stands apart."""

LABELS = ("answer", "foil")
"""What the candidates are called where nobody names them."""

CONTINUES = (CONTINUATION, "anything else")
"""What the two classes of a continuation are called."""

AFTER_ALL = "ForCausalLM", "LMHeadModel"
"""How classes of transformers end that give logits of the next token."""


class NextToken:
    """Gives the forward of a causal language model the logits [B C] of the candidates alone, read where the prompt ends.

    The state of the last token that is no padding goes through the model's own head (`logits_to_keep`), with whatever the
    family does to its logits; of these the candidates' are picked. All V of them are the `vocabulary` of the output.

    With a `continuation` y of N tokens the prompt x is followed by all but the last of them, N states are read in the one
    pass, and with `p = Π_t p(y_t | x, y_<t)` the logits are `ln p` and `ln (1 − p)`, whose softmax is p and 1 − p.
    """

    config: Any
    get_output_embeddings: Callable[[], nn.Module]

    def forward(
        self,
        input_ids: Tensor,
        candidates: Int[Tensor, "B C 1"] | None = None,
        continuation: Int[Tensor, "B N 1"] | None = None,
        **more: Any,
    ) -> Any:
        """The model's own output, its logits those of the candidates; without any, those of the vocabulary."""
        read = last_token(input_ids, self.config)[:, None]
        if continuation is not None:
            said = continuation[..., 0]
            input_ids, more = followed(input_ids, read, said, more)
            read = read + torch.arange(said.shape[1], device=read.device)
        kept, place = torch.unique(read, return_inverse=True)
        rows = torch.arange(len(read), device=read.device)[:, None]

        def read_rows(_head: Any, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (states[0][rows, place], *states[1:])

        handle = self.get_output_embeddings().register_forward_pre_hook(read_rows)  # not V logits of each other place
        try:
            output = super().forward(input_ids=input_ids, logits_to_keep=kept, **more)  # type: ignore[misc]  # mixed into a class of transformers
        finally:
            handle.remove()
        logits, output.vocabulary = output.logits, output.logits[:, 0]
        output.logits = output.vocabulary if candidates is None else output.vocabulary.gather(-1, candidates[..., 0])
        if continuation is not None:
            output.logits = _continues(logits, said)
        return output

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        """A copy is made from the family's own class, since that of this object lies in no module."""
        return _empty, (type(self).__mro__[2],), self.__dict__.copy()


def followed(
    ids: Int[Tensor, "B T"], last: Int[Tensor, "B 1"], said: Int[Tensor, "B N"], more: Mapping[str, Any]
) -> tuple[Int[Tensor, "B M"], dict[str, Any]]:
    """Prompts with all but the last token of their continuations right behind them, M = T + N − 1 tokens wide.

    Args:
        ids: the prompts, or what follows of them where keys and values of earlier tokens are known.
        last: where their last token stands.
        said: −1 behind a shorter continuation.
        more: the model's other inputs; `attention_mask` is as wide as the whole prompt.
    """
    behind, room = said[:, :-1], (0, said.shape[1] - 1)
    place = last + 1 + torch.arange(behind.shape[1], device=last.device)

    def put(column: Tensor, values: Tensor, shift: int = 0) -> Tensor:
        wider = nn.functional.pad(column, room)
        return wider.scatter(1, place + shift, torch.where(behind < 0, wider.gather(1, place + shift), values))

    changed = dict(more)
    for name, column in more.items():
        if name == "attention_mask":
            ones = torch.ones_like(behind, dtype=column.dtype)
            changed[name] = put(column, ones, column.shape[1] - ids.shape[1])
        elif isinstance(column, Tensor) and column.shape == ids.shape:  # positions go on, what else there is stays
            step = place - last if name == "position_ids" else 0
            changed[name] = put(column, column.gather(1, last) + step * torch.ones_like(behind))
    return put(ids, behind), changed


def said_behind(tensors: Mapping[str, Tensor]) -> int:
    """How many tokens a pass over inputs computes behind each prompt: all but the last of the longest continuation."""
    said = tensors.get(CONTINUATION)
    return 0 if said is None else said.shape[1] - 1


def refuse_whole(tensors: Mapping[str, Tensor]) -> None:
    """NotApplicable for what looks at, or changes, attention or states of prompts that a continuation stands behind."""
    if CONTINUATION in tensors:
        raise NotApplicable(NOT_A_SUM)


NOT_A_SUM = (
    "a continuation is explained token by token, by its log-probability, and has no attention or states as a whole"
)
"""Why something is not told of a continuation."""


def _continues(logits: Float[Tensor, "B N V"], said: Int[Tensor, "B N"]) -> Float[Tensor, "B 2"]:
    """`ln p` and `ln (1 − p)`, p the product of the probabilities of all tokens that are said."""
    exact = logits if logits.dtype == torch.float64 else logits.float()
    each = exact.gather(-1, said.clamp(min=0)[..., None])[..., 0] - exact.logsumexp(-1)
    whole = each.masked_fill(said < 0, 0).sum(1)
    surely = whole.clamp(max=-torch.finfo(whole.dtype).tiny)  # ln 0 where p rounds to 1 is no number
    return torch.stack([whole, torch.where(surely > -math.log(2), (-surely.expm1()).log(), (-surely.exp()).log1p())], 1)


def _empty(kind: Any) -> Any:
    """A model of a family that is asked for the next token, with nothing in it yet."""
    asked = _asked_for_the_next_token(kind)
    return asked.__new__(asked)


@cache
def _asked_for_the_next_token(kind: Any) -> Any:
    return type(kind.__name__, (NextToken, kind), {"__module__": kind.__module__})


def ask_for_the_next_token(model: nn.Module) -> nn.Module:
    """The model itself, which from now on gives the logits of candidates (`NextToken`).

    Raises:
        UserError: its class has no `logits_to_keep`.
    """
    if isinstance(model, NextToken):
        return model
    if "logits_to_keep" not in inspect.signature(type(model).forward).parameters:
        raise UserError(
            f"{type(model).__name__} gives the logits of all positions alone (no logits_to_keep in its forward), so that it "
            "cannot be explained; a family that can is GPT-2, Llama, Qwen or Gemma"
        )
    kind: Any = type(model)
    model.__class__ = _asked_for_the_next_token(kind)
    return model


def cut_at_the_start(tokenizer: Any) -> Any:
    """The tokenizer, which from now on cuts long prompts where they begin: the question stands at their end.

    A token for the beginning of the text, which it puts before each, stays.
    """
    if tokenizer is not None:
        tokenizer.truncation_side = "left"
    return tokenizer


def tokens_by_name(tokenizer: Any, count: int) -> tuple[str, ...]:
    """What the tokens 0 to `count` − 1 are called: their text, which several may share, else their number."""
    known = 0 if tokenizer is None else min(len(tokenizer), count)
    names = tokenizer.batch_decode([[number] for number in range(known)]) if known else []
    return tuple(name or f"id {number}" for number, name in enumerate([*names, *[None] * (count - known)]))


def chat_around(tokenizer: Any, structural: Mapping[str, int], source: str) -> Around:
    """What the tokenizer's chat template puts around the one message of a user, up to where the model begins to answer.

    Args:
        tokenizer: with a `chat_template`.
        structural: its special tokens with their ids, which are tokens in the template, though not in a text.
        source: of the model, for messages.

    Raises:
        UserError: there is no template, or it does not hold what the user says.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise UserError(f"model '{source}': its tokenizer has no chat template; leave chat (model.chat) out")
    told = tokenizer.apply_chat_template(
        [{"role": "user", "content": _MARK}], tokenize=False, add_generation_prompt=True
    )
    before, found, behind = told.partition(_MARK)
    if not found or _MARK in behind:
        raise UserError(f"model '{source}': the chat template of its tokenizer does not hold what the user says once")
    apart = re.compile("|".join(map(re.escape, sorted(structural, key=len, reverse=True))) or r"(?!)")

    def ids(text: str) -> Iterator[int]:
        place = 0
        for match in (*apart.finditer(text), None):
            plain = text[place : len(text) if match is None else match.start()]
            yield from tokenizer(plain, add_special_tokens=False)["input_ids"] if plain else ()
            if match is not None:
                yield structural[match[0]]
                place = match.end()

    return tuple(ids(before)), tuple(ids(behind))


_MARK = "what-the-user-says"


def is_causal_lm(kind: type) -> bool:
    """Whether a class of transformers gives logits of the next token."""
    return any(base.__name__.endswith(AFTER_ALL) for base in kind.__mro__)


def _between(prompt: str, candidate: str) -> str:
    """A blank where two words of a spaced script would else grow together: none beside punctuation or other white space."""
    before, behind = prompt[-1:], candidate[:1]
    if not behind.isalnum() or not (before.isalnum() or before in CLOSING) or is_unspaced(before + behind):
        return ""
    return " "


def ids_behind(tokenizer: Any, prompt: str, text: str, where: str) -> list[int]:
    """The tokens of a text that goes on from a prompt, with a blank where the two would grow together (`_between`).

    Raises:
        UserError: there is no text, or it changes the tokens of the prompt.
    """
    if not text.strip():
        raise UserError(f"{where}: a candidate for what comes next is empty; give a word")
    before, whole = (
        tokenizer(part, add_special_tokens=False, verbose=False)["input_ids"]
        for part in (prompt, f"{prompt}{_between(prompt, text)}{text}")
    )
    if whole[: len(before)] != before:
        raise UserError(
            f"{where}: '{text}' changes how the end of the prompt is cut into tokens; end the prompt with a word"
        )
    behind: list[int] = whole[len(before) :]
    if getattr(tokenizer, "unk_token_id", None) in behind:
        raise UserError(f"{where}: the candidate '{text}' is not in the model's vocabulary")
    return behind


def candidate_ids(tokenizer: Any, prompt: str, candidates: Sequence[str | int], where: str) -> list[int]:
    """The token that each candidate is behind a prompt; what is an id already stays it.

    A blank is put between a prompt and a word where they would grow together (`_between`).

    Raises:
        UserError: a candidate is no token of its own there, or two are the same one.
    """

    found: list[int] = []
    for candidate in candidates:
        if isinstance(candidate, int):
            found.append(candidate)
            continue
        behind = ids_behind(tokenizer, prompt, candidate, where)
        if len(behind) != 1:
            pieces = ", ".join(repr(piece) for piece in tokenizer.convert_ids_to_tokens(behind))
            raise UserError(
                f"{where}: the candidate '{candidate}' is {len(behind)} tokens ({pieces}), and the model gives one at a "
                "time; give a candidate that is one token"
            )
        found += behind
    if twice := sorted({str(candidates[place]) for place, one in enumerate(found) if one in found[:place]}):
        raise UserError(f"{where}: the candidate '{twice[0]}' is the same token as another one")
    return found
