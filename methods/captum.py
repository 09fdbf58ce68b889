"""Any attribution class of captum by its name: gradients over embeddings, perturbations over units."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import UserError, near
from benchmark.models import Classifier
from benchmark.models.variants import take
from benchmark.settings.availability import needs
from benchmark.settings.declared import configurable
from benchmark.settings.early import NameIn
from benchmark.targets import Target
from benchmark.types import Attribution, Batch
from methods.shared.input_gradients import (
    Baseline,
    Output,
    baseline_embeddings,
    embeddings_of,
    target_output,
    token_attribution,
)
from methods.shared.properties import MULTIPLIES_EMBEDDINGS
from methods.shared.seeds import seeded
from methods.shared.unit_game import MANY, UnitExplainer, UnitGame

_OURS = (
    "self", "forward_func", "inputs", "target", "baselines", "additional_forward_args", "feature_mask",
    "return_convergence_delta", "return_input_shape", "show_progress",
)  # fmt: skip
_ACROSS_EXAMPLES = "FeaturePermutation"  # permutes features between examples, and a score must not depend on others


@configurable
class Captum(UnitExplainer):
    """`captum.attr.<algorithm>(F, ...).attribute(x, ...)` with F the target's output, as token scores.

    A gradient algorithm explains the token embeddings before positions, and its scores are summed over dimensions. Where it
    takes baselines, they are `baseline` at units and the embeddings themselves at special tokens. A perturbation algorithm
    explains the presence of units (1, or 0 for one removed by `operator`), as LIME's interpretable input; every token has
    its unit's score. One example is explained at a time, and what is drawn is seeded by it. Algorithms of layers and neurons
    are refused. So are those that rewrite modules such as nn.ReLU, since a transformer's softmax, norms and products are no
    modules (see deeplift, lrp).

    Attributes:
        algorithm: name of a class of `captum.attr`.
        arguments: of its constructor and of its `attribute`, by name; lists become tuples. None: captum's defaults.
        baseline: "zero", "pad" or "mask", for gradient algorithms.
        operator, seed: of `UnitExplainer`.
        output: "logit" y_t, or "probability" p_t.

    Source: Kokhlikyan et al. 2020 (captum); that of the algorithm.
    Cost: that of the algorithm, and 1 forward pass (2 with a baseline token) for the embeddings.
    """

    algorithm: Annotated[str, NameIn("captum.attr")] = "IntegratedGradients"
    arguments: Mapping[str, Any] | None = None
    baseline: Baseline = "zero"
    output: Output = "logit"
    version: ClassVar[int] = 2
    properties: ClassVar[Mapping[str, str]] = {
        **UnitExplainer.properties,
        **MULTIPLIES_EMBEDDINGS,
        "deterministic: another seed": "some algorithms draw nothing",
    }

    def __post_init__(self) -> None:
        needs("captum", "captum")
        arguments = {name: _plain(value) for name, value in (self.arguments or {}).items()}
        object.__setattr__(self, "arguments", arguments)
        algorithm = algorithm_class(self.algorithm)
        of_call = _settable(algorithm.attribute)
        settable = _settable(algorithm.__init__) | of_call
        if unknown := [name for name in arguments if name not in settable]:
            nearest = near(unknown[0], list(settable))
            raise UserError(
                f"arguments.{unknown[0]} is no argument of captum's {self.algorithm} that can be set; {nearest}"
            )
        if missing := [
            name for name, value in of_call.items() if value.default is value.empty and name not in arguments
        ]:
            raise UserError(f"arguments.{missing[0]} is not set, and captum's {self.algorithm} needs it")

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores; raises UserError for an operator or a baseline token that the model does not have."""
        from captum.attr import GradientAttribution  # where captum is installed

        if not issubclass(algorithm_class(self.algorithm), GradientAttribution):
            return super().explain(model, batch, target)
        tokens = torch.zeros(batch.units.shape, dtype=model.scores_dtype, device=batch.units.device)
        for row, key in enumerate(batch.draw_keys):
            tensors, units = take(batch, torch.tensor([row], device=batch.units.device))  # draws are for tokens alone
            one = replace(batch.select([row]), tensors=tensors, units=units)
            with seeded(key, self.seed, model.device), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = self._over_embeddings(model, one, target[row : row + 1])
            alone = token_attribution(one, target[row : row + 1], scores.to(tokens)).tokens
            assert alone is not None
            tokens[row, : alone.shape[1]] = alone[0]
        return Attribution(target=target, tokens=tokens)

    def _values(self, game: UnitGame) -> Float[Tensor, "1 V"]:
        return self._attribute(game, game.everything, perturbations_per_eval=MANY)

    def _over_embeddings(self, model: Classifier, one: Batch, target: Target) -> Float[Tensor, "1 P"]:
        def forward(embeddings: Tensor) -> Tensor:
            rows = torch.zeros(len(embeddings), dtype=torch.long, device=embeddings.device)
            tensors = {name: tensor[rows] for name, tensor in one.tensors.items()}
            trace = model.run(tensors, embedding_edit=lambda _: embeddings, grad=torch.is_grad_enabled())
            if torch.is_grad_enabled():  # captum differentiates each of these passes once
                model.cost.backward_passes += len(rows)
            return target_output(model, trace.logits, target[rows], self.output)

        embeddings = embeddings_of(model, one.tensors)
        start = baseline_embeddings(model, one, embeddings, self.baseline)
        at_once = model.rows_per_chunk(one.units.shape[1])
        return self._attribute(forward, embeddings, baselines=start, internal_batch_size=at_once).detach().sum(-1)

    def _attribute(self, forward: Any, inputs: Tensor, **defaults: Any) -> Tensor:
        algorithm, arguments = algorithm_class(self.algorithm), dict(self.arguments or {})
        constructor, call = (inspect.signature(f).parameters for f in (algorithm.__init__, algorithm.attribute))
        of_constructor = {name: value for name, value in arguments.items() if name in constructor}
        of_call = {name: value for name, value in (defaults | arguments).items() if name in call}
        try:
            scores: Tensor = algorithm(forward, **of_constructor).attribute(inputs, **of_call)
        except AssertionError as error:  # captum's way to refuse a setting
            raise UserError(
                f"captum's {self.algorithm} refuses its arguments: {' '.join(str(error).split())}"
            ) from error
        return scores


def algorithm_class(name: str) -> Any:
    """The class of `captum.attr` that attributes to the inputs of a function; UserError with near names for another."""
    import captum.attr  # where captum is installed

    served = {key: value for key in captum.attr.__all__ if _takes_a_function(value := getattr(captum.attr, key))}
    served.pop(_ACROSS_EXAMPLES, None)
    if name not in served:
        raise UserError(f"algorithm={name} is no class of captum.attr that can be served; {near(name, sorted(served))}")
    return served[name]


def _takes_a_function(value: Any) -> bool:
    """Whether this is an attribution class whose constructor needs a function and nothing else."""
    from captum.attr import Attribution as CaptumAttribution

    if not (isinstance(value, type) and issubclass(value, CaptumAttribution) and hasattr(value, "attribute")):
        return False
    parameters = inspect.signature(value).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD] == ["forward_func"]


def _settable(function: Any) -> dict[str, inspect.Parameter]:
    """The parameters that the benchmark does not set itself."""
    parameters = inspect.signature(function).parameters.items()
    return {name: value for name, value in parameters if name not in _OURS and value.kind is not value.VAR_KEYWORD}


def _plain(value: Any) -> Any:
    """Dictionaries and tuples in place of a configuration's nodes."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value
