"""`benchmark.sweep`: one setting of a method or of a test at several values, with the figures of each."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.notebook.choices import choose
from benchmark.notebook.evaluate import DEFAULTS, evaluate
from benchmark.settings.ways_out import typed

_FORM = "methods.NAME.SETTING, such as methods.attattr.edges.steps, or evaluations.NAME.SETTING"


def sweep(
    model: Classifier,
    texts: Any,
    setting: str,
    values: Iterable[Any],
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
    if not (given_values := list(values)):
        raise UserError("values is empty; give the values of the setting")
    if setting.startswith("evaluations.") and evaluations is not DEFAULTS:
        raise UserError(f"evaluations={evaluations!r} cannot be given beside {setting}, which varies the test")
    tables = []
    for value in given_values:
        chosen = [name, _override(setting, value)]
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


def _override(setting: str, value: Any) -> str:
    """The setting with a value in Hydra's grammar."""
    if isinstance(value, str) and (spelled := typed(setting, value)) is not None:
        return shlex.split(spelled)[0]
    return f"{setting}={_typed(value)}"


def _typed(value: Any) -> str:
    """A number, a truth value, null, or a list of these."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_typed, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
