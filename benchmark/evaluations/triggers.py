"""Adversarial triggers: how much accuracy the words that an explainer points at cost (Hao 2021, "Adversarial Attack")."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.evaluations.base import Averaged, table
from benchmark.evaluations.head_pruning import Calibration
from benchmark.identity import costs_only
from benchmark.models.classifier import Classifier
from benchmark.models.expansion import check_budget, chunks, take
from benchmark.triggers import (
    Attack,
    Encoded,
    Exclusion,
    Trigger,
    attacks_of,
    encode,
    exclusion,
    insert,
    read,
    read_variations,
    written,
)
from benchmark.triggers.controls import Controls
from benchmark.triggers.extraction import Rule, extract
from benchmark.triggers.words import count_words, require_words
from benchmark.types import Attribution, Batch, Method, Metric, Reads, Target

_NAME = "evaluations.triggers"


@dataclass(frozen=True)
class Triggers(Averaged):
    """Insert the words of one class's decisive attention edges into texts of the other classes, and count the errors.

    drop(b) = mean over the triggers that attack the class of b of [ŷ(x) = y] − [ŷ(x with the trigger) = y].

    A trigger is the words of the best head's `pairs` best edges (of a method's best tokens where it scores no edges) of
    one source example that is classified correctly, explained for its own class; the best `triggers` of each class are
    kept. It keeps the words' segments and relative positions. It attacks the examples of every *other* class, as in the
    paper, whose triggers of "contradiction" turn other pairs into contradictions. A method with `search_triggers` says
    itself which classes its triggers attack.

    `accuracy_drop` (higher: stronger attack), the same per class of the attacked examples (`accuracy_drop_class`) and per
    trigger (`drop_of_trigger`); `success`, the share of correctly classified examples that flip; `random_drop` and
    `matched_drop` of random words, and of words of similar frequency, at the same places; `advantage` = accuracy_drop −
    random_drop, paired by example; `drop_at_position` where all words of a trigger are put at one relative position;
    `drop_at_tau` and `drop_of_pairs` of the triggers that another threshold or number of edges gives, from the same scores.

    The paper leaves open what happens to word pieces (whole words are inserted, never within a word), to texts that fill
    the window (their ends give way) and how an example's patterns are scored (by the sum of their edges).

    Args:
        target: of no effect: triggers are explained for the source examples' labels.
        calibration: the source split; examples that are scored are left out of it.
        triggers: how many of each source class.
        pairs: edges that make a trigger: 2 in the paper, up to four words.
        tau: take the edges above tau × the best one instead; null for `pairs`.
        max_words: of a trigger.
        min_words: source texts with fewer words are left out.
        skip_punctuation: no punctuation in triggers.
        lexicon: words that no trigger may hold: null, `sentiment` or a text file with one word a line.
        positions: relative positions of `drop_at_position`, each within [0, 1].
        taus: thresholds of `drop_at_tau`: the triggers that each would give in place of `pairs`.
        pair_counts: numbers of edges of `drop_of_pairs`.
        draws: random and matched words per trigger.
        file: triggers that another run wrote (`triggers-….json` in its run folder), instead of this method's. The run
            folder keeps a copy, so a file that changes needs another name.
        seed: of tied edges and of the draws.
        max_tokens: tokens of one forward pass; null for what suits the device.
        artifact: what `extract` returned; set by `restored`.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "method"
    nothing: ClassVar[str] = "no scored example is of a class that a trigger attacks"

    target: Target = "label"
    calibration: Calibration = field(default_factory=lambda: Calibration("train", 100))
    triggers: int = 3
    pairs: int = 2
    tau: float | int | None = None
    max_words: int = 5
    min_words: int = 5
    skip_punctuation: bool = True
    lexicon: str | None = None
    positions: Sequence[float | int] = (0.0, 0.25, 0.5, 0.75, 1.0)
    taus: Sequence[float | int] = tuple(k / 10 for k in range(1, 10))
    pair_counts: Sequence[int] = (1, 2)
    draws: int = 3
    file: str | None = None
    seed: int = 0
    max_tokens: int | None = costs_only(None)
    artifact: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name, least in (("triggers", 1), ("pairs", 1), ("max_words", 2), ("min_words", 2), ("draws", 1)):
            if (value := getattr(self, name)) < least:
                raise UserError(f"{_NAME}.{name}={value}: allowed are whole numbers from {least}")
        for tau in (*self.taus, *([] if self.tau is None else [self.tau])):
            if not 0 <= tau < 1:
                raise UserError(f"{_NAME}.tau={tau}: allowed are numbers from 0 up to 1, and null")
        if wrong_counts := [count for count in self.pair_counts if count < 1]:
            raise UserError(f"{_NAME}.pair_counts holds {wrong_counts[0]}: allowed are whole numbers from 1")
        if wrong := [p for p in self.positions if not 0 <= p <= 1]:
            raise UserError(f"{_NAME}.positions holds {wrong[0]}: allowed are numbers from 0 to 1")
        if not isinstance(self.calibration, Calibration):
            raise UserError(f"{_NAME}.calibration={self.calibration}: allowed is a Calibration (split and examples)")
        check_budget(self.max_tokens, f"{_NAME}.max_tokens")
        object.__setattr__(self, "positions", tuple(map(float, self.positions)))
        self._excluded()
        if self.file is not None:
            read(_artifact(self.file), f"{_NAME}.file={self.file}")

    def _excluded(self) -> Exclusion:
        return exclusion(self.lexicon, f"{_NAME}.lexicon", punctuation=self.skip_punctuation)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Drops in accuracy, and what describes them."""
        drop = (-1.0, 1.0)
        found = {
            "accuracy_drop": Metric(higher_is_better=True, bounds=drop, headline=True),
            "success": Metric(higher_is_better=True, bounds=(0.0, 1.0)),
            "advantage": Metric(higher_is_better=True, bounds=(-2.0, 2.0)),
            "random_drop": Metric(None, drop),
            "matched_drop": Metric(None, drop),
            "accuracy_drop_class": Metric(None, drop, x="class of the attacked examples"),
            "drop_of_trigger": Metric(None, drop, x="trigger"),
        }
        if self.positions:
            found["drop_at_position"] = Metric(None, drop, x="relative position")
        if self.taus:
            found["drop_at_tau"] = Metric(None, drop, x="threshold")
        if self.pair_counts:
            found["drop_of_pairs"] = Metric(None, drop, x="inserted pairs")
        return found

    def extract(self, model: Classifier, method: Method, batches: Sequence[Batch]) -> dict[str, Any]:
        """The triggers of a method with their controls, or those of `file`.

        Raises:
            NotApplicable: no triggers can be read off these source examples.
            UserError: `file` names classes that the model does not have.
        """
        if self.file is not None:
            artifact = _artifact(self.file)
            _classes(model, read(artifact, f"{_NAME}.file={self.file}"), f"{_NAME}.file={self.file}")
            return dict(artifact)
        excluded = self._excluded()
        rule = Rule(
            triggers=self.triggers,
            pairs=self.pairs,
            tau=self.tau,
            max_words=self.max_words,
            min_words=self.min_words,
            exclusion=excluded,
            seed=self.seed,
        )
        varied = [("drop_at_tau", float(tau), replace(rule, tau=tau)) for tau in self.taus]
        varied += [("drop_of_pairs", float(n), replace(rule, tau=None, pairs=n)) for n in self.pair_counts]
        found, *others = extract(model, method, batches, rule, *(other for _, _, other in varied))
        variations: dict[str, list[tuple[float, Sequence[Trigger]]]] = {}
        for (metric, x, _), triggers in zip(varied, others, strict=False):  # a search has no variations
            variations.setdefault(metric, []).append((x, triggers))
        controls = Controls(count_words(batches, excluded), draws=self.draws, seed=self.seed)
        return written(controls.added(found), model, variations)

    def restored(self, artifact: Mapping[str, Any]) -> "Triggers":
        """A copy that holds these triggers."""
        return replace(self, artifact=artifact)

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Drops of each example that a trigger attacks; NotApplicable where there are no words."""
        if self.artifact is None:
            raise ValueError("triggers have to be extracted before they are tried: use restored(extract(...))")
        require_words(model, batch)
        triggers = read(self.artifact, "the stored file of triggers")
        attacks = attacks_of(triggers, self.positions, read_variations(self.artifact))
        inserted = [one for attack in attacks for one in attack.inserted]
        attacked = _attacked(model, inserted, batch)
        correct = _correct(model, batch, inserted, attacked, self.max_tokens)
        drops = correct[:, -1:] - correct[:, :-1]
        return _rows(batch, triggers, attacks, drops, attacked, correct[:, -1])


