"""Compare attention-based explainers of transformers: one evaluation core, one leaderboard."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from benchmark.working_folder import asked_by_name, own_modules_first

if TYPE_CHECKING:
    from benchmark.checking.methods import check
    from benchmark.comparison import compare
    from benchmark.models import load_model
    from benchmark.notebook.evaluate import evaluate
    from benchmark.notebook.explain import explain
    from benchmark.notebook.graph import graph
    from benchmark.notebook.sweep import sweep
    from benchmark.notebook.tables import leaderboard, methods
    from benchmark.settings.making import build
    from benchmark.words import in_units

if asked_by_name("benchmark"):
    own_modules_first()  # before anything else is looked for

_HOMES = {
    "build": "benchmark.settings.making",
    "check": "benchmark.checking.methods",
    "compare": "benchmark.comparison",
    "evaluate": "benchmark.notebook.evaluate",
    "explain": "benchmark.notebook.explain",
    "graph": "benchmark.notebook.graph",
    "in_units": "benchmark.words",
    "leaderboard": "benchmark.notebook.tables",
    "load_model": "benchmark.models",
    "methods": "benchmark.notebook.tables",
    "sweep": "benchmark.notebook.sweep",
}
__all__ = [
    "build",
    "check",
    "compare",
    "evaluate",
    "explain",
    "graph",
    "in_units",
    "leaderboard",
    "load_model",
    "methods",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that the report and the command line's help do not wait for torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        return version("attention-explainer-benchmark")
    if name == "evaluations":  # the package, which can be called
        return import_module("benchmark.evaluations")
    raise AttributeError(f"module 'benchmark' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "evaluations"]
