"""Adversarial attention: weights that differ most from a model's own while its prediction stays (Jain & Wallace 2019).

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.analyses.debate.edited_runs import Selected, Weights, taken
from benchmark.models.divergences import entropy, jsd, total_variation
from benchmark.randomness import generator

_MARGIN = 1e-4  # of the tolerance: a search that keeps to it holds in another batch too, up to rounding
_BETAS, _TINY = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class Search:
    """How adversarial attention is searched.

    With A the model's attention, A_k that of restart k, p_k its output, D the mean of JSD over the edited rows and heads and
    J likewise that of the divergence of all K from their mean, H(mean_k A_k) − mean_k H(A_k), Adam minimises for each
    example, over logits whose softmax is A_k,

        −Σ_k D(A_k, A) − ½ J(A_1, …, A_K) + penalty / K · Σ_k max(0, TVD(p_k, p) − train)

    Attributes:
        restarts: K.
        steps: of Adam.
        learning_rate: of the first step, from which it falls to 0 along half a cosine.
        noise: standard deviation of what is added to the model's own logits, ln A, where a restart begins; the first one
            begins at −ln A, brought to this standard deviation in each row.
        train: total variation that the loss allows.
        tolerance: total variation that an adversary may have; of the attention that a restart has seen, the one of the
            largest D within it counts.
        penalty: see above.
        seed: of the noise.
    """

    restarts: int
    steps: int
    learning_rate: float
    noise: float
    train: float
    tolerance: float
    penalty: float
    seed: int


@dataclass(frozen=True)
class Adversaries:
    """What a search found for B examples, K restarts each.

    Attributes:
        weights: by layer the attention in the edited rows [B K H R T]; the model's own where a restart found none.
        divergence: D(A_k, A); 0 where there is none, NaN where no row is edited.
        change: total variation of the output, from a run of its own on these weights.
        between: mean of D(A_k, A_m) over pairs of restarts that both reach `threshold`; NaN where fewer than two do.
    """

    weights: Weights
    divergence: Float[Tensor, "B K"]
    change: Float[Tensor, "B K"]
    between: Float[Tensor, "B"]


def search(selected: Selected, how: Search, threshold: float) -> Adversaries:
    """Search every example of a batch, in parts of one pass each, all restarts of an example together."""
    n_examples, device = len(selected.unedited.batch), selected.count.device
    per_part = max(1, selected.rows_per_pass // how.restarts)
    numbers = torch.arange(n_examples, device=device)
    parts = [_searched(selected, numbers[i : i + per_part], how) for i in range(0, n_examples, per_part)]
    weights = {i: torch.cat([part[i] for part in parts]) for i in selected.rows}
    return checked(selected, weights, how.tolerance, threshold)


def checked(selected: Selected, weights: Weights, tolerance: float, threshold: float) -> Adversaries:
    """What given weights [B K H R T] are worth, when the model runs on them; those beyond the tolerance become its own."""
    n_examples, restarts = next(iter(weights.values())).shape[:2]
    example = torch.arange(n_examples, device=selected.count.device).repeat_interleave(restarts)
    flat = {i: given.flatten(0, 1) for i, given in weights.items()}
    change = total_variation(
        selected.probabilities(example, taken(flat)),
        selected.unedited.probabilities[example],
    )
    holds = change <= tolerance
    flat = {i: torch.where(_column(holds), given, selected.weights[i][example]) for i, given in flat.items()}
    divergence = distance(selected, example, flat, {i: own[example] for i, own in selected.weights.items()})
    weights = {i: given.view(n_examples, restarts, *given.shape[1:]) for i, given in flat.items()}
    divergence, change = (values.view(n_examples, restarts) for values in (divergence, change.where(holds, 0.0)))
    return Adversaries(weights, divergence, change, _between(selected, weights, divergence, threshold))


def distance(selected: Selected, example: Int[Tensor, "N"], one: Weights, other: Weights) -> Float[Tensor, "N"]:
    """D: the mean over the edited rows of all layers and heads of JSD, in float64."""
    return selected.mean({i: jsd(one[i].double(), other[i].double()) for i in one}, example)


def _between(
    selected: Selected, weights: Weights, divergence: Float[Tensor, "B K"], threshold: float
) -> Float[Tensor, "B"]:
    """The mean D between two restarts of an example that both reach the threshold."""
    found, example = divergence > threshold, torch.arange(len(divergence), device=divergence.device)
    total, count = torch.zeros_like(divergence[:, 0]), torch.zeros_like(divergence[:, 0])
    for k, m in combinations(range(divergence.shape[1]), 2):
        both = found[:, k] & found[:, m]
        one, other = ({i: given[:, which] for i, given in weights.items()} for which in (k, m))
        total += torch.where(both, distance(selected, example, one, other), 0.0)
        count += both
    return torch.where(count > 0, total / count, torch.nan)


def _searched(selected: Selected, examples: Int[Tensor, "E"], how: Search) -> Weights:
    """The best attention of every restart that kept within the tolerance while it was searched [E K H R T]."""
    example = examples.repeat_interleave(how.restarts)
    own = {i: given[example] for i, given in selected.weights.items()}
    movable = {i: rows.movable[example][:, None] for i, rows in selected.rows.items()}
    mass = {i: (given * movable[i]).sum(-1, keepdim=True) for i, given in own.items()}
    logits = {i: start.requires_grad_() for i, start in _starts(selected, example, how).items()}
    adam = torch.optim.Adam(list(logits.values()), lr=how.learning_rate, betas=_BETAS, eps=_TINY)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, how.steps)
    best, best_distance = dict(own), selected.count.new_zeros(len(example), dtype=torch.float64)
    output = selected.unedited.probabilities[example]
    for _ in range(how.steps):
        with torch.enable_grad():
            attention = {i: _softmax(logits[i], movable[i], mass[i], own[i]) for i in own}
            changed = selected.logits(example, attention, grad=True).double().softmax(-1)
            change = total_variation(changed, output)
            divergence, apart = _divergences(selected, example, attention, own, how.restarts)
            loss = _loss(divergence, apart, change, how)
        gradients = selected.unedited.model.gradients(loss, list(logits.values()))
        better = (change <= how.tolerance * (1 - _MARGIN)) & (divergence > best_distance)
        best = {i: torch.where(_column(better), attention[i].detach(), best[i]) for i in own}
        best_distance = torch.where(better, divergence.detach().double(), best_distance)
        for parameter, gradient in zip(logits.values(), gradients, strict=True):
            parameter.grad = gradient.to(parameter.dtype)
        adam.step()
        falling.step()
    return {i: given.view(len(examples), how.restarts, *given.shape[1:]) for i, given in best.items()}


def _divergences(
    selected: Selected, example: Int[Tensor, "N"], attention: Weights, own: Weights, restarts: int
) -> tuple[Float[Tensor, "N"], Float[Tensor, "E"]]:
    """D(A_k, A) of every restart and J of every example; the entropy of each A_k is computed once for both."""
    toward, apart = {}, {}
    for i, given in attention.items():
        each = entropy(given)
        toward[i] = entropy((given + own[i]) / 2) - (each + entropy(own[i])) / 2
        together = given.view(-1, restarts, *given.shape[1:])
        apart[i] = entropy(together.mean(1)) - each.view(-1, restarts, *each.shape[1:]).mean(1)
    return selected.mean(toward, example), selected.mean(apart, example[::restarts])


def _loss(
    divergence: Float[Tensor, "N"], apart: Float[Tensor, "E"], change: Float[Tensor, "N"], how: Search
) -> Float[Tensor, "E"]:
    """The loss of each example; 0 where no row of it is edited."""
    excess = (change - how.train).clamp(min=0)
    each = (how.penalty / how.restarts * excess - divergence).view(-1, how.restarts).sum(1)
    return (each - apart / 2).nan_to_num(0.0)


def _softmax(logits: Tensor, movable: Tensor, mass: Tensor, own: Tensor) -> Tensor:
    """The mass of each row's movable keys spread by the softmax of their logits; other keys keep their own weight."""
    shares = logits.masked_fill(~movable, -torch.inf).softmax(-1).nan_to_num(0.0)
    return torch.where(movable, shares * mass, own)


