"""What sources say of modules and classes that are not imported: names, and settings with their defaults and annotations.

Importing one explainer takes seconds, for it imports torch and transformers. A mistake in a setting is told before that. So
annotations and defaults are evaluated by themselves: names of the standard library and of what declares settings as they
are, names of the project and of a class's own package by reading on, and every other name (a tensor, an array) as something
that nothing is known of.
"""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field
from functools import cache, cached_property
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from benchmark.errors import UserError, near

_LIGHT = ("benchmark.settings.declared", "benchmark.settings.early", "benchmark.errors")
"""Modules of ours that annotations are made of: they are imported, for they import nothing that takes long."""
_PROJECT = ("benchmark", "methods", "tasks")
_PLAIN = (
    ast.AnnAssign, ast.Assert, ast.Assign, ast.AugAssign, ast.ClassDef, ast.Expr, ast.FunctionDef, ast.If, ast.Import,
    ast.ImportFrom, ast.Pass, ast.Try,
)  # fmt: skip
"""Statements whose names are told without executing them."""
_MAKE_NAMES = ("*", "__getattr__", "globals", "setattr", "exec")
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

    __iter__ = None  # it has an item of every number, so that going over them would never end


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

    def said_of(self, setting: str) -> str:
        """The sentence for a setting that names it, with the way out."""
        if self.name:
            way_out = near(self.name, self.names) if self.names else "it is empty"
            problem = f"the module {self.module} has no '{self.name}'; {way_out}"
        else:
            problem = (
                f"there is no module {self.module}; a class of yours lies in a package of the folder of the command"
            )
        top = self.module.partition(".")[0]
        shadowed = top in (*_PROJECT, "conf") and Path(f"{top}.py").is_file()
        ours = f" ({top} is a package of this benchmark: give your {top}.py another name)" if shadowed else ""
        return f"{setting}: {problem}{ours}"


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
    def is_function(self) -> bool:
        """Whether it is a function rather than a class."""
        return isinstance(self.node, ast.FunctionDef)

    @property
    def bases(self) -> "list[Outline]":
        """The classes that it is made from, as far as their sources are read."""
        values = [self.module.evaluated(base) for base in getattr(self.node, "bases", [])]
        return [outline for value in values if (outline := _outline_in(value)) is not None]

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
        outline = _outline_in(value)
        return value is UNKNOWN or (outline is not None and outline.takes_more)

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


def _outline_in(value: Any) -> Outline | None:
    """The outline of a class or a function that is not imported; None for every other value."""
    outline = getattr(value, "outline", None) if isinstance(value, type | Callee) else None
    return outline if isinstance(outline, Outline) else None


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


