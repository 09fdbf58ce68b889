"""A folder of YAMLs of one's own (`--config-dir`): what in it would stand for something else than its name says.

A method, a test and an analysis are chosen by the name of their file, and shown and stored by the key in it: where the two
differ, one that is chosen takes the place of another without a word.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml  # type: ignore[import-untyped]  # has no types

from benchmark.errors import UserError
from benchmark.settings.configuration import GROUPS, KEYED, options


def own_folder(named: str) -> str:
    """The folder, absolute.

    Raises:
        UserError: it is none, or a YAML in it has a name of ours, or a key that is not its own name.
    """
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise UserError(f"--config-dir={folder} is no folder; give one that holds YAMLs such as methods/NAME.yaml")
    for group in GROUPS:
        ours = options(group)
        for own in sorted((folder / group).glob("*.yaml")):
            if own.stem in ours:
                way_out = "which would run in its place; give it another name"
                raise UserError(f"{own} has the name of one of ours, {way_out}")
            if group in KEYED:
                _check_key(own, group, ours)
    return str(folder)


def _check_key(own: Path, group: str, ours: list[str]) -> None:
    """UserError where a YAML makes something that is not called like it; one that is broken or empty is told when chosen."""
    try:
        content = yaml.safe_load(own.read_text(encoding="utf-8", errors="replace"))
    except yaml.YAMLError:
        return
    if content is not None and (not isinstance(content, Mapping) or "_target_" in content):
        raise UserError(f"{own} has no key that is its name; its form is {form(group, own.stem)}")
    if other := next((key for key in content or () if key not in (own.stem, "defaults")), None):
        or_file = "" if other in ours else f", or call the file {other}.yaml"
        raise UserError(f"{own} has the key '{other}', which is not its name; call the key '{own.stem}'{or_file}")


def refuse_empty(group: str, name: str, directory: str | None) -> None:
    """UserError where the YAML of this name in the folder holds nothing but comments."""
    file = Path(directory or ".", group, f"{name}.yaml")
    if directory is not None and file.is_file():
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        if all(not line.strip() or line.lstrip().startswith("#") for line in lines):
            raise UserError(f"{file} is empty; its form is {form(group, name)}")


def form(group: str, name: str = "NAME") -> str:
    """How the YAML of a group is written."""
    return f"{name}: {{_target_: CLASS}}" if group in KEYED else "_target_: CLASS"
