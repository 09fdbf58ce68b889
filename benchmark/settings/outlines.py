"""What a class declares of its settings, as its source says: names, defaults, choices and ranges, without an import.

Importing one explainer takes seconds, for it imports torch and transformers. A mistake in a setting is told before that.
`benchmark.settings.read_modules` reads the source.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from benchmark.settings.read_modules import ReadModule

_DATACLASS = ("configurable", "dataclass")
_Definition: TypeAlias = ast.ClassDef | ast.FunctionDef


class Unknown:
    """Something that is only known where its module is imported: as an annotation it allows everything."""

    def __getattr__(self, name: str) -> "Unknown":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, item: Any) -> "Unknown":
        return self

    def __call__(self, *arguments: Any, **named: Any) -> "Unknown":
        """Nothing known."""
        return self

    def __or__(self, other: Any) -> "Unknown":
        return self

    __ror__ = __or__


UNKNOWN = Unknown()


class NoSuchTarget(LookupError):  # noqa: N818 - said of the target
    """A `_target_` that nothing answers to.

    Attributes:
        module: the module that is not there, or the one that lacks the name.
        name: what it lacks; empty where there is no such module.
        names: what the module has.
    """

    def __init__(self, module: str, name: str = "", names: Sequence[str] = ()) -> None:
        super().__init__(f"{module}.{name}" if name else module)
        self.module, self.name, self.names = module, name, tuple(names)


@dataclass(frozen=True)
class Parameter:
    """One setting: what its annotation allows (`UNKNOWN`: everything), and its default (`MISSING`: none)."""

    hint: Any
    default: Any


@dataclass(frozen=True)
class Outline:
    """A class or a function as its source has it.

    Attributes:
        target: dotted, as `_target_` names it.
        module: where it is defined.
        node: its definition.
    """

    target: str
    module: "ReadModule"
    node: _Definition

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Its settings in their order."""
        if isinstance(self.node, ast.FunctionDef):
            return dict(self.module.arguments(self.node))
        inherited: dict[str, Parameter] = {}
        for base in self.bases:
            inherited |= base.parameters
        for statement in self.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                return dict(list(self.module.arguments(statement))[1:])
        return inherited | dict(self._fields()) if self._is_dataclass else inherited

    @property
    def bases(self) -> "list[Outline]":
        """The classes that it is made from, as far as their sources are read."""
        values = [self.module.evaluated(base) for base in getattr(self.node, "bases", [])]
        return [outline for value in values if isinstance(outline := getattr(value, "outline", None), Outline)]

    @property
    def docstring(self) -> str:
        """What its source says of it; empty where it says nothing."""
        return ast.get_docstring(self.node) or ""

    @property
    def takes_more(self) -> bool:
        """Whether there may be settings beside those: keyword arguments of any name, or an ancestor that is not read."""
        if isinstance(self.node, ast.FunctionDef):
            return self.node.args.kwarg is not None
        if any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in self.node.body):
            return any(part.args.kwarg for part in self.node.body if isinstance(part, ast.FunctionDef))
        if any(isinstance(base, ast.Name | ast.Attribute) and self._more(base) for base in self.node.bases):
            return True
        return any(_last_name(decorator) not in _DATACLASS for decorator in self.node.decorator_list)

    @property
    def _is_dataclass(self) -> bool:
        return any(_last_name(decorator) in _DATACLASS for decorator in self.node.decorator_list)

    def _more(self, base: ast.expr) -> bool:
        value = self.module.evaluated(base)
        outline = getattr(value, "outline", None) if isinstance(value, type) else None
        return value is UNKNOWN or (isinstance(outline, Outline) and outline.takes_more)

    def _fields(self) -> Iterator[tuple[str, Parameter]]:
        for statement in self.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                if _last_name(statement.annotation) in ("ClassVar", "InitVar"):
                    continue
                default = MISSING if statement.value is None else self.module.evaluated(statement.value)
                if isinstance(default, Field):
                    if not default.init:
                        continue
                    default = _made(default)
                yield statement.target.id, Parameter(self.module.hint(statement.annotation), default)


def _made(part: "Field[Any]") -> Any:
    if part.default is not MISSING or part.default_factory is MISSING:
        return part.default
    try:
        return part.default_factory()
    except Exception:  # it needs what is only there after an import
        return UNKNOWN


def _last_name(node: ast.expr) -> str:
    """`configurable` of `declared.configurable`, `dataclass` of `dataclass(frozen=True)`, `ClassVar` of `ClassVar[int]`."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def stand_in(outline: Outline) -> Any:
    """A class in place of one that is not imported; calling it keeps what it was called with."""
    if isinstance(outline.node, ast.FunctionDef):
        return Callee(outline)

    def remember(self: Any, *values: Any, **settings: Any) -> None:
        self.settings = dict(zip(outline.parameters, values, strict=False)) | settings

    names = {"outline": outline, "__init__": remember, "__module__": outline.module.name}
    return type(outline.node.name, (StandIn,), names)


class StandIn:
    """An object of a class that is not imported: `_target_` and the settings that differ from the defaults."""

    outline: Outline
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Callee:
    """A function that is not imported; what it returns is not known."""

    outline: Outline

    def __call__(self, *arguments: Any, **named: Any) -> Unknown:
        """Nothing known."""
        return UNKNOWN
