"""The attacks that a set of triggers stands for: the triggers, their controls, and their variations."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.evaluations.triggers.patterns import Trigger, Variations


@dataclass(frozen=True)
class Attack:
    """One kind of insertion: the metric that it is counted in, what is inserted, and where on the metric's x axis."""

    metric: str
    inserted: Sequence[Trigger]
    x: float | None = None


def attacks_of(triggers: Sequence[Trigger], positions: Sequence[float | int], variations: Variations) -> list[Attack]:
    """The triggers themselves, their controls, the triggers at each position, and those of other rules."""
    attacks = [Attack("accuracy_drop", tuple(triggers))]
    for name in ("random", "matched"):
        inserted = tuple(trigger.saying(words) for trigger in triggers for words in getattr(trigger, name))
        attacks.append(Attack(f"{name}_drop", inserted))
    attacks += [Attack("drop_at_position", tuple(t.at(p) for t in triggers), x=float(p)) for p in positions]
    return attacks + [Attack(metric, others, x=x) for metric, curve in variations.items() for x, others in curve]
