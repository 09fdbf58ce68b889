"""The measures of agreement with rationales, as tables and figures name them."""

from collections.abc import Mapping

import numpy as np

from benchmark.results.record import Metric

_SHARE = (0.0, 1.0)
_AT_K = "of the k best words against the rationale's"
_HARD = "of as many best words as the task's rationales hold on average"
_SPANS = "spans that overlap by at least half, precision and recall as means over documents"
_SUMMED = "spans that overlap by at least half, counts summed over all documents"


def _ranked(title: str, short: str, meaning: str, *, headline: bool = False) -> Metric:
    return Metric(higher_is_better=True, bounds=_SHARE, headline=headline, title=title, short=short, meaning=meaning)


def _curve(x: str, title: str, meaning: str, *, headline: bool = False) -> Metric:
    return Metric(higher_is_better=True, bounds=_SHARE, x=x, headline=headline, title=title, meaning=meaning)


def _share(title: str, meaning: str) -> Metric:
    return Metric(None, _SHARE, title=title, meaning=meaning)


def metrics() -> Mapping[str, Metric]:
    """All but the number of documents lie between 0 and 1."""
    words, share = "words selected", "share of words selected"
    return {
        "average_precision": _ranked(
            "average precision",
            "avg. prec.",
            "mean precision at the rationale's words in the order of scores, and over all orders of equal ones, of "
            "documents with words in and out of the rationale",
            headline=True,
        ),
        "token_f1_mean": _ranked(
            "token F1, mean over k", "token F1", f"token F1 {_AT_K}, mean over several k", headline=True
        ),
        "auprc": _ranked(
            "AUPRC",
            "AUPRC",
            "area under the precision-recall curve by trapezoids, as ERASER's scorer has it; scores that are all equal have "
            "(1 + π) / 2 there, π the share of words in the rationale, more than random ones",
        ),
        "auprc_marked": _ranked(
            "AUPRC, documents with a rationale",
            "AUPRC (marked)",
            "AUPRC over the documents that have a rationale word; scores that are all equal have (1 + π) / 2",
        ),
        "iou_f1": _ranked("IoU F1", "IoU F1", f"F1 of selected and annotated {_SPANS}", headline=True),
        "iou_f1_micro": _ranked("IoU F1, micro", "IoU F1 (micro)", f"F1 of selected and annotated {_SUMMED}"),
        "hard_token_f1": _ranked("token F1 at rationale length", "token F1 (rat.)", f"token F1 {_HARD}"),
        "token_f1": _curve(words, "token F1", f"token F1 {_AT_K}", headline=True),
        "token_precision": _curve(words, "token precision", f"token precision {_AT_K}"),
        "token_recall": _curve(words, "token recall", f"token recall {_AT_K}"),
        "token_f1_micro": _curve(words, "token F1, micro", f"token F1 {_AT_K}, counts summed over all documents"),
        "iou_f1_at": _curve(share, "IoU F1", f"F1 of selected and annotated {_SPANS}"),
        "iou_f1_micro_at": _curve(share, "IoU F1, micro", f"F1 of selected and annotated {_SUMMED}"),
        "hard_token_f1_at": _curve(share, "token F1 by share", "token F1 of this share of best words"),
        "documents": Metric(
            None, (1.0, np.inf), title="documents per example", meaning="number of documents that an example has"
        ),
        "unmarked_documents": _share(
            "documents without a rationale", "share of all documents that have no rationale word"
        ),
        "hard_share": _share("share of words selected", "share of an example's words that the one selection holds"),
        "rationale_share": _share("share of words in the rationale", "share of an example's words in its rationale"),
        "coverage": _share("words within the window", "share of the words that the model sees"),
        "truncated_rationale_share": _share(
            "rationale beyond the window", "share of the rationale's words that the model does not see"
        ),
    }
