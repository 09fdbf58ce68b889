"""What may be said of examples: intervals of figures, p-values of paired differences, and their correction (numpy, scipy).

Everywhere the unit is the example. `docs/statistics.md` derives what is done and tables how often it is right.
"""

from benchmark.results.statistics.bootstrap import (
    UNBOUNDED,
    Interval,
    Range,
    Statistic,
    interval,
    intervals,
    resampled_means,
)
from benchmark.results.statistics.clustered import clustered_difference, clustered_interval
from benchmark.results.statistics.draws import RESAMPLED, matrix, sources
from benchmark.results.statistics.ratios import (
    RATIOS,
    absolute_ratio,
    f1_of_means,
    f1_of_ratios,
    f1_of_sums,
    mean_of_ratios,
    name_of,
    ratio,
)
from benchmark.results.statistics.significance import (
    ALPHA,
    flips_for,
    holm,
    least_examples,
    pair_p,
    sign_flip_p,
    swap_p,
)
from benchmark.results.statistics.skewness import (
    TOO_SKEWED,
    distribution_free_p,
    most_skewness,
    skewness_against,
    too_skewed,
    vary_alike,
)
from benchmark.results.statistics.spread import plain_spread_interval, spread_interval
from benchmark.results.statistics.two_sources import (
    Crossed,
    Source,
    crossed_interval,
    crossed_p,
    deviation_over_seeds,
    drawn_p,
    mean_over_seeds,
    of_orders,
    of_resamples,
    variance_shares,
    widened,
)

VERSION = 2
"""Raised when a stored figure would come out differently: 1 was the percentile bootstrap."""

__all__ = [
    "ALPHA",
    "RATIOS",
    "RESAMPLED",
    "TOO_SKEWED",
    "UNBOUNDED",
    "VERSION",
    "Crossed",
    "Interval",
    "Range",
    "Source",
    "Statistic",
    "absolute_ratio",
    "clustered_difference",
    "clustered_interval",
    "crossed_interval",
    "crossed_p",
    "deviation_over_seeds",
    "distribution_free_p",
    "drawn_p",
    "f1_of_means",
    "f1_of_ratios",
    "f1_of_sums",
    "flips_for",
    "holm",
    "interval",
    "intervals",
    "least_examples",
    "matrix",
    "mean_of_ratios",
    "mean_over_seeds",
    "most_skewness",
    "name_of",
    "of_orders",
    "of_resamples",
    "pair_p",
    "plain_spread_interval",
    "ratio",
    "resampled_means",
    "sign_flip_p",
    "skewness_against",
    "sources",
    "spread_interval",
    "swap_p",
    "too_skewed",
    "variance_shares",
    "vary_alike",
    "widened",
]
