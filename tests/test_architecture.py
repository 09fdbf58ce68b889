"""The house rules that a machine can check: imports point one way, functions stay simple, every YAML composes and builds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

import benchmark
from benchmark.analyses.base import Analysis
from benchmark.engines.base import Engine
from benchmark.evaluations.triggers.patterns import TriggerSearch
from benchmark.settings.configuration import compose, missing_keys, options
from benchmark.types import Evaluation, Method, Task
from tests.conftest import GIVEN, REPOSITORY

PACKAGES = ("benchmark", "methods", "tasks")
WORDS = {"types", "targets", "errors", "rationales", "words"}
BASE = WORDS | {"units", "settings", "randomness", "progress", "annotations", "passages"}

# Which parts each part may import, itself aside. A name without a package is a part of `benchmark`.
ALLOWED: dict[str, set[str]] = {
    "benchmark": {"working_folder"},
    "working_folder": set(),
    "errors": set(),
    "results": {"errors"},
    "targets": {"errors"},
    "types": {"errors", "results.record", "results.wording", "targets", "units"},
    "units": {"errors"},
    "rationales": {"errors", "words"},
    "words": {"errors"},
    "signals": set(),
    "randomness": set(),
    "annotations": WORDS,
    "passages": WORDS | {"annotations"},
    "progress": {"errors", "signals"},
    "settings": WORDS | {"results.digests"},
    "exits": WORDS | {"signals"},
    "models": BASE | {"results.cache"},
    "training": BASE | {"models", "results"},
    "evaluations": BASE | {"models", "results"},
    "engines": BASE | {"models", "working_folder"},
    "run": BASE | {"models", "evaluations", "results", "engines"},
    "analyses": BASE | {"models", "training", "evaluations", "results", "run"},
    "checking": BASE | {"models", "evaluations", "run", "analyses", "working_folder"},
    "report": WORDS | {"results", "exits", "progress", "settings.report_settings"},
    "tracking": WORDS | {"results", "report", "settings"},
    "methods": BASE | {"models"},
    "tasks": BASE | {"results.cache", "models.images", "models.written"},  # inputs of a written model are part of it
    "notebook": BASE | {"models", "evaluations", "results", "run", "report", "catalogue"},
    "opened": BASE | {"models", "results", "run", "analyses"},
    "planning": BASE | {"models", "results", "engines", "run", "report", "opened"},
    "comparison": BASE | {"models", "results", "engines", "run", "analyses", "report", "opened", "planning.spending"},
    "bundles": BASE | {"models", "training", "evaluations", "results", "run", "report", "checking", "working_folder"},
    "catalogue": BASE | {"exits", "working_folder"},
    "commands": BASE
    | {
        "comparison",
        "planning",
        "results",
        "report",
        "exits",
        "training",
        "catalogue",
        "checking",
        "bundles",
        "run.workbench",
        "working_folder",
        "models.written",
    },
    "train": {"commands"},
    "__main__": {"commands"},
}

RUN = (
    "rechecking", "steps", "records", "reducing", "testing", "views", "workbench", "cell", "explaining", "stages", "data",
    "encoded", "arrays", "resumable", "origins",
)  # fmt: skip
"""Modules of `benchmark/run` from top to bottom: each may import what lies below it. `comparison` is above them all."""


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


def part_of(module: str) -> str:
    """`benchmark.models.attention_interface` -> `models`; `methods.lrp` -> `methods`."""
    package, *rest = module.split(".")
    return rest[0] if package == "benchmark" and rest else package


def imports(code: str) -> Iterator[str]:
    """Every module of ours that is imported when the code runs, inside functions too; not those for type checking."""
    pending: list[ast.AST] = [ast.parse(code)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))


def forbidden(part: str, code: str) -> list[str]:
    """Imports of `code`, a module of `part`, that point the wrong way."""
    wrong = []
    for name in imports(code):
        if name.split(".")[0] not in PACKAGES:
            continue
        target = part_of(name)
        detailed = ".".join(name.split(".")[1:3])
        if target != part and target not in ALLOWED[part] and detailed not in ALLOWED[part]:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_imports_point_one_way(path):
    part = part_of(module_of(path))
    assert part in ALLOWED, f"say in ALLOWED which parts '{part}' may import"
    assert forbidden(part, path.read_text()) == []


@pytest.mark.parametrize(
    ("part", "code", "wrong"),
    [
        ("models", "from benchmark.evaluations import ranks", ["benchmark.evaluations.ranks"]),
        ("types", "from benchmark.models import Classifier", ["benchmark.models.Classifier"]),
        ("types", "if TYPE_CHECKING:\n    from benchmark.models import Classifier", []),
        ("comparison", "def f():\n    import methods.lrp", ["methods.lrp"]),
        ("methods", "from benchmark import comparison", ["benchmark.comparison"]),
        ("tasks", "from benchmark.models import load_model", ["benchmark.models.load_model"]),
        ("report", "import benchmark.run.cell", ["benchmark.run.cell"]),
        ("tracking", "from benchmark.report.page.document import comparison_page", []),
        ("tracking", "from benchmark.run.cell import Cell", ["benchmark.run.cell.Cell"]),
    ],
)
def test_the_walker_sees_a_wrong_arrow(part, code, wrong):
    assert forbidden(part, code) == wrong


def upward(module: str, code: str) -> list[str]:
    """Imports of `code`, a module of `benchmark/run`, of one that does not lie below it."""
    below = RUN[RUN.index(module) + 1 :]
    return [name for name in imports(code) if name.startswith("benchmark.run.") and name.split(".")[2] not in below]


@pytest.mark.parametrize("module", RUN)
def test_a_run_flows_down(module):
    assert upward(module, (REPOSITORY / "benchmark" / "run" / f"{module}.py").read_text()) == []


def test_every_module_of_a_run_has_its_place():
    assert {path.stem for path in (REPOSITORY / "benchmark" / "run").glob("*.py")} == {*RUN, "__init__"}


@pytest.mark.parametrize(
    ("module", "code", "wrong"),
    [
        ("cell", "from benchmark.run.testing import evaluate", ["benchmark.run.testing.evaluate"]),
        ("cell", "def f():\n    from benchmark.run import records", ["benchmark.run.records"]),
        ("testing", "from benchmark.run.cell import Cell", []),
    ],
)
def test_an_upward_import_is_seen(module, code, wrong):
    assert upward(module, code) == wrong


CONF = REPOSITORY / "conf"
YAMLS = sorted(path.relative_to(CONF).with_suffix("").as_posix() for path in CONF.rglob("*.yaml"))


def composed(name: str, directory: str | None = None) -> DictConfig:
    """The settings of a YAML in a group of `conf/`, or of a further folder, as a comparison composes them."""
    group, _, option = name.rpartition("/")
    keyed = group in ("methods", "evaluations", "analyses")
    config = compose(None, [f"+{group}={f'[{option}]' if keyed else option}"], directory)[group]
    assert list(config) == [option] if keyed else "_target_" in config
    return config[option] if keyed else config


def check_built(group: str, built: object) -> None:
    """What is built is what a comparison takes for one of its group."""
    protocol = {
        "methods": Method | TriggerSearch,
        "evaluations": Evaluation,
        "analyses": Analysis,
        "engine": Engine,
        "task": Task,
    }.get(group)
    if protocol is None:
        assert callable(built.log_cell)
    else:
        assert isinstance(built, protocol)
        assert group == "engine" or isinstance(type(built).version, int)


@pytest.mark.parametrize("name", YAMLS)
def test_every_yaml_composes(name):
    group, _, option = name.rpartition("/")
    if not group:
        assert compose(name)
    elif group == "experiment":
        assert compose("config", [f"+experiment={option}"]).name == option
    else:
        composed(name)


@pytest.mark.parametrize(
    "name",
    [name for name in YAMLS if name.split("/")[0] in ("methods", "evaluations", "analyses", "tracking", "engine")],
)
def test_every_method_evaluation_tracker_and_engine_builds(name):
    check_built(name.split("/")[0], benchmark.build(name, *GIVEN.get(name, ())))


@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_method_and_evaluation_of_an_experiment_builds(experiment):
    from benchmark.settings.making import make

    config = compose("config", [f"+experiment={experiment}"])
    for key in missing_keys(config):
        OmegaConf.update(config, key, "given")
    for group in ("methods", "evaluations", "analyses"):
        assert config[group] or group == "analyses" or (group == "evaluations" and config["analyses"])
        for settings in config[group].values():
            assert make(settings) is not None
