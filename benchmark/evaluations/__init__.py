"""Tests of explanations: one file is one of them. `benchmark.evaluations()` lists them."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Listed(ModuleType):
    """This package, which is also the function that lists what it holds: both are `benchmark.evaluations`."""

    def __call__(self) -> Any:
        return import_module("benchmark.notebook.tables").evaluations()


sys.modules[__name__].__class__ = _Listed
