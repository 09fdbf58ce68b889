"""The configuration of a command line on a table of one's own; composed once, since composing takes half a second."""

import copy
from functools import cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from benchmark.commands.running import settled_as_typed
from benchmark.settings.checking import check
from benchmark.settings.making import make

FINE, DULL = "a fine film , good story", "the plot was dull"


@cache
def _base():
    words = ["task=text_classification", "model=hf", "model.path=given", "tracking=none", "out=out", "methods=[random]",
             "evaluations=[rationale]"]  # fmt: skip
    return settled_as_typed("config", words, None, sweep=False)[1]


def composed(checkpoint, *overrides):
    """As `python -m benchmark` composes it; methods and tests are named whole, so that they are composed anew."""
    groups = [text for text in overrides if text.startswith(("methods=", "evaluations="))]
    config = copy.deepcopy(_base())
    if groups:
        chosen = settled_as_typed("config", ["task=text_classification", *groups], None, sweep=False)[1]
        for text in groups:
            group = text.partition("=")[0]
            config[group] = chosen[group]
    _set(config, f"model.path='{checkpoint}'", *(text for text in overrides if text not in groups))
    check(config)
    return config


def table(*overrides):
    """A task of local tables with these settings."""
    config = OmegaConf.create({"task": copy.deepcopy(_base().task)})
    _set(config, *(f"task.{text}" for text in overrides))
    return make(config.task)


def _set(config, *overrides):
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        OmegaConf.update(config, override.key_or_group, override.value(), merge=False, force_add=True)
