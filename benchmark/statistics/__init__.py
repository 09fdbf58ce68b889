"""What may be said of examples: intervals of figures, p-values of paired differences, and their correction (numpy, scipy).

Everywhere the unit is the example. `docs/statistics.md` derives what is done and tables how often it is right.
"""

from benchmark.statistics.bootstrap import Interval, Statistic, interval, intervals, paired_difference
from benchmark.statistics.significance import ALPHA, holm, least_examples, pair_p, sign_flip_p, swap_p

VERSION = 2
"""Raised when a stored figure would come out differently: 1 was the percentile bootstrap."""

__all__ = [
    "ALPHA",
    "VERSION",
    "Interval",
    "Statistic",
    "holm",
    "interval",
    "intervals",
    "least_examples",
    "pair_p",
    "paired_difference",
    "sign_flip_p",
    "swap_p",
]
