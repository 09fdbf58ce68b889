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
from benchmark.settings.making import make
from benchmark.training.sources import LOADING, Foretold
from benchmark.types import Example, Task


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
    loading = {key: config.model[key] for key in LOADING if config.model.get(key) is not None}
    config.model = OmegaConf.merge(OmegaConf.to_container(model, resolve=True), loading)
    return open_setting(config)


def composed(overrides: Sequence[str]) -> DictConfig:
    """Settings of the model that these overrides describe."""
    model: DictConfig = compose("config", list(overrides)).model
    return model


def foretold(context: Context, models: Mapping[str, DictConfig]) -> str | None:
    """Why the comparison's model cannot be compared with one that is still to be trained; None where it may be.

    A model that a source makes from nothing, such as `model=tiny`, has layers, heads and a vocabulary of its own.
    """
    own = context.setting.model
    vocabulary = None if own.tokenizer is None else len(own.tokenizer)
    for name, model in models.items():
        source = make(model)
        if not isinstance(source, Foretold):
            continue
        shape = source.shape
        if (shape.layers, shape.heads) != (own.n_layers, own.n_heads):
            found = f"{shape.layers} layers of {shape.heads} heads, and '{own.name}' {own.n_layers} of {own.n_heads}"
        elif (shape.vocabulary is None) != (vocabulary is None) or (vocabulary or 0) > (shape.vocabulary or 0):
            found = f"a vocabulary of its own, and not that of '{own.name}'"
        else:
            continue
        return (
            f"the model of '{name}' would have {found}: it is no other seed of the comparison's model; name models that "
            "are, such as [model=finetuned, model.base=DIRECTORY, model.recipe.seed=1], or null"
        )
    return None


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