def _artifact(path: str) -> dict[str, Any]:
    try:
        loaded = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{_NAME}.file={path} cannot be read ({type(error).__name__}); give the triggers-….json of a run folder"
        ) from error
    if not isinstance(loaded, dict):
        raise UserError(f"{_NAME}.file={path} holds no triggers; give the triggers-….json of a run folder")
    return loaded


def _classes(model: Classifier, triggers: Sequence[Trigger], setting: str) -> list[list[int]]:
    """The model's indices of the classes that each trigger attacks."""
    known = {label.casefold(): index for index, label in enumerate(model.labels)}
    wanted = {label for trigger in triggers for label in trigger.attacks}
    if missing := sorted(label for label in wanted if label.casefold() not in known):
        raise UserError(f"{setting}: class {missing[0]} is unknown to the model, which has {list(model.labels)}")
    return [[known[label.casefold()] for label in trigger.attacks] for trigger in triggers]


def _attacked(model: Classifier, triggers: Sequence[Trigger], batch: Batch) -> Bool[Tensor, "B P"]:
    """Which examples each trigger attacks."""
    attacks = torch.zeros(len(model.labels), len(triggers), dtype=torch.bool, device=batch.label.device)
    for index, classes in enumerate(_classes(model, triggers, "the stored file of triggers")):
        attacks[classes, index] = True
    return attacks[batch.label.clamp(min=0)] & (batch.label >= 0)[:, None]


