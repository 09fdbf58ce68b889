"""Copies of a model whose weights are drawn anew, module by module from the output to the input (Adebayo et al. 2018).

A matrix, an embedding and any other parameter of two or more dimensions is drawn from N(0, σ²), σ the configuration's
`initializer_range` (.02 where it has none); the biases of matrices become 0; norms keep their weights and biases, as do
other parameters of one dimension. Every parameter has a stream of random numbers of its own, so that two matrices of one
shape are not equal, and none depends on which others are drawn.
"""

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from benchmark.errors import NotApplicable
from benchmark.models.blocks import blocks_of
from benchmark.models.classifier import Classifier
from benchmark.models.precision import Twin, WeightParts, around
from benchmark.randomness import generator

HEAD, POOLER, EMBEDDINGS = "head", "pooler", "embeddings"
_RANGE = 0.02


@dataclass(frozen=True)
class Stage:
    """A module, or several that stand at one place, whose parameters are drawn together.

    Attributes:
        name: `head`, `pooler`, `block 3` (counted from 1), `embeddings`.
        parameters: names of its parameters.
    """

    name: str
    parameters: tuple[str, ...]


def stages_of(model: Classifier) -> list[Stage]:
    """The modules of a model from the output to the input; those without a parameter of two dimensions are left out.

    Blocks come in the reverse order of their execution, one that is run several times where it is run last. What belongs to
    no block, no pooler and no head (norms apart) stands with the embeddings. A head that is tied to the embeddings is drawn
    with them.
    """
    names = {id(parameter): name for name, parameter in model.model.named_parameters()}
    base = getattr(model.model, getattr(model.model, "base_model_prefix", "") or "", model.model)
    inner = {id(parameter) for parameter in base.parameters()}
    blocks = list({id(block): block for block in blocks_of(model.model, model.attention_modules)}.values())
    of_blocks = [[names[id(parameter)] for parameter in block.parameters()] for block in blocks]
    pooler = getattr(base, "pooler", None)
    of_pooler = [names[id(parameter)] for parameter in pooler.parameters()] if isinstance(pooler, nn.Module) else []
    head = [name for key, name in names.items() if key not in inner]
    known = {*head, *of_pooler, *(name for own in of_blocks for name in own)}
    rest = [name for name in names.values() if name not in known]
    numbered = [(f"block {number}", own) for number, own in enumerate(of_blocks, 1)][::-1]
    stages = [(HEAD, head), (POOLER, of_pooler), *numbered, (EMBEDDINGS, rest)]
    shapes = {name: parameter.ndim for name, parameter in model.model.named_parameters()}
    return [Stage(name, tuple(own)) for name, own in stages if any(shapes[one] > 1 for one in own)]


def freshly(model: Classifier, stages: Sequence[Stage], seed: int) -> Classifier:
    """The classifier with the parameters of these stages drawn anew; its fingerprint says so, and nothing else is shared.

    Args:
        model: the trained model, which is only read.
        stages: of `stages_of`.
        seed: of the draw.

    Raises:
        NotApplicable: the weights are quantised, and cannot be drawn.
    """
    module = copy.deepcopy(model.model)
    drawn = {name for stage in stages for name in stage.parameters}
    owners = {
        f"{path}.{name}" if path else name: part
        for path, part in module.named_modules()
        for name, _ in part.named_parameters(recurse=False)
    }
    deviation = float(getattr(model.config, "initializer_range", None) or _RANGE)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name not in drawn:
                continue
            if not parameter.is_floating_point():
                raise NotApplicable("weights that are quantised cannot be drawn anew")
            if parameter.ndim > 1:
                values = generator(seed, "fresh weights", name).standard_normal(tuple(parameter.shape))
                parameter.copy_(torch.from_numpy(deviation * values).to(parameter))
            elif _is_bias_of_matrix(owners[name], parameter):
                parameter.zero_()
    told = "\0".join([model.fingerprint, str(seed), *(stage.name for stage in stages)])
    fresh = around(model, module.eval())
    return replace(
        fresh, twin=Twin(), weight_parts=WeightParts(), fingerprint=hashlib.sha256(told.encode()).hexdigest()
    )


def _is_bias_of_matrix(owner: nn.Module, parameter: nn.Parameter) -> bool:
    """Whether a vector is the bias of a module whose weight is a matrix; that of a norm is not."""
    weight = getattr(owner, "weight", None)
    return getattr(owner, "bias", None) is parameter and weight is not None and weight.ndim > 1
