"""Any attribution class of captum by its name: gradients over embeddings, perturbations over units."""

import difflib
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import captum.attr
import torch
from captum.attr import Attribution as CaptumAttribution
from captum.attr import GradientAttribution
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.variants import take
from benchmark.settings.declared import SettingError, configurable
from benchmark.types import Attribution, Batch
from methods.shared.explainer import Explainer
from methods.shared.input_gradients import (
    Baseline,
    Output,
    baseline_embeddings,
    embeddings_of,
    target_output,
    token_attribution,
)
from methods.shared.seeds import seeded
from methods.shared.unit_game import MANY, UnitGame, explain_units

Over = Literal["auto", "embeddings", "units"]

_OURS = (
    "self", "forward_func", "inputs", "target", "baselines", "additional_forward_args", "feature_mask",
    "return_convergence_delta", "return_input_shape", "show_progress",
)  # fmt: skip
_MODULES = (
    "it rewrites modules such as nn.ReLU, and a transformer's softmax, norms and products are none; see deeplift, lrp"
)
_REFUSED = {
    "FeaturePermutation": "it permutes features between the examples of a batch, and a score must not depend on others",
    **dict.fromkeys(("DeepLift", "DeepLiftShap", "GuidedBackprop", "Deconvolution", "GuidedGradCam", "LRP"), _MODULES),
}


