"""The figures of papers on images: image × method, two classes beside each other, and images without their best patches."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.report.cells import NamedCell
from benchmark.report.figures import SCREEN, add_text, figure_files
from benchmark.report.image_maps import Grid, ImageScores, Picture, enlarged, removal
from benchmark.report.leaderboard import groups_with_figures
from benchmark.report.naming import Names
from benchmark.report.page.showcase import Example, examples
from benchmark.results.wording import shortened, slug, unique_stems
from benchmark.settings.report_settings import FigureSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_IMAGES = 6
"""Rows of a figure."""

MOST_COLUMNS = 12
"""Methods of a figure: those of `LOOKED_FOR`, and the first ones of the leaderboard."""

LOOKED_FOR = (
    "raw_attention", "rollout", "transformer_attribution", "attattr", "attattr_fast", "generic_attention",
    "attention_gradcam", "gradient_x_input", "random", "oracle",
)  # fmt: skip
"""Methods and controls that a reader looks for on images, wherever they stand on the leaderboard."""

PROBABLE = 0.05
"""Least probability of a second class that is drawn."""

SHARES = (0.1, 0.5, 0.9)
_SCALE = "RdBu_r"
_OTHER = "#D55E00"
_NARROW = 22  # letters of a line beside a picture
WIDE = 60
"""Letters of a line above the pictures."""
_SIDE, _GAP, _LEFT, _TOP, _BOTTOM = 1.15, 0.08, 1.65, 1.1, 0.75  # inches

Draw = Callable[["Axes"], None]
Scores = Sequence[float | None]


Shown = tuple[Example, Picture]


@dataclass(frozen=True)
class Compared:
    """Images of one task and model.

    Attributes:
        title: of the task and the model.
        methods: titles of its methods by place, best first.
        images: with their pictures.
    """

    title: str
    methods: Mapping[int, str]
    images: tuple[tuple[Example, Picture], ...]

    @property
    def classified(self) -> str:
        """How many images are classified as labelled, and as they are explained."""
        known = [one for one, _ in self.images if one.label is not None]
        right = sum(one.predicted == one.label for one in known)
        others = sum(is_other(one) for one, _ in self.images)
        told = [f"{right} of the {len(known)} images that are kept are classified as labelled"] if known else []
        told += [f"{others} of {len(self.images)} as another class than the explained one (✗)"] if others else []
        return "; ".join(told)


def image_files(
    cells: Sequence[NamedCell], figures: Any, names: Names, settings: FigureSettings = SCREEN
) -> Iterator[tuple[str, bytes]]:
    """File name and content of the figures of images in each format; none where the examples are texts."""
    compared = [found for found in _compared(cells, figures, names) if found.images and found.methods]
    stems = unique_stems(slug(one.title) for one in compared)
    pictures = FigureSettings(format=settings.format)
    for one, stem in zip(compared, stems, strict=True):
        end = "" if len(compared) == 1 else f"-{stem}"
        yield from figure_files(
            f"images{end}",
            partial(_heatmaps, one),
            f"Heatmaps of {one.title}, image by method. {one.classified}".rstrip(),
            pictures,
        )
        yield from figure_files(
            f"images-removed{end}", partial(_removed, one), "An image without its best patches.", pictures
        )
        if pairs := _pairs(one):
            text = f"Heatmaps of {one.title} for the two most probable classes."
            yield from figure_files(f"images-classes{end}", partial(_classes, one, pairs), text, pictures)


def _compared(cells: Sequence[NamedCell], figures: Any, names: Names) -> Iterator[Compared]:
    for task, model, members, _ in groups_with_figures(cells, figures):
        chosen, _ = examples([*enumerate(members)])
        images = tuple((one, one.picture) for one in chosen if one.picture is not None)
        scored = {place for one, _ in images for place in one.scores}
        drawn = columns_of({place: cell.method for place, cell in enumerate(members) if place in scored})
        titles = {place: names.method(method) for place, method in drawn.items()}
        yield Compared(names.place(task, model), titles, images)


def columns_of(methods: Mapping[int, str]) -> dict[int, str]:
    """At most `MOST_COLUMNS` of the methods, in their order: those of `LOOKED_FOR`, then the best ones."""
    looked_for = [place for name in LOOKED_FOR for place, method in methods.items() if method == name]
    others = [place for place in methods if place not in looked_for]
    chosen = {*[*looked_for, *others][:MOST_COLUMNS]}
    return {place: method for place, method in methods.items() if place in chosen}


def is_other(example: Example) -> bool:
    """Whether the model classifies it as another class than the one that is explained."""
    return example.predicted is not None and example.predicted != example.target


def _pairs(compared: Compared) -> list[tuple[Example, Picture]]:
    """The images whose second class is probable, in some method's words."""
    chosen = [
        (one, picture)
        for one, picture in compared.images
        if any((_second(one, place) or {"probability": 0.0})["probability"] >= PROBABLE for place in compared.methods)
    ]
    return _spread(chosen)


