"""Compose configurations by name: what the command, the Python API and the tests share."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException, HydraException, InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from benchmark.errors import UserError

CONFIG_MODULE = "conf"


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
    previous = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        extra = [f"hydra.searchpath=[file://{directory}]"] if directory else []
        with hydra.initialize_config_module(version_base="1.3", config_module=CONFIG_MODULE, job_name="benchmark"):
            try:
                config: DictConfig = hydra.compose(config_name, [*extra, *overrides])
            except ConfigCompositionException as error:
                if unknown := re.match(r"Could not override '([^']+)'", str(error)):
                    others = [text for text in overrides if text.lstrip("+~").partition("=")[0] != unknown[1]]
                    raise UserError(_unknown_key(unknown[1], hydra.compose(config_name, [*extra, *others]))) from error
                raise
            return config
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(explain(error)) from error
    finally:
        GlobalHydra.instance().clear()
        if previous is not None:
            GlobalHydra.instance().initialize(previous)


def explain(error: Exception) -> str:
    """Hydra's message in one line; for an option that does not exist, with the nearest names."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and (missing := re.search(r"Could not find '(.+)/(.+?)'", lines[0])):
        known = [line for line in lines[2:] if ":" not in line and "provider=" not in line]
        return f"{missing[1]}={missing[2]} does not exist; {near(missing[2], known)}"
    return " ".join(lines) or type(error).__name__


def _unknown_key(key: str, config: DictConfig) -> str:
    """Where the path of a key leaves the configuration, and what is there."""
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, DictConfig):
            break
        if part not in node:
            return f"{key} is no setting: there is no '{part}'; {near(part, [str(name) for name in node])}"
        node = node[part]
    return f"{key} is no setting"


def options(group: str) -> list[str]:
    """Names of the YAMLs in a group of `conf/`."""
    with hydra.initialize_config_module(version_base="1.3", config_module=CONFIG_MODULE, job_name="benchmark"):
        loader = GlobalHydra.instance().config_loader()
        return sorted(loader.get_group_options(group))


def make(config: Any) -> Any:
    """Instantiate what `_target_` names; a UserError of its constructor comes out as it was raised.

    Raises:
        UserError: the target does not exist, or does not take these settings.
    """
    try:
        return instantiate(config)
    except (InstantiationException, OmegaConfBaseException) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, UserError):
            cause = cause.__cause__
        if isinstance(cause, UserError):
            raise cause from error
        if isinstance(error.__cause__, ImportError | TypeError | None):
            raise UserError(explain(error)) from error
        raise


def build(name: str, *overrides: str) -> Any:
    """Instantiate one YAML of `conf/` by its name.

    Args:
        name: "methods/attattr", "evaluations/perturbation", "task/planted", ...
        overrides: settings of it, such as "edges.steps=50".

    Returns:
        The object that its `_target_` makes.

    Raises:
        UserError: there is no such YAML or setting.
    """
    group, _, option = name.partition("/")
    keyed = group in ("methods", "evaluations")
    prefix = f"{group}.{option}" if keyed else group
    config = compose(
        None, [f"+{group}={f'[{option}]' if keyed else option}", *(_prefixed(o, prefix) for o in overrides)]
    )
    return make(OmegaConf.select(config, prefix))


def _prefixed(override: str, prefix: str) -> str:
    sign = "++" if override.startswith("++") else override[0] if override[:1] in "+~" else ""
    return f"{sign}{prefix}.{override[len(sign) :]}"


def near(name: str, known: Sequence[str]) -> str:
    """The nearest names, or all of them where none is near."""
    matches = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {', '.join(matches)}?" if matches else f"allowed: {', '.join(known)}"
