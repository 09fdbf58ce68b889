"""What an observer goes by who knows the rules of a planted data set, exactly."""

import math


def weight(probability: float, classes: int) -> float:
    """Log-odds of one class against another when evidence agrees with the label with this probability.

    `ln(p (K − 1) / (1 − p))`: evidence names the label y with probability p, else one of the K − 1 others, all alike.
    """
    if probability in (0.0, 1.0):
        return math.inf if probability else -math.inf
    return math.log(probability * (classes - 1) / (1 - probability))


def feature_share(kept: float, strength: float, classes: int) -> float:
    """The share of a planted feature in the log-odds by which an ideal observer decides.

    The observer sees the text's first label o, which is the new label y with probability `kept`, and the class f of the
    planted feature, which is y with probability `strength`; given y they are independent, so that

        ln P(y = k | o, f) = [o = k] w(kept) + [f = k] w(strength) + constant,  w = `weight`,

    a sum without interaction, of which |w(strength)| / (|w(kept)| + |w(strength)|) is the feature's. A model that does not
    know o for sure has a larger share; NaN where neither says anything.

    Source: the data sets are those of Zhou et al. 2022, who ask for a share of 1 where only the feature says anything; the
    share between is this project's.
    """
    of_text, of_feature = abs(weight(kept, classes)), abs(weight(strength, classes))
    if math.isinf(of_feature):
        return math.nan if math.isinf(of_text) else 1.0
    return of_feature / (of_text + of_feature) if of_text + of_feature > 1e-12 else math.nan


def best_accuracy(kept: float, strength: float, classes: int) -> float:
    """The accuracy of the ideal observer, who names the class with the larger posterior.

    Source: this project.
    """
    others = classes - 1
    neither = (1 - kept) * (1 - strength) / others**2  # o and f both name other classes than y
    same = max(kept * strength, neither)
    apart = max(kept * (1 - strength) / others, (1 - kept) * strength / others, neither if classes > 2 else 0.0)
    return same + others * apart