def _second(example: Example, place: int) -> Mapping[str, Any] | None:
    found: ImageScores | None = example.maps.get(place)
    return None if found is None else found.second


def _heatmaps(compared: Compared) -> Figure:
    """Rows: images; columns: the image with the mask's outline, then methods."""
    rows = _spread(compared.images)
    grid: list[list[Draw | None]] = [
        [partial(_image, picture=picture, crossed=is_other(one)), *(_map(one, picture, p) for p in compared.methods)]
        for one, picture in rows
    ]
    heads = ["Image", *compared.methods.values()]
    heading = " · ".join(filter(None, [compared.title, compared.classified]))
    return _laid_out(heading, heads, [_said(one) for one, _ in rows], grid, scale=True)


def _spread(images: Sequence[Shown]) -> list[Shown]:
    """As many as a figure has room for, from the first to the last: data sets stand class by class."""
    count = min(len(images), MOST_IMAGES)
    return [images[round(place * (len(images) - 1) / max(1, count - 1))] for place in range(count)]


def _classes(compared: Compared, pairs: Sequence[tuple[Example, Picture]]) -> Figure:
    """For each image a row per class: the predicted one, and the second most probable one."""
    methods = [place for place in compared.methods if any(_second(one, place) for one, _ in pairs)]
    grid: list[list[Draw | None]] = []
    sides = []
    for one, picture in pairs:
        grid.append(
            [partial(_image, picture=picture, crossed=is_other(one)), *(_map(one, picture, place) for place in methods)]
        )
        grid.append([None, *(_second_map(one, picture, place) for place in methods)])
        second = next(found for place in methods if (found := _second(one, place)))
        sides += [f"for {_short(one.target)}\n{_chance(one.probability)}"]
        sides += [f"for {_short(second['target'])}\n{_chance(second['probability'])}"]
    heads = ["Image", *(compared.methods[place] for place in methods)]
    return _laid_out(f"{compared.title}: the two most probable classes", heads, sides, grid, scale=True)


def _removed(compared: Compared) -> Figure:
    """The first image without the best 10, 50 and 90 % of its patches: a column per method."""
    one, picture = compared.images[0]
    places = [place for place in compared.methods if place in one.scores]
    grid: list[list[Draw | None]] = [
        [partial(_without, picture=picture, scores=one.scores[place], share=share) for place in places]
        for share in SHARES
    ]
    sides = [f"without\n{100 * share:.0f} %" for share in SHARES]
    heading = f"{compared.title}, {_said(one, ', ', WIDE)}: best patches black, equal scores row by row"
    return _laid_out(heading, [compared.methods[place] for place in places], sides, grid, scale=False)


def _laid_out(
    heading: str, heads: Sequence[str], sides: Sequence[str], grid: Sequence[Sequence[Draw | None]], *, scale: bool
) -> Figure:
    """A figure of square panels in rows and columns with a word for each, and a colour bar below."""
    from matplotlib.figure import Figure

    width = max(5.2, _LEFT + len(heads) * (_SIDE + _GAP) + 0.1)
    height = _TOP + len(grid) * (_SIDE + _GAP) + (_BOTTOM if scale else 0.1)
    figure = Figure(figsize=(width, height))
    add_text(figure, 0.1, 0.1, "\n".join(textwrap.wrap(heading, int(width * 12))[:2]), 10)
    for row, (side, line) in enumerate(zip(sides, grid, strict=True)):
        down = _TOP + row * (_SIDE + _GAP)
        add_text(figure, 0.1, down + 0.1, side, 8)
        for column, draw in enumerate(line):
            if draw is not None:
                left = _LEFT + column * (_SIDE + _GAP)
                box = left / width, 1 - (down + _SIDE) / height, _SIDE / width, _SIDE / height
                draw(_panel(figure, box))
    for column, head in enumerate(heads):
        middle = (_LEFT + column * (_SIDE + _GAP) + _SIDE / 2) / width
        text = "\n".join(_wrapped(head))
        figure.text(middle, 1 - (_TOP - 0.06) / height, text, ha="center", va="bottom", fontsize=8)
    if scale:
        _colour_bar(figure, width, height)
    return figure


def _wrapped(head: str) -> list[str]:
    lines = [""]
    for word in head.split():
        if lines[-1] and len(lines[-1]) + len(word) > 16:
            lines.append("")
        lines[-1] = shortened(f"{lines[-1]} {word}".strip(), 18)
    return lines[:3]