def _starts(selected: Selected, example: Int[Tensor, "N"], how: Search) -> Mapping[int, Tensor]:
    """Logits of every restart; they depend on the example and the restart, not on the padding of its batch.

    JSD is convex, so that every corner of the simplex is a local maximum and a search ends near where it began. The first
    restart begins with the order of the weights reversed, next to the farthest corner; the others at ln A with noise.
    """
    restart = torch.arange(len(example), device=example.device).remainder(how.restarts)
    starts = {}
    for i, own in selected.weights.items():
        draws = zip(example.tolist(), restart.tolist(), strict=True)
        noise = torch.stack([_noise(selected, i, b, k, how.seed) for b, k in draws])
        logarithm = own[example].clamp(min=torch.finfo(own.dtype).eps).log()
        reversed_order = -how.noise * _standardised(logarithm, selected.rows[i].movable[example][:, None])
        starts[i] = torch.where(_column(restart == 0), reversed_order, logarithm + how.noise * noise.to(own))
    return starts


def _standardised(values: Tensor, movable: Tensor) -> Tensor:
    """Values less their mean, over their standard deviation, of the movable keys of each row."""
    count = movable.sum(-1, keepdim=True).clamp(min=1)
    centred = (values - (values * movable).sum(-1, keepdim=True) / count) * movable
    deviation = ((centred**2).sum(-1, keepdim=True) / count).sqrt()
    return centred / deviation.clamp(min=torch.finfo(values.dtype).eps)


def _noise(selected: Selected, layer: int, example: int, restart: int, seed: int) -> Float[Tensor, "H R T"]:
    """Standard normal numbers of one example, restart and layer; 0 at padding."""
    batch, weights = selected.unedited.batch, selected.weights[layer]
    length = int(batch.attention_mask[example].sum())
    _, n_heads, n_rows, n_tokens = weights.shape
    random = generator(seed, "adversarial attention", batch.uids[example], str(restart), str(layer))
    drawn = torch.from_numpy(random.standard_normal((n_heads, min(n_rows, length), length)))
    return torch.nn.functional.pad(drawn, (0, n_tokens - length, 0, n_rows - drawn.shape[1]))


def _column(flags: Tensor) -> Tensor:
    return flags[:, None, None, None]
