"""The optimum equals brute force, no attribution graph exceeds it, and random trees are trees."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from benchmark.results.graph import attribution_graph, layer_shares, top_node
from benchmark.results.optimal_graph import RandomTrees, allowed_cells, best_tree


def brute_force(cells, weights, top):
    best = 0.0
    for size in range(1, len(cells) + 1):
        for chosen in combinations(range(len(cells)), size):
            if is_tree([cells[place] for place in chosen], top):
                best = max(best, sum(weights[place] for place in chosen))
    return best


def is_tree(cells, top):
    """Whether the cells are a tree below `top`, as the walk says, cell by cell."""
    appeared = {top}
    for _, query, key in sorted(cells, key=lambda cell: (-cell[0], cell[1])):
        if query not in appeared or key in appeared:
            return False
        appeared.add(key)
    return True


@pytest.mark.parametrize("seed", range(60))
def test_it_equals_brute_force_on_graphs_of_eight_edges(seed):
    random = np.random.default_rng(seed)
    n_layers, n_tokens, top = 4, 4, int(random.integers(4))
    every = allowed_cells(np.ones((n_layers, n_tokens, n_tokens), dtype=bool), "paper", top, None)
    cells = [every[place] for place in sorted(random.choice(len(every), 8, replace=False))]
    weights = random.normal(0.4, 1, size=8)
    found = best_tree(cells, weights, top)
    assert is_tree([cells[place] for place in found], top)
    assert weights[found].sum() == pytest.approx(brute_force(cells, weights, top))


def test_a_cell_that_costs_may_open_the_way():
    cells = [(1, 0, 1), (0, 1, 2)]
    assert best_tree(cells, np.array([-1.0, 3.0]), 0) == [0, 1]
    assert best_tree(cells, np.array([-4.0, 3.0]), 0) == []
    assert best_tree([], np.array([]), 0) == []


@pytest.mark.parametrize("construction", ["paper", "script"])
@pytest.mark.parametrize("seed", range(10))
def test_no_attribution_graph_exceeds_the_optimum(seed, construction):
    scores = np.random.default_rng(seed).normal(size=(5, 7, 7))
    graph = attribution_graph(scores, 0.2, construction=construction)
    top = top_node(scores, 0)
    cells = allowed_cells(layer_shares(scores, 0) > 0.2, construction, top, 0)
    greedy = [(edge.layer, edge.query, edge.key) for edge in graph.edges]
    assert greedy
    assert {*greedy} <= {*cells}
    assert is_tree(greedy, top)
    weights = np.array([scores[cell] for cell in cells])
    best = weights[best_tree(cells, weights, top)].sum()
    assert best >= sum(edge.score for edge in graph.edges) - 1e-9


@pytest.mark.parametrize("construction", ["paper", "script"])
def test_random_trees_are_trees_of_their_size(construction):
    random = np.random.default_rng(0)
    for size in range(6):
        tree = RandomTrees(np.ones((4, 6, 6), dtype=bool), construction, 2, 0).draw(size, random)
        assert len(tree) == size
        assert is_tree(tree, 2)
        if construction == "script":
            assert all(query != 0 and (layer < 2 or query == 2) for layer, query, _ in tree)
    assert len(RandomTrees(np.ones((4, 6, 6), dtype=bool), construction, 2, 0).draw(99, random)) == 5


@pytest.mark.parametrize("construction", ["paper", "script"])
@pytest.mark.parametrize("terminal", [None, 1])
def test_random_trees_are_of_cells_that_exist(construction, terminal):
    """And of all that the construction allows among these."""
    random = np.random.default_rng(3)
    exists = random.random((4, 5, 5)) < 0.6
    trees = RandomTrees(exists, construction, 2, terminal)
    allowed = set(allowed_cells(exists, construction, 2, terminal))
    drawn = {cell for _ in range(300) for cell in trees.draw(4, random)}
    assert drawn <= allowed
    assert {cell for cell in allowed if cell[1] == 2} <= drawn  # those below the top node can all be drawn
    assert all(is_tree(trees.draw(4, random), 2) for _ in range(20))


def test_the_first_cell_is_drawn_uniformly():
    random = np.random.default_rng(0)
    trees = RandomTrees(np.ones((3, 3, 3), dtype=bool), "paper", 0, None)
    drawn = Counter(trees.draw(1, random)[0] for _ in range(4000))
    assert {*drawn} == {(layer, 0, key) for layer in (0, 1) for key in (1, 2)}
    assert min(drawn.values()) > 900  # 1000 expected, standard deviation 27
