"""What analyses train beside a comparison's model: from which examples, from which base, and whether it can be compared."""

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from benchmark.analyses.opening import composed, has_seed, own_seed
from benchmark.errors import NoSplit, NotApplicable
from benchmark.run.workbench import Setting
from benchmark.settings.making import make
from benchmark.training.sources import Foretold
from benchmark.types import Example, Task


def models_of(
    own: Setting, named: Mapping[str, Sequence[str] | int | None], overrides_of: str
) -> dict[str, DictConfig]:
    """By name the settings of models.

    Args:
        own: the comparison's setting.
        named: a seed, with which the comparison's model is trained; or overrides that describe a model; null leaves one out.
        overrides_of: the setting that has them, for the error.

    Raises:
        NotApplicable: a seed is asked for, and the comparison's model is a finished checkpoint, whose training has none; or
            the comparison's own is the only one.
    """
    found = {
        name: _with_seed(own, one, overrides_of)
        if isinstance(one, int)
        else composed(one, f"{overrides_of}.{name}").model
        for name, one in named.items()
        if one is not None and not (isinstance(one, int) and has_seed(own.config.model) and one == own_seed(own))
    }
    if named and not found and any(one is not None for one in named.values()):
        raise NotApplicable(f"{overrides_of} names no other seed than the comparison's own, {own_seed(own)}")
    return found


def _with_seed(own: Setting, seed: int, overrides_of: str) -> DictConfig:
    model: DictConfig = own.config.model.copy()
    if not has_seed(model):
        raise NotApplicable(
            f"'{own.model.name}' is a finished checkpoint, and it is not known how it was trained; compare a model that is "
            f"trained here (model=finetuned model.base=DIRECTORY), or name models of other seeds in {overrides_of}"
        )
    OmegaConf.set_struct(model, value=False)
    model.seed = seed
    return model


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
