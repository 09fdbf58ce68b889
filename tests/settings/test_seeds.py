"""`seed=` is the seed of everything that draws, and of nothing that does not."""

from dataclasses import fields

import pytest

import benchmark
from benchmark.settings.configuration import compose
from benchmark.settings.identity import digest_of
from benchmark.settings.making import make

LEAST = {
    "methods": {"random", "lime", "smoothgrad", "kernel_shap", "shapley_sampling", "captum", "universal_trigger"},
    "evaluations": {"perturbation", "aopc", "rationale", "head_pruning", "kept_edges", "triggers", "agreement"},
    "analyses": {"axioms", "ranking_agreement", "universality"},
}


@pytest.mark.parametrize("group", LEAST)
def test_the_comparison_s_seed_reaches_what_draws(group):
    zero, three = (compose("config", [f"{group}=all", *more])[group] for more in ([], ["seed=3"]))
    drawn = set()
    for name in zero:
        default, other = make(zero[name]), make(three[name])
        if "seed" in {part.name for part in fields(default)}:
            drawn.add(str(name))
            assert (default.seed, other.seed) == (0, 3), name
        assert (digest_of(default) == digest_of(other)) == (name not in drawn), name
    assert drawn >= LEAST[group]


def test_a_seed_of_its_own_is_kept():
    config = compose("config", ["methods=[random]", "seed=3", "methods.random.seed=5"])
    assert make(config.methods.random).seed == 5
    assert benchmark.build("methods/random").seed == 0
    assert benchmark.build("methods/random", "seed=5").seed == 5
