"""Other models on the task and the examples of a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from omegaconf import DictConfig, OmegaConf

from benchmark.analyses.context import Context
from benchmark.errors import NoSplit, NotApplicable
from benchmark.results.digests import digest
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.configuration import compose
from benchmark.types import Example, Task

_LOADING = ("dtype", "device", "threads", "window", "max_tokens", "memory_budget")


def with_model(context: Context, model: DictConfig | str) -> Setting:
    """The comparison's task and examples with another model, which is loaded as the comparison's is.

    Args:
        context: the comparison.
        model: settings of a source of the group `model`, or the directory or hub id of a checkpoint.
    """
    config = context.setting.config.copy()
    OmegaConf.set_struct(config, value=False)
    if isinstance(model, str):
        model = OmegaConf.create({"_target_": "benchmark.training.sources.HubOrDirectory", "path": model})
    loading = {key: config.model[key] for key in _LOADING if config.model.get(key) is not None}
    config.model = OmegaConf.merge(OmegaConf.to_container(model, resolve=True), loading)
    return open_setting(config)


def composed(overrides: Sequence[str]) -> DictConfig:
    """Settings of the model that these overrides describe."""
    model: DictConfig = compose("config", list(overrides)).model
    return model


def trained_from(context: Context, overrides: Sequence[str], **settings: Any) -> DictConfig:
    """Settings of the model that these overrides describe, with the comparison's model as its base."""
    model = composed(overrides)
    OmegaConf.set_struct(model, value=False)
    model.base = context.setting.config.model
    model.update(settings)
    return model


def training_examples(task: Task) -> Sequence[Example]:
    """The training split; NotApplicable where the task has none."""
    try:
        return task.split("train")
    except NoSplit as error:
        raise NotApplicable("it trains on the training split, which the task does not have") from error


def digests(settings: Mapping[str, Setting]) -> dict[str, str]:
    """What tables that read these models depend on, by name: weights and examples."""
    facts: dict[str, Any] = {name: asdict(setting.data.facts) for name, setting in settings.items()}
    return {name: digest([setting.model.fingerprint, facts[name]]) for name, setting in settings.items()}
