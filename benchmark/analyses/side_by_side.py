"""Several models beside a comparison's own, on the same examples: pre-trained and fine-tuned, base and large."""

from collections.abc import Mapping, Sequence

from omegaconf import OmegaConf

from benchmark.analyses.context import Context
from benchmark.errors import UserError
from benchmark.results.digests import digest
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.configuration import compose, missing_keys
from benchmark.settings.early import opening


def opened_models(
    context: Context, models: Mapping[str, str | Sequence[str] | None], setting: str
) -> Mapping[str, Setting]:
    """The comparison's setting, and that of every other model on the comparison's task and examples.

    Args:
        context: the comparison.
        models: by name, overrides that open a model, or the path of a checkpoint whose encoder is looked at; null leaves one
            out.
        setting: the user's path to `models`, for the error.

    Returns:
        By name, the comparison's own model first, under its own name (`Classifier.name`).

    Raises:
        UserError: overrides leave a model open, or a name is that of the comparison's own.
    """
    own = context.setting
    found = {own.model.name: own}
    for name, overrides in models.items():
        if overrides is None:
            continue
        if name in found:
            raise UserError(f"{setting}.{name} is the name of the comparison's own model; give it another one")
        config = own.config.copy()
        OmegaConf.set_struct(config, value=False)
        config.model = compose("config", opening(overrides)).model
        if missing := missing_keys(config.model):
            raise UserError(f"{setting}.{name}: {missing[0]} is not set; add it to the list of overrides")
        found[name] = open_setting(config)
    return found


def read_models(models: Mapping[str, Setting]) -> dict[str, str]:
    """What the tables hang on beyond the comparison's name: the weights of each model (`ReadsElsewhere`)."""
    return {name: digest([setting.model.fingerprint]) for name, setting in models.items()}
