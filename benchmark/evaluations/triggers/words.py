"""Words and tokens of triggers: which words may be used, how often they occur, and how a tokenizer spells them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.models import Classifier
from benchmark.types import Batch

SHIPPED = "sentiment"
_BEFORE = "a "  # a word within a sentence: byte-level and sentence-piece vocabularies spell it with the space before it


@dataclass(frozen=True)
class Exclusion:
    """Words that no trigger may hold.

    Attributes:
        lexicon: in lower case.
        punctuation: also exclude tokens of punctuation alone, and strip punctuation at both ends of a word.
    """

    lexicon: frozenset[str] = frozenset()
    punctuation: bool = True

    def surface(self, word: str) -> str:
        """A unit as it would be inserted: "film," is the word "film"."""
        if not self.punctuation:
            return word
        letters = [index for index, letter in enumerate(word) if letter.isalnum()]
        return word[letters[0] : letters[-1] + 1] if letters else ""

    def allows(self, word: str) -> bool:
        """Whether a unit may stand in a trigger; the lexicon is compared without punctuation and case."""
        bare = Exclusion().surface(word).casefold()
        return bool(self.surface(word)) and bare not in self.lexicon


def exclusion(lexicon: str | None, setting: str, *, punctuation: bool = True) -> Exclusion:
    """The words to exclude.

    Args:
        lexicon: None for no lexicon, "sentiment" for the shipped list of obvious opinion words, or the path of a text
            file with one word a line ("#" starts a comment).
        setting: named in the error.
        punctuation: see `Exclusion`.

    Raises:
        UserError: the file does not exist or cannot be read.
    """
    if lexicon is None:
        return Exclusion(punctuation=punctuation)
    try:
        if lexicon == SHIPPED:
            text = (files("benchmark.evaluations.triggers") / "sentiment.txt").read_text(encoding="utf-8")
        else:
            text = Path(lexicon).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{setting}={lexicon} cannot be read ({type(error).__name__}); allowed: null, {SHIPPED}, or the path of a "
            "text file with one word a line"
        ) from error
    lines = (line.partition("#")[0].strip().casefold() for line in text.split("\n"))
    return Exclusion(frozenset(line for line in lines if line), punctuation)


def require_words(model: Classifier, batch: Batch) -> None:
    """NotApplicable where words can be neither taken from a batch nor inserted."""
    if "pixel_values" in batch.tensors:
        raise NotApplicable("a trigger is made of words; the examples are images")
    if model.tokenizer is None:
        raise NotApplicable("a trigger is made of words; the model has no tokenizer")


def eligible_tokens(model: Classifier, batch: Batch, excluded: Exclusion) -> Bool[Tensor, "B T"]:
    """Tokens whose word may stand in a trigger: no special token, no padding, no excluded word."""
    rows = []
    for units, words in zip(batch.units.tolist(), batch.words, strict=True):
        allowed = [excluded.allows(word) for word in words]
        rows.append([unit >= 0 and allowed[unit] for unit in units])
    eligible = torch.tensor(rows, device=batch.units.device)
    return eligible & ~_punctuation(model, batch) if excluded.punctuation else eligible


def _punctuation(model: Classifier, batch: Batch) -> Bool[Tensor, "B T"]:
    """Tokens without a letter or digit, such as the comma of the word "film,"; the unknown token is none of them."""
    ids = batch.tensors["input_ids"]
    distinct = sorted(set(ids.flatten().tolist()))
    tokens = model.tokenizer.batch_decode([[index] for index in distinct])
    bare = [index for index, token in zip(distinct, tokens, strict=True) if _no_letter(token)]
    return torch.isin(ids, torch.tensor(bare, dtype=ids.dtype, device=ids.device))


def _no_letter(token: str) -> bool:
    # a token that is one byte of a letter decodes to the replacement character: no punctuation
    return not any(letter.isalnum() or letter == "\ufffd" for letter in token)


def count_words(batches: Sequence[Batch], excluded: Exclusion) -> Counter[str]:
    """How often each allowed word occurs in the examples."""
    return Counter(
        excluded.surface(word) for batch in batches for words in batch.words for word in words if excluded.allows(word)
    )


def count_pieces(model: Classifier, batches: Sequence[Batch], excluded: Exclusion) -> Counter[str]:
    """How often each word piece of an allowed word occurs in the examples."""
    counts: Counter[str] = Counter()
    for batch in batches:
        ids = batch.tensors["input_ids"][eligible_tokens(model, batch, excluded)]
        counts.update(model.tokenizer.convert_ids_to_tokens(ids.tolist()))
    return counts


def pieces(model: Classifier, words: Sequence[str]) -> list[list[int]]:
    """Token ids of each word as the tokenizer spells it within a sentence."""
    texts = [_BEFORE + word for word in words]
    encoded = model.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    return [
        [index for index, (_, end) in zip(ids, offsets, strict=True) if end > len(_BEFORE.rstrip())]
        for ids, offsets in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    ]


def whole_words(model: Classifier, excluded: Exclusion) -> Int[Tensor, "V"]:
    """Entries of the vocabulary that are words by themselves: two letters or more, spelled by this one token, allowed.

    Special tokens, pieces of words, numbers and punctuation are none of them.
    """
    special = set(model.tokenizer.all_special_ids)
    n_rows = model.model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]  # a module's attribute is a tensor or a module to mypy
    ids = sorted(index for index in model.tokenizer.get_vocab().values() if index not in special and index < n_rows)
    words = [word.strip() for word in model.tokenizer.batch_decode([[index] for index in ids])]
    candidates = [(i, word) for i, word in zip(ids, words, strict=True) if word.isalpha() and len(word) > 1]
    spellings = pieces(model, [word for _, word in candidates]) if candidates else []
    usable = [
        i for (i, word), spelled in zip(candidates, spellings, strict=True) if spelled == [i] and excluded.allows(word)
    ]
    if not usable:
        raise NotApplicable("no entry of the vocabulary is a whole word that may be used")
    return torch.tensor(usable, device=model.device)
