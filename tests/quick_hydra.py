"""Hydra reads and merges each YAML of `conf/` once in a process: no test changes one, and thousands of tests compose.

What is put into Hydra's store, or lies in a further folder, is read each time, as it may change.
"""

import copy
import pickle
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.core_plugins.importlib_resources_config_source import ImportlibResourcesConfigSource
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf


def install() -> None:
    """Replace what Hydra does for every configuration anew."""
    for name in ("is_config", "is_group"):
        setattr(ImportlibResourcesConfigSource, name, _asked_once(getattr(ImportlibResourcesConfigSource, name)))
    ConfigRepository.load_config = _loaded_once(ConfigRepository.load_config)
    merge = ConfigLoaderImpl._compose_config_from_defaults_list
    ConfigLoaderImpl._compose_config_from_defaults_list = _merged_once(merge)  # type: ignore[method-assign]  # of Hydra, for the suite alone
    CachingConfigRepository.__init__ = _start  # type: ignore[method-assign]  # of Hydra, for the suite alone


def _asked_once(ask: Callable[[Any, str], bool]) -> Callable[[Any, str], bool]:
    """Whether there is such a YAML, or such a folder of them."""

    @cache
    def answer(package: str, config_path: str) -> bool:
        return ask(ImportlibResourcesConfigSource("", f"pkg://{package}"), config_path)

    return lambda source, config_path: answer(source.path, config_path)


def _loaded_once(load: Callable[[Any, str], ConfigResult | None]) -> Callable[[Any, str], ConfigResult | None]:
    """What YAMLs of packages hold, which is to be looked at and not to be changed."""
    held = dict[tuple[str, str], ConfigResult | None]()

    def load_once(repository: Any, config_path: str) -> ConfigResult | None:
        source = repository._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or source.scheme() != "pkg":
            return load(repository, config_path)
        key = source.path, config_path
        if key not in held:
            held[key] = load(repository, config_path)
        return held[key]

    return load_once


def _merged_once(merge: Callable[..., DictConfig]) -> Callable[..., DictConfig]:
    """What YAMLs give together, before the values of a command."""
    held = dict[tuple[Any, ...], bytes]()

    def merge_once(loader: Any, defaults: Sequence[Any], repo: Any) -> DictConfig:
        key = tuple((repr(default), _content(repo.load_config(default.config_path))) for default in defaults)
        if key not in held:
            held[key] = pickle.dumps(merge(loader, defaults, _Copies(repo)))
        merged: DictConfig = pickle.loads(held[key])
        return merged

    return merge_once


def _content(result: ConfigResult) -> str:
    """What tells a configuration from others of its name."""
    steady = result.path.startswith("pkg:") or result.provider == "hydra"
    return result.path if steady else OmegaConf.to_yaml(result.config)


class _Copies:
    """A repository that gives copies, which may be changed."""

    def __init__(self, repository: Any) -> None:
        self.repository = repository

    def load_config(self, config_path: str) -> ConfigResult:
        """A copy."""
        return copy.deepcopy(self.repository.load_config(config_path))  # type: ignore[no-any-return]  # of Hydra's class

    def __getattr__(self, name: str) -> Any:
        return getattr(self.repository, name)


def _start(repository: CachingConfigRepository, delegate: Any) -> None:
    """The delegate's list of sources is replaced and never changed, so that it need not be copied."""
    repository.delegate = copy.copy(delegate)
    repository.cache = {}
