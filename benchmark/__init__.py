"""Compare attention-based explainers of transformers: one evaluation core, one leaderboard."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmark.comparison import compare
    from benchmark.models import load_model
    from benchmark.settings.configuration import build

_HOMES = {
    "build": "benchmark.settings.configuration",
    "compare": "benchmark.comparison",
    "load_model": "benchmark.models",
}
__all__ = ["build", "compare", "load_model"]


def __getattr__(name: str) -> Any:
    """Import on first use, so that the report and the command line's help do not wait for torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'benchmark' has no attribute '{name}'")
