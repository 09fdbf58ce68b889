"""Could attention be quite another and the prediction the same (Jain & Wallace 2019)?

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate import adversary_tables as tables
from benchmark.analyses.debate.adversary import Search, search
from benchmark.analyses.debate.edited_runs import Selected, Unedited, Weights, taken
from benchmark.analyses.debate.found_attention import chosen, read_tokens, stored
from benchmark.analyses.debate.scopes import ALL_SCOPES, Keys, Scope, ScopeNames, scopes
from benchmark.analyses.resumed import Arrays
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.divergences import largest_jsd
from benchmark.results.tables import Table
from benchmark.settings.declared import Above, AtLeast, Count, Natural, configurable
from benchmark.types import Batch

_COPIES = 8  # of the attention of an example's restarts: logits, their gradients and moments, what is best, the graph
_BUDGETS = 16  # memory budgets of the model that they may take


@configurable
class AdversarialAttention(Analysis):
    """The attention that differs most from the model's own while its output stays within a total variation of ε.

    A' is searched by gradient from K restarts (`adversary.Search` has the loss), kept apart by their mutual divergence, for
    all examples and restarts of a batch at once. What is found is run again on its own, and counts where that run keeps

        ½ Σ_c |p'_c − p_c| ≤ ε.

    `largest JSD` of an example is the largest mean of JSD(A', A) over the rows and heads of the scope, in nats, among the
    restarts that count, and 0 where none does: a lower bound of the true maximum. It is at most ln 2, and at most `largest
    possible JSD`, that of the best A' whatever the output. Existence is not exclusivity: `restarts that find one` is the
    share of the K whose JSD exceeds `threshold`, `JSD between restarts` how different those are from each other.

    Tables: means; a histogram; each example; and for each word the attention that the classifier's token pays to it in the
    last layer, the model's own and the one found, with both outputs, which the page draws. The attention itself is kept in
    `analyses/adversarial_attention-….safetensors` of the comparison's folder (`found_attention.restored` reads it): of the
    read row all restarts, of other scopes the best one.

    Attributes:
        tolerance: ε.
        train: the total variation that the loss allows.
        threshold: the JSD above which attention is called quite another.
        restarts: K.
        steps, learning_rate, noise, penalty: of the search.
        scopes: which layers and rows; see `scopes.scopes`. One whose restarts would not fit into 16 times the model's memory
            budget is left out, which its line says.
        keys: which weights may change: those of all tokens, or those of words.
        seed: of the restarts.

    Source: Jain & Wallace 2019, section 4.2.2; K, ε and what is reported are the paper's, the optimiser's settings and the
    start from the model's own logits are this project's.
    Cost: restarts × steps × (L + 3) / 2 forward and as many backward passes with all scopes. On `planted` with the tiny
    model about 7 s an example on one core.
    """

    version: ClassVar[int] = 2

    tolerance: Annotated[float, Above(0)] = 0.05
    train: Annotated[float | int, AtLeast(0)] = 0.01
    threshold: Annotated[float, Above(0)] = 0.4
    restarts: Count = 5
    steps: Count = 50
    learning_rate: Annotated[float | int, Above(0)] = 1.0
    noise: Annotated[float | int, AtLeast(0)] = 3.0
    penalty: Annotated[float | int, AtLeast(0)] = 500.0
    limit: Count | None = 10
    scopes: ScopeNames = ALL_SCOPES
    keys: Keys = "tokens"
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Means, histogram, examples, and the words of each.

        Raises:
            NotApplicable: no scope fits into memory.
        """
        setting = context.setting.limited(self.limit)
        batches = setting.data.batches
        fitting = self._fitting(setting.model, max(batch.units.shape[1] for batch in batches))
        served = [scope for scope, reason in fitting.items() if not reason]
        if not served:
            raise NotApplicable(next(iter(fitting.values())))

        def compute(batch: Batch) -> Arrays:
            return self._of(Unedited.of(setting.model, batch), served)

        found = self.by_example(context, setting, compute, "adversarial attention", keep=True)
        told = tables.Told(found, setting.data.labels, self.tolerance, self.threshold, self.restarts)
        refused = {scope.name: reason for scope, reason in fitting.items() if reason}
        names = [scope.name for scope in served]
        shown = [tables.means(told, served, refused), tables.histogram(told, names), tables.examples(told, names)]
        read = [scope.name for scope in served if scope.key == "read_row"]
        return [*shown, *(tables.words(told, name, batches) for name in read)]

    def _fitting(self, model: Classifier, length: int) -> dict[Scope, str]:
        """The scopes, each with why it is left out, or with nothing."""
        most = _BUDGETS * model.memory_budget
        reasons = {}
        for scope in scopes(model, self.scopes):
            rows = sum(1 if i in scope.read_only else length for i in scope.layers)
            needed = _COPIES * self.restarts * rows * length * model.n_heads * torch.finfo(model.dtype).bits // 8
            short = f"the search needs {needed / 2**30:.1f} GiB for one example; raise model.memory_budget"
            reasons[scope] = short if needed > most else ""
        return reasons

    def _of(self, unedited: Unedited, served: Sequence[Scope]) -> Arrays:
        arrays = {"predicted": unedited.predicted.cpu().numpy()}
        for scope in served:
            arrays |= self._found(unedited.within(scope, self.keys))
        return arrays

    def _found(self, selected: Selected) -> dict[str, NDArray]:
        how = Search(
            self.restarts,
            self.steps,
            self.learning_rate,
            self.noise,
            self.train,
            self.tolerance,
            self.penalty,
            self.seed,
        )
        found = search(selected, how, self.threshold)
        best = found.divergence.nan_to_num(0.0).argmax(1)
        reads = len(selected.rows) == 1 and max(selected.rows) == selected.unedited.model.n_layers - 1
        kept = found.weights if reads else chosen(found.weights, best)
        facts = {
            tables.DIVERGENCE: found.divergence,
            tables.CHANGE: found.change,
            tables.BETWEEN: found.between,
            tables.POSSIBLE: largest_possible(selected),
        }
        arrays = {f"{selected.scope.name}/{name}": value.cpu().numpy() for name, value in facts.items()}
        if reads:
            arrays |= _read(selected, {i: given[:, 0] for i, given in chosen(found.weights, best).items()})
        return arrays | dict(stored(selected, kept))


def _read(selected: Selected, found: Weights) -> dict[str, NDArray]:
    """What the classifier's token reads with its own attention and with the one found [B H R T], and both outputs."""
    (layer,) = selected.rows
    example = torch.arange(len(selected.count), device=selected.count.device)
    return {
        tables.OWN: np.concatenate(read_tokens(selected, selected.weights[layer])),
        tables.FOUND: np.concatenate(read_tokens(selected, found[layer])),
        tables.OWN_OUTPUT: selected.unedited.probabilities.cpu().numpy(),
        tables.FOUND_OUTPUT: selected.probabilities(example, taken(found)).cpu().numpy(),
    }


def largest_possible(selected: Selected) -> torch.Tensor:
    """The mean over the edited rows and heads [B] of the largest JSD that any attention has with the row."""
    largest = {}
    for i, weights in selected.weights.items():
        movable = selected.rows[i].movable[:, None].expand_as(weights)
        largest[i] = largest_jsd(weights.double(), movable)
    return selected.mean(largest, torch.arange(len(selected.count), device=selected.count.device))
