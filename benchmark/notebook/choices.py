"""Methods and tests as a person names them: names, settings, configured objects, functions, or a mapping of those.

A function becomes a method, `(model, batch, target) -> Attribution`, and so do scores that are there already.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from benchmark.errors import NotApplicable, UserError, near
from benchmark.models import Classifier
from benchmark.notebook.given import finite, numbers
from benchmark.settings.checking import check_name
from benchmark.settings.configuration import ALL, compose, missing_keys, options
from benchmark.settings.making import BUILT_AS, make
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Compared, Evaluation, Method, as_compared, class_indices
from benchmark.units import spread

Group = Literal["methods", "evaluations"]
_UNFITTED = "it looks at training examples first, and there are none; give method.fit(examples) in its place"
_SEARCH = "a search scores no words"
_FORMS = (
    "a function of a text that gives one score per word, or of (model, batch, target) that gives a "
    "benchmark.types.Attribution"
)


def choose(group: Group, given: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> object, in the order given.

    Args:
        group: of the YAMLs that names stand for.
        given: a name, an object, or a list of them; with settings among the names (`methods.rollout.readout.start_layer=2`,
            or without the group before it). `all` is every name that needs no setting. Or a mapping of names of one's own
            to names or objects. A method may be a function, see `of_callable`.
        inputs: what functions of a text are called with, by identifier.

    Raises:
        UserError: there is no such name or setting, or an object is neither.
    """
    if isinstance(given, Mapping) and "_target_" not in given:
        named = {str(name): value for name, value in given.items()}
    else:
        listed = [given] if isinstance(given, str | Mapping) or not isinstance(given, Iterable) else list(given)
        named = _listed(group, listed)
    if not named:
        raise UserError(f"{group} is empty; name at least one of: {', '.join(options(group))}")
    for name in named:
        check_name(group, name)
    names = [value for value in named.values() if isinstance(value, str) and "=" not in value]
    settings = [value for value in _flat(given) if isinstance(value, str) and "=" in value]
    built = _built(group, list(dict.fromkeys(names)), settings)
    return {name: _object(group, name, built.get(value, value) if isinstance(value, str) else value, value, inputs)
            for name, value in named.items()}  # fmt: skip


def _flat(given: Any) -> list[Any]:
    if isinstance(given, str):
        return [given]
    return list(given.values()) if isinstance(given, Mapping) else list(given) if isinstance(given, Iterable) else []