def _panel(figure: Figure, box: tuple[float, float, float, float]) -> Axes:
    axes = figure.add_axes(box)
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def _colour_bar(figure: Figure, width: float, height: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    box = _LEFT / width, 0.48 / height, min(2.6, width - _LEFT - 0.4) / width, 0.11 / height
    axes = figure.add_axes(box)
    bar = figure.colorbar(ScalarMappable(Normalize(-1, 1), _SCALE), cax=axes, orientation="horizontal")
    bar.set_ticks([-1, 0, 1])
    axes.tick_params(labelsize=7.5, length=2)
    axes.grid(visible=False)
    said = "score over the largest magnitude of its own map; over the image in grey, clearer the nearer to 0"
    figure.text(_LEFT / width, 0.04 / height, said, fontsize=7.5, va="bottom")


def _image(axes: Axes, picture: Picture, *, faint: bool = False, crossed: bool = False) -> None:
    """The picture, in grey below a heatmap, with the outline of its mask; in a frame where the model sees another class."""
    pixels, extent = picture.pixels, (0, picture.size[1], picture.size[0], 0)
    if faint:
        grey = pixels.mean(axis=2)
        axes.imshow(grey, cmap="gray", vmin=0, vmax=255, extent=extent)
    else:
        axes.imshow(pixels, extent=extent)
    marked = picture.marked
    if marked is not None and marked.any() and not marked.all():
        edges = np.pad(marked, 1).astype(float)
        down, across = (np.arange(-0.5, length + 1) for length in picture.size)
        for colour, line in (("#000000", 1.8), ("#ffffff", 0.8)):
            axes.contour(across, down, edges, levels=[0.5], colors=[colour], linewidths=[line])
    axes.set_xlim(0, picture.size[1])
    axes.set_ylim(picture.size[0], 0)
    if crossed:
        for spine in axes.spines.values():
            spine.set(visible=True, color=_OTHER, linewidth=2)


def _map(example: Example, picture: Picture, place: int) -> Draw | None:
    if place not in example.scores:
        return None
    found = example.maps.get(place)
    if found is not None and found.map is not None:
        side = found.map.step, found.map.step
        return partial(_heat, picture=picture, scores=found.map.scores, side=side)
    return partial(_heat, picture=picture, scores=_on_grid(example.scores[place], picture.grid), side=picture.patch)


def _second_map(example: Example, picture: Picture, place: int) -> Draw | None:
    second = _second(example, place)
    if second is None:
        return None
    return partial(_heat, picture=picture, scores=_on_grid(second["scores"], picture.grid), side=picture.patch)


def _on_grid(scores: Scores, grid: Grid) -> Float[NDArray[Any], "r c"]:
    return np.asarray([score or 0.0 for score in scores], dtype=float).reshape(grid)


def _heat(axes: Axes, picture: Picture, scores: Float[NDArray[Any], "r c"], side: Grid) -> None:
    """A map over the image, in colours that are the less transparent the larger the score."""
    largest = float(np.abs(scores).max())
    share = enlarged(scores, side, picture.size) / (largest or 1.0)
    _image(axes, picture, faint=True)
    if not largest:
        axes.text(0.5, 0.04, "all scores are 0", ha="center", fontsize=6.5, color="#ffffff", transform=axes.transAxes)
    axes.imshow(
        share, cmap=_SCALE, vmin=-1, vmax=1, alpha=0.35 + 0.55 * np.abs(share), interpolation="bilinear",
        extent=(0, picture.size[1], picture.size[0], 0),
    )  # fmt: skip


def _without(axes: Axes, picture: Picture, scores: Scores, share: float) -> None:
    pixels, (high, wide) = picture.pixels.copy(), picture.patch
    for unit in removal(scores, share):
        row, column = divmod(unit, picture.grid[1])
        pixels[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = 0
    axes.imshow(pixels, extent=(0, picture.size[1], picture.size[0], 0))


def _said(example: Example, between: str = "\n", letters: int = _NARROW) -> str:
    """Label, prediction and what the maps explain, in lines that end before the picture."""

    def fitted(text: str) -> str:
        wide = sum(1.8 if letter.isupper() or letter in "mw@" else 1 for letter in text) / max(1, len(text))
        return between.join(textwrap.wrap(text, int(letters / wide))[:2])

    label = "" if example.label is None else fitted(example.label)
    cross = "✗ " if is_other(example) else ""
    predicted = "" if example.predicted is None else fitted(f"{cross}predicted {example.predicted}")
    of = "the label" if example.target == example.label else example.target
    explained = "" if example.target == example.predicted else fitted(f"maps for {of}")
    return between.join(filter(None, [label, predicted, _chance(example.probability), explained]))


def _chance(probability: float | None) -> str:
    return "" if probability is None else f"p = {probability:.2f}"


def _short(name: str) -> str:
    return shortened(name, 16)
