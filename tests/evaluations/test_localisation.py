"""Pointing, energy and segmentation on 4 × 4 maps, beside what a hand counts and what the published program computes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from benchmark.errors import NotApplicable
from benchmark.evaluations.localisation import Localisation, boxes, energy, pointing
from benchmark.evaluations.segmentation import Segmentation
from benchmark.results import statistics
from benchmark.types import Attribution
from tests.evaluations.conftest import attribution_of, figure_of, values_of

MAP = [[4, 0, 0, -1], [0, 4, 2, 0], [0, 2, 1, 0], [-1, 0, 0, 1]]
CROSS = [[0, 1, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]  # a mask whose box is the upper left 3 × 3


def tensor(rows, dtype=torch.float64):
    return torch.tensor([rows], dtype=dtype)


def images(vision, masks, labels=None, seed=0):
    """Encoded images of 16 × 16 pixels with their masks."""
    pixels = torch.rand(len(masks), 3, 16, 16, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    batch = vision.encode([{"pixel_values": p} for p in pixels], labels=labels or [0] * len(masks))
    return replace(batch, masks=tuple(masks))


def box_mask(top, left, bottom, right):
    mask = np.zeros((16, 16), dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


def of_pixels(maps):
    maps = torch.as_tensor(np.asarray(maps), dtype=torch.float64)
    return Attribution(target=torch.zeros(len(maps), dtype=torch.long), pixels=maps)


def test_pointing_is_the_share_of_the_highest_pixels_inside():
    inside = tensor(CROSS, torch.bool)
    assert pointing(tensor(MAP), inside).tolist() == [0.5]  # of the two fours one lies in the cross
    assert pointing(tensor(MAP), boxes(inside)).tolist() == [1.0]
    assert pointing(-tensor(MAP), inside).tolist() == [1 - 1]  # the lowest are two corners
    assert pointing(torch.zeros(1, 4, 4), inside).tolist() == [5 / 16]  # a constant map knows the area
    almost = tensor(MAP)
    almost[0, 0, 0] += 1e-7  # rounding
    assert pointing(almost, inside).tolist() == [0.5]
    almost[0, 0, 0] += 1e-3
    assert pointing(almost, inside).tolist() == [0.0]
    assert pointing(tensor([[float("nan")] * 4] * 4), inside).isnan().all()


def test_energy_is_the_share_of_the_positive_part_inside():
    inside = tensor(CROSS, torch.bool)
    assert energy(tensor(MAP), inside).tolist() == [pytest.approx((0 + 0 + 4 + 2 + 2) / 14)]
    assert energy(tensor(MAP), boxes(inside)).tolist() == [pytest.approx(13 / 14)]
    assert energy(-tensor(MAP).abs(), inside).tolist() == [0.0]  # no positive part
    assert energy(torch.zeros(1, 4, 4), inside).tolist() == [0.0]
    assert energy(torch.ones(1, 4, 4), inside).tolist() == [5 / 16]


def test_a_box_is_the_smallest_rectangle_around_a_mask():
    square = [[1, 1, 1, 0]] * 3 + [[0] * 4]
    assert boxes(tensor(CROSS, torch.bool)).tolist() == tensor(square, torch.bool).tolist()
    assert boxes(tensor(square, torch.bool)).tolist() == tensor(square, torch.bool).tolist()
    apart = torch.zeros(1, 4, 4, dtype=torch.bool)
    apart[0, 0, 3] = apart[0, 2, 0] = True
    assert boxes(apart).sum() == 12


def test_scores_of_patches_become_pixels_and_rows_say_what_covers_what(vision):
    """The patch in row 1, column 2 is hot: its highest pixels are the four in its middle."""
    scores = [[float(unit == 6) for unit in range(16)]] * 3
    batch = images(vision, [box_mask(4, 8, 8, 12), box_mask(4, 8, 6, 10), None])
    rows = Localisation().rows(vision, batch, attribution_of(batch, scores))
    assert values_of(rows, "pointing") == {batch.uids[0]: 1.0, batch.uids[1]: 0.25}
    assert values_of(rows, "pointing_box") == values_of(rows, "pointing")  # the masks are boxes
    assert values_of(rows, "energy_box") == values_of(rows, "energy")
    assert values_of(rows, "area") == {batch.uids[0]: 1 / 16, batch.uids[1]: 1 / 64}
    weights = [1 / 8, 3 / 8, 5 / 8, 7 / 8, 7 / 8, 5 / 8, 3 / 8, 1 / 8]
    assert values_of(rows, "energy")[batch.uids[0]] == pytest.approx((sum(weights[2:6]) / sum(weights)) ** 2)
    figures = Localisation().reduce(rows)
    assert figure_of(figures, "pointing").n == 2
    assert figure_of(figures, "pointing").value == 0.625
    assert figure_of(figures, "pointing").low < 0.625 < figure_of(figures, "pointing").high


@pytest.mark.parametrize("evaluation", [Localisation(), Segmentation()])
def test_a_second_row_is_of_correctly_classified_images(vision, evaluation):
    masks = [box_mask(0, 0, 4 + b, 8) for b in range(4)]
    batch = images(vision, masks)
    predicted = vision.predict(batch)
    labels = torch.where(torch.tensor([True, False, True, False]), predicted, (predicted + 1) % 3)
    batch = replace(batch, label=torch.where(torch.arange(4) == 3, -1, labels))
    maps = of_pixels(np.random.default_rng(0).normal(size=(4, 16, 16)))
    rows = evaluation.rows(vision, batch, maps)
    figures = evaluation.reduce(rows)
    right = evaluation.reduce(evaluation.rows(vision, batch.select([0, 2]), of_pixels(maps.pixels[[0, 2]])))
    for name in [name for name in evaluation.metrics if name.endswith("_correct")]:
        found = figure_of(figures, name)
        assert found.n == 2
        assert found.value == pytest.approx(figure_of(right, name.removesuffix("_correct")).value)
        assert figure_of(figures, name.removesuffix("_correct")).n == 4


@pytest.mark.parametrize("evaluation", [Localisation(), Segmentation()])
def test_what_has_no_mask_of_pixels_says_so(vision, tiny, batch, evaluation):
    with pytest.raises(NotApplicable, match="the examples are no images"):
        evaluation.rows(tiny, batch, attribution_of(batch, [range(len(words)) for words in batch.words]))
    plain = images(vision, [None, np.zeros((16, 16), dtype=bool)])  # cropped away
    rows = evaluation.rows(vision, plain, of_pixels(np.ones((2, 16, 16))))
    with pytest.raises(NotApplicable, match="no example has a mask of pixels"):
        evaluation.reduce(rows)
    with pytest.raises(NotApplicable, match="gives no token scores"):
        evaluation.rows(vision, plain, Attribution(target=plain.label))


def test_equal_scores_of_patches_are_a_constant_map(vision):
    """Enlarging 0.1 leaves differences of 1.5e-8 in float32, which are no order."""
    batch = images(vision, [box_mask(4, 4, 12, 12)])
    even = Attribution(target=batch.label, tokens=torch.full(batch.units.shape, 0.1, dtype=torch.float32))
    assert values_of(Localisation().rows(vision, batch, even), "pointing") == {batch.uids[0]: 0.25}
    assert values_of(Segmentation().rows(vision, batch, even), "average_precision") == {
        batch.uids[0]: pytest.approx(OF_CHANCE)
    }


HARMONIC = sum(1 / n for n in range(1, 513))
OF_CHANCE = (255 / 511 * (512 - HARMONIC) + HARMONIC) / 512
"""Average precision of 512 scores in a random order, half of which are right: a little more than a half."""


def published(maps, masks):
    """The published segmentation test, written down again: one image at a time, sums over all, NaN as background."""
    right = pixels = 0
    shared, joined = np.zeros(2), np.zeros(2)
    precisions, line_scores, scores = [], [], []
    for image, mask in zip(maps, masks, strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = (image - image.min()) / (image.max() - image.min())
        taken = np.where(scaled > scaled.mean(), 1, 0)
        right, pixels = right + int((taken == mask).sum()), pixels + mask.size
        for side in (0, 1):
            shared[side] += ((taken == side) & (mask == side)).sum()
            joined[side] += ((taken == side) | (mask == side)).sum()
        channels = np.nan_to_num(np.stack([1 - scaled, scaled]))
        hot = np.stack([1 - mask, mask])
        precisions.append(average_precision_score(hot.ravel(), channels.ravel()))
        line_scores += [f1_score(line, found, zero_division=0) for line, found in zip(mask, taken, strict=True)]
        scores.append(f1_score(mask.ravel(), taken.ravel(), zero_division=0))
    return {
        "pixel_accuracy": right / pixels,
        "miou": float((shared / joined).mean()),
        "average_precision": float(np.mean(precisions)),
        "f1_of_lines": float(np.mean(line_scores)),
        "f1": float(np.mean(scores)),
    }


def test_segmentation_is_the_published_one(vision):
    generator = np.random.default_rng(3)
    maps = generator.normal(size=(5, 16, 16))
    masks = [generator.random((16, 16)) < share for share in (0.1, 0.3, 0.5, 0.2, 0.9)]
    batch = images(vision, masks)
    figures = Segmentation().reduce(Segmentation().rows(vision, batch, of_pixels(maps)))
    for name, value in published(maps, [mask.astype(int) for mask in masks]).items():
        found = figure_of(figures, name)
        # the least and the greatest pixel of every map are tied with each other's in the two channels of average precision
        assert found.value == pytest.approx(value, abs=1 / 512 if name == "average_precision" else 1e-12), name
        assert found.n == 5
        assert found.low < found.value < found.high


def test_segmentation_by_hand(vision):
    """One patch is hot and the mask covers it and its right neighbour."""
    hot = np.zeros((16, 16))
    hot[4:8, 8:12] = 3.0
    batch = images(vision, [box_mask(4, 8, 8, 16)])
    rows = Segmentation().rows(vision, batch, of_pixels([hot]))
    uid = batch.uids[0]
    counted = {
        "right": 240,
        "pixels": 256,
        "shared": 16,
        "joined": 32,
        "shared_background": 224,
        "joined_background": 240,
    }
    assert {name: values_of(rows, name)[uid] for name in counted} == counted
    figures = {figure.metric: figure.value for figure in Segmentation().reduce(rows)}
    assert figures["pixel_accuracy"] == 240 / 256
    assert figures["miou"] == pytest.approx((16 / 32 + 224 / 240) / 2)
    assert figures["f1"] == pytest.approx(2 * 16 / (16 + 32))
    assert figures["f1_of_lines"] == pytest.approx(4 * (2 * 4 / 12) / 16)
    # of the 256 scores of 1, the object's 16 are all right and 224 of the background's 240; then come the zeros
    right, drawn = np.array([True] * 240 + [False] * 16), np.random.default_rng(0)
    orders = [np.concatenate([drawn.permutation(right), drawn.permutation(~right)]) for _ in range(2000)]
    precisions = [(np.cumsum(order) / np.arange(1, 513))[order].mean() for order in orders]
    assert figures["average_precision"] == pytest.approx(np.mean(precisions), abs=4 * np.std(precisions) / 2000**0.5)


def test_counts_of_tied_and_constant_maps_are_the_published_ones(vision):
    """Its average precision is not: it takes equal scores as one threshold, and here their orders count alike."""
    generator = np.random.default_rng(3)
    maps = generator.normal(size=(5, 16, 16)).round(1)
    maps[3] = 2.5  # constant
    masks = [generator.random((16, 16)) < share for share in (0.1, 0.3, 0.5, 0.2, 0.9)]
    batch = images(vision, masks)
    figures = Segmentation().reduce(Segmentation().rows(vision, batch, of_pixels(maps)))
    for name, value in published(maps, [mask.astype(int) for mask in masks]).items():
        if name != "average_precision":
            assert figure_of(figures, name).value == pytest.approx(value, abs=1e-12), name
    shares = [1 - mask.mean() for mask in masks]
    constant = Segmentation().rows(vision, batch, of_pixels(np.full((5, 16, 16), 2.5)))
    found = {figure.metric: figure.value for figure in Segmentation().reduce(constant)}
    assert found["pixel_accuracy"] == pytest.approx(np.mean(shares)), "the share of background"
    assert found["miou"] == pytest.approx(np.mean(shares) / 2)
    assert found["average_precision"] == pytest.approx(OF_CHANCE)


def test_a_map_without_contrast_takes_all_for_background(vision):
    mask = box_mask(0, 0, 8, 8)
    batch = images(vision, [mask, mask])
    empty = np.full((2, 16, 16), 0.7)
    empty[1, 3, 3] = np.nan
    rows = Segmentation().rows(vision, batch, of_pixels(empty))
    for uid in batch.uids:
        assert values_of(rows, "shared")[uid] == 0
        assert values_of(rows, "right")[uid] == 192
        assert values_of(rows, "average_precision")[uid] == pytest.approx(OF_CHANCE)
        assert values_of(rows, "f1")[uid] == values_of(rows, "f1_of_lines")[uid] == 0


def test_intervals_of_pooled_ratios_cover():
    """Images differ in difficulty and size of the object: the interval holds the true mean IoU in 90 to 99 % of samples."""
    generator = np.random.default_rng(0)
    rule = Segmentation().derived["miou"]

    def drawn(n):
        marked, skill = generator.uniform(0.05, 0.5, n), generator.beta(4, 2, n)
        shared, wrong = marked * skill, (1 - marked) * 0.2 * generator.random(n)
        background = 1 - marked - wrong
        return np.stack([shared, background, marked + wrong, 1 - shared], axis=1)

    truth = float(rule.statistic(drawn(200_000).mean(0)[None])[0])
    found = [statistics.interval(drawn(60), rule.statistic, bounds=(0, 1)) for _ in range(150)]
    assert 0.9 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.99


def test_controls_are_ordered(vision):
    """Oracle above random above inverted in every figure, beyond the intervals."""
    generator = np.random.default_rng(0)
    corners = generator.integers(0, 9, (40, 2))
    masks = [box_mask(top, left, top + 8, left + 8) for top, left in corners]
    batch = images(vision, masks)
    truth = np.stack(masks).astype(float)
    maps = {"oracle": truth, "random": generator.random(truth.shape), "inverted": -truth}
    for evaluation in (Localisation(), Segmentation()):
        figures = {k: evaluation.reduce(evaluation.rows(vision, batch, of_pixels(m))) for k, m in maps.items()}
        ranked = [
            n for n, metric in evaluation.metrics.items() if metric.higher_is_better and not n.endswith("_correct")
        ]
        for name in ranked:
            oracle, random, inverted = (figure_of(figures[kind], name) for kind in maps)
            assert oracle.low > random.high or np.isnan(oracle.low), name
            assert random.value > inverted.value, name
