"""What the places of hidden units say of an example's label, whatever stands there (Rong et al. 2022)."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmark.analyses.retraining.masked_task import Hidden

BINS = 10


def features(hidden: Bool[NDArray[np.bool_], " U"]) -> Float[NDArray[np.float64], " F"]:
    """How many units are hidden, which share of all, and which share of those in each tenth of the example."""
    count, units = int(hidden.sum()), max(1, len(hidden))
    tenths = np.arange(len(hidden)) * BINS // units
    sizes = np.bincount(tenths, minlength=BINS)
    shares = np.bincount(tenths, weights=hidden, minlength=BINS) / np.maximum(1, sizes)
    return np.concatenate([[count, count / units], shares])


def leak(
    train: Hidden, tested: Hidden, labels: Mapping[str, int], order: tuple[str, ...]
) -> Float[NDArray[np.float64], " N"]:
    """Whether a logistic regression that sees `features` alone finds the label of each tested example.

    Args:
        train: what the training examples hide.
        tested: what the tested ones do.
        labels: of both, by identifier; examples without one (−1) are not learned from.
        order: of the tested examples, which have one.
    """
    known = [uid for uid in train if labels[uid] >= 0]
    learned = np.stack([features(train[uid]) for uid in known])
    classes = np.array([labels[uid] for uid in known])
    truth = np.array([labels[uid] for uid in order])
    if len(np.unique(classes)) < 2:
        told = np.full(len(order), classes[0])
    else:
        regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        regression.fit(learned, classes)
        told = regression.predict(np.stack([features(tested[uid]) for uid in order]))
    right: NDArray[np.float64] = np.equal(told, truth).astype(np.float64)
    return right
