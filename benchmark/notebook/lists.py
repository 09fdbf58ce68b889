"""What there is: `benchmark.methods()` and `benchmark.evaluations()`."""

import inspect
import re
from dataclasses import asdict
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from benchmark.catalogue import entries
from benchmark.evaluations.rationale.rationale import Rationale
from benchmark.results.wording import arrow
from benchmark.settings.configuration import compose, options
from benchmark.settings.making import make
from benchmark.types import Evaluation

_FACT = re.compile(r"^(Source|Cost): (.+?)\.?$(?=\n\n|\n[A-Z]|\Z)", re.MULTILINE | re.DOTALL)
_READS = {
    "tokens": "scores of words",
    "classes": "scores of words for several classes",
    "heads": "scores of heads",
    "edges": "scores of edges",
    "method": "the method itself",
}


def methods() -> pd.DataFrame:
    """The explainers and controls by name: what each computes, what it needs, what it costs, and where it is from.

    Example:
        >>> benchmark.methods().loc["rollout", "needs"]
        'forward passes'
    """
    listed = pd.DataFrame([asdict(entry) for entry in entries()]).rename(columns={"definition": "what"})
    return listed.set_index("name")[["family", "what", "needs", "cost", "source"]]


def evaluations() -> pd.DataFrame:
    """The tests of explanations by name: what each measures, what it needs, its headline metrics, cost and source.

    Example:
        >>> benchmark.evaluations().loc["aopc", "metrics"]
        'comprehensiveness ↑, sufficiency ↓'
    """
    names = options("evaluations")
    config = compose(None, [f"+evaluations=[{','.join(names)}]"])
    OmegaConf.resolve(config)
    rows = [{"name": name, **_facts(make(config.evaluations[name]))} for name in names]
    return pd.DataFrame(rows).set_index("name")


def _facts(test: Evaluation) -> dict[str, Any]:
    text = inspect.getdoc(type(test)) or ""
    facts = {kind: " ".join(said.split()) for kind, said in _FACT.findall(text)}
    needs = [_READS[test.reads]]
    needs += ["labels"] if test.target == "label" else []
    needs += ["rationales"] if isinstance(test, Rationale) else []
    needs += ["examples of a split"] if getattr(test, "calibration", "same") not in ("same", "each") else []
    headline = [
        f"{name} {arrow(m.higher_is_better)}".strip() for name, m in test.metrics.items() if m.headline and m.x is None
    ]
    return {
        "what": " ".join(text.partition("\n\n")[0].split()),
        "needs": ", ".join(needs),
        "metrics": ", ".join(headline),
        "cost": facts.get("Cost", ""),
        "source": facts.get("Source", ""),
    }
