"""What a metric is called, what it means, and what kind of question it answers."""

from benchmark.results.record import Metric

KINDS = ("faithfulness", "plausibility", "descriptive")
"""Kinds of metrics, in the order in which they are shown."""


def meaning(evaluation: str, metric: str, declared: Metric) -> tuple[str, str, str]:
    """Title, one sentence and kind of a metric."""
    if declared.higher_is_better is None:
        kind = "descriptive"
    else:
        kind = "plausibility" if evaluation.startswith("rationale") else "faithfulness"
    return f"{evaluation}: {metric.replace('_', ' ')}", "", kind
