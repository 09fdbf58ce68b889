"""Modules read and not imported: what a name of one stands for, as far as settings need it.

The annotations and defaults of settings are evaluated by themselves: names of the standard library and of what declares
settings as they are, names of the project and of a class's own package by reading on, and every other name (a tensor, an
array) as something that nothing is known of.
"""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache, cached_property
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmark.settings.outlines import UNKNOWN, Callee, NoSuchTarget, Outline, Parameter, stand_in

_LIGHT = ("benchmark.settings.declared", "benchmark.settings.early", "benchmark.errors")
_PROJECT = ("benchmark", "methods", "tasks")
_PLAIN = (
    ast.AnnAssign, ast.Assert, ast.Assign, ast.AugAssign, ast.ClassDef, ast.Expr, ast.FunctionDef, ast.If, ast.Import,
    ast.ImportFrom, ast.Pass, ast.Try,
)  # fmt: skip
_MAKE_NAMES = ("*", "__getattr__", "globals", "setattr", "exec")


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
    outline = getattr(value, "outline", None) if isinstance(value, type | Callee) else None
    return outline if isinstance(outline, Outline) else None


def _within_a_class(name: str) -> bool:
    """Whether `name` is no module but a class of one."""
    try:
        return "." in name and outline_of(name) is not None
    except NoSuchTarget:
        return False
