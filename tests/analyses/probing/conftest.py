"""The context of a model alone, as for syntax."""

from tests.analyses.syntax.conftest import given

__all__ = ["given"]
