"""Adversarial triggers: how much accuracy the words that an explainer points at cost (Hao 2021, "Adversarial Attack")."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd

from benchmark.evaluations.base import Averaged
from benchmark.evaluations.curves import TENTHS
from benchmark.evaluations.head_pruning import Calibration
from benchmark.evaluations.triggers.extraction import PaperRule, extract
from benchmark.evaluations.triggers.patterns import (
    Controls,
    Trigger,
    TriggerSearch,
    Variations,
    load,
    read,
    read_construction,
    read_variations,
    written,
)
from benchmark.evaluations.triggers.script import ScriptRule, extract_as_script
from benchmark.evaluations.triggers.trials import (
    attacked,
    attacks_of,
    check_classes,
    correct_with,
    drop_metrics,
    of_source_class,
    rows_of_drops,
)
from benchmark.evaluations.triggers.words import SHIPPED, Exclusion, count_pieces, count_words, exclusion, require_words
from benchmark.models.classifier import Classifier
from benchmark.results.graph import Construction
from benchmark.results.record import About, Metric
from benchmark.settings.declared import AtLeast, Count, Natural, SettingError, Share, Within, configurable, of_file
from benchmark.settings.early import ExistingFile
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Compared, Reads

_NAME = "evaluations.triggers"
_READ_BY = {  # settings that one construction alone reads
    "paper": ("tau", "max_words", "min_words"),
    "script": ("cell_share", "least_score"),
}
TriggerThreshold = Annotated[float | int, Within(0, 1, without_high=True)]
_Extracted = tuple[list[Trigger], Variations, Counter[str]]
"""Triggers, those of other rules, and what controls are drawn from."""


@configurable
class Triggers(Averaged):
    """Insert the words of one class's decisive attention edges into texts of the other classes, and count the errors.

    drop(b) = mean over the triggers that attack the class of b of [ŷ(x) = y] − [ŷ(x with the trigger) = y].

    A trigger is the words of the best head's `pairs` best edges (of a method's best tokens where it scores no edges) of
    one source example that is classified correctly, explained for its own class. The best `triggers` of each class are
    used. A trigger keeps the words' segments and relative positions. It attacks the examples of every *other* class, as in
    the paper, whose triggers of "contradiction" turn other pairs into contradictions. A `TriggerSearch` in the place of a
    method says itself which classes its triggers attack.

    The figures are:

    - `accuracy_drop` (higher: stronger attack), also by class of the attacked examples (`accuracy_drop_class`) and by
      trigger (`drop_of_trigger`).
    - `success`: the share of correctly classified examples that flip.
    - `random_drop`, `matched_drop`: drops by random words, and by words of similar frequency, at the same places.
    - `advantage` = accuracy_drop − random_drop, paired by example.
    - `drop_at_position`: all words of a trigger are put at one relative position.
    - `drop_at_tau`, `drop_of_pairs`: triggers that another threshold or number of edges gives, from the same scores.

    The paper leaves three things open. Word pieces: here whole words are inserted, never within a word. Texts that fill the
    window: their ends give way. The score of an example's pattern: the sum of its edges, or with `score=mean` that
    divided by the pattern's number of words.

    The published script differs in all that follows, and `construction=script` follows it:

    - Sources: all examples, explained for the class that the model predicts, whether right or wrong; on SST-2 those with 15
      tokens or more (`least_tokens=15`).
    - Choice: every cell counts, [CLS], [SEP], punctuation and one word's own pieces included, and nothing is pooled. The
      best head is that of the largest cell of all layers; its two largest cells make the pattern. The tokens of the second
      are left out where it is below `cell_share` of the first.
    - Score: the sum of the two cells. Patterns below `least_score` are left out; equal ones are not merged.
    - Insertion: word pieces without [CLS] and [SEP], also within a word, at round((n + added) · r) with halves to the even
      number, r counted from 1 (`script.insert_pieces`), and cut off where the window ends.
    - Attack: every class, that of the trigger included. Two more figures tell them apart: `other_class_drop`, and
      `own_class_drop` of examples of the class that the trigger was explained for.
    - Controls are drawn from the sources' word pieces. A method that scores no edges has no such trigger; what a
      `TriggerSearch` finds is tried as by `paper`.

    `construction=script` itself differs from the script as follows. The best `triggers` of each class are tried, not all.
    Drops are given instead of accuracies. The window is the model's (the script's: `model.window=128`), and a text that it
    has cut counts with the tokens that are left. Equal cells are taken last first. The last pattern of a list without a poor
    one is not lost.

    Attributes:
        target: the class that `construction=script` explains; with `paper` both are the same.
        calibration: the source split; examples that are scored are left out of it. The script takes 500 of `train`.
        construction: `paper` or `script`.
        triggers: how many of each source class.
        pairs: edges that make a trigger: 2 in the paper, up to four words.
        tau: take the edges above tau × the best one instead; null for `pairs` (`paper` only).
        max_words: of a trigger (`paper` only).
        min_words: source texts with fewer words are left out (`paper` only).
        least_tokens: source texts with fewer tokens, special ones included, are left out.
        cell_share: smaller further cells, as a share of the best, are not inserted (`script` only); 0 for all, as with the
            script's `--if_all`.
        score: what patterns are ranked by: `sum` of the edges, or `mean`, their sum divided by the number of their words
            (with `script`, of the tokens of the summed cells).
        least_score: patterns whose cells sum to less are left out (`script` only).
        skip_punctuation: no punctuation in triggers; null for what the construction does: true for `paper`.
        skip_special: cells of [CLS] and [SEP] do not count; null for what the construction does: true for `paper`, which
            allows nothing else.
        lexicon: words that no trigger may hold: null, `sentiment` (a short list) or a text file with one word a line.
            The paper leaves sentiment words out on SST-2, by a list that is not in the authors' repository.
        positions: relative positions of `drop_at_position`, each within [0, 1].
        taus: thresholds of `drop_at_tau`: the triggers that each would give in place of `pairs` (`paper` only).
        pair_counts: numbers of edges of `drop_of_pairs`.
        draws: random and matched words per trigger.
        file: triggers that another run wrote (`triggers-….json` in its run folder), instead of this method's; they are
            inserted as their own construction says. The run folder keeps a copy; a file of another content is another test.
        seed: of tied edges and of the draws.
        artifact: what `extract` returned; set by `restored`.

    Source: Hao et al. 2021, section "Adversarial Attack"; `run_adver_connection.py`, `run_adver_evaluate.py` of the
    authors' repository (YRdddream/attattr, commit f5a7396); docs/protocols.md, section 12.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[Reads] = "method"
    about: ClassVar[About] = About("faithfulness", 60, "Adversarial triggers")
    nothing: ClassVar[str] = "no scored example is of a class that a trigger attacks"

    target: TargetName = "predicted"
    calibration: Calibration = Calibration("train", 100)
    construction: Construction = "paper"
    triggers: Count = 3
    pairs: Count = 2
    tau: TriggerThreshold | None = None
    max_words: Annotated[int, AtLeast(2)] = 5
    min_words: Annotated[int, AtLeast(2)] = 5
    least_tokens: Natural = 0
    cell_share: Share = 0.2
    score: Literal["sum", "mean"] = "sum"
    least_score: Annotated[float | int, AtLeast(0)] = 0.02
    skip_punctuation: bool | None = None
    skip_special: bool | None = None
    lexicon: Annotated[str | None, ExistingFile((SHIPPED,))] = of_file()
    positions: Sequence[Share] = (0.0, 0.25, 0.5, 0.75, 1.0)
    taus: Sequence[TriggerThreshold] = TENTHS
    pair_counts: Sequence[Count] = (1, 2)
    draws: Count = 3
    file: Annotated[str | None, ExistingFile()] = of_file()
    seed: Natural = 0
    artifact: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self._check_construction()
        self._excluded(self.construction)
        if self.file is not None:
            load(self.file, f"{_NAME}.file={self.file}")

    def _check_construction(self) -> None:
        if self.construction == "paper" and self.skip_special is False:
            raise SettingError("skip_special", "false", "null and true with construction=paper, which inserts words")
        defaults = {setting.name: setting.default for setting in fields(self)}
        for construction, names in _READ_BY.items():
            for name in names if construction != self.construction else ():
                if (value := getattr(self, name)) != (default := defaults[name]):
                    only = "null" if default is None else default
                    raise SettingError(
                        name, value, f"{only} alone, as construction={self.construction} does not read it"
                    )

    def _excluded(self, construction: str) -> Exclusion:
        punctuation = construction == "paper" if self.skip_punctuation is None else self.skip_punctuation
        return exclusion(self.lexicon, f"{_NAME}.lexicon", punctuation=punctuation)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Drops in accuracy, and what describes them."""
        script = self.construction == "script"
        curves = {"position": self.positions, "tau": () if script else self.taus, "pairs": self.pair_counts}
        return drop_metrics([name for name, xs in curves.items() if xs], of_source=script)

    def extract(self, model: Classifier, method: Compared, batches: Sequence[Batch]) -> dict[str, Any]:
        """The triggers of a method with their controls, or those of `file`.

        Raises:
            NotApplicable: no triggers can be read off these source examples.
            UserError: `file` names classes that the model does not have.
        """
        if self.file is not None:
            setting = f"{_NAME}.file={self.file}"
            artifact = load(self.file, setting)
            check_classes(model, read(artifact, setting), setting)
            return artifact
        script = self.construction == "script" and not isinstance(method, TriggerSearch)
        triggers, variations, counts = (self._by_script if script else self._by_paper)(model, method, batches)
        controls = Controls(counts, draws=self.draws, seed=self.seed)
        return written(controls.added(triggers), model, variations, "script" if script else "paper")

    def _by_paper(self, model: Classifier, method: Compared, batches: Sequence[Batch]) -> _Extracted:
        rule = PaperRule(
            triggers=self.triggers,
            pairs=self.pairs,
            tau=self.tau,
            max_words=self.max_words,
            min_words=self.min_words,
            least_tokens=self.least_tokens,
            score=self.score,
            exclusion=self._excluded("paper"),
            seed=self.seed,
        )
        varied = [("drop_at_tau", float(tau), replace(rule, tau=tau)) for tau in self.taus]
        varied += [("drop_of_pairs", float(n), replace(rule, tau=None, pairs=n)) for n in self.pair_counts]
        triggers, *others = extract(model, method, batches, rule, *(other for *_, other in varied))
        curves = [(metric, x) for metric, x, _ in varied]
        return triggers, _variations(curves, others), count_words(batches, rule.exclusion)

    def _by_script(self, model: Classifier, method: Compared, batches: Sequence[Batch]) -> _Extracted:
        rule = ScriptRule(
            triggers=self.triggers,
            cells=self.pairs,
            cell_share=self.cell_share,
            score=self.score,
            least_score=self.least_score,
            least_tokens=self.least_tokens,
            skip_special=bool(self.skip_special),
            exclusion=self._excluded("script"),
            target=self.target,
        )
        varied = [replace(rule, cells=n) for n in self.pair_counts]
        triggers, *others = extract_as_script(model, method, batches, rule, *varied)
        curves = [("drop_of_pairs", float(n)) for n in self.pair_counts]
        return triggers, _variations(curves, others), count_pieces(model, batches, rule.exclusion)

    def restored(self, artifact: Mapping[str, Any]) -> "Triggers":
        """A copy that holds these triggers."""
        return replace(self, artifact=artifact)

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Drops of each example that a trigger attacks; NotApplicable where there are no words."""
        if self.artifact is None:
            raise ValueError("triggers have to be extracted before they are tried: use restored(extract(...))")
        require_words(model, batch)
        triggers = read(self.artifact, "the stored file of triggers")
        construction = read_construction(self.artifact)
        attacks = attacks_of(triggers, self.positions, read_variations(self.artifact))
        inserted = [trigger for attack in attacks for trigger in attack.inserted]
        is_attacked = attacked(model, inserted, batch)
        correct = correct_with(model, batch, inserted, is_attacked, construction)
        drops = correct[:, -1:] - correct[:, :-1]
        of_source = of_source_class(model, triggers, batch) if construction == "script" else None
        return rows_of_drops(batch, attacks, drops, is_attacked, correct[:, -1], of_source)


def _variations(curves: Sequence[tuple[str, float]], triggers: Sequence[Sequence[Trigger]]) -> Variations:
    """The triggers at each x, by metric; none where a search found them."""
    variations: dict[str, list[tuple[float, Sequence[Trigger]]]] = {}
    for (metric, x), at_x in zip(curves, triggers, strict=False):
        variations.setdefault(metric, []).append((x, at_x))
    return variations
