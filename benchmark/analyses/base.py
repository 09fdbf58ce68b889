"""What an analysis is: the base class of all, that of those which look at further models, and what else is taken for one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal

from benchmark.analyses.context import Context
from benchmark.analyses.opening import beside, digests, setting_of, weight_digests
from benchmark.analyses.resumed import Arrays, ByExample, by_example, forget
from benchmark.errors import NotApplicable, UserError
from benchmark.progress.spent import Spent
from benchmark.results.store import Ragged
from benchmark.results.tables import Table
from benchmark.run.workbench import Setting
from benchmark.settings.declared import configurable
from benchmark.settings.early import Openings
from benchmark.types import Batch, hold_signature, hold_signatures


class Analysis(ABC):
    """A question that needs several methods, tasks or models at once: a subclass answers it when it is called.

    What it does not say beside that has a default. Its settings are its own (`benchmark.settings.declared.configurable`);
    `limit` and `trainings` are settings of those that declare them, and None of the others.

    Attributes:
        version: enters the comparison's name: raise it when the numbers change.
        says_nothing: whether it leaves no table where it is not applicable, so that comparisons of every kind may have it.
        reads_tables: whether it reads the tables of the comparison's others (`Context.tables`): it is run after them, and
            again where one of them changed.
        reads_their_tables: whether it reads those of other such analyses as well, and comes after them.
        limit: how many of the scored examples, drawn by the comparison's seed; None for all.
        trainings: how many seeds of the training it goes over itself; None where it leaves them to others.
    """

    version: ClassVar[int] = 1
    says_nothing: ClassVar[bool] = False
    reads_tables: ClassVar[bool] = False
    reads_their_tables: ClassVar[bool] = False
    limit: int | None = None
    trainings: int | None = None

    @abstractmethod
    def __call__(self, context: Context) -> Sequence[Table]:
        """Its answers, each a table with intervals.

        Raises:
            NotApplicable: there is nothing to say of this comparison, with the reason.
        """

    def opened(self, context: Context) -> Mapping[str, Setting]:
        """By name, the other models and tasks that its tables come from and that the comparison's name does not hold.

        By default there are none.

        Raises:
            NotApplicable: it cannot be asked of this comparison, so that none is read.
        """
        return {}

    def reads(self, context: Context) -> Mapping[str, str]:
        """A digest of everything that lies elsewhere, by name; where one is another, tables are computed again.

        By default they are of weights and examples of what it has `opened`.
        """
        try:
            return digests(self.opened(context))
        except NotApplicable:
            return {}

    def foretold(self, spent: Spent, context: Context) -> float | None:
        """Seconds that it will take, of one process, for a plan; None where it does not know, as by default.

        Args:
            spent: what explanations and tests take.
            context: of a comparison whose cells are not computed yet.
        """
        return None

    @property
    def reads_elsewhere(self) -> bool:
        """Whether its tables depend on more than its comparison and its settings: on models or data of its own."""
        return any(getattr(type(self), name) is not getattr(Analysis, name) for name in ("opened", "reads"))

    def by_example(
        self,
        context: Context,
        setting: Setting,
        compute: Callable[[Batch], Arrays],
        label: str,
        *,
        keep: bool | Literal["each"] = False,
        part: str = "",
    ) -> Ragged:
        """What `compute` gives for each batch of a setting; the comparison's folder keeps parts (`resumed.by_example`)."""
        return by_example(context.folder, self, setting, compute, label, keep=keep, part=part)

    def keeping(self, context: Context) -> ByExample:
        """`by_example` for several things of several settings, told apart by their labels; all is kept until `forget`."""

        def kept(setting: Setting, compute: Callable[[Batch], Arrays], label: str) -> Arrays:
            return self.by_example(context, setting, compute, label, keep="each", part=label).arrays

        return kept

    def forget(self, context: Context) -> None:
        """Take away what was kept of several settings or parts (`keep="each"`), now that all of them are done."""
        if context.folder is not None:
            forget(context.folder, self)


@configurable
class ModelsAnalysis(Analysis):
    """An analysis of the comparison's model, and of others beside it on the same examples.

    Attributes:
        models: by name, further models for the same examples: the path of a checkpoint whose encoder is looked at, or the
            overrides that open a model.
    """

    models: Annotated[Mapping[str, str | Sequence[str] | None], Openings()] = field(default_factory=dict)

    def opened(self, context: Context) -> Mapping[str, Setting]:
        """All models by name, the comparison's own first."""
        return beside(context.setting, self.models, setting_of(self, "models"))

    def reads(self, context: Context) -> Mapping[str, str]:
        """Weights of all models, where there are further ones; the examples are the comparison's."""
        return weight_digests(self.opened(context)) if self.models else {}

    def looked_at(self, context: Context) -> dict[str, Setting]:
        """The same with at most `limit` of the examples."""
        return {name: setting.limited(self.limit) for name, setting in self.opened(context).items()}


_FACTS = ("version", "says_nothing", "reads_tables", "reads_their_tables", "limit", "trainings")


class PlainAnalysis(Analysis):
    """A callable `f(context)` as an analysis; what it has of what the base class says of itself is read.

    Args:
        function: gives tables.
    """

    def __init__(self, function: Any) -> None:
        self.function = self.identified_as = function
        self.__dict__.update({name: getattr(function, name) for name in _FACTS if hasattr(function, name)})

    def __call__(self, context: Context) -> Sequence[Table]:
        """What the callable gives."""
        tables: Sequence[Table] = self.function(context)
        return tables

    def reads(self, context: Context) -> Mapping[str, str]:
        """What the callable says that it reads."""
        said: Mapping[str, str] = self.function.reads(context) if self.reads_elsewhere else {}
        return said

    @property
    def reads_elsewhere(self) -> bool:
        """Whether the callable says what it reads."""
        return hasattr(self.function, "reads")


def as_analysis(value: Any) -> Analysis:
    """An analysis as it is, and any other callable as one.

    Raises:
        UserError: it is neither, or one of its methods cannot be called as the base class says.
    """
    name = getattr(value, "__qualname__", type(value).__qualname__)
    if isinstance(value, type) or not callable(value):
        raise UserError(
            f"{name} is no analysis: subclass benchmark.analyses.base.Analysis, or give what can be called as f(context)"
        )
    hold_signature(value, name, ("context",))
    if not isinstance(value, Analysis):
        return PlainAnalysis(value)
    hold_signatures(value, Analysis)
    return value
