"""From examples to tensors, and from words to tokens: the alignment is computed here, once."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmark.errors import UserError, check_characters
from benchmark.models.devices import on_device
from benchmark.models.families import Family
from benchmark.models.images import Losses, Patch, fitted_mask, in_colours, marked_patches, opened, without_patches
from benchmark.models.next_token import (
    CANDIDATES,
    CONTINUATION,
    VOCABULARY,
    Answers,
    Around,
    Over,
    candidate_ids,
    ids_behind,
)
from benchmark.models.special_tokens import added_tokens, structural_tokens
from benchmark.types import Batch
from benchmark.units import tokens_of
from benchmark.words import UnitText, spans_of

logger = logging.getLogger(__name__)

Words = tuple[str, ...]


_Encoding = tuple[dict[str, Tensor], Tensor, list[int], tuple[Words, ...], "_Merges"]
"""Tensors for the model, the unit of each token, how many units each example has, its words, and units that became one."""
_Merges = Mapping[int, np.ndarray]
"""By example: the unit that each of its units is part of, where a token holds several of them."""


def height_and_width(size: int | Sequence[int]) -> tuple[int, int]:
    """Of an image or a patch, which configurations give as one number where they are equal."""
    return (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))


def key_of(value: Any) -> str:
    """What random numbers for an input follow that has no name: its words, or a digest of its ids or pixels."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, tuple):
        return "\0".join(map(key_of, value))
    if isinstance(value, Sequence):
        return " ".join(map(str, value))
    arrays = value if isinstance(value, Mapping) else {"image": np.asarray(value)}
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        given = arrays[name]
        array = (
            given.detach().double().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given, dtype=np.float64)
        )
        digest.update(f"{name} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Segment:
    """One text with the character span of each of its words.

    Attributes:
        text: what the tokenizer reads.
        words: the text of each unit.
        starts: the character at which each begins.
        merged: the unit that each unit of the text is part of, where a token holds several of them; None where none does.
    """

    text: str
    words: Words
    starts: np.ndarray
    merged: np.ndarray | None = None

    @staticmethod
    def of(value: str | Sequence[str], tokenizer: Any) -> "_Segment":
        """A text, whose units are its own or its words, or a list of words.

        Units that no white space separates may share a token, which cannot be removed in parts: they become one.
        """
        if isinstance(value, str):
            text = str(value)
            if isinstance(value, UnitText) and value.spans is None:
                return _Segment._in(text, _apart(_tokens(text, tokenizer)))
            spans = spans_of(value)
            if all(end < start for (_, end), (start, _) in pairwise(spans)):
                return _Segment._in(text, spans)
            return _Segment._merging(text, spans, _tokens(text, tokenizer))
        words = tuple(value)
        lengths = np.array([len(word) + 1 for word in words], dtype=np.int64)
        return _Segment(" ".join(words), words, np.concatenate([[0], np.cumsum(lengths)[:-1]]) if words else lengths)

    @staticmethod
    def _in(text: str, spans: Sequence[tuple[int, int]], merged: np.ndarray | None = None) -> "_Segment":
        starts = np.array([start for start, _ in spans], dtype=np.int64)
        return _Segment(text, tuple(text[start:end] for start, end in spans), starts, merged)

    @staticmethod
    def _merging(text: str, spans: Sequence[tuple[int, int]], tokens: Sequence[tuple[int, int]]) -> "_Segment":
        starts = np.array([start for start, _ in spans])
        begins = np.ones(len(spans), dtype=bool)  # whether a unit begins one of those that are left
        for start, end in tokens:
            first, last = (int(np.searchsorted(starts, place, side="right")) - 1 for place in (start, end - 1))
            begins[first + 1 : last + 1] = False
        merged = np.cumsum(begins) - 1
        ends = [end for _, end in spans]
        firsts = np.flatnonzero(begins)
        lasts = [*(firsts[1:] - 1), len(spans) - 1]
        kept = [(spans[int(first)][0], ends[int(last)]) for first, last in zip(firsts, lasts, strict=True)]
        return _Segment._in(text, kept, None if begins.all() else merged)

    def word_of(self, start: int, end: int) -> int:
        """Index of the word that the characters [start, end) belong to; -1 for white space alone."""
        token = self.text[start:end]
        stripped = token.lstrip()
        if not stripped:
            return -1
        return int(np.searchsorted(self.starts, start + len(token) - len(stripped), side="right")) - 1


def _tokens(text: str, tokenizer: Any) -> list[tuple[int, int]]:
    """[start, end) of the characters of each token that is more than white space, without the white space before it."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    pieces = [(start, end, text[start:end]) for start, end in encoded["offset_mapping"]]
    return [(end - len(piece.lstrip()), end) for _, end, piece in pieces if piece.strip()]


def _apart(tokens: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of tokens; tokens that share a character, as bytes of one do, share a span."""
    spans: list[tuple[int, int]] = []
    for start, end in tokens:
        if spans and start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return spans


def check_ends(counts: Sequence[int]) -> None:
    """UserError unless each example of a batch has as many end-of-sequence tokens as the others, and one at least."""
    if min(counts) < 1:
        raise UserError("an example holds no end-of-sequence token, whose state the classifier reads")
    if len(set(counts)) > 1:
        raise UserError(
            f"examples of one batch hold {min(counts)} to {max(counts)} end-of-sequence tokens, of which the model's own "
            "code takes equally many from each; give them one by one (batch_size=1)"
        )


def check_token_types(types: Tensor, count: int) -> None:
    """UserError for segments of a pair that the model has no embedding for, since its tokenizer is another model's."""
    if (found := int(types.max())) >= count:
        raise UserError(
            f"the tokenizer gives the segment {found} (token_type_ids), and the model knows {count} (type_vocab_size of "
            "config.json); use the tokenizer that the model was trained with"
        )


def _outside(rows: Sequence[Tensor], vocabulary: int) -> list[int]:
    """The ids that have no embedding."""
    ids = torch.cat(list(rows))
    return ids[(ids < 0) | (ids >= vocabulary)].tolist()


def _merges_of(parts: Sequence[_Segment]) -> np.ndarray:
    """The unit that each unit of a text or pair is part of."""
    own = [np.arange(len(part.words)) if part.merged is None else part.merged for part in parts]
    before = [0, *np.cumsum([len(part.words) for part in parts])]
    return np.concatenate([merged + start for merged, start in zip(own, before, strict=False)])


def _cut_ends(encoding: Any, sequences: Sequence[Any], offsets: Sequence[Any]) -> None:
    """Take special tokens behind the texts away, since what comes next is read from the last token of a text."""
    for row, own in enumerate(sequences):
        end = max((place + 1 for place, part in enumerate(own) if part is not None), default=len(own))
        for column in (sequences, offsets, *encoding.values()):
            del column[row][end:]


def _cut_starts(encoding: Any, sequences: Sequence[Any], offsets: Sequence[Any], rooms: Sequence[int]) -> None:
    """Take the first tokens of texts away that leave too little room in the window for what is said behind them."""
    for row, room in enumerate(rooms):
        own = sequences[row]
        excess = min(max(0, len(own) - room), sum(part is not None for part in own) - 1)
        start = next((place for place, part in enumerate(own) if part is not None), 0)
        for column in (sequences, offsets, *encoding.values()):
            del column[row][start : start + max(0, excess)]


def _put_around(around: Around, encoding: Any, sequences: Sequence[Any], offsets: Sequence[Any]) -> None:
    """Put the template of a chat around each prompt: its tokens are no words, as special tokens are none."""
    before, behind = around
    fills = {"input_ids": around, "attention_mask": ([1] * len(before), [1] * len(behind))}
    for row in range(len(sequences)):
        for name, column in encoding.items():
            first, last = fills.get(name, ([0] * len(before), [0] * len(behind)))
            column[row][:] = [*first, *column[row], *last]
        sequences[row][:] = [*[None] * len(before), *sequences[row], *[None] * len(behind)]
        offsets[row][:] = [*[(0, 0)] * len(before), *offsets[row], *[(0, 0)] * len(behind)]


def _unit_of_each(
    parts: Sequence[_Segment], segments: Sequence[int | None], spans: Sequence[tuple[int, int]]
) -> list[int]:
    """The unit of each token, of which the text of the pair and the characters are known; −1 of those of none."""
    return [
        -1
        if segment is None or (word := parts[segment].word_of(*map(int, span))) < 0
        else word + segment * len(parts[0].words)
        for segment, span in zip(segments, spans, strict=True)
    ]


def unit_of_each_token(
    inputs: Any, tokenizer: Any, segments: Sequence[int | None], spans: Sequence[tuple[int, int]]
) -> list[int]:
    """The unit of each token of a text, a list of words or a pair, as a batch of it has them; −1 of special tokens.

    Args:
        inputs: of an example.
        tokenizer: of transformers, which tells units apart where no white space does.
        segments: which text of the pair each token is of; None for special tokens.
        spans: the characters [start, end) of each token.
    """
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    return _unit_of_each([_Segment.of(part, tokenizer) for part in parts], segments, spans)


def _merged_query(count: int, merged: np.ndarray | None) -> int:
    """How many of the units that are left are those of the query: its units and a text's never become one."""
    return count if merged is None or count == 0 else int(merged[count - 1]) + 1


def _merged_marks(marks: np.ndarray | None, merged: np.ndarray | None) -> np.ndarray | None:
    """Marks of units as marks of what they became part of: one is marked where any of its parts is."""
    if marks is None or merged is None or len(marks) != len(merged):
        return marks
    return np.bincount(merged, weights=np.asarray(marks, dtype=float)) > 0


def _merged_rated(marks: np.ndarray | None, merged: np.ndarray | None) -> np.ndarray | None:
    """Of units that became part of others: one is rated where all of its parts are."""
    without = None if marks is None else _merged_marks(~np.asarray(marks, dtype=bool), merged)
    return None if without is None else ~without


def _all_rated(
    rated: Sequence[np.ndarray | None], merges: Mapping[int, np.ndarray], uids: Sequence[str], counts: Sequence[int]
) -> tuple[np.ndarray | None, ...]:
    """Which units of each example are rated; empty where no example says it. UserError for one mark too many or too few."""
    if all(marks is None for marks in rated):
        return ()
    found = tuple(_merged_rated(marks, merges.get(place)) for place, marks in enumerate(rated))
    for uid, marks, count in zip(uids, found, counts, strict=True):
        if marks is not None and len(marks) != count:
            raise UserError(f"example '{uid}' says of {len(marks)} words whether they are rated, and has {count}")
    return found


@dataclass(frozen=True)
class Encoder:
    """Turns texts, pairs, word lists, ready ids or images into a `Batch`.

    Attributes:
        tokenizer: a fast tokenizer, or None for a checkpoint that takes ids only.
        processor: an image processor, or None.
        family: where special tokens stand when no tokenizer says so.
        window: how many tokens the model can read.
        pad_token_id: fills the shorter rows of a batch of ready ids.
        removed_token_id: stands in the place of a removed token (`removal.Pad`). Of a language model it is a token that may
            be read, so that a prompt without its last word is still read at its end.
        device: where the tensors go.
        dtype: of pixel values.
        patch: size of a patch, of an image model.
        vocabulary: how many ids have an embedding, of a model of texts.
        token_types: how many segments the model tells apart; None or 0 where it is not said.
        end_token_id: of the token whose last occurrence the classifier reads, of encoder–decoders.
        size: height and width of the images that the model reads; None where it reads any.
        channels: of the images that the model reads.
        answers: what the model is asked; of the next token each example has candidates.
        over: of the next token what its classes are: the candidates, or the tokens of the vocabulary. Of the latter the
            first candidate, where there is one, is the label. Or whether a continuation comes, which is the first candidate.
        chat: of a language model that is asked in a chat, the ids before and behind each prompt (`next_token.chat_around`).
        losses: says what images lose on their way to the model.
    """

    tokenizer: Any
    processor: Any
    family: Family
    window: int
    pad_token_id: int
    removed_token_id: int
    device: torch.device
    dtype: torch.dtype
    patch: Patch | None = None
    vocabulary: int | None = None
    token_types: int | None = None
    end_token_id: int | None = None
    size: Patch | None = None
    channels: int = 3
    answers: Answers = "class"
    over: Over = "candidates"
    chat: Around | None = None
    losses: Losses = field(default_factory=Losses, repr=False, compare=False)

    def __call__(
        self,
        inputs: Sequence[Any],
        *,
        uids: Sequence[str],
        labels: Sequence[int],
        rationale: Sequence[np.ndarray | None],
        query_units: Sequence[int],
        meta: Sequence[Mapping[str, Any]],
        masks: Sequence[np.ndarray | None] = (),
        named: bool = True,
        candidates: Sequence[Sequence[str | int]] = (),
        rated: Sequence[np.ndarray | None] = (),
        hidden: Sequence[np.ndarray | None] = (),
    ) -> Batch:
        """Encode one batch; all inputs of a batch are of one kind (texts, ids or images).

        An image is a PIL image, an array, or, for a model of images, the path of a file.

        `candidates` for the next token are words that go on from each text, or their ids. Of a model of continuations the
        first of them may be any text, or all of them are the ids of one.

        `masks` are those of `Example.mask`; one gives the rationale of its example; `hidden` those of `Example.hidden`.
        Random numbers for an example follow its identifier, or its input where the identifiers are places in a list
        (`named=False`).
        """
        if not inputs:
            raise UserError("nothing to encode: the list of inputs is empty")
        for uid in uids:
            check_characters(uid, f"the identifier {uid!a} of an example")
        if self.patch is not None:
            inputs = [opened(Path(value)) if isinstance(value, str | PathLike) else value for value in inputs]
        asked, labels = self._asked(inputs, candidates, uids, labels)
        said = asked.get(CONTINUATION)
        behind = [0] * len(inputs) if said is None else ((said[..., 0] >= 0).sum(1) - 1).tolist()
        if all(isinstance(value, Mapping) for value in inputs):
            tensors, units, n_units, words, merges = self._ready(inputs)
        elif all(isinstance(value, str | Sequence) for value in inputs):
            tensors, units, n_units, words, merges = self._text(inputs, uids, behind)
        else:
            tensors, units, n_units, words, merges = self._images(inputs, uids)
        tensors = {**self._hiding(tensors, units, n_units, hidden, uids), **asked}
        rationale = [_merged_marks(marks, merges.get(place)) for place, marks in enumerate(rationale)]
        fitted = [
            None if mask is None else self._fitted(mask, marks, value, uid)
            for mask, marks, value, uid in zip(masks or [None] * len(inputs), rationale, inputs, uids, strict=True)
        ]
        if self.patch is not None:
            pairs = zip(fitted, rationale, strict=True)
            rationale = [marks if mask is None else marked_patches(mask, self.patch) for mask, marks in pairs]
        batch = Batch(
            uids=tuple(uids),
            tensors={name: on_device(tensor, self.device) for name, tensor in tensors.items()},
            units=on_device(units, self.device),
            n_units=on_device(torch.tensor(n_units), self.device),
            words=words,
            label=on_device(torch.tensor(list(labels)), self.device),
            rationale=tuple(rationale),
            query_units=tuple(_merged_query(count, merges.get(place)) for place, count in enumerate(query_units)),
            meta=tuple(meta),
            patch=self.patch if "pixel_values" in tensors else None,
            masks=tuple(fitted) if "pixel_values" in tensors else (),
            tokenless=self._tokenless(words, units, inputs),
            keys=() if named else tuple(map(key_of, inputs)),
            rated=_all_rated(rated, merges, uids, n_units),
        )
        for uid, marks, count in zip(uids, rationale, n_units, strict=True):
            if marks is not None and len(marks) != count:
                kind = "words" if self.patch is None else "patches"
                raise UserError(f"example '{uid}' has a rationale of {len(marks)} marks for {count} {kind}")
        self._check_room(batch)
        if lost := int(batch.lost_units.sum()):
            logger.info("%d of %d words lie beyond the window of %d tokens", lost, sum(n_units), self.window)
        return batch

    def _hiding(
        self,
        tensors: dict[str, Tensor],
        units: Tensor,
        n_units: Sequence[int],
        hidden: Sequence[np.ndarray | None],
        uids: Sequence[str],
    ) -> dict[str, Tensor]:
        """The tensors with a mask in place of hidden units.

        Raises:
            UserError: the model has no mask for them, or an example says it of too many units, or too few.
        """
        if all(marks is None for marks in hidden):
            return tensors
        width = max(1, int(units.max()) + 1)
        gone = torch.zeros(len(units), width, dtype=torch.bool)
        for row, (marks, uid, count) in enumerate(zip(hidden, uids, n_units, strict=True)):
            if marks is not None:
                if len(marks) != count:
                    raise UserError(
                        f"example '{uid}' says of {len(marks)} units whether they are hidden, and has {count}"
                    )
                gone[row, : len(marks)] = torch.from_numpy(marks[:width])  # those behind the window are not read
        if "pixel_values" in tensors:
            pixels, patch = tensors["pixel_values"], self.patch or (1, 1)
            return {**tensors, "pixel_values": without_patches(pixels, gone, patch, self.processor)}
        mask = getattr(self.tokenizer, "mask_token_id", None)
        if mask is None:
            raise UserError(
                f"example '{uids[0]}' has hidden words, and the model has no mask token to put in their place"
            )
        return {**tensors, "input_ids": tensors["input_ids"].masked_fill(tokens_of(units, gone), mask)}

    def _asked(
        self,
        inputs: Sequence[Any],
        candidates: Sequence[Sequence[str | int]],
        uids: Sequence[str],
        labels: Sequence[int],
    ) -> tuple[dict[str, Int[Tensor, "B C 1"]], Sequence[int]]:
        """The ids of each example's candidates, and the labels; where the classes are all tokens, those are the answers.

        Of a model of continuations the ids of these, −1 behind the shorter ones, and 0 for each label.

        Raises:
            UserError: candidates are not as many for all, or no tokens.
        """
        if self.answers != "next_token":
            return {}, labels
        if candidates and len(candidates) != len(inputs):
            raise UserError(
                f"candidates are given for {len(candidates)} of {len(inputs)} prompts; give a list for each"
            )
        given = candidates or [()] * len(inputs)
        rows = [self._ids_of(*one) for one in zip(inputs, given, uids, strict=True)]
        if self.vocabulary is not None and (wrong := _outside([torch.tensor(row) for row in rows], self.vocabulary)):
            raise UserError(f"candidates hold the id {wrong[0]}, and the model knows 0 to {self.vocabulary - 1}")
        if self.over == VOCABULARY:
            return {}, [row[0] if row else label for row, label in zip(rows, labels, strict=True)]
        if self.over == CONTINUATION:
            said = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1)
            return {CONTINUATION: said[..., None]}, [0] * len(rows)
        if len({len(row) for row in rows}) > 1:
            raise UserError("the examples of a batch have different numbers of candidates; give as many foils to each")
        return {CANDIDATES: torch.tensor(rows)[..., None]}, labels

    def _ids_of(self, value: Any, given: Sequence[str | int], uid: str) -> list[int]:
        """The ids of one example's candidates; where the classes are all tokens, none are needed, nor a foil."""
        if isinstance(given, str):
            raise UserError(f"example '{uid}': candidates are '{given}'; give a list, the answer first")
        if not given and self.over == VOCABULARY:
            return []
        if not given:
            raise UserError(
                f"example '{uid}' has no candidates for the next token; give the answer and its foils (answer=, foil=; "
                "Example.candidates)"
            )
        if not all(isinstance(one, int) for one in given) and (self.tokenizer is None or isinstance(value, Mapping)):
            raise UserError(f"example '{uid}' is given as ready ids: give its candidates as ids too")
        text = value if isinstance(value, str) else " ".join(value)
        text = "" if self.chat is not None else text  # an answer begins where the template ends
        if self.over == CONTINUATION:
            ready = [one for one in given if isinstance(one, int)]
            if len(ready) == len(given):
                return ready
            if ready:
                raise UserError(f"example '{uid}': a continuation is given as ids and words together; give one of them")
            return ids_behind(self.tokenizer, text, str(given[0]), f"example '{uid}'")
        ids = candidate_ids(self.tokenizer, text, given, f"example '{uid}'")
        if len(ids) < 2 and self.over != VOCABULARY:
            raise UserError(f"example '{uid}' has one candidate, which is certain among itself; give a foil, too")
        return ids

    def _check_room(self, batch: Batch) -> None:
        """UserError where a prompt and its continuation do not fit the window."""
        said = batch.tensors.get(CONTINUATION)
        if said is None:
            return
        tokens, more = batch.attention_mask.sum(1).tolist(), (said[..., 0] >= 0).sum(1).tolist()
        for uid, own, behind in zip(batch.uids, tokens, more, strict=True):
            if own + behind - 1 > self.window:
                raise UserError(
                    f"example '{uid}': its prompt of {own} tokens and its continuation of {behind} do not fit the model's "
                    f"window of {self.window}; shorten one of them"
                )

    @cached_property
    def structural(self) -> dict[str, int]:
        """The tokenizer's own special tokens with their ids, which are text where a text spells them."""
        return structural_tokens(self.tokenizer)

    @cached_property
    def added(self) -> dict[str, int]:
        """The other added tokens with their ids, which are one token each where they stand in a text."""
        return added_tokens(self.tokenizer)

    def _text(self, inputs: Sequence[Any], uids: Sequence[str], behind: Sequence[int]) -> _Encoding:
        """Texts as tensors; `behind` is how many tokens of each have to find room in the window beside it."""
        if self.tokenizer is None:
            raise UserError(
                "the model has no tokenizer: give ready ids ({'input_ids': [...]}), a model.path with one, or "
                "load_model(model, tokenizer=...)"
            )
        pairs = [isinstance(value, tuple) for value in inputs]
        if any(pairs) and not all(pairs):
            raise UserError("single texts and pairs cannot be mixed in one batch")
        if wrong := [
            uid for uid, value in zip(uids, inputs, strict=True) if isinstance(value, tuple) and len(value) != 2
        ]:
            raise UserError(f"example '{wrong[0]}' is a tuple, but no pair: give two texts, or a list of words")
        segments = [
            [_Segment.of(part, self.tokenizer) for part in (v if isinstance(v, tuple) else (v,))] for v in inputs
        ]
        for uid, parts in zip(uids, segments, strict=True):
            if not all(part.words for part in parts):
                raise UserError(f"example '{uid}' has a text of zero words")
            for part in parts:
                check_characters(part.text, f"example {uid!a}")
        if self.answers == "next_token" and any(pairs):
            raise UserError("a prompt is one text; put the two of a pair together")
        around = sum(map(len, self.chat or ()))
        encoding = self.tokenizer(
            [parts[0].text for parts in segments],
            [parts[1].text for parts in segments] if all(pairs) else None,
            truncation="longest_first",
            max_length=self.window - around,
            return_offsets_mapping=True,
            add_special_tokens=self.chat is None,
        )
        offsets = encoding.pop("offset_mapping")
        sequences = [encoding.sequence_ids(row) for row in range(len(inputs))]
        if self.answers == "next_token":
            _cut_ends(encoding, sequences, offsets)
            _cut_starts(encoding, sequences, offsets, [self.window - around - more for more in behind])
        if self.chat is not None:
            _put_around(self.chat, encoding, sequences, offsets)
        rows = [_unit_of_each(*one) for one in zip(segments, sequences, offsets, strict=True)]
        words = tuple(tuple(word for part in parts for word in part.words) for parts in segments)
        columns = {name: [torch.tensor(row) for row in column] for name, column in encoding.items()}
        columns.setdefault("attention_mask", [torch.ones_like(ids) for ids in columns["input_ids"]])
        units = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1)
        tensors = self._padded(columns)
        tensors["input_ids"] = self._without_spelled(tensors["input_ids"], units)
        merges = {b: _merges_of(parts) for b, parts in enumerate(segments) if any(p.merged is not None for p in parts)}
        return tensors, units, [len(row) for row in words], words, merges

    def _padded(self, columns: Mapping[str, Sequence[Tensor]]) -> dict[str, Tensor]:
        """One tensor [B T] of each column; ids behind the last attended token are those that pad (`models.padding`).

        Raises:
            UserError: a segment has no embedding; or an example has no end-of-sequence token where the classifier reads
                one, or more of them than others.
        """
        fills = {"input_ids": self.pad_token_id, "token_type_ids": getattr(self.tokenizer, "pad_token_type_id", 0)}
        tensors = {
            name: pad_sequence(list(rows), batch_first=True, padding_value=fills.get(name, 0))
            for name, rows in columns.items()
        }
        behind = tensors["attention_mask"].flip(1).cumsum(1).flip(1) == 0
        tensors["input_ids"] = tensors["input_ids"].masked_fill(behind, self.pad_token_id)
        if self.token_types and "token_type_ids" in tensors:
            check_token_types(tensors["token_type_ids"], self.token_types)
        if self.end_token_id is not None:
            check_ends((tensors["input_ids"] == self.end_token_id).sum(1).tolist())
        return tensors

    def _tokenless(self, words: Sequence[Words], units: Tensor, inputs: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
        """The words of each example without a token in the uncut text either: the tokenizer drops their characters."""
        found = []
        for own, row, value in zip(words, units.tolist(), inputs, strict=True):
            missing = set(range(len(own))) - set(row) if any(own) else set()
            found.append(tuple(sorted(missing - self._spelled_units(value))) if missing else ())
        return tuple(found)

    def _spelled_units(self, value: Any) -> set[int]:
        """The words of a text or a pair that have a token when nothing is cut."""
        seen, start = set[int](), 0
        for part in value if isinstance(value, tuple) else (value,):
            segment = _Segment.of(part, self.tokenizer)
            spans = self.tokenizer(segment.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            seen |= {start + word for span in spans["offset_mapping"] if (word := segment.word_of(*span)) >= 0}
            start += len(segment.words)
        return seen

    def _without_spelled(self, ids: Tensor, units: Tensor) -> Tensor:
        """The ids with "unknown" in place of a structural token that is a word's.

        A tokenizer splits a structural token that is spelled in a text (`read_as_words`), but a unigram model may still hold
        it among its pieces.
        """
        unknown = self.tokenizer.unk_token_id
        special = torch.tensor(sorted({*self.structural.values()} - {unknown}), dtype=torch.long)
        spelled = (units >= 0) & torch.isin(ids, special)
        return ids if unknown is None else ids.masked_fill(spelled, unknown)

    def _ready(self, inputs: Sequence[Mapping[str, Any]]) -> _Encoding:
        names = [name for name in inputs[0] if name != "special_tokens_mask"]
        if "pixel_values" in names:
            pixels = torch.stack([torch.as_tensor(value["pixel_values"], dtype=self.dtype) for value in inputs])
            return self._patches(pixels)
        if "input_ids" not in names:
            raise UserError(f"ready inputs need 'input_ids' or 'pixel_values', found {sorted(names)}")
        if decoder := [name for name in names if name.startswith("decoder_")]:
            raise UserError(
                f"ready inputs hold {decoder[0]}, but a decoder is given the input ids, shifted; leave it out"
            )
        columns = {name: [torch.as_tensor(value[name]).long().flatten() for value in inputs] for name in names}
        columns.setdefault("attention_mask", [torch.ones_like(ids) for ids in columns["input_ids"]])
        if self.answers == "next_token":  # padding on the left would move the prompt to other positions
            attended = [mask.bool() for mask in columns["attention_mask"]]
            if empty := [place for place, mask in enumerate(attended) if not mask.any()]:
                raise UserError(f"the ready ids of input {empty[0]} are padding alone; a prompt has one token at least")
            columns = {
                name: [row[mask] for row, mask in zip(rows, attended, strict=True)] for name, rows in columns.items()
            }
            inputs = [
                {**value, "special_tokens_mask": torch.as_tensor(value["special_tokens_mask"]).flatten()[mask]}
                if "special_tokens_mask" in value
                else value
                for value, mask in zip(inputs, attended, strict=True)
            ]
        if (longest := max(len(ids) for ids in columns["input_ids"])) > self.window:
            raise UserError(f"ready ids of {longest} tokens do not fit the model's window of {self.window}")
        if self.vocabulary is not None and (wrong := _outside(columns["input_ids"], self.vocabulary)):
            raise UserError(f"ready ids hold {wrong[0]}, and the model has embeddings for 0 to {self.vocabulary - 1}")
        tensors = self._padded(columns)
        content = self._content(tensors, inputs)
        units = torch.where(content, content.long().cumsum(1) - 1, -1)
        n_units = content.sum(1).tolist()
        return tensors, units, n_units, tuple(("",) * n for n in n_units), {}

    def _content(self, tensors: dict[str, Tensor], inputs: Sequence[Mapping[str, Any]]) -> Tensor:
        """True where a token of ready ids is content: neither special nor padding."""
        attended = tensors["attention_mask"].bool()
        if all("special_tokens_mask" in value for value in inputs):
            special = [torch.as_tensor(value["special_tokens_mask"]).bool() for value in inputs]
            return attended & ~pad_sequence(special, batch_first=True, padding_value=True)
        if self.tokenizer is not None:
            return attended & ~torch.isin(tensors["input_ids"], torch.tensor(sorted(self.structural.values())))
        start, end = self.family.special_ends
        position = attended.long().cumsum(1)
        return attended & (position > start) & (position <= attended.sum(1, keepdim=True) - end)

    def _images(self, inputs: Sequence[Any], uids: Sequence[str]) -> _Encoding:
        if self.processor is None:
            raise UserError(
                "the model has no image processor: give {'pixel_values': ...}, a model.path with one, or "
                "load_model(model, processor=...)"
            )
        images = [in_colours(value, uid, self.losses, self.channels) for value, uid in zip(inputs, uids, strict=True)]
        try:
            pixels = self.processor(images=images, return_tensors="pt")["pixel_values"]
        except ValueError as error:
            raise UserError(
                f"the image processor fails on the images '{uids[0]}' … '{uids[-1]}', of {self.channels} channels "
                f"({' '.join(str(error).split())}); set what makes them alike in its preprocessor_config.json "
                "(size, do_center_crop, image_mean and image_std)"
            ) from error
        return self._patches(pixels.to(self.dtype))

    def _fitted(self, mask: np.ndarray, marks: np.ndarray | None, image: Any, uid: str) -> np.ndarray:
        if marks is not None:
            raise UserError(f"example '{uid}' has both a mask and a rationale; give one")
        if self.patch is None:
            raise UserError(f"example '{uid}' has a mask of pixels, but the model reads texts")
        return fitted_mask(mask, image, self.processor, uid)

    def _patches(self, pixels: Tensor) -> _Encoding:
        if self.patch is None:
            raise UserError("the inputs are images, but the model reads texts")
        channels, height, width = pixels.shape[1:]
        if channels != self.channels:
            raise UserError(
                f"images of {channels} channels, and the model reads {self.channels}; set image_mean, image_std and "
                "do_convert_rgb in its preprocessor_config.json"
            )
        high, wide = self.patch
        n_patches = (height // high) * (width // wide)
        if self.size is not None and self.size != (height, width):
            reads = (self.size[0] // high) * (self.size[1] // wide)
            raise UserError(
                f"images of {height} × {width} pixels have {n_patches} patches of {high} × {wide}, and the model reads "
                f"{reads}, of {self.size[0]} × {self.size[1]} pixels; set the size in its preprocessor_config.json"
            )
        start, end = self.family.special_ends
        row = torch.cat([torch.full((start,), -1), torch.arange(n_patches), torch.full((end,), -1)])
        units = row.expand(len(pixels), -1).contiguous()
        return {"pixel_values": pixels}, units, [n_patches] * len(pixels), (("",) * n_patches,) * len(pixels), {}
