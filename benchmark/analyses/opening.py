"""Another model, seed or task in place of a comparison's own: all analyses open settings here.

`opened` is the one way. What it is not told to change stays as the comparison has it: the task, the examples (split, limit,
and the seed that draws them), their batches, the folder of runs, and the model with how it is loaded (precision, device,
window, memory; `benchmark.training.sources.Loading`). The others say what changes:

- `trained_with`: the seed of the model's training, and nothing else;
- `with_model`: the model, which is loaded with every setting of this that the comparison's has, whatever its own say, for
  the two are compared value by value;
- `beside`: the model, which is loaded as its overrides say, for a larger one may need another precision or window;
- `of_task`: task, split, batches and model, all as the overrides say, and the limit;
- `of_split`: the split and the limit, of the same task and model, which are not opened again.

A mistake of the user's in overrides is one line that begins with the setting that has them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from benchmark.analyses.resumed import name_of
from benchmark.errors import UserError
from benchmark.results.digests import digest
from benchmark.run.workbench import Setting, encode, open_setting
from benchmark.settings.configuration import compose, missing_keys
from benchmark.settings.defaults import parameters
from benchmark.settings.early import opening
from benchmark.training.sources import LOADING

_OF_TASK = ("task", "model", "split", "batch_size")


def setting_of(analysis: Any, name: str) -> str:
    """What a user types for a setting of an analysis."""
    return f"analyses.{name_of(analysis)}.{name}"


def opened(own: Setting, changes: Mapping[str, Any], overrides_of: str = "") -> Setting:
    """The comparison's setting with other values of some settings.

    Args:
        own: the comparison's.
        changes: values by the dotted name of their setting (`model.seed`, `limit`, ...) or group (`model`).
        overrides_of: the setting whose overrides the changes come from, for the error.

    Raises:
        UserError: a setting that has to be given is not.
    """
    config: DictConfig = own.config.copy()
    OmegaConf.set_struct(config, value=False)
    for key, value in changes.items():
        OmegaConf.update(config, key, value, merge=False)
    for group in ("task", "model"):
        if missing := missing_keys(config[group]):
            where = f"{overrides_of}: " if overrides_of else ""
            raise UserError(f"{where}{group}.{missing[0]} is not set; add it to the list of overrides")
    return open_setting(config, beside=own)


def composed(overrides: str | Sequence[str], overrides_of: str) -> DictConfig:
    """What these overrides come to; those of a text, which names a checkpoint, open its encoder.

    Raises:
        UserError: they come to nothing.
    """
    try:
        return compose("config", opening(overrides))
    except UserError as error:
        raise UserError(f"{overrides_of}: {error}") from error


def has_seed(model: DictConfig) -> bool:
    """Whether the settings of a source have the seed of a training; a finished checkpoint has none."""
    return "seed" in parameters(str(model._target_))


def own_seed(own: Setting) -> int:
    """The seed of the comparison's model; 0 of one that has none."""
    return int(own.config.model.get("seed", 0))


def seeds_from(own: Setting, trainings: int) -> range:
    """The seeds of as many trainings: that of the comparison's model, and those that follow."""
    return range(own_seed(own), own_seed(own) + trainings)


def trained_with(own: Setting, seed: int) -> Setting:
    """The comparison's setting with its model trained with a seed; itself where that is its own, or there is none."""
    if seed == own_seed(own) or not has_seed(own.config.model):
        return own
    return opened(own, {"model.seed": seed})


def with_model(own: Setting, model: DictConfig | str, overrides_of: str = "") -> Setting:
    """The comparison's task and examples with another model, loaded with what the comparison's sets of loading.

    Args:
        own: the comparison's.
        model: settings of a source of the group `model`, or the directory or hub id of a checkpoint.
        overrides_of: as of `opened`.
    """
    if isinstance(model, str):
        model = OmegaConf.create({"_target_": "benchmark.training.sources.HubOrDirectory", "path": model})
    loading = {key: own.config.model[key] for key in LOADING if own.config.model.get(key) is not None}
    return opened(own, {"model": OmegaConf.merge(OmegaConf.to_container(model, resolve=True), loading)}, overrides_of)


def beside(own: Setting, models: Mapping[str, str | Sequence[str] | None], overrides_of: str) -> dict[str, Setting]:
    """The comparison's setting, and that of every other model on the comparison's task and examples.

    Args:
        own: the comparison's.
        models: by name, overrides that open a model, or the path of a checkpoint whose encoder is looked at; null leaves one
            out.
        overrides_of: the setting that has them, for the error.

    Returns:
        By name, the comparison's own model first, under its own name (`Classifier.name`).

    Raises:
        UserError: overrides leave a model open, or a name is that of the comparison's own.
    """
    found = {own.model.name: own}
    for name, overrides in models.items():
        where = f"{overrides_of}.{name}"
        if overrides is None:
            continue
        if name in found:
            raise UserError(f"{where} is the name of the comparison's own model; give it another one")
        found[name] = opened(own, {"model": composed(overrides, where).model}, where)
    return found


def of_task(own: Setting, overrides: Sequence[str], limit: int | None, overrides_of: str) -> Setting:
    """The task, the split and the model that these overrides open, with `limit` examples drawn by the comparison's seed."""
    others = composed(overrides, overrides_of)
    return opened(own, {**{key: others[key] for key in _OF_TASK}, "limit": limit}, overrides_of)


def of_split(own: Setting, split: str, limit: int | None) -> Setting:
    """The comparison's task and model with the examples of another split, `limit` of them drawn by the comparison's seed.

    Raises:
        NoSplit: the task has no such split.
    """
    config: DictConfig = own.config.copy()
    OmegaConf.set_struct(config, value=False)
    config.split, config.limit = split, limit
    return replace(own, config=config, data=encode(config, own.task, own.model, own.task.split(split), limit))


def digests(settings: Mapping[str, Setting]) -> dict[str, str]:
    """What tables that read these settings depend on, by name: weights and examples."""
    facts: dict[str, Any] = {name: setting.data.facts.identity for name, setting in settings.items()}
    return {name: digest([setting.model.fingerprint, facts[name]]) for name, setting in settings.items()}


def weight_digests(settings: Mapping[str, Setting]) -> dict[str, str]:
    """The same for models on the comparison's own examples, which its name holds: weights alone."""
    return {name: digest([setting.model.fingerprint]) for name, setting in settings.items()}
