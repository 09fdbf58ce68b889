"""`benchmark.graph`: the attribution graph of one text, as a picture in a notebook, as lines and as a table."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.edges import terminals, unpadded
from benchmark.models import Classifier
from benchmark.models.guard import Look
from benchmark.notebook.choices import choose
from benchmark.notebook.explanation import repeatable
from benchmark.notebook.given import Inputs, checked_model, target_of
from benchmark.report.graphs import DrawnGraph, pictures
from benchmark.results.graph import THRESHOLD, AttributionGraph, attribution_graph, check_construction, check_threshold
from benchmark.run.explaining import Checked, edge_sums
from benchmark.run.views import token_strings


@dataclass(frozen=True, repr=False)
class Graph:
    """The attribution graph of one text by one method.

    Attributes:
        method: the explainer's name.
        target: what is explained, as a person reads it.
        graph: nodes and edges.
    """

    method: str
    target: str
    graph: AttributionGraph

    def table(self) -> pd.DataFrame:
        """The edges in the order in which they were added: layer, key (read) → query (reads), score, share of the layer."""
        tokens = self.graph.tokens
        return pd.DataFrame(
            [(edge.layer, tokens[edge.key], tokens[edge.query], edge.score, edge.share) for edge in self.graph.edges],
            columns=["layer", "key", "query", "score", "share"],
        )

    def png(self) -> bytes:
        """The picture: tokens along the text, layers as height, arrows the way that information flows."""
        return pictures(DrawnGraph(self.method, "text", self.target, self.graph))["png"]

    def _repr_png_(self) -> bytes:
        return self.png()

    def __repr__(self) -> str:
        graph = self.graph
        if graph.top is None:
            return f"{self.method}, τ = {graph.threshold:g}: no token has a positive sum"
        head = f"{self.method}, class {self.target}, τ = {graph.threshold:g}: all leads to '{graph.tokens[graph.top]}'"
        edges = self.table().to_dict("records")
        return "\n".join([head, *(f"  layer {edge['layer']}: {edge['key']} → {edge['query']}" for edge in edges)])


def graph(
    model: Classifier,
    text: Any,
    method: Any = "attattr",
    *,
    tau: float = THRESHOLD,
    construction: str = "paper",
    target: Any = None,
    against: Any = None,
) -> Graph:
    """The attribution graph of a text (Hao 2021, Algorithm 1), which its strongest edges of each layer form.

    Args:
        model: what `benchmark.load_model` returns.
        text: one text, pair or image, as `benchmark.explain` takes it.
        method: one that scores edges: a name, a list of it and settings (`["attattr", "methods.attattr.edges.steps=5"]`), or
            an object.
        tau: τ; an edge belongs to the graph where its score is more than τ times the largest of its layer.
        construction: `paper` for Algorithm 1, `script` for the published code.
        target: the class that is explained: a name or an index; None: the predicted one.
        against: a class: explained is then why the target rather than that one.

    Returns:
        The graph: the last line of a notebook's cell shows it as a picture, `print` as lines, `.table()` its edges.

    Raises:
        UserError: a name, a setting or a class that does not exist, or a method that scores no edges.

    Example:
        >>> found = benchmark.graph(model, "a fine film", tau=0.2)
        >>> found.table().columns.tolist()
        ['layer', 'key', 'query', 'score', 'share']
        >>> found.graph.layers
        2
    """
    model = checked_model(model)
    inputs = Inputs.of(text, images=model.encoder.patch is not None)
    if len(inputs.values) != 1:
        raise UserError(f"graph is of one text, and {len(inputs.values)} were given; call it for each")
    threshold, how = check_threshold(tau, "tau"), check_construction(construction)
    batch = model.encode(inputs.values)
    chosen = choose("methods", method, dict(zip(batch.uids, inputs.values, strict=True)))
    if len(chosen) != 1:
        raise UserError(f"graph is of one method, and {len(chosen)} were given: {', '.join(chosen)}")
    ((name, explainer),) = chosen.items()
    with repeatable(model):
        explained = target_of(model, target, against, model.run(batch).logits.argmax(-1))
        before = Look(model)
        try:
            found, ends = edge_sums(Checked(name, explainer), model, batch, explained), terminals(model, batch)
        except NotApplicable as reason:
            raise UserError(f"{name} has no attribution graph: {reason}") from reason
        before.check(f"methods.{name}")
    (scores,) = unpadded(batch, found)
    of_text = attribution_graph(
        scores,
        threshold,
        construction=how,
        terminal=ends[0],
        tokens=token_strings(model, batch, 0),
        units=batch.units[0, : scores.shape[1]].tolist(),
    )
    return Graph(name, explained.names(model.labels)[0], of_text)
