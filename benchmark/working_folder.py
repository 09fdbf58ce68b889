"""Which modules a command finds: the benchmark's own, libraries, and only by name what lies in the folder where it runs.

`python -m` puts the working folder before everything, so that a `tasks.py`, a `datasets.py` or a `numexpr.py` there would be
imported in place of what the benchmark or a library means; even as the last folder of the path it would answer for
packages that libraries import where they are installed (pandas asks for `numexpr`). The folder may be a stranger's. So it is
no part of the path. What lies there is found where a configuration names it (`_target_: mine.norms.Norm`, or
`task.mechanism=mine.praise`), and by the modules that were found that way.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType

_SIBLINGS = ("conf", "methods", "tasks")
_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_READERS = ("benchmark.settings.sources",)
"""Who reads the source of a class, to say what its settings are, and executes nothing."""
_MAKERS = (
    "hydra._internal.utils",
    "benchmark.engines.worker",
    "benchmark.checking.elsewhere",
    "benchmark.bundles.sources",
    "benchmark.models.written.mechanisms",
    "ray.cloudpickle.cloudpickle",
)
"""Who imports what a `_target_` or `task.mechanism` names, and classes that came from the process where that was done."""


class WorkingFolder(MetaPathFinder):
    """Finds the modules of one folder, after all other finders, for those who may ask.

    Args:
        folder: absolute.
        askers: names of the modules whose imports are answered, beside the modules that were found here.
    """

    def __init__(self, folder: str, askers: Sequence[str]) -> None:
        self.folder, self.askers = folder, askers
        self._found: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of that name in the folder; None for a part of a package, or where somebody else asks."""
        asker = _importer(sys._getframe(1))
        if path is not None or not (asker in self.askers or asker.partition(".")[0] in self._found):
            return None
        spec = PathFinder.find_spec(fullname, [self.folder], target)
        if spec is not None:
            self._found.add(fullname)
        return spec


def own_modules_first() -> None:
    """Take the packages beside `benchmark` for what they are, and the working folder off the path.

    It stays there where `benchmark` itself lies in it (a checkout), as the last one.
    """
    without_folder(os.getcwd())
    for name in _SIBLINGS:
        home, found = os.path.join(_ROOT, name), sys.modules.get(name)
        if found is None or getattr(found, "__file__", None) != os.path.join(home, "__init__.py"):
            _load(name, home)


def without_folder(folder: str) -> None:
    """Take a folder off the path, or put it last where `benchmark` itself lies in it."""
    kept = [entry for entry in sys.path if entry not in ("", folder)]
    sys.path[:] = [*kept, folder] if os.path.realpath(folder) == _ROOT else kept


def own_classes_readable() -> None:
    """Let the settings of classes in the working folder be read; nothing there is executed."""
    _find_in(os.getcwd(), _READERS)


def own_classes_importable(folder: str | None = None) -> None:
    """Let a `_target_` name classes in a folder; by default the working folder."""
    _find_in(os.getcwd() if folder is None else folder, (*_READERS, *_MAKERS))


def importable_from() -> str | None:
    """The folder in which a `_target_` may name classes beside those of the path; None where that was not asked for."""
    return next((finder.folder for finder in _finders() if _MAKERS[0] in finder.askers), None)


def _finders() -> list[WorkingFolder]:
    return [finder for finder in sys.meta_path if isinstance(finder, WorkingFolder)]


def _find_in(folder: str, askers: Sequence[str]) -> None:
    if not any(finder.folder == folder and {*askers} <= {*finder.askers} for finder in _finders()):
        others = [finder for finder in sys.meta_path if not isinstance(finder, WorkingFolder)]
        sys.meta_path[:] = [*others, WorkingFolder(folder, askers)]


def _importer(frame: FrameType | None) -> str:
    """The name of the module whose code asks for an import, behind the import system itself."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in ("importlib", "_frozen_importlib", "_frozen_importlib_external"):
            return name
        frame = frame.f_back
    return ""


def _load(name: str, folder: str) -> None:
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)


def asked_by_name(package: str) -> bool:
    """Whether the interpreter is about to run `python -m PACKAGE` or a module of it, with the working folder first."""
    if sys.argv[:1] != ["-m"]:  # what the interpreter says while it looks for the module
        return False
    place = next((index for index, word in enumerate(sys.orig_argv) if word.startswith("-m")), None)
    if place is None:
        return False
    named = sys.orig_argv[place].removeprefix("-m") or (*sys.orig_argv[place + 1 :], "")[0]
    return named.partition(".")[0] == package
