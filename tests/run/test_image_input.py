"""Images as people have them: every mode and a single image run; what cannot is one line and exit status 2."""

import numpy as np
import pytest
from PIL import Image

from benchmark.commands.entry import main
from benchmark.comparison import run_comparison
from benchmark.errors import UserError
from benchmark.results import store
from benchmark.run import workbench
from benchmark.settings.configuration import compose
from tests import text_models
from tests.tasks.image_data import write_folder, write_image, write_tiny_imagenet


def words(checkpoint, folder, *more):
    return [
        "task=image_folder", f"task.path={folder}", "model=hf", f"model.path={checkpoint}", "model.device=cpu",
        "tracking.mode=disabled", *more,
    ]  # fmt: skip


SMALL = ("methods=[rollout,oracle]", "evaluations=[rationale]")


@pytest.mark.thorough
def test_one_image_alone_runs_through_the_default_tests(checkpoint, tmp_path, no_pictures):
    write_image(tmp_path / "one" / "koala" / "x.png", size=(16, 16))
    (tmp_path / "boxes.csv").write_text("file,x0,y0,x1,y1\nx.png,0,0,7,7\n", encoding="utf-8")
    few = ("methods=[rollout,transformer_attribution,oracle,random]", f"task.boxes={tmp_path / 'boxes.csv'}")
    cells = run_comparison(compose("config", words(checkpoint, "one", *few))).cells
    for folder in cells:
        record = store.read_record(folder)
        assert record.task.n == 1
        assert len(record.evaluations) == 9
        for test in record.evaluations.values():
            assert test.dash or test.figures
    figures = store.read_record(cells[2]).evaluations["rationale"].figures
    assert next(figure.value for figure in figures if figure.metric == "average_precision") == 1


def test_every_mode_runs(checkpoint, tmp_path, no_pictures):
    for mode in ("L", "CMYK", "P", "RGBA", "1"):
        write_image(tmp_path / "modes" / "koala" / f"{mode}.{'jpg' if mode == 'CMYK' else 'png'}", mode=mode)
    with Image.open(tmp_path / "modes" / "koala" / "CMYK.jpg") as image:
        assert image.mode == "CMYK"
    cells = run_comparison(
        compose("config", words(checkpoint, "modes", "methods=[rollout]", "evaluations=[aopc]"))
    ).cells
    assert store.read_record(cells[0]).task.n == 5


def truncated(folder):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    (folder / "koala").mkdir(parents=True)
    Image.fromarray(noise).save(folder / "koala" / "half.jpg")
    whole = (folder / "koala" / "half.jpg").read_bytes()
    (folder / "koala" / "half.jpg").write_bytes(whole[: len(whole) // 2])


def mask_of_another_size(folder):
    write_folder(folder, each=1)
    write_image(folder / "masks" / "koala_0.png", size=(3, 3))


WRONG = {
    "a folder without images": (lambda folder: (folder / "koala").mkdir(parents=True), (), "data has no images"),
    "a truncated file": (truncated, (), "data/koala/half.jpg cannot be read as an image (image file is truncated"),
    "a mask of another size": (mask_of_another_size, ("task.masks=masks",), "is a mask of 3 × 3 pixels for an image of 8"),
    "a strange class": (lambda f: write_folder(f, kinds=("koala", "panda")), (), "label panda of the task is unknown to"),
    "no such boxes": (write_folder, ("task.boxes=nope.csv",), "task.boxes=nope.csv is no file, neither here nor in"),
    "no such split": (write_folder, ("split=train",), "task.path=data has no train split, only test"),
    "a strange box": (write_folder, ("task.boxes=../boxes.csv",), "boxes.csv:2: the box's label 'panda' is no class of the"),
    "a box outside": (write_folder, ("task.boxes=../outside.csv",), "outside.csv:2: the box 0, 0, 8, 5"),
    "no folder": (write_folder, ("task.path=./nowhere",), "task.path=./nowhere is not a directory; give a data set's"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_one_line(case, checkpoint, tmp_path, capsys):
    write, settings, expected = WRONG[case]
    write(tmp_path / "data")
    (tmp_path / "boxes.csv").write_text("file,x0,y0,x1,y1,label\nkoala_0.png,0,0,1,1,panda\n", encoding="utf-8")
    (tmp_path / "outside.csv").write_text("file,x0,y0,x1,y1\nkoala_0.png,0,0,8,5\n", encoding="utf-8")
    assert said(capsys, words(checkpoint, "data", *SMALL, *settings)).count(expected) == 1


def test_too_few_classes_for_a_mosaic(checkpoint, tmp_path, capsys):
    write_folder(tmp_path / "data", kinds=("koala", "alp", "bus"))
    nested = ["task=grid", "task@task.task=image_folder", "task.task.path=data", *words(checkpoint, "data", *SMALL)[2:]]
    assert "has images of 3 classes, and a mosaic needs 4" in said(capsys, nested)


def said(capsys, arguments):
    """The last line of the command's error, whose status is 2."""
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error.strip().splitlines()[-1]


def test_synsets_of_folders_find_the_models_first_names(checkpoint, tmp_path, no_pictures):
    """`words.txt` says "koala, koala bear", and the model koala."""
    write_tiny_imagenet(tmp_path / "tiny")
    (tmp_path / "tiny" / "words.txt").write_text("n01\tbanana, Musa\nn02\tkoala, koala bear\n", encoding="utf-8")
    more = ("methods=[oracle]", "evaluations=[rationale]", "task.splits={test: train/}")
    cells = run_comparison(compose("config", words(checkpoint, "tiny", *more))).cells
    assert store.read_record(cells[0]).task.n == 6


def test_heads_are_calibrated_on_all_classes_of_a_sorted_folder(checkpoint, tmp_path):
    """The first images of a folder are of one class."""
    for split in ("test", "validation"):
        write_folder(tmp_path, split, each=6)
    settings = compose("config", words(checkpoint, str(tmp_path), *SMALL))
    setting = workbench.open_setting(settings)
    (batch,) = setting.data.calibration("validation", 8)
    assert len(set(batch.label.tolist())) > 2, "eight of the first are of two classes"
    again = workbench.open_setting(settings).data.calibration("validation", 8)
    assert again[0].uids == batch.uids


def test_models_of_mosaics_learn_from_single_images(tmp_path, monkeypatch):
    learned = []

    def resolve(_self, task):
        learned.append(task.name)
        raise UserError("far enough")

    monkeypatch.setattr("benchmark.training.tiny_vit.TinyVit.resolve", resolve)
    with pytest.raises(UserError, match="far enough"):
        workbench.open_setting(compose("config", ["task=grid", "task.task.test=30", "model=tiny_vit", "limit=1"]))
    assert learned == ["digit_scenes"]


def test_texts_and_a_model_of_images_are_one_line(checkpoint, tmp_path, capsys):
    assert "the task planted has texts, and the model 'vit' reads images; choose a classifier of texts" in said(
        capsys, ["task=planted", "task.train=4", "task.validation=4", *words(checkpoint, "data", *SMALL)[2:]]
    )


def test_images_and_a_model_of_texts_are_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "data")
    text_model = text_models.save_bert(tmp_path / "bert")
    assert "has images, and the model 'bert' reads texts; choose a vision transformer" in said(
        capsys, words(text_model, "data", *SMALL)
    )
