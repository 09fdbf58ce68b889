"""Packages that only some parts need, and the extras of the installation that bring them."""

from importlib.util import find_spec

from benchmark.errors import UserError

EXTRAS = {"captum": "captum", "accelerate": "train", "h5py": "vision", "ray": "ray"}
"""The extra of `pyproject.toml` by package."""


def needs(package: str, part: str) -> None:
    """Nothing where the package is installed.

    Args:
        package: one of `EXTRAS`.
        part: what needs it, as its user calls it.

    Raises:
        UserError: it is not installed; with the extra that brings it.
    """
    if find_spec(package) is None:
        extra = EXTRAS[package]
        raise UserError(
            f"{part} needs {package}, which is not installed; "
            f"install the extra '{extra}': pip install '.[{extra}]' in the benchmark's folder, or pip install {package}"
        )