def _listed(group: Group, given: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for value in given:
        if value == ALL and isinstance(value, str):
            named |= {str(name): str(name) for name in compose(None, [f"+{group}={ALL}"])[group]}
        elif isinstance(value, str):
            name = _name_of_setting(group, value) if "=" in value else value
            named.setdefault(name, name)
        else:
            named[_free(_name_of(value), named)] = value
    return named


def _name_of_setting(group: Group, text: str) -> str:
    """Whose setting it is."""
    name, _, setting = text.partition("=")[0].lstrip("+~").removeprefix(f"{group}.").partition(".")
    if not setting:
        raise UserError(f"'{text}' names no setting; write {group}.NAME.SETTING=VALUE")
    return name


def _name_of(value: Any) -> str:
    """What an object is called in tables: the name that `benchmark.build` made it of, a function's own, or its class's."""
    own = getattr(value, BUILT_AS, None) or getattr(value, "__name__", None)
    if own == "<lambda>":
        return "function"
    return str(own) if own is not None else re.sub(r"(?<!^)(?=[A-Z])", "_", type(value).__name__).lower()


def _free(name: str, taken: Mapping[str, Any]) -> str:
    return next(free for free in (name, *(f"{name} ({count})" for count in range(2, 10_000))) if free not in taken)


def _built(group: Group, names: list[str], settings: list[str]) -> dict[str, Any]:
    """The objects of these names, with the settings of them that were given."""
    known = options(group)
    for name in names:
        if name not in known:
            raise UserError(f"{group}={name} does not exist; {near(name, known)}")
    if not names:
        return {}
    overrides = [_override(group, text) for text in settings]
    config = compose(None, [f"+{group}=[{','.join(names)}]", *overrides])
    if missing := missing_keys(config):
        raise UserError(f"{missing[0]} is not set; add '{missing[0]}=...' to {group}")
    return {name: make(config[group][name]) for name in names}


def _override(group: Group, text: str) -> str:
    bare = text.lstrip("+~")
    signs = text[: len(text) - len(bare)]
    return f"{signs}{group}.{bare.removeprefix(f'{group}.')}"


def _object(group: Group, name: str, value: Any, given: Any, inputs: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping | DictConfig):
        value = make(OmegaConf.create(dict(value)))
    if isinstance(value, type):
        raise UserError(f"{group}: {value.__name__} is a class; give an object of it, such as {value.__name__}()")
    if group == "evaluations":
        if not isinstance(value, Evaluation):
            raise UserError(f"evaluations: {type(value).__name__} is no test; give a name: {', '.join(options(group))}")
        return value
    if isinstance(given, str) and isinstance(value, Method) and value.fitted:
        return Unserved(_UNFITTED)
    if isinstance(value, Method):
        return as_compared(value)
    if isinstance(value, Compared):
        return Unserved(_SEARCH)
    if not callable(value):
        raise UserError(f"methods: {type(value).__name__} '{name}' is no method; give a name, a function or an object")
    return of_callable(name, value, inputs)


@dataclass(frozen=True)
class OfText(Method):
    """A function of an input (as it was given) that gives one score per word (patch); a word's tokens share its score.

    Attributes:
        name: for messages.
        function: `input -> scores`.
        inputs: by identifier.
    """

    name: str
    function: Callable[[Any], Any]
    inputs: Mapping[str, Any]
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """What the function says of each input; UserError where that is not one finite number per word."""
        rows = []
        for row, (uid, words) in enumerate(zip(batch.uids, batch.words, strict=True)):
            what = f"what {self.name} gives for text {uid}"
            rows.append(finite(numbers(self.function(self.inputs[uid]), words, what), batch, row, what))
        return Attribution(target=target, tokens=spread(rows, batch.units))


@dataclass(frozen=True)
class OfBatch(Method):
    """A function with a method's own contract, whose result is checked.

    Attributes:
        name: for messages.
        function: `(model, batch, target) -> Attribution`.
    """

    name: str
    function: Callable[[Classifier, Batch, Tensor], Any]
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """What the function says; UserError where shapes are wrong or a score is not finite."""
        found = self.function(model, batch, class_indices(target))
        if not isinstance(found, Attribution):
            raise UserError(f"{self.name} gives {type(found).__name__}; give a benchmark.types.Attribution")
        expected = {
            "tokens": tuple(batch.units.shape),
            "heads": (len(batch), model.n_layers, model.n_heads),
        }
        if found.tokens is None and found.heads is None:
            raise UserError(f"{self.name} gives an Attribution without scores; give tokens, heads or both")
        for name, shape in expected.items():
            self._check(name, getattr(found, name), shape, batch)
        return Attribution(target=target, tokens=found.tokens, heads=found.heads)

    def _check(self, name: str, scores: Any, shape: tuple[int, ...], batch: Batch) -> None:
        if scores is None:
            return
        if not isinstance(scores, Tensor) or tuple(scores.shape) != shape:
            kind = list(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise UserError(f"{self.name} gives {name} of shape {kind}; give a tensor of shape {list(shape)}")
        counted = scores[batch.attention_mask.to(scores.device)] if name == "tokens" else scores
        if not bool(torch.isfinite(counted).all()):
            raise UserError(f"{self.name} gives {name} scores that are not finite (NaN or infinity)")


@dataclass(frozen=True)
class Given(Method):
    """Scores that were made elsewhere, by identifier; the same for every class."""

    name: str
    scores: Mapping[str, NDArray]
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Every token with the score of its word; UserError where a score is not finite."""
        whose = enumerate(batch.uids)
        rows = [finite(self.scores[uid], batch, row, f"scores['{self.name}'] of text {uid}") for row, uid in whose]
        return Attribution(target=target, tokens=spread(rows, batch.units))


@dataclass(frozen=True)
class OfExplanation(Given):
    """What `benchmark.explain` gave: its scores of words and heads; edges are asked of the explainer, for the same model.

    Attributes:
        explainer: what explained; None where that is not known any more.
        heads: [L, H] by identifier; empty where the explainer scores none.
        same_model: whether the model that is tested is the one that was explained.
    """

    explainer: Method | None
    heads: Mapping[str, Tensor]
    same_model: bool

    @property
    def scores_edges(self) -> bool:
        """As the explainer; where that is not known, asking for edges says so."""
        return self.explainer is None or self.explainer.scores_edges

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """The scores that the explanation holds."""
        found = super().explain(model, batch, target)
        heads = torch.stack([self.heads[uid] for uid in batch.uids]) if self.heads else None
        return replace(found, heads=heads)

    def aggregate_heads(self, scores: Float[Tensor, "N L H"]) -> Float[Tensor, "L H"]:
        """As the explainer."""
        return super().aggregate_heads(scores) if self.explainer is None else self.explainer.aggregate_heads(scores)

    def edge_scores(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B L H T T"]:
        """Those of the explainer; NotApplicable where the explanation is of another model, or was read from a file."""
        if self.explainer is None or not self.same_model:
            raise NotApplicable("the explanation keeps no edges, and was not made with this model; give methods=[...]")
        return self.explainer.edge_scores(model, batch, target)


@dataclass(frozen=True)
class Unserved(Method):
    """A method that cannot serve here, with the reason."""

    reason: str
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """NotApplicable with the reason."""
        raise NotApplicable(self.reason)


def of_callable(name: str, function: Callable[..., Any], inputs: Mapping[str, Any]) -> OfText | OfBatch:
    """The method that a function is, by what it can be called with; UserError where that is neither form."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} does not say what it takes; wrap it in {_FORMS}") from error
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [part for part in signature.parameters.values() if part.kind in kinds and part.default is part.empty]
    if len(required) > 1 and _takes(signature, 3):
        return OfBatch(name, function)
    if _takes(signature, 1):
        return OfText(name, function, inputs)
    raise UserError(f"{name}{signature} can be called neither way; give {_FORMS}")


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
