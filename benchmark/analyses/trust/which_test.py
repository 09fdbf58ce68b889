"""Which test of explanations can be trusted here? A table with a verdict for each test (docs/protocols.md, section 14)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, ClassVar

import numpy as np

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.trust import questions
from benchmark.analyses.trust.columns import INVERTED, ORACLE, RANDOM, Column, columns_of, common, within
from benchmark.analyses.trust.found import NOT_ASKED, REFERENCE, Asked, Found, found_again, removal_of
from benchmark.analyses.trust.ladder import RUNGS
from benchmark.analyses.trust.strange import BETWEEN, IN, OUT, verdict
from benchmark.analyses.trust.winners import SEARCHED
from benchmark.errors import NotApplicable
from benchmark.models.history import mask_share
from benchmark.models.history import told as told_masks
from benchmark.models.removal import OperatorName
from benchmark.progress.spent import Spent
from benchmark.results.control_names import control_order
from benchmark.results.record import KINDS
from benchmark.results.statistics import Interval
from benchmark.results.tables import FORECAST, Drawing, Table, frame, line
from benchmark.results.trust import NOT_HERE, REMOVALS, USE, VERDICT, WHY, WITH_CARE
from benchmark.results.wording import bounds, number, span
from benchmark.settings.declared import AtLeast, Count, Natural, Share, configurable
from benchmark.types import KnowsTruth

CONTROLS, HALVES, TRUTH, FRESH = "controls", "the order in halves", "the truth", "explanations of fresh weights"
WINNER, SHIFT, SETTINGS = "its own winner", "shift", "other settings"
"""The questions that a test passes or fails."""

DECIDES = (CONTROLS, FRESH)
"""Questions without which a test says nothing here, whatever else it passes."""

TRUTHS = (
    ("known_words", "average_precision"),
    ("rationale", "average_precision"),
    ("localisation", "average_precision"),
)
"""Figures that say how true an explanation is, where the task knows what causes an answer; the first that there is."""

OF_TRUTH = ("known causes", "plausibility")
"""Kinds of tests that compare explanations with what is known, where the task knows what causes an answer."""

TAU = "Kendall τ_b"
_HALF = 0.5
_NOT_ASKED = "whether the model knows what they leave was not asked (analyses.which_test.shift=true)"
UNTOLD = "not told apart"
_LEAVE = {
    UNTOLD: "so few examples do not tell whether the model knows what they leave: one is stranger with a chance of",
    IN: "they leave what the model knows: an example is stranger to it afterwards with a chance of",
    BETWEEN: "what they leave is a little strange to the model: stranger than the example with a chance of",
    OUT: "they lead out of what the model knows: an example is stranger to it afterwards with a chance of",
}
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Answers:
    """What is found of one test.

    Attributes:
        column: its figures.
        oracle, inverted: does it prefer the oracle to random scores, and these to inverted ones? None without the controls.
        halves: ρ of the methods' order in halves of the examples.
        layout: of examples and methods.
        needed: examples that tell the best method from the second, and neighbours in rank (median).
        order: τ_b of the methods' order with the truth's; None where that is not known.
        concordance: of explanations with the truth.
        ties: share of pairs that are equal.
        settings: the lowest τ_b with the methods' order under another setting of the test, and which; None without any.
        more: what was found by asking tests again.
        passed: by question whether the test passes; None where it was not asked.
    """

    column: Column
    oracle: Interval | None
    inverted: Interval | None
    halves: Interval
    layout: questions.Layout
    needed: tuple[float, float]
    order: Interval | None
    concordance: Interval | None
    ties: Interval
    settings: tuple[str, Interval] | None
    more: Found
    passed: Mapping[str, bool | None]

    @property
    def verdict(self) -> str:
        """`USE`, `WITH_CARE` or `NOT_HERE`."""
        if any(self.passed[name] is False for name in DECIDES):
            return NOT_HERE
        return WITH_CARE if self.passed[CONTROLS] is None or False in self.passed.values() else USE

    @property
    def why(self) -> str:
        """What the test fails, and what was not asked; empty where neither is anything."""
        failed = [name for name, answer in self.passed.items() if answer is False]
        missing = [name for name, answer in self.passed.items() if answer is None]
        said = [f"{what} {', '.join(names)}" for what, names in (("fails", failed), ("not asked:", missing)) if names]
        return "; ".join(said)


@configurable
class WhichTest(Analysis):
    """Which of the comparison's tests can be trusted on this model and these examples?

    For every headline figure that a test gives single examples: does it prefer the oracle to random scores, and random to
    inverted ones; does one half of the examples order the methods as the other; how many examples tell the best method from
    the second; and, where the task knows what causes an answer, does it order methods, and explanations of one example, by
    their truth? Nothing is computed anew for these: the rows of the comparison answer them. A second table has the rank
    correlation of the methods' means between every two tests, and a third which tests order methods alike.

    Five more questions run tests that read scores of words or patches again, on the first examples, where they are asked;
    not those whose `pool` adds up a word's tokens, for which explanations are made of words here.
    `ladder`: does a test see how much of an explanation was lost? The scores of a growing share of an example's units are
    permuted: those of the oracle, else those of the method that most tests put first, which is circular for these. `fresh`:
    are explanations of models whose weights were all drawn anew no better than random scores? Mean over the methods that
    look at the class; where these explanations are better than random in truth (as where the input alone shows what
    counts), a test that says so is right, and is not asked. `winners`: of two greedy orders of removal and leave-one-out,
    does the one that the test likes most beat the oracle, and how true is it? `shift`: how strange to the model is what a
    test's removals leave (`shift`)? `operator`: do tests order the methods' stored explanations alike where units are
    removed in another way? It is one of the other settings of a test.

    Verdicts: *not here* where the controls are not told apart, a lower end of the interval being not above ½, or where
    explanations of fresh weights are found better than random scores; *use it* where everything that was asked passes;
    *with care* else, and where there are no controls. There is no total score. What people marked is no truth, and an
    oracle of it no control of a test of faithfulness: the model may use other words. There, without a truth, the two ends
    of the ladder stand for the controls.

    Attributes:
        ladder, winners, shift: whether these are asked.
        operator: another way to remove; None where it is not asked.
        fresh: for how many models of fresh weights; 0 where it is not asked.
        limit: on how many examples the five are asked; None for all.
        units: examples with more units have no searched explanations.
        methods: least number of methods that are no controls; with fewer no order can be told.
        reliable: from which ρ on the order in halves passes,
        reliable_low: and from which lower end of its interval.
        alike: from which τ_b on the order under other settings of the test passes.
        seed: of halves and resamples.
    """

    version: ClassVar[int] = 2
    says_nothing: ClassVar[bool] = True

    ladder: bool = False
    winners: bool = False
    shift: bool = False
    fresh: Natural = 0
    operator: OperatorName | None = None
    limit: Count | None = 100
    units: Count = 64
    methods: Annotated[int, AtLeast(3)] = 6
    reliable: Share = 0.8
    reliable_low: Share = 0.5
    alike: Share = 0.5
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """The verdicts, and how tests agree; NotApplicable with fewer methods, or without tests of single examples."""
        enough = sum(control_order(name) == 0 for name in context.cells) >= self.methods  # else no row need be read
        found = list(columns_of(context)) if enough else []
        columns = [column for column in found if len(column.methods) >= self.methods and len(column.uids) >= 4]
        truth = _truth(context, columns)
        asked = [column for column in columns if truth is None or column.kind not in OF_TRUTH]
        if not asked:
            raise NotApplicable(
                f"no test has figures of at least {self.methods} methods on four examples or more; which of the tests can "
                "be trusted is asked of their order of methods"
            )
        again = Asked(
            self.ladder, self.winners, self.fresh, self.limit, self.units, self.seed, self.shift, self.operator
        )
        more, base = found_again(again, context, asked, truth, self.keeping(context))
        self.forget(context)
        answers = sorted(
            (self.ask(column, truth, more.get(column.key, NOT_ASKED)) for column in asked),
            key=lambda one: (
                (USE, WITH_CARE, NOT_HERE).index(one.verdict),
                -sum(answer is True for answer in one.passed.values()),
            ),
        )
        alike = sorted(columns, key=lambda column: KINDS.index(column.kind) if column.kind in KINDS else len(KINDS))
        return [self._verdicts(answers, truth, base), *self._removals(context, answers), *_agreement(alike, self.seed)]

    def foretold(self, spent: Spent, context: Context) -> float:
        """What asks tests again; reading the rows that there are takes seconds, which are not counted."""
        tests = [name for name, test in context.evaluations.items() if test.reads == "tokens"]
        once, methods = spent.tested(tests), [name for name in context.cells if control_order(name) == 0]
        removals = {removal for test in context.evaluations.values() if (removal := removal_of(test)) is not None}
        facts = context.setting.data.facts
        units = min(self.units, facts.units / max(1, facts.n))
        steps = {
            "ladder": len(RUNGS) * once,
            "fresh": self.fresh * (spent.explained(methods) + len(methods) * once),
            "winners": (units**2 + 2 * units) * spent.forward + (len(SEARCHED) + 1) * once,
            "shift": (bool(removals) + sum(len(shares) for _, shares in removals)) * spent.forward,
            "operator": len(methods) * once,
        }
        asked = {"ladder": self.ladder, "fresh": self.fresh > 0, "winners": self.winners, "shift": self.shift}
        asked["operator"] = self.operator is not None
        each = sum(seconds for name, seconds in steps.items() if asked[name])
        return spent.used(self.limit) * each + (2 * REFERENCE * spent.forward if self.shift else 0.0)

    def _least_alike(self, column: Column, more: Found) -> tuple[str, Interval] | None:
        """The setting of the test under which the order of methods is least like its own."""
        found = {
            name: questions.order_agreement(column.values, values, self.seed, f"{column.key} {name}")
            for name, values in column.alternatives.items()
        }
        if more.under is not None:
            found[f"removal by {self.operator}"] = more.under
        known = {name: one for name, one in found.items() if np.isfinite(one.value)}
        return min(known.items(), key=lambda item: item[1].value) if known else None

    def ask(self, column: Column, truth: Column | None = None, more: Found = NOT_ASKED) -> Answers:
        """What is found of one test, with the figures of the truth where it is known, and what asking again has found."""
        oracle = _separation(column.controls, ORACLE, RANDOM)
        inverted = _separation(column.controls, RANDOM, INVERTED)
        of_marks = truth is not None or column.kind in OF_TRUTH  # a test of agreement with marks has them for controls
        known = [one for one in (oracle, inverted) if one is not None] if of_marks else []
        told = known or [one for one in (more.ends,) if one is not None]
        separated = [one.low > _HALF for one in told]
        settings = self._least_alike(column, more)
        halves = questions.halves(column.values, self.seed, column.key)
        order = concordance = None
        if truth is not None:
            own, true = common(column, truth)
            order = questions.order_agreement(own, true, self.seed, column.key)
            concordance = questions.concordance(own, true)
        return Answers(
            column,
            oracle=oracle,
            inverted=inverted,
            halves=halves,
            layout=questions.layout(column.values),
            needed=questions.examples_to_rank(column.values),
            order=order,
            concordance=concordance,
            ties=questions.ties(column.values),
            settings=settings,
            more=more,
            passed={
                CONTROLS: all(separated) if separated else None,
                HALVES: bool(halves.value >= self.reliable and halves.low >= self.reliable_low),
                TRUTH: None if order is None else bool(order.low > 0),
                FRESH: None if _is_true(more.fresh_truth) else passes(more.fresh, lambda gain: gain.low <= 0),
                SETTINGS: None if settings is None else bool(settings[1].value >= self.alike),
                SHIFT: passes(more.shift, lambda chance: verdict(chance) != OUT),
                WINNER: None
                if (winner := more.winner) is None
                else passes(more.beaten, lambda won: not _is_misled(won, winner)),
            },
        )

    def _verdicts(self, answers: Sequence[Answers], truth: Column | None, base: str) -> Table:
        lines: list[dict[str, Any]] = []
        unknown = "the task does not know what causes an answer" if truth is None else ""
        for one in answers:
            labels, key = {"test": one.column.shown}, one.column.key
            lines += [line(labels, "so", note=one.verdict, key=f"{key}.{VERDICT}")]
            lines += [line(labels, "why", note=one.why or "all that was asked passes", key=f"{key}.{WHY}")]
            for name, figure, missing in (
                ("oracle above random", one.oracle, "no such controls"),
                ("random above inverted", one.inverted, "no such controls"),
                ("same order in halves, ρ", one.halves, ""),
                ("same order as the truth, τ_b", one.order, unknown),
                ("explanations as in the truth", one.concordance, unknown),
                ("pairs that are equal", one.ties, ""),
                *self._more_lines(one.more),
            ):
                lines.append(line(labels, name, note=missing) if figure is None else figure_line(labels, name, figure))
            lines.append(_under_settings(labels, one.settings))
            lines.append(_forecast(labels, "examples, best from second", one.needed[0]))
            lines.append(_forecast(labels, "examples, neighbours", one.needed[1]))
            lines.append(_forecast(labels, "examples for R = .9", one.layout.examples_for_reliable))
        return Table(
            name="which_test",
            title="Which tests can be trusted here",
            labels=("test",),
            rows=frame(lines, ("test",)),
            sentences=self._told(answers, truth, base),
        )

    def _removals(self, context: Context, answers: Sequence[Answers]) -> Sequence[Table]:
        """Of tests that remove something, whether the model knows what they leave; what a report prints beside them."""
        removals = {one.column.key: removal_of(context.evaluations[one.column.test]) for one in answers}
        if not any(removals.values()):
            return []
        masks, lines = told_masks(mask_share(context.setting.model)), []
        for one in answers:
            if (removal := removals[one.column.key]) is None:
                continue
            labels, (operator, shares) = {"test": one.column.shown}, removal
            share = f"{min(shares):g} to {max(shares):g}" if len(shares) > 1 else f"{shares[0]:g}"
            lines.append(line(labels, "removes", note=f"{share} of the units ({operator})"))
            said = _NOT_ASKED if not self.shift else "whether the model knows what they leave cannot be told here"
            if (found := one.more.shift) is not None:
                kind = UNTOLD if verdict(found) == BETWEEN and found.low <= _HALF else verdict(found)
                said = f"{_LEAVE[kind]} {number(found.value)} {bounds(found.low, found.high)} (n = {found.n})"
            lines.append(line(labels, "what they leave", note=f"{said}; {masks}", key=f"{one.column.key}.{REMOVALS}"))
        return [Table("which_test_removals", "What removals leave", ("test",), frame(lines, ("test",)), printed=False)]

    def _more_lines(self, more: Found) -> Sequence[tuple[str, Interval | None, str]]:
        """What asking again has found, where it was asked."""
        reads = "reads no scores of words"
        of_ladder = [("sees what is lost, ρ", more.ladder, reads), ("above its permuted copy", more.ends, reads)]
        of_fresh = [("fresh weights above random", more.fresh, f"no such methods or controls, or {reads}")]
        of_winners = [
            ("a search beats the oracle by", more.beaten, f"no oracle, or {reads}"),
            ("the winner is true", more.winner, f"nobody knows, or {reads}"),
        ]
        of_shift = [("stranger after its removals", more.shift, "removes nothing, or nothing tells typical examples")]
        asked = (
            (self.ladder, of_ladder), (self.fresh > 0, of_fresh), (self.winners, of_winners), (self.shift, of_shift),
        )  # fmt: skip
        return [figure for is_asked, own in asked if is_asked for figure in own]

    def _told(self, answers: Sequence[Answers], truth: Column | None, base: str) -> tuple[str, ...]:
        kinds = {
            word: [one.column.shown for one in answers if one.verdict == word] for word in (USE, WITH_CARE, NOT_HERE)
        }
        said = [f"{word.capitalize()}: {'; '.join(found)}." for word, found in kinds.items() if found]
        return (
            *said,
            f"Of {span(len(one.column.methods) for one in answers)} methods, without controls. A test passes on controls "
            "where the lower ends of both shares are above ½ (without a truth, of the share above a permuted copy, and of "
            f"agreement with marks of both), on the order in halves where ρ is at least {self.reliable} "
            f"and its lower end {self.reliable_low}, and on the truth where the lower end of τ_b is above 0; these limits "
            "are chosen.",
            "An order that is the same in halves is no sign of truth: a test may prefer the same wrong explanations every "
            "time. Nor does it say that every two methods differ: the numbers of examples say what that would need.",
            "Least like its order: of the other settings that a test tells of (what it follows, fewer shares"
            f"{f', removal by {self.operator}' if self.operator else ''}) the one under which methods stand least in the "
            f"same order; a test passes from {self.alike} on.",
            f"The truth is {truth.shown}; tests of its kind are not asked."
            if truth is not None
            else "Nobody knows what causes the answers here.",
            *self._of_again(base, next((one.more.fresh_truth for one in answers if one.more.fresh_truth), None)),
        )

    def _of_again(self, base: str, true: Interval | None) -> Iterator[str]:
        """What the questions mean that tests were asked again."""
        many = "all examples" if self.limit is None else f"at most {self.limit} examples"
        if base:
            circular = (
                "" if base == ORACLE else ", the method that most tests put first, which is circular for these tests"
            )
            yield (
                f"Sees what is lost: −ρ of the share of words whose scores change places (0, ¼, ½, ¾, 1) and the test's "
                f"figure, of explanations by {base}{circular}; mean over {many}. Above its permuted copy: in how many of "
                "them a test prefers that explanation to one whose scores have all changed places."
            )
        if self.fresh:
            yield (
                f"Fresh weights above random: how much better than random scores a test finds explanations of models whose "
                f"weights are all drawn anew, mean over the methods that look at the class; {self.fresh} draws, {many}. A "
                "test fails where the lower end is above 0: what it rewards has nothing to do with the model."
            )
            if true is not None:
                right = (
                    " Here they are, so that a test that says so is right, and is not asked." if _is_true(true) else ""
                )
                yield (
                    f"In truth these explanations are better than random scores by {number(true.value)} "
                    f"{bounds(true.low, true.high)} (n = {true.n}).{right}"
                )
        if self.winners:
            yield (
                f"A search beats the oracle: of two greedy orders of removal and leave-one-out the one that the test likes "
                f"most, less the oracle (its words in the order of leave-one-out, where the test likes that better), and "
                f"how true it is; on {many} of at most {self.units} words. A test fails where the search wins (lower end "
                "above 0) with what is not the truth (upper end below 1): better explanations lose."
            )
        if self.shift:
            yield (
                "Stranger after its removals: the chance that an example is stranger to the model (by its states, against "
                "examples as in training) after a test's removals in a random order than before, mean over its shares; .5 "
                f"where nothing tells them apart; {many}. A test fails where the lower end is at least .75."
            )


def _is_true(fresh: Interval | None) -> bool:
    """Whether explanations of fresh weights are better than random scores in truth, so that a test may say so."""
    return fresh is not None and fresh.low > 0


def passes(found: Interval | None, test: Callable[[Interval], bool]) -> bool | None:
    """Whether a figure passes; None where there is none, or it has no interval: nothing undefined is a pass."""
    return None if found is None or not np.isfinite([found.low, found.high]).all() else test(found)


def _is_misled(beaten: Interval, winner: Interval) -> bool:
    """Whether an explanation that is not the truth wins over it, by more than rounding."""
    return beaten.low > _ROUNDING and not winner.high >= 1


def _truth(context: Context, columns: Sequence[Column]) -> Column | None:
    """The figures that say how true explanations are; None where nobody knows."""
    task = context.setting.task
    if not (isinstance(task, KnowsTruth) and task.rationale_is_truth):
        return None
    by_key = {(column.test, column.metric): column for column in columns}
    return next((by_key[key] for key in TRUTHS if key in by_key), None)


def _separation(controls: Mapping[str, questions.OfExamples], better: str, worse: str) -> Interval | None:
    if better not in controls or worse not in controls:
        return None
    return questions.separation(controls[better], controls[worse])


def _under_settings(labels: Mapping[str, Any], found: tuple[str, Interval] | None) -> dict[str, Any]:
    if found is None:
        return line(labels, "least like its order, τ_b", note="the test tells of no other setting that orders methods")
    return figure_line(labels, "least like its order, τ_b", found[1], note=f"with {found[0]}")


def _forecast(labels: Mapping[str, Any], name: str, needed: float) -> dict[str, Any]:
    if not needed <= questions.NEVER:
        return line(labels, name, note="not by more examples")
    return line(labels, name, float(np.ceil(needed)), note=FORECAST)


def _agreement(columns: Sequence[Column], seed: int) -> list[Table]:
    """τ_b of the methods' means between every two tests, and the tree of tests; nothing of a single one."""
    lines, labels = [], ("test", "and")
    for first, second in combinations(columns, 2):
        own, other = common(first, second)
        if own.shape[1] < 3 or len(own) < 2:
            continue
        figure = questions.order_agreement(own, other, seed, f"{first.key} {second.key}")
        lines.append(figure_line(dict(zip(labels, (first.shown, second.shown), strict=True)), TAU, figure))
    if not lines:
        return []
    matrix = Table(
        name="which_test_agreement",
        title="How alike tests order methods, by pair",
        labels=labels,
        rows=frame(lines, labels),
        drawing=Drawing("heat", x="and", y=("test",), value=TAU),
        printed=False,
    )
    return [matrix, *_tree(columns, seed)]


