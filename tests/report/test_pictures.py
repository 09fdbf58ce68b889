"""Pictures of images in run folders, on the page's data and in figures: by hand, and against what the tests remove."""

import json

import numpy as np
import pytest
import torch

from benchmark.errors import UserError
from benchmark.evaluations.maps import pixel_map
from benchmark.models import pictures
from benchmark.report import image_figures, load_cells
from benchmark.report.image_maps import Picture, PixelMap, enlarged, removal
from benchmark.report.leaderboard import frame
from benchmark.report.naming import Names
from benchmark.report.page.showcase import columns
from benchmark.types import Attribution, Batch
from tests.report.folders import Plan, resealed, write_cells

pytestmark = pytest.mark.rendered

SIZE, PATCH, GRID = (9, 13), (4, 4), (2, 3)


def drawn(place=0):
    """A picture of 9 × 13 pixels with a margin beside its 2 × 3 patches, a mask and a second class."""
    image = np.random.default_rng(place).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    mask = np.zeros(SIZE, dtype=bool)
    mask[1:5, 2:6] = True
    return image, mask, {
        "size": SIZE, "patch": PATCH, "grid": GRID, "picture": pictures.data_url(image), "mask": pictures.runs(mask),
        "map": None, "second": {"target": "8", "probability": 0.25, "scores": [0.0, 0.0, 1.0, 0.0, -0.5, 0.0]},
    }  # fmt: skip


def entry(place=0, **image):
    scores = [0.5, -1.0, 0.0, 0.25, 0.5, 0.1]
    return {
        "uid": f"test-{place}", "words": [""] * 6, "scores": scores, "label": "3", "predicted": "3", "target": "3",
        "probability": 0.75, "rationale": [True, True, False, True, True, False], "image": drawn(place)[2] | image,
    }  # fmt: skip


def image_cells(folder, examples):
    folders = write_cells(folder, [Plan(name, n=6) for name in ("rollout", "attention_gradcam", "random")])
    for place in folders:
        (place / "heatmap.json").write_text(json.dumps(examples))
        resealed(place)
    return load_cells(folders)


def test_a_stored_picture_gives_pixels_and_mask_again():
    image, mask, stored = drawn()
    picture = Picture.of(stored, 6)
    assert (picture.pixels == image).all()
    assert (picture.marked == mask).all()
    assert pictures.runs(~mask)[0] == 0


def test_normalisation_is_undone_and_ready_pixels_are_stretched():
    class Processor:
        image_mean, image_std, rescale_factor = (0.5, 0.4, 0.3), (0.5, 0.25, 0.2), 1 / 255

    image, _, _ = drawn()
    given = (image / 255 - np.array(Processor.image_mean)) / np.array(Processor.image_std)
    assert (pictures.visible(given.transpose(2, 0, 1), Processor()) == image).all()
    assert pictures.visible(np.linspace(-2, 3, 12).reshape(3, 2, 2), None).ravel()[[0, -1]].tolist() == [0, 255]


def test_patches_are_enlarged_as_the_maps_of_pixels_are():
    scores = torch.randn(1, 6, dtype=torch.float64)
    batch = Batch(
        uids=("a",), tensors={"pixel_values": torch.zeros(1, 3, *SIZE)}, units=torch.arange(6)[None],
        n_units=torch.tensor([6]), words=(("",) * 6,), label=torch.tensor([0]), rationale=(None,), query_units=(0,),
        meta=({},), patch=PATCH, masks=(None,),
    )  # fmt: skip
    expected = pixel_map(batch, Attribution(target=torch.tensor([0]), tokens=scores))[0].numpy()
    assert enlarged(scores.numpy().reshape(GRID), PATCH, SIZE) == pytest.approx(expected, abs=1e-12)


def test_a_map_of_pixels_is_averaged_and_kept_in_steps():
    scores = np.zeros((224, 226))
    scores[:3, :3] = [[-1.0] * 3] * 3
    scores[30:33, 60:63] = 0.5
    found = PixelMap.of(pictures.small_map(scores), scores.shape)
    assert (found.step, found.grid) == (3, (74, 75))
    assert found.scores[0, 0] == -1
    assert found.scores[10, 20] == pytest.approx(0.5, abs=0.5 / 127)
    assert not PixelMap.of(pictures.small_map(np.zeros((4, 4))), (4, 4)).scores.any()


@pytest.mark.parametrize(("share", "patches"), [(0.1, []), (0.5, [0, 4, 3]), (0.9, [0, 4, 3, 5, 2])])
def test_the_best_patches_go_first_and_equal_ones_row_by_row(share, patches):
    assert removal([0.5, -1.0, 0.0, 0.25, 0.5, 0.1], share) == patches


