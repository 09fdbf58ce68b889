"""Does attention agree less with importance, the more its states know of their context? (Jain & Wallace 2019).

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.read_attention import conicity
from benchmark.analyses.debate.trained import training_examples
from benchmark.analyses.differences import Difference, difference_lines
from benchmark.analyses.means import SHARE, correlation_lines, mean_line
from benchmark.analyses.measured import figure_line
from benchmark.evaluations import ranks
from benchmark.models.divergences import total_variation
from benchmark.results.statistics import interval
from benchmark.results.tables import Drawing, Table, frame
from benchmark.run.workbench import sample
from benchmark.settings.declared import Count, Distinct, Natural, configurable
from benchmark.training.pooled import PooledRecipe, WordModel
from benchmark.types import Example

Values = NDArray[np.float64]

_REFERENCES = {"gradient": "gradient", "leave_one_out": "leave-one-out"}
"""Key of each reference -> what it is called, in the order of the columns of τ_b."""
_CONICITY, _ACCURACY = "conicity", "accuracy"
_ROWS = 2048  # texts with one word left out that are run at once
_BATCH = 32


@dataclass(frozen=True)
class Measured:
    """What is measured of a word classifier on N examples.

    Attributes:
        taus: [N 2], τ_b of attention with gradient and with leave-one-out importance; NaN where it is undefined.
        conicity: [N], of the states that attention pools; NaN for a text without words.
        correct: [N], 1 where the predicted class is the annotated one, else 0.
    """

    taus: Values
    conicity: Values
    correct: Values


@configurable
class Contextualisation(Analysis):
    """Kendall's τ_b of attention with importance in word classifiers with more and more contextual layers.

    The classifiers (`PooledRecipe`) are trained on the comparison's task; they differ in the number of self-attention
    layers under one additive attention α. Importance of word j:

    - gradient: `|Σ_d ∂p_t/∂e[j,d] · e[j,d]|` for the predicted class t, with α held constant;
    - leave-one-out: total variation between the outputs for the text and for the text without word j.

    Beside them stands the conicity `mean_i |cos(h_i, mean_j h_j)|` of the states h that α pools (`read_attention.conicity`):
    Mohankumar et al. 2020 find that attention agrees less with importance where they lie in a narrow cone.

    There is one classifier for each number of layers. The intervals are over examples, and not over trainings.

    Attributes:
        layers: how many contextual layers.
        recipe: how the classifiers are trained.
        limit: how many examples of the comparison's split; None for all.
        seed: of the draw of the examples.

    Source: Jain & Wallace 2019, section 4.1: τ_b with the gradient is lower over a BiLSTM than over averaged embeddings;
    Mohankumar et al. 2020 for conicity.
    Cost: the trainings once per task (seconds to a minute each), and a forward pass of a small model per word.
    """

    layers: Annotated[Sequence[Natural], Distinct()] = (0, 1, 2, 4)
    recipe: PooledRecipe = field(default_factory=PooledRecipe)
    limit: Count | None = 200
    seed: Natural = 0
    version: ClassVar[int] = 3

    def __call__(self, context: Context) -> Sequence[Table]:
        """τ_b, conicity and accuracy by number of layers; and how the deepest differs from the shallowest."""
        task = context.setting.task
        training_examples(task)
        examples = sample(task.split(context.setting.config.split), self.limit, self.seed)
        taus: dict[int, Values] = {}
        rows: list[dict[str, Any]] = []
        for layers in self.layers:
            found = measured(self.recipe.model(task, layers), examples)
            taus[layers] = found.taus
            labels = {"contextual layers": layers}
            for place, reference in enumerate(_REFERENCES.values()):
                rows += correlation_lines(labels, reference, found.taus[:, place])
            rows.append(mean_line(labels, _CONICITY, found.conicity, SHARE, "no text has words"))
            rows.append(figure_line(labels, _ACCURACY, interval(found.correct, bounds=SHARE)))
        return [
            Table(
                name="contextualisation",
                title="Attention's agreement with importance, conicity, and accuracy, by number of contextual layers",
                labels=("contextual layers",),
                rows=pd.DataFrame(rows),
                drawing=Drawing(
                    "curves",
                    x="contextual layers",
                    y=(*(f"τ_b with {reference}" for reference in _REFERENCES.values()), _CONICITY, _ACCURACY),
                ),
            ),
            _differences(taus[min(self.layers)], taus[max(self.layers)], min(self.layers), max(self.layers)),
        ]


def _differences(shallow: Values, deep: Values, fewest: int, most: int) -> Table:
    questions = []
    for place, (key, reference) in enumerate(_REFERENCES.items()):
        lost = shallow[:, place] - deep[:, place]
        labels = {
            "reference": reference,
            "question": f"is τ_b higher with {fewest} contextual layers than with {most}?",
        }
        questions.append(Difference(labels, lost[np.isfinite(lost)], reach=(-2.0, 2.0), key=key))
    rows, sentences = difference_lines(questions)
    return Table(
        name="contextualisation_differences",
        title="Does attention agree less with importance where its states know more of their context?",
        labels=("reference", "question"),
        rows=frame(rows, ("reference", "question")),
        sentences=tuple(sentences),
    )


def measured(model: WordModel, examples: Sequence[Example]) -> Measured:
    """The word classifier's figures of every example."""
    taus, cones, correct = [], [], []
    for start in range(0, len(examples), _BATCH):
        part = examples[start : start + _BATCH]
        ids, mask = model.encode(part)
        attention, gradient, predicted = gradient_importance(model, ids, mask)
        removal = leave_one_out(model, ids, mask)
        cones += conicity(model.network.states(model.network.embeddings(ids), mask), mask).tolist()
        for b, example in enumerate(part):
            words = mask[b]
            row = attention[b, words].double().numpy()[None]
            taus.append(
                [float(ranks.tau_b(row, column[b, words].double().numpy())[0]) for column in (gradient, removal)]
            )
            correct.append(float(predicted[b] == example.label))
    return Measured(np.array(taus), np.array(cones), np.array(correct))


