"""Perturbation of pixels beside the published procedure, written down again."""

from types import SimpleNamespace

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import benchmark
from benchmark.errors import NotApplicable
from benchmark.evaluations import pixel_perturbation
from benchmark.evaluations.perturbation import Perturbation
from benchmark.evaluations.pixel_perturbation import PixelPerturbation
from benchmark.models.fills import Black
from benchmark.types import Attribution
from tests.evaluations.conftest import attribution_of, figure_of, values_of

MEAN, DEVIATION = (0.5, 0.4, 0.3), (0.5, 0.25, 0.2)


@pytest.fixture(scope="module")
def vit():
    """Sixteen patches of 4 × 4 pixels, whose processor normalises and does nothing else."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = ViTConfig(**sizes, image_size=16, patch_size=4, num_labels=3, initializer_range=0.7)
    processor = ViTImageProcessorPil(do_resize=False, image_mean=MEAN, image_std=DEVIATION)
    model = ViTForImageClassification(config).eval().double()
    return benchmark.load_model(model, processor=processor, device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def photographs():
    """Values of three images in [0, 1]."""
    return torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.fixture(scope="module")
def batch(vit, photographs):
    mean, deviation = (torch.tensor(values, dtype=torch.float64)[:, None, None] for values in (MEAN, DEVIATION))
    return vit.encode([{"pixel_values": (image - mean) / deviation} for image in photographs], labels=[0, 1, -1])


def published(vit, photographs, maps, share, *, negative):
    """Logits: `topk` of the flattened map (negated for the negative test), scattered zeros, then normalisation."""
    ranked = (-maps if negative else maps).reshape(len(maps), -1)
    data = photographs.clone().reshape(len(maps), 3, -1)
    _, index = torch.topk(ranked, int(256 * share), dim=-1)
    data = data.scatter(-1, index[:, None].repeat(1, 3, 1), 0.0).reshape_as(photographs)
    for channel in range(3):
        data[:, channel] = (data[:, channel] - MEAN[channel]) / DEVIATION[channel]
    with torch.no_grad():
        return vit.model(pixel_values=data).logits


@pytest.mark.parametrize("area", ["mean", "published"])
def test_curves_are_the_published_ones(vit, photographs, batch, area):
    maps = torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    target = vit.predict(batch)
    evaluation = PixelPerturbation(area=area)
    rows = evaluation.rows(vit, batch, Attribution(target=target, pixels=maps))
    for direction in ("positive", "negative"):
        curves = {name: [] for name in ("accuracy", "probability", "logit")}
        for share in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
            logits = published(vit, photographs, maps, share, negative=direction == "negative")
            curves["accuracy"].append((logits.argmax(1) == batch.label).double())
            curves["probability"].append(logits.softmax(1).gather(1, target[:, None])[:, 0])
            curves["logit"].append(logits.gather(1, target[:, None])[:, 0])
            for name, values in curves.items():
                found = values_of(rows, f"{direction}_{name}", share)
                assert set(found) == set(batch.uids if name != "accuracy" else batch.uids[:2])
                for b, uid in enumerate(found):
                    assert found[uid] == pytest.approx(values[-1][b].item(), abs=1e-9)
        for name, values in curves.items():
            heights = torch.stack(values).numpy()
            trapezoid = (heights[1:] + heights[:-1]) / 20
            whole = 100 * trapezoid.sum(0) if area == "published" else trapezoid[1:].sum(0) / 0.8
            middle = "" if name == "accuracy" else f"{name}_"
            found = values_of(rows, f"{direction}_{middle}auc_{area}")
            assert [*found.values()] == pytest.approx(whole[: len(found)].tolist(), abs=1e-9)
    figures = evaluation.reduce(rows)
    assert figure_of(figures, "positive_accuracy", 0.5).n == 2
    assert figure_of(figures, f"positive_probability_auc_{area}").n == 3


def test_scores_of_patches_are_enlarged_first(vit, batch, monkeypatch):
    """Of one hot patch in a corner the first pixels to go are its outer quarter, which no neighbour pulls down."""
    asked = []

    def painted(model, batch, gone, fill):
        asked.append((gone, fill))
        return torch.zeros(*gone.shape[:2], 3, dtype=torch.float64)

    monkeypatch.setattr(pixel_perturbation, "logits_painted", painted)
    one = batch.select([0])
    scores = [[float(unit == 0) for unit in range(16)]]
    PixelPerturbation(fractions=(4 / 256, 1.0)).rows(vit, one, attribution_of(one, scores))
    ((gone, fill),) = asked
    assert fill == Black()
    assert [int(each.sum()) for each in gone[:, 0]] == [0, 4, 256, 0, 4, 256]
    assert torch.nonzero(gone[1, 0]).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert not gone[4, 0, :8, :8].any()


def test_ties_are_broken_by_a_permutation_of_the_example(vit, batch):
    """A constant map, also one of equal patches in float32, removes pixels all over the image, and the same each time."""
    flat = Attribution(target=vit.predict(batch), pixels=torch.zeros(3, 16, 16).double())
    rows = PixelPerturbation().rows(vit, batch, flat)
    assert rows.equals(PixelPerturbation().rows(vit, batch, flat))
    assert not rows.equals(PixelPerturbation(seed=1).rows(vit, batch, flat))
    patches = Attribution(target=flat.target, tokens=torch.full(batch.units.shape, 0.1, dtype=torch.float32))
    assert rows.equals(PixelPerturbation().rows(vit, batch, patches))
    part = PixelPerturbation().rows(vit, batch.select([2]), Attribution(flat.target[2:], pixels=flat.pixels[2:]))
    for share in (0.1, 0.5):
        whole, alone = (values_of(each, "positive_probability", share) for each in (rows, part))
        assert alone[batch.uids[2]] == pytest.approx(whole[batch.uids[2]])


def test_fills_are_a_setting_and_words_are_told_apart(vit, batch, tiny):
    maps = Attribution(vit.predict(batch), pixels=torch.randn(3, 16, 16).double())
    found = {
        fill: tuple(PixelPerturbation(fill=fill).rows(vit, batch, maps)["value"].round(9))
        for fill in ("black", "mean", "blur", "noise", "inpaint")
    }
    assert len(set(found.values())) == 5
    automatic = tuple(PixelPerturbation().rows(vit, batch, maps)["value"].round(9))
    assert automatic == found["black"]
    words = tiny.encode(["a good film"], labels=[0])
    with pytest.raises(NotApplicable, match="the examples are no images"):
        PixelPerturbation().rows(tiny, words, attribution_of(words, [[1, 2, 3]]))
    titles = {m.title for m in PixelPerturbation().metrics.values()}
    assert titles.isdisjoint(m.title for m in Perturbation().metrics.values())
    assert PixelPerturbation(area="published").metrics["positive_auc_published"].bounds == (0.0, 90.0)


def test_the_pixels_that_decide_cost_most(vit, batch, monkeypatch):
    """For a model that sees one quarter alone, oracle, random and inverted keep their order in both directions."""
    truth = torch.zeros(3, 16, 16, dtype=torch.float64)
    truth[:, :8, :8] = 1
    black = -torch.tensor(MEAN, dtype=torch.float64) / torch.tensor(DEVIATION, dtype=torch.float64)

    def seen(model, inputs, **_):
        pixels = inputs["pixel_values"] if isinstance(inputs, dict) else inputs.tensors["pixel_values"]
        left = ((pixels - black[:, None, None]).abs() > 1e-9).any(1)[:, :8, :8].double().mean((1, 2))
        return SimpleNamespace(logits=torch.stack([left, 0.5 + 0 * left, 0 * left], dim=1))

    monkeypatch.setattr(type(vit), "run", seen)
    chance = torch.rand(truth.shape, generator=torch.Generator().manual_seed(0))
    oracle, random, inverted = (_areas(vit, batch, maps) for maps in (truth, chance, -truth))
    for name in ("accuracy", "probability", "logit"):
        middle = "" if name == "accuracy" else f"{name}_"
        low, high = f"positive_{middle}auc_mean", f"negative_{middle}auc_mean"
        assert oracle[low] < random[low] < inverted[low]
        assert oracle[high] > random[high] > inverted[high]


def _areas(vit, batch, maps):
    attribution = Attribution(torch.zeros(1, dtype=torch.long), pixels=maps[:1].double())
    evaluation = PixelPerturbation()
    figures = evaluation.reduce(evaluation.rows(vit, batch.select([0]), attribution))
    return {figure.metric: figure.value for figure in figures}
