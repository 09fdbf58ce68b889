"""How much two draws of the sampling methods agree: `python -m tests.simulations.noise_of_sampling MODEL TABLE`."""

import argparse
import csv
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import benchmark
from benchmark.models import Classifier

DEFAULTS = {"lime": 100, "kernel_shap": 100, "shapley_sampling": 25, "smoothgrad": 25}


def texts_of(table: Path, count: int) -> list[str]:
    """The first sentences of a tab-separated table with 8 to 20 words."""
    with table.open(encoding="utf-8") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        chosen = [row["sentence"] for row in rows if 8 <= len(row["sentence"].split()) <= 20]
    return chosen[:count]


def agreement(model: Classifier, texts: list[str], method: str, samples: int, seeds: int) -> list[float]:
    """Of each text Spearman's ρ of the word scores of two seeds, mean over the pairs of seeds."""
    drawn = []
    for seed in range(seeds):
        built = benchmark.build(f"methods/{method}", f"samples={samples}", f"seed={seed}")
        drawn.append(benchmark.explain(model, texts, methods={"m": built}).scores()["m"])
    return [
        float(np.mean([spearmanr(one[i], other[i]).statistic for one, other in combinations(drawn, 2)]))
        for i in range(len(texts))
    ]


def rows(model_path: str, table: Path, count: int, settings: list[tuple[str, int]], seeds: int) -> Iterator[str]:
    """The rows of the table."""
    model, texts = benchmark.load_model(model_path, device="cpu"), texts_of(table, count)
    for method, samples in settings:
        found = agreement(model, texts, method, samples, seeds)
        yield f"| {method} | {samples} | {np.mean(found):.2f} | {min(found):.2f} | {len(texts)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("table", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--settings", nargs="*", default=[f"{name}={samples}" for name, samples in DEFAULTS.items()])
    given = parser.parse_args()
    chosen = [(name, int(samples)) for name, samples in (setting.split("=") for setting in given.settings)]
    print("| method | samples | mean ρ | least ρ | texts |\n|---|---|---|---|---|")
    for line in rows(given.model, given.table, given.count, chosen, given.seeds):
        print(line, flush=True)
