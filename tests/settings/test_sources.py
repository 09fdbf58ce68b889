"""What sources declare of settings is what the classes have: reading without an import cannot drift from importing."""

import re
import sys
from dataclasses import fields, is_dataclass
from inspect import signature
from pathlib import Path
from typing import get_type_hints

import pytest
from hydra.utils import get_object

import conf
from benchmark.settings.configuration import KEYED
from benchmark.settings.declared import described, fits
from benchmark.settings.defaults import declared_parameters, parameters, written
from benchmark.settings.sources import UNKNOWN, NoSuchTarget, StandIn, outline_of

PROBES = (
    0,
    1,
    -1,
    0.5,
    3,
    10**6,
    True,
    None,
    "auto",
    "mask",
    "nonsense",
    [],
    [0.1, 0.2],
    [0.2, 0.1],
    ["a"],
    {"a": 1},
    {},
)


def all_targets():
    folders = [Path(conf.__file__).parent / group for group in (*KEYED, "task", "model", "tracking")]
    named = [
        re.findall(r"_target_: *([\w.]+)", path.read_text()) for folder in folders for path in folder.glob("*.yaml")
    ]
    return sorted({"benchmark.training.finetune.Recipe"}.union(*named))


@pytest.mark.parametrize("target", all_targets())
def test_a_source_says_what_its_class_has(target):
    outline = outline_of(target)
    assert outline is not None
    assert not outline.takes_more
    real = {name: written(value) for name, value in parameters(target).items()}
    assert {name: written(value) for name, value in declared_parameters(target).items()} == real
    hints = hints_of(get_object(target))
    for name, parameter in outline.parameters.items():
        if is_object(parameter.hint):
            continue
        for value in PROBES:
            assert fits(parameter.hint, value) == fits(hints[name], value), (name, value)
        assert described(parameter.hint) == described(hints[name])


def hints_of(factory):
    if is_dataclass(factory):
        hints = get_type_hints(factory, include_extras=True)
        return {part.name: hints[part.name] for part in fields(factory)}
    hints = get_type_hints(factory.__init__ if isinstance(factory, type) else factory, include_extras=True)
    return {name: hints[name] for name in signature(factory).parameters}


def is_object(hint):
    """A class of its own, of which only the import knows the members."""
    return hint is UNKNOWN or (isinstance(hint, type) and issubclass(hint, StandIn))


def write(folder, text):
    (folder / "strange_package").mkdir(exist_ok=True)
    (folder / "strange_package" / "__init__.py").write_text("raise RuntimeError('was imported')")
    (folder / "strange_package" / "norms.py").write_text(text)


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A package of somebody's that must not be imported."""
    from benchmark.settings import sources

    monkeypatch.syspath_prepend(str(tmp_path))
    for read in (sources._spec, sources.read_module):
        read.cache_clear()
    yield lambda text: write(tmp_path, text)
    assert "strange_package" not in sys.modules
    for read in (sources._spec, sources.read_module):
        read.cache_clear()


def test_somebody_elses_class_is_read_likewise(strange):
    strange(
        "import torch\n"
        "from typing import Literal\n"
        "from dataclasses import dataclass\n"
        "STEPS = 3\n"
        "Kind = Literal['a', 'b']\n"
        "@dataclass\nclass Norm:\n    kind: Kind = 'a'\n    steps: int = STEPS + 1\n    start: torch.Tensor | None = None\n"
    )
    outline = outline_of("strange_package.norms.Norm")
    kind, steps, start = outline.parameters.values()
    assert (kind.default, steps.default, start.default) == ("a", 4, None)
    assert described(kind.hint) == "a, b"
    assert fits(start.hint, 5), "a tensor is known after an import alone"
    with pytest.raises(NoSuchTarget) as caught:
        outline_of("strange_package.norms.Nrom")
    assert caught.value.names == ("Norm",)


@pytest.mark.parametrize(
    "text", ["from torch.nn import *", "globals()['Norm'] = 1", "for Norm in (1, 2): pass", "def ("]
)
def test_what_cannot_be_read_is_left_to_the_import(strange, text):
    strange(text)
    assert outline_of("strange_package.norms.Norm") is None


@pytest.mark.parametrize("default", ["tuple(NAMES)", "len([*NAMES])", "dict(NAMES)", "{x for x in NAMES}"])
def test_a_default_made_of_what_is_not_known_ends(strange, default):
    """Going over something of which nothing is known would never end."""
    strange(
        "from dataclasses import dataclass\nNAMES = {f.__name__: f for f in (print, len)}[0]\n"
        f"@dataclass\nclass Norm:\n    names: tuple = {default}\n"
    )
    assert outline_of("strange_package.norms.Norm").parameters["names"].default is UNKNOWN


def test_an_ancestor_that_is_not_read_may_have_any_setting(strange):
    strange("import torch\nclass Norm(torch.nn.Module):\n    pass\n")
    assert outline_of("strange_package.norms.Norm").takes_more


def test_a_module_that_is_not_there():
    with pytest.raises(NoSuchTarget, match=r"^strange_package\.nowhere$"):
        outline_of("strange_package.nowhere.Norm")