@configurable
class Captum(Explainer):
    """`captum.attr.<algorithm>(F, ...).attribute(x, ...)` with F the target's output, as token scores.

    A gradient algorithm explains the token embeddings before positions; its scores are summed over dimensions, and its
    baselines, where it takes any, are `baseline` at units and the embeddings themselves at special tokens. A perturbation
    algorithm explains the presence of units (1, or 0 for one removed by `operator`), as LIME's interpretable input; every
    token has its unit's score. Algorithms that draw get one example at a time and are seeded by it. Algorithms of layers
    and neurons, and those that need a module rather than a function, are refused with the reason.

    Source: Kokhlikyan et al. 2020 (captum); that of the algorithm.
    Cost: that of the algorithm, and 1 forward pass (2 with a baseline token) for the embeddings.

    Attributes:
        algorithm: name of a class of `captum.attr`.
        arguments: of its constructor and of its `attribute`, by name; lists become tuples. None: captum's defaults.
        over: "embeddings", "units", or "auto": what the algorithm takes.
        baseline: "zero", "pad" or "mask", for gradient algorithms.
        operator: how units are removed, for perturbation algorithms: `auto`, or a name in `removal.OPERATORS`.
        output: "logit" y_t, or "probability" p_t.
        seed: of what the algorithm draws.
    """

    algorithm: str
    arguments: Mapping[str, Any] | None = None
    over: Over = "auto"
    baseline: Baseline = "zero"
    operator: str = "auto"
    output: Output = "logit"
    seed: int = 0
    version: ClassVar[int] = 2
    class_specific: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", {name: _plain(value) for name, value in (self.arguments or {}).items()})
        made = algorithm_class(self.algorithm)
        fitting = "embeddings" if issubclass(made, GradientAttribution) else "units"
        if self.over not in ("auto", fitting):
            raise SettingError("over", self.over, f"auto, {fitting} (captum's {self.algorithm} takes nothing else)")
        _check_arguments(self.algorithm, self.arguments or {})

    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Token scores; raises UserError for an operator or a baseline token that the model does not have."""
        if issubclass(algorithm_class(self.algorithm), GradientAttribution):
            return self._over_embeddings(model, batch, target)
        return explain_units(
            model, batch, target, self._over_units, operator=self.operator, output=self.output, seed=self.seed
        )

    def _over_units(self, game: UnitGame) -> Float[Tensor, "1 V"]:
        return self._attribute(game, game.everything, {"perturbations_per_eval": MANY})

    def _over_embeddings(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        parts = []
        for rows in self._chunks(model, batch):
            part = _alone(batch, rows)
            scores = self._scores(model, part, target[rows])
            tokens = token_attribution(part, target[rows], scores).tokens
            assert tokens is not None
            parts.append(torch.nn.functional.pad(tokens, (0, batch.units.shape[1] - tokens.shape[1])))
        return Attribution(target=target, tokens=torch.cat(parts))

    def _scores(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Float[Tensor, "B P"]:
        def forward(embeddings: Tensor, rows: Tensor) -> Tensor:
            tensors = {name: tensor[rows] for name, tensor in batch.tensors.items()}
            trace = model.run(tensors, embedding_edit=lambda _: embeddings, grad=torch.is_grad_enabled())
            if torch.is_grad_enabled():  # captum differentiates each of these passes once
                model.cost.backward_passes += len(rows)
            return target_output(trace.logits, target[rows], self.output)

        embeddings = embeddings_of(model, batch.tensors)
        start = baseline_embeddings(model, batch, embeddings, self.baseline)
        rows = torch.arange(len(batch), device=embeddings.device)
        memory = max(len(batch), model.rows_per_chunk(batch.units.shape[1]))
        defaults = {"baselines": start, "additional_forward_args": (rows,), "internal_batch_size": memory}
        with seeded(batch.uids[0], self.seed, model.device), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._attribute(forward, embeddings, defaults).detach().to(model.scores_dtype).sum(-1)

    def _attribute(self, forward: Any, inputs: Tensor, defaults: Mapping[str, Any]) -> Tensor:
        made = algorithm_class(self.algorithm)
        constructor, call = (_parameters(function) for function in (made.__init__, made.attribute))
        given = self.arguments or {}
        for_constructor = {name: value for name, value in given.items() if name in constructor}
        for_call = {name: value for name, value in defaults.items() if name in call}
        for_call |= {name: value for name, value in given.items() if name in call}
        try:
            found: Tensor = made(forward, **for_constructor).attribute(inputs, **for_call)
        except AssertionError as error:  # captum's way to refuse a setting
            raise UserError(
                f"captum's {self.algorithm} refuses its arguments: {' '.join(str(error).split())}"
            ) from error
        return found

    def _chunks(self, model: Classifier, batch: Batch) -> Iterator[list[int]]:
        draws = "n_samples" in _parameters(algorithm_class(self.algorithm).attribute)
        size = 1 if draws else model.rows_per_chunk(batch.units.shape[1])
        for start in range(0, len(batch), size):
            yield list(range(len(batch)))[start : start + size]


def algorithm_class(name: str) -> Any:
    """The class of `captum.attr` that attributes to the inputs of a function; UserError with near names for another."""
    known = {key: value for key in captum.attr.__all__ if _attributes(value := getattr(captum.attr, key))}
    if name not in known:
        near = difflib.get_close_matches(name, _served(known), n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"allowed: {', '.join(sorted(_served(known)))}"
        raise UserError(f"algorithm={name} is no attribution class of captum.attr; {hint}")
    if name in _REFUSED:
        raise UserError(f"algorithm={name} cannot be served: {_REFUSED[name]}")
    if name not in _served(known):
        required = ", ".join(key for key in _required(known[name].__init__) if key not in _OURS)
        raise UserError(f"algorithm={name} needs the argument {required}, which is an object and no setting")
    return known[name]


def _attributes(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, CaptumAttribution) and hasattr(value, "attribute")


def _served(known: Mapping[str, Any]) -> set[str]:
    """Those whose constructor needs the function alone."""
    return {name for name, made in known.items() if _required(made.__init__) == ["forward_func"]} - set(_REFUSED)


def _check_arguments(algorithm: str, arguments: Mapping[str, Any]) -> None:
    made = algorithm_class(algorithm)
    known = [name for name in _parameters(made.__init__) | _parameters(made.attribute) if name not in _OURS]
    if reserved := [name for name in arguments if name in _OURS]:
        raise UserError(f"arguments.{reserved[0]} is set by the benchmark; allowed for {algorithm}: {', '.join(known)}")
    if unknown := [name for name in arguments if name not in known]:
        near = difflib.get_close_matches(unknown[0], known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"allowed: {', '.join(known) or 'none'}"
        raise UserError(f"arguments.{unknown[0]} is no argument of captum's {algorithm}; {hint}")
    required = [name for name in _required(made.attribute) if name not in _OURS]
    if missing := [name for name in required if name not in arguments]:
        raise UserError(f"arguments.{missing[0]} is not set, and captum's {algorithm} needs it")


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    return {name: parameter for name, parameter in found.items() if parameter.kind is not parameter.VAR_KEYWORD}


def _required(function: Any) -> list[str]:
    return [name for name, value in _parameters(function).items() if value.default is value.empty and name != "self"]


def _plain(value: Any) -> Any:
    """Dictionaries and tuples in place of a configuration's nodes."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _alone(batch: Batch, rows: list[int]) -> Batch:
    """These examples without columns that are padding in all of them, so that what is drawn is drawn for tokens."""
    tensors, units = take(batch, torch.tensor(rows, device=batch.units.device))
    return replace(batch.select(rows), tensors=tensors, units=units)
