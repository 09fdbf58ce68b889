"""Adversarial triggers: words at relative positions of a text that change a prediction (Hao 2021, "Adversarial Attack")."""

from benchmark.evaluations.triggers.attacks import Attack, attacks_of
from benchmark.evaluations.triggers.insertion import Encoded, Inserted, encode, insert
from benchmark.evaluations.triggers.patterns import (
    Placed,
    Search,
    Trigger,
    TriggerSearch,
    read,
    read_variations,
    written,
)
from benchmark.evaluations.triggers.words import Exclusion, exclusion

__all__ = [
    "Attack",
    "Encoded",
    "Exclusion",
    "Inserted",
    "Placed",
    "Search",
    "Trigger",
    "TriggerSearch",
    "attacks_of",
    "encode",
    "exclusion",
    "insert",
    "read",
    "read_variations",
    "written",
]