def _correct(
    model: Classifier, batch: Batch, inserted: Sequence[Trigger], wanted: Bool[Tensor, "B P"], max_tokens: int | None
) -> Float[Tensor, "B Q"]:
    """1 where an example is classified correctly with each of P insertions (NaN where not wanted), and with none (last)."""
    found = torch.full((len(batch), len(inserted) + 1), torch.nan, dtype=torch.float64, device=wanted.device)
    encoded = _and_nothing(encode(model, inserted))
    whole = torch.ones_like(wanted[:, :1])
    example, place = torch.cat([wanted, whole], dim=1).nonzero(as_tuple=True)
    lengths = batch.attention_mask.sum(1)[example] + encoded.present.sum(1)[place]
    for rows in chunks(lengths.clamp(max=model.window), max_tokens, model):
        tensors, units = take(batch, example[rows])
        logits = model.run(insert(model, tensors, units, encoded[place[rows]]).tensors).logits
        right = (logits.argmax(-1) == batch.label[example[rows]]).double()
        found[example[rows], place[rows]] = torch.where(logits.isnan().any(-1), torch.nan, right)
    return found


def _and_nothing(encoded: Encoded) -> Encoded:
    """The triggers and, last, an insertion of nothing."""
    columns = {name: torch.cat([value, torch.zeros_like(value[:1])]) for name, value in vars(encoded).items()}
    return Encoded(**columns)


def _rows(
    batch: Batch,
    triggers: Sequence[Trigger],
    attacks: Sequence[Attack],
    drops: Float[Tensor, "B P"],
    wanted: Bool[Tensor, "B P"],
    before: Float[Tensor, "B"],
) -> pd.DataFrame:
    """One row per example and figure."""
    frames, start = [], 0
    means: dict[str, tuple[Tensor, Tensor]] = {}
    for attack in attacks:
        at = slice(start, start + len(attack.inserted))
        start = at.stop
        defined = wanted[:, at].any(1)
        total = torch.where(wanted[:, at], drops[:, at], 0.0).sum(1)
        mean = total / wanted[:, at].sum(1).clamp(min=1)
        x = None if attack.x is None else [attack.x]
        frames.append(table(batch.uids, attack.metric, mean, x=x, defined=defined))
        means.setdefault(attack.metric, (mean, defined))
    real, defined = means["accuracy_drop"]
    frames.append(table(batch.uids, "success", real, defined=defined & (before != 0)))
    random, drawn = means["random_drop"]
    frames.append(table(batch.uids, "advantage", real - random, defined=defined & drawn))
    count = len(triggers)
    frames.append(table(batch.uids, "drop_of_trigger", drops[:, :count], x=range(count), defined=wanted[:, :count]))
    by_class = table(batch.uids, "accuracy_drop_class", real, defined=defined)
    classes = dict(zip(batch.uids, batch.label.tolist(), strict=True))
    frames.append(by_class.assign(x=by_class["uid"].map(classes).astype(float)))
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
