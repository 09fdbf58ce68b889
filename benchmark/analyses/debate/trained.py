"""What analyses train beside a comparison's model: from which examples, from which base, and whether it can be compared."""

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from benchmark.analyses.opening import composed
from benchmark.errors import NoSplit, NotApplicable
from benchmark.run.workbench import Setting
from benchmark.settings.making import make
from benchmark.training.sources import Foretold
from benchmark.types import Example, Task


def models_of(named: Mapping[str, Sequence[str] | None], overrides_of: str) -> dict[str, DictConfig]:
    """By name the settings of the models that overrides describe; null leaves one out."""
    return {
        name: composed(overrides, f"{overrides_of}.{name}").model
        for name, overrides in named.items()
        if overrides is not None
    }


def check_shapes(own: Setting, models: Mapping[str, DictConfig]) -> None:
    """Refuse models that are still to be trained and cannot be compared with the comparison's, before any is trained.

    A model that a source makes from nothing, such as `model=tiny`, has layers, heads and a vocabulary of its own.

    Raises:
        NotApplicable: one of them will be of another shape.
    """
    vocabulary = None if own.model.tokenizer is None else len(own.model.tokenizer)
    for name, model in models.items():
        source = make(model)
        if not isinstance(source, Foretold):
            continue
        shape, ours = source.shape, f"'{own.model.name}'"
        if (shape.layers, shape.heads) != (own.model.n_layers, own.model.n_heads):
            found = (
                f"{shape.layers} layers of {shape.heads} heads, and {ours} {own.model.n_layers} of {own.model.n_heads}"
            )
        elif (shape.vocabulary is None) != (vocabulary is None) or (vocabulary or 0) > (shape.vocabulary or 0):
            found = f"a vocabulary of its own, and not that of {ours}"
        else:
            continue
        raise NotApplicable(
            f"the model of '{name}' would have {found}: it is no other seed of the comparison's model; name models that "
            "are, such as [model=finetuned, model.base=DIRECTORY, model.recipe.seed=1], or null"
        )


def trained_from(own: Setting, overrides: Sequence[str], overrides_of: str, **settings: Any) -> DictConfig:
    """Settings of the model that these overrides describe, with the comparison's model as its base."""
    model: DictConfig = composed(overrides, overrides_of).model
    OmegaConf.set_struct(model, value=False)
    model.base = own.config.model
    model.update(settings)
    return model


def training_examples(task: Task) -> Sequence[Example]:
    """The training split; NotApplicable where the task has none."""
    try:
        return task.split("train")
    except NoSplit as error:
        raise NotApplicable("it trains on the training split, which the task does not have") from error
