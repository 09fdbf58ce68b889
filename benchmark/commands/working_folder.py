"""Which modules a command finds: the benchmark's own, whatever lies in the folder where it runs, and then those of the user.

`python -m` puts the working folder before everything, so that a `tasks.py`, a `conf.py` or a `datasets.py` there would be
imported in place of what the benchmark means. A console script does not look there at all, and would not find the user's
own methods.
"""

import importlib.util
import sys
from pathlib import Path

_SIBLINGS = ("conf", "methods", "tasks")


def own_modules_first() -> None:
    """Take the packages beside `benchmark` for what they are, and look into the working folder after all others."""
    here = str(Path.cwd())
    sys.path[:] = [*(entry for entry in sys.path if entry not in ("", here)), here]
    root = Path(__file__).resolve().parents[2]
    for name in _SIBLINGS:
        found = sys.modules.get(name)
        if found is None or getattr(found, "__file__", None) != str(root / name / "__init__.py"):
            _load(name, root / name)


def _load(name: str, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
