"""Macro-averaged F1 of classifications, and its interval over examples. Defined in docs/protocols.md, section 16."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from benchmark.analyses.means import SHARE
from benchmark.analyses.measured import figure_line
from benchmark.results.statistics import Interval, interval

Classes = Int[NDArray[np.integer[Any]], "N"]
Means = Float[NDArray[np.float64], "R K"]

_DIFFERENCE = (-1.0, 1.0)
_MOST_CORNERS = 12  # columns: where resamples are constant, the interval is taken over 2^columns corners


def macro_f1_line(
    labels: Mapping[str, Any], label: Classes, predicted: Classes, reference: Classes | None = None
) -> dict[str, Any]:
    """Macro-F1 of predictions as a line of a table; with a reference, how much higher it is than that one's.

    Args:
        labels: of the line.
        label: the annotated class of each example.
        predicted: the predicted one.
        reference: another prediction of the same examples.
    """
    if not len(label):
        figure, note = Interval(float("nan"), float("nan"), float("nan"), 0), "no example has a label"
    else:
        figure, note = macro_f1(label, predicted, reference), ""
    return figure_line(labels, "macro-F1" if reference is None else "difference of macro-F1", figure, note)


def macro_f1(label: Classes, predicted: Classes, reference: Classes | None = None) -> Interval:
    """Mean of `2 TP_c / (predicted_c + annotated_c)` over the classes c that are predicted or annotated, of [N], N > 0.

    It equals `sklearn.metrics.f1_score(label, predicted, average="macro", zero_division=0)`. With a reference it is how
    much higher that is than the reference's, over the same examples. Where resamples hardly vary, the
    interval is that of the exact bounds of the counts (`interval`), up to 6 classes, with a reference 3: it then is wide,
    up to the whole range.
    """
    given = [predicted] if reference is None else [predicted, reference]
    classes = np.unique(np.concatenate([label, *given]))
    columns = np.concatenate([_counts(label, each, classes) for each in given], axis=1)
    ranges = [*[(0.0, 1.0)] * len(classes), *[(0.0, 2.0)] * len(classes)] * len(given)

    def statistic(means: Means) -> NDArray[np.float64]:
        first, *second = (_of_means(part) for part in np.split(means, len(given), axis=1))
        return first - second[0] if second else first

    return interval(
        columns,
        statistic,
        bounds=SHARE if reference is None else _DIFFERENCE,
        ranges=ranges if len(ranges) <= _MOST_CORNERS else None,
    )


def mean_macro_f1(
    label: Classes, predicted: Int[NDArray[np.integer[Any]], "N S"]
) -> tuple[Interval, Float[NDArray[Any], "S"]]:
    """The mean of macro-F1 over S predictions, with its interval over examples, and that of each prediction [S].

    There is no interval where resamples hardly vary.
    """
    classes = np.unique(np.concatenate([label, predicted.ravel()]))
    columns = np.stack([_counts(label, each, classes) for each in predicted.T], axis=1)  # [N S 2C]
    seeds = predicted.shape[1]

    def mean(means: Means) -> NDArray[np.float64]:
        average: NDArray[np.float64] = _of_means(means.reshape(len(means) * seeds, -1)).reshape(-1, seeds).mean(1)
        return average

    return interval(columns.reshape(len(label), -1), mean, bounds=SHARE), _of_means(columns.mean(0))


def _counts(label: Classes, predicted: Classes, classes: Classes) -> Float[NDArray[np.float64], "N K"]:
    """Of each example, for each class, whether it is both predicted and annotated, and how many of the two it is."""
    is_label, is_predicted = (values[:, None] == classes for values in (label, predicted))
    return np.concatenate([is_label & is_predicted, is_label.astype(float) + is_predicted], axis=1)


def _of_means(means: Means) -> NDArray[np.float64]:
    """Macro-F1 [R] of column means; a class that a resample lacks is none of its classes."""
    both, either = np.split(means, 2, axis=1)
    occurs = either > 0
    f1 = np.divide(2 * both, either, out=np.zeros_like(both), where=occurs)
    average: NDArray[np.float64] = f1.sum(axis=1) / np.maximum(occurs.sum(axis=1), 1)
    return average
