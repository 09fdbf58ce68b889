"""Models of two and three layers, batches of several lengths and edge scores, for the tests of edges."""

from dataclasses import replace

import numpy as np
import torch

from benchmark.checking import small_models
from benchmark.run.arrays import without_padding
from benchmark.types import Attribution
from methods.attention_explainer import AttentionExplainer
from methods.edges.product import FactorProduct
from methods.readouts.column_sum import ColumnSum

FAMILIES = ("bert", "gpt2", "vit")


def load(family, folder):
    model = small_models.load(family, folder)
    batch = model.encode(small_models.inputs(family), labels=[0, 2, -1])
    rationale = tuple(np.arange(int(n)) % 3 == 0 if b != 1 else None for b, n in enumerate(batch.n_units))
    return model, replace(batch, rationale=rationale)


def scored(model, batch):
    """Edge scores of a published kind, as a cell gives them to an evaluation."""
    method = AttentionExplainer(FactorProduct(("attention", "gradient")), ColumnSum())
    target = model.predict(batch)
    return Attribution(target=target, edges=without_padding(method.edge_scores(model, batch, target), batch))


def selected(batch, attribution, rows):
    """Some examples alone, in another order."""
    own = Attribution(target=attribution.target[rows], edges=attribution.edges[rows])
    return batch.select(rows), own


def same_rows(a, b, tolerance=1e-9):
    """Whether two tables hold the same rows, in whatever order."""
    columns = ["metric", "uid", "x"]
    a, b = (frame.sort_values(columns).reset_index(drop=True) for frame in (a, b))
    assert a[columns].equals(b[columns])
    np.testing.assert_allclose(a["value"], b["value"], atol=tolerance, rtol=0)


def no_edges(batch):
    return Attribution(target=torch.zeros(len(batch), dtype=torch.long))