@dataclass(frozen=True)
class ReadModule:
    """A module whose source was read.

    Attributes:
        name: dotted.
        path: of its source.
    """

    name: str
    path: Path
    _values: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _statements(self) -> Sequence[ast.stmt]:
        """The statements of the module, those within `if` and `try` too."""
        found: list[ast.stmt] = []
        pending = list(ast.parse(self.path.read_bytes()).body)
        while pending:
            statement = pending.pop(0)
            found.append(statement)
            if isinstance(statement, ast.If | ast.Try):
                handled = statement.handlers if isinstance(statement, ast.Try) else []
                pending[:0] = [*statement.body, *(line for part in handled for line in part.body), *statement.orelse]
        return found

    @cached_property
    def _bound(self) -> Mapping[str, ast.stmt]:
        """The first statement that binds each name."""
        bound: dict[str, ast.stmt] = {}
        for statement in self._statements:
            for name in _names_bound(statement):
                bound.setdefault(name, statement)
        return bound

    @cached_property
    def complete(self) -> bool:
        """Whether the module has no other names than those that its statements bind."""
        made = {node.id for part in self._statements for node in ast.walk(part) if isinstance(node, ast.Name)}
        return all(isinstance(part, _PLAIN) for part in self._statements) and not {*_MAKE_NAMES} & {*self._bound, *made}

    @property
    def names_bound(self) -> Collection[str]:
        """Every name that the module has, of classes and functions that it imports too."""
        return self._bound.keys()

    @property
    def names(self) -> list[str]:
        """Classes and functions that can be named in a `_target_`."""
        kinds = (ast.ClassDef, ast.FunctionDef)
        return [n for n, part in self._bound.items() if isinstance(part, kinds) and not n.startswith("_")]

    def value(self, name: str) -> Any:
        """What a name stands for.

        Raises:
            NoSuchTarget: nothing in the module has this name.
        """
        if name not in self._values:
            if name not in self._bound:
                raise NoSuchTarget(self.name, name, self.names)
            self._values[name] = UNKNOWN  # while it is read: two modules may import each other
            self._values[name] = self._read(name, self._bound[name])
        return self._values[name]

    def _read(self, name: str, statement: ast.stmt) -> Any:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            return stand_in(Outline(f"{self.name}.{name}", self, statement))
        if isinstance(statement, ast.Import):
            alias = next(part for part in statement.names if (part.asname or part.name.partition(".")[0]) == name)
            return _imported(alias.name if alias.asname else name, None, self.name)
        if isinstance(statement, ast.ImportFrom):
            alias = next(part for part in statement.names if (part.asname or part.name) == name)
            return _imported(statement.module or "", alias.name, self.name) if statement.level == 0 else UNKNOWN
        value = getattr(statement, "value", None)
        simple = isinstance(statement, ast.AnnAssign) or (
            isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        )
        return self.evaluated(value) if simple and value is not None else UNKNOWN

    def evaluated(self, expression: ast.expr) -> Any:
        """The value of an expression of the module; `UNKNOWN` where it takes more than this file reads."""
        used = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name) and node.id in self._bound}
        try:
            code = compile(ast.Expression(expression), str(self.path), "eval")
            return eval(code, {name: self.value(name) for name in used})
        except Exception:  # whatever it is: the class itself will say when it is imported
            return UNKNOWN

    def hint(self, annotation: ast.expr) -> Any:
        """The value of an annotation, of one in quotation marks too."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        return self.evaluated(annotation)

    def arguments(self, function: ast.FunctionDef) -> Iterator[tuple[str, Parameter]]:
        """The arguments that a call can name."""
        args = function.args
        named = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [None] * (len(named) - len(args.defaults)) + [*args.defaults]
        for argument, default in zip([*named, *args.kwonlyargs], [*defaults, *args.kw_defaults], strict=True):
            hint = UNKNOWN if argument.annotation is None else self.hint(argument.annotation)
            yield argument.arg, Parameter(hint, MISSING if default is None else self.evaluated(default))


def _names_bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


def _imported(module: str, name: str | None, reader: str) -> Any:
    """What `import module` or `from module import name` gives in the module `reader`."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or module in _LIGHT:
        found = import_module(module)
        return found if name is None else getattr(found, name)
    if top not in (*_PROJECT, reader.partition(".")[0]):
        return UNKNOWN
    if name is not None and (read := read_module(f"{module}.{name}")) is not None:
        return _Namespace(read)
    read = read_module(module)
    if read is None:
        return UNKNOWN
    return _Namespace(read) if name is None else read.value(name)


@dataclass(frozen=True)
class _Namespace:
    """A module that is not imported, as a value."""

    read: ReadModule

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.read.value(name)


@cache
def _spec(name: str) -> ModuleSpec | None:
    """Where a module lies; neither it nor its packages are imported."""
    first, *rest = name.split(".")
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        return None
    path = first
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = f"{path}.{part}"
        spec = PathFinder.find_spec(path, [*spec.submodule_search_locations])
    return spec


@cache
def read_module(name: str) -> ReadModule | None:
    """The source of a module; None where there is none."""
    spec = _spec(name)
    if spec is None or not spec.has_location or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return ReadModule(name, Path(spec.origin))


def outline_of(target: str) -> Outline | None:
    """The outline of what a `_target_` names; None where that is known only after an import.

    Raises:
        NoSuchTarget: there is no such module, or it has nothing of this name.
    """
    module, _, name = target.rpartition(".")
    if (read := read_module(module)) is None:
        if _spec(module) is None and not _within_a_class(module):
            raise NoSuchTarget(module)
        return None
    try:
        value = read.value(name)
    except NoSuchTarget:
        if read.complete and _spec(target) is None:
            raise
        return None
    except SyntaxError:
        return None
    return _outline_in(value)


def outline_at(path: str, target: str) -> Outline | None:
    """`outline_of` for what `_target_` names at a path of a configuration.

    Raises:
        UserError: there is no such module, or it has nothing of this name.
    """
    try:
        return outline_of(target)
    except NoSuchTarget as missing:
        raise UserError(missing.said_of(f"{path}._target_={target}")) from missing


def _within_a_class(name: str) -> bool:
    """Whether `name` is no module but a class of one."""
    try:
        return "." in name and outline_of(name) is not None
    except NoSuchTarget:
        return False
