"""Draws the mechanisms of docs/mechanisms.md as they are written: `python docs/mechanisms.py`.

Each panel is one input to BERT: below the words, above them a row for each layer. An arrow leads from a word that a head
looks at to the position that looks, as wide as its attention: blue where the edge is one of those that are known to carry
something, grey elsewhere. Words that speak for the answer are blue, those that speak against it red.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch

import benchmark
from benchmark.models.written.mechanisms import NAMES
from benchmark.models.written.truth import AGAINST, known_edges, known_heads
from benchmark.training.written import Written
from tasks.mechanism import MechanismTask

mpl.use("Agg")
from matplotlib import pyplot as plt

FOR, AGAINST_IT, OTHER = "#0b62a4", "#b3261e", "#8a8a8a"
SEEN = 0.04
COLUMNS = 3


def panel(axes: Any, name: str) -> None:
    """One mechanism."""
    task = MechanismTask(mechanism=name)
    model = benchmark.load_model(Written().resolve(task), dtype="float64", device="cpu")
    batch = model.encode_examples(task.split("test")[:1], model.label_map(task.labels))
    attention = torch.stack(model.run(batch, record=["attentions"]).attentions, dim=1)[0]
    edges, heads = known_edges(model, batch)[0], known_heads(model, batch)[0]
    pieces = model.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][0].tolist())[:-1]
    units, layers = batch.units[0].tolist(), model.n_layers
    places = {0: len(pieces) - 1.5, **{token: token - 1 for token in range(1, len(pieces))}}  # the reader at the right
    for token, piece in enumerate(pieces[1:-1], start=1):
        speaks = batch.rationale[0][units[token]]
        colour = FOR if speaks else AGAINST_IT if units[token] in batch.meta[0][AGAINST] else "#222222"
        weight = "bold" if colour != "#222222" else "normal"
        axes.text(
            places[token], -0.18, piece, ha="center", va="top", color=colour, weight=weight, fontsize=9, rotation=35
        )
    decide = {token for token in range(1, len(pieces) - 1) if batch.rationale[0][units[token]]}
    readers = {0} | {int(query) for _, query, _ in edges.nonzero().tolist()} | (decide if name == "late" else set())
    for layer, head, query, key in (attention > SEEN).nonzero().tolist():
        if query not in readers or key == 0 or key >= len(pieces) - 1 or query >= len(pieces) - 1:
            continue
        known = bool(edges[layer, query, key] and heads[layer, head])
        axes.annotate(
            "",
            xy=(places[query] + 0.04 * head, layer + 0.94),
            xytext=(places[key] + 0.04 * head, layer + 0.06),
            arrowprops={
                "arrowstyle": "-|>",
                "color": FOR if known else OTHER,
                "lw": 0.4 + 2.6 * float(attention[layer, head, query, key]),
                "alpha": 0.95 if known else 0.5,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
    for level in range(layers + 1):
        shown = [places[token] for token in range(1, len(pieces) - 1)] + ([places[0]] if level else [])
        axes.plot(shown, [level] * len(shown), ".", color="#444444", markersize=3)
    said = "yes" if int(batch.label[0]) else "no"
    axes.text(places[0], layers + 0.12, f"answer: {said}", ha="center", fontsize=9)
    axes.set_title(name, fontsize=11, weight="bold", loc="left")
    axes.set_xlim(-0.6, len(pieces) - 0.6)
    axes.set_ylim(-0.75, layers + 0.45)
    axes.axis("off")


def main() -> None:
    """Write `mechanisms.png`."""
    rows = -(-len(NAMES) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(4.2 * COLUMNS, 2.9 * rows))
    for place, own in enumerate(axes.flat):
        if place < len(NAMES):
            panel(own, NAMES[place])
        else:
            own.axis("off")
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("mechanisms.png"), dpi=110)


if __name__ == "__main__":
    main()
