"""Which test holds which method to a slow transcription of its equation: `@replicates(Class, setting=value)` on the test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from methods.propagation.rule_sets import RuleSet, rule_set

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Replica:
    """A transcription of a class, at any value of the settings that are not named.

    Attributes:
        target: the class.
        settings: a value, or the set of values, of each setting that is named.
        test: name of the test.
    """

    target: type
    settings: dict[str, Any]
    test: str

    def covers(self, value: Any) -> bool:
        """Whether the transcription is one of this object, those among its settings aside."""
        return type(value) is self.target and all(
            getattr(value, name) in (allowed if isinstance(allowed, set) else {allowed})
            for name, allowed in self.settings.items()
        )


REPLICAS: list[Replica] = []


def replicates(target: type, **settings: Any) -> Callable[[Test], Test]:
    """Says of a test that it compares `target` with a transcription, where its settings have these values."""

    def register(test: Test) -> Test:
        REPLICAS.append(Replica(target, settings, f"{test.__module__}.{test.__qualname__}"))
        return test

    return register


def without_replica(method: Any) -> list[Any]:
    """The method, and the parts that it is made of (edge score, readout, rules), as far as no test transcribes them."""
    return [part for part in _parts(method) if not any(replica.covers(part) for replica in REPLICAS)]


def _parts(value: Any) -> Iterator[Any]:
    """A method and the objects among its settings; of a rule set, which is nothing else, its rules alone."""
    if not isinstance(value, RuleSet):
        yield value
    for field in fields(value) if is_dataclass(value) else ():
        setting = getattr(value, field.name)
        setting = rule_set(setting) if field.name == "rules" else setting
        if is_dataclass(setting):
            yield from _parts(setting)
