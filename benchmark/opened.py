"""A comparison before anything of it is computed: its parts made, its task and model loaded, its name known."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from logging import getLogger
from typing import Any, TypeVar

from omegaconf import DictConfig

from benchmark import progress
from benchmark.analyses.base import Analysis, as_analysis
from benchmark.analyses.context import Context
from benchmark.errors import NoSplit, NotApplicable, UserError
from benchmark.models import Classifier
from benchmark.progress.spent import Spent
from benchmark.results import statistics
from benchmark.results.digests import digest
from benchmark.run.cell import Cell
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.identity import identity
from benchmark.settings.making import make
from benchmark.types import Compared, Evaluation, as_compared

logger = getLogger(__name__)

Taken = TypeVar("Taken")


@dataclass(frozen=True)
class Opened:
    """A comparison that can be run or planned.

    Attributes:
        setting: task, model and examples.
        methods: by name.
        evaluations: the tests that can serve, by name.
        analyses: by name.
    """

    setting: Setting
    methods: Mapping[str, Compared]
    evaluations: Mapping[str, Evaluation]
    analyses: Mapping[str, Analysis]

    @property
    def hash(self) -> str:
        """Of everything that the comparison depends on."""
        return comparison_hash(self.setting, self.methods, self.evaluations, self.analyses)

    @property
    def scalars(self) -> dict[str, list[str]]:
        """By test its metrics that are one figure, and no curve."""
        return {
            name: [metric for metric, about in test.metrics.items() if about.x is None]
            for name, test in self.evaluations.items()
        }

    def cells(self) -> dict[str, Cell]:
        """The cell of each method."""
        return {name: self.setting.cell(name, method) for name, method in self.methods.items()}

    def foretold(self, cells: Mapping[str, Cell], spent: Spent) -> dict[str, float | None]:
        """Seconds that each analysis says that it will take; None where it does not know, or cannot be asked."""
        context = Context(self.setting, cells, self.evaluations)
        found: dict[str, float | None] = {}
        for name, analysis in self.analyses.items():
            try:
                found[name] = analysis.foretold(spent, context)
            except (NotApplicable, NoSplit):
                found[name] = None
        return found


def open_comparison(config: DictConfig) -> Opened:
    """Make methods, tests and analyses of a configuration, and load its task and its model.

    Raises:
        UserError: a mistake in the configuration or in the data.
    """
    methods = {name: _made(f"methods.{name}", settings, as_compared) for name, settings in config.methods.items()}
    evaluations: dict[str, Evaluation] = {name: make(part, Evaluation) for name, part in config.evaluations.items()}
    analyses = {name: _made(f"analyses.{name}", settings, as_analysis) for name, settings in config.analyses.items()}
    with progress.step("opening task and model"):
        setting = open_setting(config)
    evaluations = that_can_serve(evaluations, images=setting.data.batches[0].patch is not None)
    _check_model(methods, setting.model)
    return Opened(setting, methods, evaluations, analyses)


def _made(path: str, settings: DictConfig, taken: Callable[[Any], Taken]) -> Taken:
    """What settings make, taken for a method or an analysis; a mistake in it begins with the path of the settings."""
    made = make(settings)
    try:
        return taken(made)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _check_model(methods: Mapping[str, Compared], model: Classifier) -> None:
    for name, method in methods.items():
        try:
            method.check_model(model)
        except UserError as error:
            raise UserError(f"methods.{name}.{error}") from error


def that_can_serve(evaluations: Mapping[str, Evaluation], *, images: bool) -> dict[str, Evaluation]:
    """The tests without those of images where the examples are texts; all of them where no other is left.

    The default list serves every task in this way: texts have neither columns nor work of tests that cannot say anything
    of them, and the comparison is named as one without them. Alone they run, and their dash says why they cannot serve.
    """
    serving = {name: test for name, test in evaluations.items() if images or not test.of_images}
    if serving and (left := [name for name in evaluations if name not in serving]):
        logger.info("left out, as the examples are no images: %s", ", ".join(left))
    return serving or dict(evaluations)


def comparison_hash(
    setting: Setting,
    methods: Mapping[str, Compared],
    evaluations: Mapping[str, Evaluation],
    analyses: Mapping[str, Analysis],
) -> str:
    """Of everything that the comparison depends on: the same settings give the same folder (`ComparisonFolder`).

    Analyses with a `limit` draw examples by the configuration's seed, which the facts of the data lack where all are scored.
    """
    parts = [setting.data.facts.identity, setting.model.fingerprint, str(setting.model.dtype)]
    if setting.data.facts.seed is None and any(a.limit is not None for a in analyses.values()):
        parts.append(setting.config.seed)
    parts += [identity(dict(named)) for named in (methods, evaluations, analyses)]
    return digest([*parts, statistics.VERSION])[:8]