def test_the_page_holds_each_picture_once(tmp_path):
    cells = image_cells(tmp_path, [entry(place) for place in range(2)])
    found = columns([*enumerate(cells)])
    assert [picture["data"] for picture in found["picture"]] == [drawn(place)[2]["picture"] for place in range(2)]
    assert found["maps"][0][0]["second"]["target"] == "8"
    assert "map" not in found["maps"][0][0]


def test_texts_carry_no_pictures(comparison):
    assert not {"picture", "maps"} & set(columns([*enumerate(load_cells(comparison[1]))]))


@pytest.mark.parametrize(
    "damage",
    [
        {"picture": "https://example.org/a.webp"}, {"picture": "data:image/webp;base64,AAAA"}, {"size": [9, 12]},
        {"grid": [3, 3]}, {"mask": [1, 2]}, {"second": {"target": "8", "probability": 0.2, "scores": [0.0]}},
        {"map": {"step": 1, "grid": [9, 13], "largest": 1.0, "values": "AAAA"}}, {"size": [90_000, 90_000]},
    ],
)  # fmt: skip
def test_a_picture_that_does_not_fit_is_told_with_its_file(tmp_path, damage):
    cells = image_cells(tmp_path, [entry(**damage)])
    with pytest.raises(UserError, match=r"heatmap\.json is corrupt"):
        columns([*enumerate(cells)])


def test_a_reader_finds_the_methods_that_are_looked_for():
    named = ["lime", "occlusion", *(f"other_{place}" for place in range(20)), "rollout", "attattr", "raw_attention",
             "transformer_attribution", "gradient_x_input", "oracle", "random", "inverted"]  # fmt: skip
    found = image_figures.columns_of(dict(enumerate(named)))
    assert [*found.values()] == ["lime", "occlusion", "other_0", "other_1", "other_2", "rollout", "attattr", "raw_attention",
                                 "transformer_attribution", "gradient_x_input", "oracle", "random"]  # fmt: skip
    few = {3: "rollout", 5: "mine"}
    assert image_figures.columns_of(few) == few


def test_images_that_are_classified_otherwise_are_marked_and_counted(tmp_path):
    wrong = {"predicted": "African elephant, Loxodonta africana", "label": "3"}
    cells = image_cells(tmp_path, [entry(), entry(1) | wrong, entry(2)])
    (found,) = image_figures._compared(cells, frame(cells), Names.of(cells))
    figure = image_figures._heatmaps(found)
    texts = [" ".join(text.get_text().split()) for text in figure.texts]
    assert (
        "2 of the 3 images that are kept are classified as labelled; 1 of 3 as another class than the explained one (✗)"
        in texts[0]
    )
    (side,) = [text for text in texts if "✗ predicted African elephant" in text and "maps for the label" in text]
    assert "p = 0.75" in side
    framed = [
        axes for axes in figure.axes if any(spine.get_visible() for spine in axes.spines.values()) and axes.images
    ]
    assert len(framed) == 1
    assert Names.of(cells).method("attention_gradcam") == "Attention Grad-CAM"
    assert "Attention Grad-CAM" in texts


@pytest.mark.parametrize("name", ["African elephant", "Loxodonta africana of Africa", "M" * 40, "iiii " * 20])
def test_words_beside_an_image_end_before_it(tmp_path, name):
    cells = image_cells(tmp_path, [entry() | {"predicted": name, "label": name, "target": name}] * 1)
    (found,) = image_figures._compared(cells, frame(cells), Names.of(cells))
    figure = image_figures._heatmaps(found)
    figure.draw_without_rendering()
    left = min(axes.get_window_extent().x0 for axes in figure.axes if axes.images)
    beside = [text for text in figure.texts if "p = " in text.get_text()]
    assert len(beside) == 1
    assert beside[0].get_window_extent().x1 < left
    lowest = min(axes.get_window_extent().y0 for axes in figure.axes if axes.images)
    assert beside[0].get_window_extent().y0 >= lowest


def test_figures_have_stable_names_and_bytes_and_texts_have_none(tmp_path, comparison):
    cells = image_cells(tmp_path, [entry()])
    table, names = frame(cells), Names.of(cells)
    first, again = (dict(image_figures.image_files(cells, table, names)) for _ in range(2))
    stems = ("images", "images-removed", "images-classes")
    assert sorted(first) == sorted(f"{stem}.{kind}" for stem in stems for kind in ("png", "pdf"))
    assert first == again
    texts = load_cells(comparison[1])
    assert [*image_figures.image_files(texts, frame(texts), Names.of(texts))] == []