def _tree(columns: Sequence[Column], seed: int) -> list[Table]:
    """Which tests order methods alike, group by group; of the tests that have figures of the most methods."""
    most = max(len(column.methods) for column in columns)
    columns = [column for column in columns if len(column.methods) == most]
    methods = set.intersection(*(set(column.methods) for column in columns))
    uids = set.intersection(*(set(column.uids) for column in columns))
    if len(columns) < 2 or len(methods) < 3 or len(uids) < 4:
        return []
    told = questions.joins([within(column, methods, uids) for column in columns], seed)
    lines, labels = [], ("group", "tests", "in resamples")
    for group, join in enumerate(told, 1):
        tests = "; ".join(columns[member].shown for member in join.members)
        lines.append(
            figure_line({"group": group, "tests": tests, "in resamples": f"{100 * join.support:.0f} %"}, TAU, join.tau)
        )
    if not lines:
        return []
    return [
        Table(
            name="which_test_groups",
            title="Which tests order methods alike",
            labels=labels,
            rows=frame(lines, labels),
            sentences=(
                f"Groups by average linkage of 1 − τ_b of the means of {len(methods)} methods, the most alike first; τ_b is "
                "the mean between the two groups that are joined. In resamples: in what share of 200 resamples of the "
                "examples these very tests are a group.",
            ),
        )
    ]
