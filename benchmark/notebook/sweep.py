"""`benchmark.sweep`: one setting of a method or of a test at several values, with the figures of each."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.notebook.choices import choose
from benchmark.notebook.evaluate import DEFAULTS, evaluate

_FORM = "methods.NAME.SETTING, such as methods.attattr.edges.steps, or evaluations.NAME.SETTING"


def sweep(
    model: Classifier,
    texts: Any,
    setting: str,
    values: Sequence[Any],
    evaluations: Any = DEFAULTS,
    *,
    methods: Any = (),
    **given: Any,
) -> pd.DataFrame:
    """Test a method, or methods under a test, with one setting at several values: m, τ, k, ε, ...

    Args:
        model: what `benchmark.load_model` returns.
        texts: as `benchmark.explain` takes them.
        setting: what is varied, dotted as on the command line: `methods.attattr.edges.steps` varies a method,
            `evaluations.attribution_graph.thresholds` a test.
        values: the values.
        evaluations: the tests of a method that is varied, as `benchmark.evaluate` takes them; not given where a test is.
        methods: beside a method that is varied, others; where a test is varied, the methods that it tests.
        given: the other arguments of `benchmark.evaluate`: rationales, labels, uids, batch_size.

    Returns:
        One row for each value, method, test and metric, as `EvaluationResult.table` has them; the first column bears the
        setting's name. Methods that are not varied stand at each value.

    Raises:
        UserError: there is no such setting, or a value that it does not take.

    Example:
        >>> found = benchmark.sweep(model, ["a fine film", "a dull plot"], "methods.attattr.edges.steps", [2, 4], ["aopc"])
        >>> found[["steps", "method", "metric"]].drop_duplicates("steps")["steps"].tolist()
        [2, 4]
    """
    name, _, key = setting.partition(".")[2].partition(".")
    if not setting.startswith(("methods.", "evaluations.")) or not key:
        raise UserError(f"setting={setting!r}: write {_FORM}")
    if not values:
        raise UserError("values is empty; give the values of the setting")
    tables = []
    for value in values:
        chosen = [name, f"{setting}={_typed(value)}"]
        if setting.startswith("methods."):
            varied = {**choose("methods", chosen, {}), **_others(methods, name)}
            result = evaluate(model, texts, None, evaluations, methods=varied, **given)
        else:
            result = evaluate(model, texts, None, choose("evaluations", chosen, {}), methods=methods, **given)
        table = result.table()
        table.insert(0, key.rpartition(".")[2], pd.Series([value] * len(table)))
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _others(methods: Any, varied: str) -> dict[str, Any]:
    """The methods beside the varied one, by name."""
    if not methods:
        return {}
    named = dict(methods) if isinstance(methods, Mapping) else choose("methods", methods, {})
    if varied in named:
        raise UserError(f"methods names {varied}, which is varied; leave it out")
    return named


def _typed(value: Any) -> str:
    """A value in Hydra's grammar."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_typed, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
