"""Compose configurations by name: what the command, the Python API and the tests share."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from benchmark.errors import UserError, near, one_line
from benchmark.settings.defaults import additions
from benchmark.settings.experiments import Experiment, as_chosen, experiment_of
from benchmark.settings.making import make
from benchmark.settings.refusals import in_plain_words

CONFIG_MODULE = "conf"
GROUPS = ("task", "model", "methods", "evaluations", "analyses", "tracking", "engine", "experiment")
KEYED = ("methods", "evaluations", "analyses")
"""Groups of which a comparison has several, by name."""

ALL = "all"


def compose(config_name: str | None, overrides: Sequence[str] = (), directory: str | None = None) -> DictConfig:
    """The configuration that these overrides describe.

    Args:
        config_name: a YAML of `conf/` without its ending, or None for the overrides alone.
        overrides: in Hydra's syntax.
        directory: one more folder of YAMLs, as `--config-dir` gives.

    Returns:
        The composed configuration, unresolved.

    Raises:
        UserError: an option, key or value does not exist; one line, with near matches.
    """
    return settled(config_name, overrides, directory)[1]


def settled(
    config_name: str | None, overrides: Sequence[str], directory: str | None = None
) -> tuple[list[str], DictConfig]:
    """The overrides as Hydra takes them, and the configuration that they compose to, see `compose`.

    Those of settings that a YAML leaves to its class get the form in which Hydra adds a setting.

    Raises:
        UserError: an option, key or value does not exist; one line, with near matches.
    """
    if config_name is not None:
        overrides = _with_additions(config_name, overrides, directory)
    try:
        return list(overrides), _composed(config_name, overrides, directory)
    except _UnknownKey as error:
        (unknown,) = error.args
    if unknown.startswith(_OF_HYDRA):
        raise UserError(f"{unknown} is no setting of Hydra's; --cfg hydra prints those there are")
    others = [text for text in overrides if _key(text) != unknown and not _is_value(text)]
    try:
        plain = OmegaConf.to_container(_composed(config_name, others, directory), resolve=False)
    except _UnknownKey as error:
        raise UserError(f"{error.args[0]} is no setting") from error
    chosen: list[str] = []
    for text in overrides:
        of_class = _is_value(text) or _key(text) == unknown
        before = additions(cast(dict[str, Any], plain), _key(text)) if of_class else None
        chosen += [text] if before is None else [*before, f"++{text}"]
    try:
        return chosen, _composed(config_name, chosen, directory)
    except _UnknownKey as error:
        (key,) = error.args
        raise UserError(f"{key} has other settings; set each by itself: {key}._target_=..., {key}.NAME=...") from error


def _with_additions(config_name: str, overrides: Sequence[str], directory: str | None) -> list[str]:
    """The overrides, with two plus signs before a setting that is there already.

    Raises:
        UserError: a plus sign adds a setting beside all others, where nothing would read it.
    """
    added = [text for text in overrides if text.startswith("+") and _key(text).lstrip("+") not in GROUPS]
    if not added:
        return list(overrides)
    others = [text for text in overrides if text not in added and not _is_value(text)]
    try:
        config = _composed(config_name, others, directory)
    except (UserError, _UnknownKey):
        return list(overrides)  # composing all of them says it as well
    for text in added:
        name = _key(text).lstrip("+").partition(".")[0].partition("@")[0]
        if name not in (*config, *GROUPS, "hydra") and not any(f"${{{name}" in other for other in overrides):
            raise UserError(f"{text}: there is no setting '{name}'; {near(name, [*map(str, config), 'experiment'])}")
    return [
        f"++{text.lstrip('+')}" if text in added and _key(text).lstrip("+") in config else text for text in overrides
    ]


_OF_HYDRA = "hydra."
"""How settings of Hydra itself begin, those of a launcher among them."""


class _UnknownKey(Exception):  # noqa: N818 - an answer of Hydra's
    """No YAML has this key."""


def _composed(config_name: str | None, overrides: Sequence[str], directory: str | None) -> DictConfig:
    offer_all(directory)
    try:
        with _own_hydra():
            searched = [f"hydra.searchpath=[file://{directory}]"] if directory else []
            experiment = experiment_of(config_name, overrides, directory)
            _offer_own(experiment)
            config: DictConfig = hydra.compose(config_name, [*searched, *overrides])
            if experiment is None:
                return config
            return as_chosen(
                config,
                experiment,
                overrides,
                lambda group, name: hydra.compose(None, [*searched, f"+{group}={name}"])[group],
            )
    except YAMLError as error:
        raise UserError(f"a YAML is broken: {one_line(error)}") from error
    except (HydraException, OmegaConfBaseException) as error:
        if unknown := re.match(r"Could not override '([^']+)'", str(error)):
            raise _UnknownKey(unknown[1]) from error
        raise UserError(in_plain_words(error, options)) from error


def held_to_choice(config: DictConfig, overrides: Sequence[str], directory: str | None = None) -> DictConfig:
    """A configuration that Hydra composed by itself, as for a job of a sweep, as `compose` gives it."""
    experiment = experiment_of("config", overrides, directory)
    if experiment is None:
        return config
    return as_chosen(
        config, experiment, overrides, lambda group, name: compose(None, [f"+{group}={name}"], directory)[group]
    )


def own_options(overrides: Sequence[str], group: str, directory: str | None = None) -> list[str]:
    """Names of the methods, tests or analyses that the experiment in these overrides makes itself."""
    experiment = experiment_of("config", overrides, directory)
    return [] if experiment is None else list(experiment.own(group))


def _offer_own(experiment: Experiment | None) -> None:
    """Make what an experiment makes itself an option, so that a command can choose it among others."""
    if experiment is None:
        return
    for group in KEYED:
        for name, part in experiment.own(group).items():
            ConfigStore.instance().store(group=group, name=name, node={name: part}, provider="benchmark")


def _key(override: str) -> str:
    return override.partition("=")[0]


def _is_value(override: str) -> bool:
    """Whether an override sets a value deep in the configuration, which others do not depend on."""
    key = _key(override)
    if key.startswith(_OF_HYDRA):
        return False
    return "." in key and "@" not in key and key[0] not in "+~" and not key.endswith("._target_")


@contextmanager
def _own_hydra() -> Iterator[None]:
    """Hydra on `conf/`, whether or not the command has set it up already."""
    previous = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_module(version_base="1.3", config_module=CONFIG_MODULE, job_name="benchmark"):
            yield
    finally:
        GlobalHydra.instance().clear()
        if previous is not None:
            GlobalHydra.instance().initialize(previous)


def options(group: str, directory: str | None = None) -> list[str]:
    """Names of the YAMLs in a group of `conf/`, and of a further folder."""
    folders = [files(CONFIG_MODULE) / group, *([Path(directory, group)] if directory else [])]
    names = [entry.name for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    return sorted({name.removesuffix(".yaml") for name in names if name.endswith(".yaml")})


def offer_all(directory: str | None = None) -> None:
    """Make `methods=all` stand for every YAML of the group, likewise `evaluations=all` and `analyses=all`.

    What cannot run without a setting that has to be given, such as the path of a file, is left out.
    """
    for group in KEYED:
        node: Any = {"defaults": [name for name in options(group, directory) if not _is_asking(group, name, directory)]}
        ConfigStore.instance().store(group=group, name=ALL, node=node, provider="benchmark")


def _is_asking(group: str, name: str, directory: str | None) -> bool:
    """Whether a YAML leaves a setting to the user (`???`)."""
    folders = [*([Path(directory, group)] if directory else []), files(CONFIG_MODULE) / group]
    file = next(path for folder in folders if (path := folder / f"{name}.yaml").is_file())
    return "???" in file.read_text(encoding="utf-8")


def resolved(config: DictConfig) -> dict[str, Any]:
    """The configuration as plain values.

    Raises:
        UserError: a value refers to a setting that does not exist.
    """
    try:
        return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))
    except OmegaConfBaseException as error:
        raise UserError(
            f"{getattr(error, 'full_key', None) or 'a setting'}: {in_plain_words(error, options)}"
        ) from error


def needed_keys(config: DictConfig) -> list[str]:
    """Settings of a comparison that have to be given: missing ones of its parts, and those that a part refers to."""
    plain: Any = OmegaConf.to_container(config, resolve=False)
    named = set(re.findall(r"\$\{([\w.]+)\}", str({key: value for key, value in plain.items() if key in GROUPS})))
    return [key for key in missing_keys(config) if key.partition(".")[0] in GROUPS or key in named]


def missing_keys(config: DictConfig) -> list[str]:
    """Settings that have to be given (`???`), sorted; interpolations are left alone, for they may lead to one."""

    def walk(node: Any, path: str) -> Iterator[str]:
        if node == "???":
            yield path
        elif isinstance(node, dict):
            for key, value in node.items():
                yield from walk(value, f"{path}.{key}" if path else str(key))

    return sorted(walk(OmegaConf.to_container(config, resolve=False), ""))


def build(name: str, *overrides: str) -> Any:
    """Instantiate one YAML of `conf/` by its name.

    Args:
        name: "methods/attattr", "evaluations/perturbation", "task/planted", ...
        overrides: settings of it, such as "edges.steps=50".

    Returns:
        The object that its `_target_` makes.

    Raises:
        UserError: there is no such YAML or setting.

    Example:
        >>> rollout = benchmark.build("methods/rollout", "readout.start_layer=1")
        >>> rollout(model, model.encode(["a fine film"]), target=[1]).tokens.shape
        torch.Size([1, 5])
    """
    group, _, option = name.partition("/")
    if group not in GROUPS or not option:
        raise UserError(f"build('{name}'): give the name of a YAML with its group, such as 'methods/attattr'")
    keyed = group in KEYED
    prefix = f"{group}.{option}" if keyed else group
    config = compose(
        None, [f"+{group}={f'[{option}]' if keyed else option}", *(_prefixed(o, prefix) for o in overrides)]
    )
    return make(OmegaConf.select(config, prefix))


def _prefixed(override: str, prefix: str) -> str:
    sign = "++" if override.startswith("++") else override[0] if override[:1] in "+~" else ""
    return f"{sign}{prefix}.{override[len(sign) :]}"