def gradient_importance(
    model: WordModel, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"], Int[Tensor, "B"]]:
    """Attention, gradient importance with the attention held constant, and the predicted class."""
    embeddings = model.network.embeddings(ids).detach()
    logits, attention = model.network(embeddings, mask)
    predicted = logits.argmax(-1)
    leaf = embeddings.clone().requires_grad_()
    with torch.enable_grad():
        held, _ = model.network(leaf, mask, attention.detach())
        (gradient,) = torch.autograd.grad(held.softmax(-1).gather(1, predicted[:, None]).sum(), leaf)
    return attention.detach(), (gradient * embeddings).sum(-1).abs(), predicted


def leave_one_out(model: WordModel, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Total variation between the outputs for a text and for the text without each of its words; 0 at padding."""
    with torch.no_grad():
        whole = model.network(model.network.embeddings(ids), mask)[0].softmax(-1)
        importance: Tensor = whole.new_zeros(ids.shape)
        for rows, columns in _chunks(mask):
            kept = torch.arange(ids.shape[1] - 1)
            kept = kept + (kept >= columns[:, None])
            part, seen = ids[rows].gather(1, kept), mask[rows].gather(1, kept)
            without = model.network(model.network.embeddings(part), seen)[0].softmax(-1)
            importance[rows, columns] = total_variation(whole[rows], without)
    return importance


def _chunks(mask: Bool[Tensor, "B T"]) -> Iterator[tuple[Int[Tensor, "R"], Int[Tensor, "R"]]]:
    """Example and word of each text with one word left out, some at once."""
    rows, columns = mask.nonzero(as_tuple=True)
    yield from zip(torch.split(rows, _ROWS), torch.split(columns, _ROWS), strict=True)
