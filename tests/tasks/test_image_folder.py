"""Images in folders and lists: which are read, as what class, and what is marked in them."""

import time

import datasets
import numpy as np
import pytest
from PIL import Image

from benchmark.errors import NoSplit, UserError
from benchmark.settings.making import build
from benchmark.types import Task
from tasks.image_folder import ImageFolder
from tests.conftest import shared
from tests.tasks.image_data import corners, write_folder, write_image, write_tiny_imagenet


def read(root, **settings):
    return ImageFolder(path=str(root), **settings)


def seen(task, split="test"):
    return [(example.uid, task.labels[example.label]) for example in task.split(split)]


def read_all(root, split, settings):
    task = read(root, **settings)
    return task.labels, [example.mask for example in task.split(split)]


def refused(root, split="test", **settings):
    with pytest.raises(UserError) as caught:
        read_all(root, split, settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_split_folders_and_none(tmp_path):
    write_folder(tmp_path / "a", "train", kinds=("koala", "banana"), each=1)
    write_folder(tmp_path / "a", "val/", kinds=("banana",), each=2)
    write_image(tmp_path / "a" / "val" / "banana" / "deep" / "er" / "x.JPEG")
    (tmp_path / "a" / "val" / "banana" / "notes.txt").write_text("no image")
    task: Task = read(tmp_path / "a")
    assert task.labels == ("banana", "koala")
    assert seen(task, "train") == [("train/banana/banana_0.png", "banana"), ("train/koala/koala_0.png", "koala")]
    assert [uid for uid, _ in seen(task, "validation")] == [
        "val/banana/banana_0.png", "val/banana/banana_1.png", "val/banana/deep/er/x.JPEG"]  # fmt: skip
    with pytest.raises(NoSplit, match=r"has no test split, only train, validation; .* or use split=validation"):
        task.split("test")
    alone = read(write_folder(tmp_path / "b", kinds=("koala", "alp"), each=1))
    assert seen(alone) == [("alp/alp_0.png", "alp"), ("koala/koala_0.png", "koala")]
    with pytest.raises(NoSplit, match="has no train split, only test"):
        alone.split("train")
    with pytest.raises(UserError, match="did you mean test"):
        alone.split("tset")


def test_lists_say_what_belongs_to_a_split(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "test.csv").write_text("file,label\nkoala/koala_1.png,grey\nalp/alp_0.png,blue\n", encoding="utf-8")
    (tmp_path / "mine.json").write_text('[["bus/bus_0.png", "orange"]]', encoding="utf-8")
    task = read(tmp_path)
    assert seen(task) == [("koala/koala_1.png", "grey"), ("alp/alp_0.png", "blue")]
    assert task.labels == ("blue", "grey")
    assert seen(read(tmp_path, splits={"train": "mine.json"}), "train") == [("bus/bus_0.png", "orange")]
    both = read(tmp_path, splits={"validation": "test", "test": "test"})
    assert seen(both, "validation") == seen(both, "test")
    with pytest.raises(UserError, match=r"task.splits.train=other is neither a folder nor a list in task.path="):
        read(tmp_path, splits={"train": "other"}).split("train")
    (tmp_path / "mine.json").write_text('[["bus/bus_9.png", "orange"]]', encoding="utf-8")
    assert "mine.json: item 0: " in refused(tmp_path, "train", splits={"train": "mine.json"})
    (tmp_path / "mine.json").write_text('[["bus/bus_0.png", "a"], ["bus/bus_0.png", "b"]]', encoding="utf-8")
    assert "item 1: bus/bus_0.png is named twice" in refused(tmp_path, "train", splits={"train": "mine.json"})
    (tmp_path / "mine.json").write_text('["bus/bus_0.png"]', encoding="utf-8")
    assert "item 0 is neither [file, label]" in refused(tmp_path, "train", splits={"train": "mine.json"})


def test_tiny_imagenets_layout_is_read_as_it_is(tmp_path):
    task = read(write_tiny_imagenet(tmp_path))
    assert task.labels == ("goldfish", "koala")
    assert seen(task) == [("train/n02/images/n02_2.JPEG", "koala"), ("train/n01/images/n01_2.JPEG", "goldfish")]
    assert [corners(example.mask) for example in task.split("train")[:2]] == [(0, 1, 3, 6), (1, 1, 4, 6)]
    folders = read(tmp_path, splits={"train": "train/"})
    assert folders.labels == ("goldfish, Carassius auratus", "koala, koala bear")
    assert len(folders.split("train")) == 6
    assert read(tmp_path, splits={"train": "train/"}, class_names=None).labels == ("n01", "n02")
    assert all(example.mask is None for example in read(tmp_path, boxes=None).split("test"))
    (tmp_path / "words.txt").write_text("n01\n", encoding="utf-8")
    assert "words.txt:1: a class without a name" in refused(tmp_path)


def test_boxes_of_one_image_are_united_and_those_of_other_classes_are_left_out(tmp_path):
    write_folder(tmp_path, kinds=("koala", "alp"), each=1)
    table = "file,x0,y0,x1,y1,label\nkoala_0.png,0,0,1,1,koala\nkoala_0.png,6,4,7,5,koala\nkoala_0.png,3,3,3,3,alp\n"
    (tmp_path / "boxes.csv").write_text(table, encoding="utf-8")
    alp, koala = read(tmp_path, boxes="boxes.csv").split("test")
    assert alp.mask is None
    expected = np.zeros((6, 8), dtype=bool)
    expected[:2, :2] = expected[4:, 6:] = True
    assert np.array_equal(koala.mask, expected)
    exclusive = read(tmp_path, boxes=str(tmp_path / "boxes.csv"), box_ends="exclusive").split("test")[1].mask
    assert [tuple(map(int, place)) for place in zip(*np.nonzero(exclusive), strict=True)] == [(0, 0), (4, 6)]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (
            "koala_0.png,0,0,8,5,",
            "boxes.csv:2: the box 0, 0, 8, 5 (x0, y0, x1, y1, ends inclusive) is empty or reaches ",
        ),
        ("koala_0.png,-1,0,5,5,", "the box -1, 0, 5, 5"),
        ("koala_0.png,4,0,2,5,", "is empty or reaches beyond the image of 8 × 6 pixels"),
        ("koala_0.png,0,0,half,5,", "boxes.csv:2: x1=half is no whole number of pixels"),
        ("koala_0.png,0,0,1,1,panda", "boxes.csv:2: the box's label 'panda' is no class of the data"),
        ("twice.png,0,0,1,1,", "boxes.csv:2: 2 images are called twice.png; name it as alp/twice.png"),
    ],
)
def test_wrong_boxes_are_named_with_their_line(tmp_path, line, wrong):
    write_folder(tmp_path, kinds=("koala", "alp"), each=1)
    for kind in ("koala", "alp"):
        write_image(tmp_path / kind / "twice.png")
    (tmp_path / "boxes.csv").write_text(f"file,x0,y0,x1,y1,label\n{line}\n", encoding="utf-8")
    assert wrong in refused(tmp_path, boxes="boxes.csv")


def test_masks_are_images_of_the_same_path_or_name(tmp_path):
    write_folder(tmp_path, kinds=("koala", "alp"), each=1)
    (tmp_path / "masks" / "koala").mkdir(parents=True)
    drawn = Image.new("L", (8, 6))
    drawn.putpixel((3, 2), 1)
    drawn.save(tmp_path / "masks" / "koala" / "koala_0.bmp")
    palette = Image.new("P", (8, 6), 2)
    palette.putpixel((0, 0), 0)
    palette.save(tmp_path / "masks" / "alp_0.png")
    task = read(tmp_path, masks="masks")
    assert task.labels == ("alp", "koala")
    alp, koala = task.split("test")
    assert np.flatnonzero(~alp.mask).tolist() == [0]
    assert np.argwhere(koala.mask).tolist() == [[2, 3]]
    first = task.fingerprint
    Image.new("RGBA", (8, 6), (0, 0, 0, 255)).save(tmp_path / "masks" / "alp_0.png")
    assert not read(tmp_path, masks="masks").split("test")[0].mask.any()  # opaque black marks nothing
    assert read(tmp_path, masks="masks").fingerprint != first
    Image.new("L", (6, 8)).save(tmp_path / "masks" / "alp_0.png")
    assert "alp_0.png is a mask of 6 × 8 pixels for an image of 8 × 6" in refused(tmp_path, masks="masks")


def test_marks_that_belong_to_no_image_are_refused(tmp_path):
    """A file of names in another form would leave every image without a mask, and nobody would know."""
    write_folder(tmp_path)
    (tmp_path / "boxes.csv").write_text("file,x0,y0,x1,y1\nkoala_0,0,0,2,2\n", encoding="utf-8")
    words = refused(tmp_path, boxes="boxes.csv")
    assert "boxes.csv: none of its files is an image below" in words
    assert "such as alp/alp_0.png" in words
    assert words.endswith("the first is koala_0")
    write_image(tmp_path / "masks" / "other.png")
    assert "no file in it has the path or the name of an image" in refused(tmp_path, masks="masks")


def test_what_is_missing_is_named(tmp_path):
    (tmp_path / "empty" / "koala").mkdir(parents=True)
    assert "empty has no images: put them into" in refused(tmp_path / "empty")
    write_image(tmp_path / "flat" / "x.png")
    assert "x.png lies in no class folder" in refused(tmp_path / "flat")
    write_folder(tmp_path / "some")
    for setting in ("boxes", "class_names", "masks"):
        kind = "folder" if setting == "masks" else "file"
        assert f"task.{setting}=nope.csv is no {kind}, neither here nor in" in refused(
            tmp_path / "some", **{setting: "nope.csv"}
        )
    assert "task.path=./nowhere is not a directory; give a data set's directory or a hub id" in refused("./nowhere")
    assert "both set" in refused(tmp_path, masks="a", boxes="b.csv")
    assert "unknown split 'tset'" in refused(tmp_path, splits={"tset": "a"})


def test_a_broken_image_is_named(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    (tmp_path / "koala").mkdir()
    half, text = tmp_path / "koala" / "half.jpg", tmp_path / "koala" / "text.png"
    Image.fromarray(noise).save(half)
    half.write_bytes(half.read_bytes()[: half.stat().st_size // 2])
    assert f"{half} cannot be read as an image (image file is truncated" in refused(tmp_path)
    half.unlink()
    text.write_text("no image")
    assert f"{text} is no image that can be read" in refused(tmp_path)


def test_the_fingerprint_sees_classes_boxes_and_every_file(tmp_path):
    write_tiny_imagenet(tmp_path)
    prints = [read(tmp_path).fingerprint, read(tmp_path, boxes=None).fingerprint]
    prints.append(read(tmp_path, box_ends="exclusive").fingerprint)
    image = tmp_path / "train" / "n01" / "images" / "n01_0.JPEG"
    before = image.read_bytes()
    image.write_bytes(before[:-3] + b"\x00" + before[-2:])
    prints.append(read(tmp_path).fingerprint)
    image.write_bytes(before)
    assert read(tmp_path).fingerprint == prints[0]
    boxes = tmp_path / "train" / "n01" / "n01_boxes.txt"
    boxes.write_text(boxes.read_text().replace("5", "4"), encoding="utf-8")
    prints.append(read(tmp_path).fingerprint)
    assert len(set(prints)) == 5


def test_examples_hold_no_open_file(tmp_path, monkeypatch):
    opened = []
    keep = Image.open
    monkeypatch.setattr(Image, "open", lambda *args: opened.append(keep(*args)) or opened[-1])
    task = read(write_folder(tmp_path, each=3))
    examples = task.split("test")
    assert len(examples) == 12
    assert not opened
    examples[3:5][0].inputs.getpixel((0, 0))
    assert [image.fp for image in opened] == [None]


def test_a_data_set_of_the_hub(tmp_path, monkeypatch):
    write_folder(tmp_path, "train", kinds=("koala", "alp"), each=2)
    loaded = datasets.load_dataset("imagefolder", data_dir=str(tmp_path), cache_dir=str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **options: loaded)
    task = ImageFolder(path="some/set", revision=str(tmp_path), splits={"test": "train"})
    assert task.labels == ("alp", "koala")
    assert seen(task)[::2] == [("train-000000", "alp"), ("train-000002", "koala")]
    assert isinstance(task.split("test")[0].inputs, Image.Image)
    assert len(task.fingerprint) == 64
    with pytest.raises(UserError, match=r"task.image=photo: some/set has the columns image, label"):
        ImageFolder(path="some/set", revision=str(tmp_path), splits={"test": "train"}, image="photo").split("test")
    with pytest.raises(NoSplit, match="names no train split"):
        task.split("train")


def test_the_real_data_open_in_a_moment():
    start = time.process_time()
    task = build("task/image_folder", f"path={shared('data/tiny_imagenet')}")
    assert {name: len(task.split(name)) for name in ("train", "validation", "test")} == {
        "train": 3500, "validation": 500, "test": 1000}  # fmt: skip
    assert len(task.fingerprint) == 64
    assert time.process_time() - start < 10  # two seconds, on a machine that does nothing else
    first = task.split("test")[0]
    assert (first.inputs.size, first.mask.shape, task.labels[first.label]) == ((64, 64), (64, 64), "goldfish")


def test_a_mask_that_several_images_could_own_is_refused(tmp_path):
    for split in ("train", "test"):
        write_image(tmp_path / split / "koala" / "one.png")
    (tmp_path / "masks").mkdir()
    Image.new("L", (8, 6), 255).save(tmp_path / "masks" / "one.png")
    assert "masks/one.png: 2 images are called one; put the mask of each at its path" in refused(
        tmp_path, masks="masks"
    )
    (tmp_path / "masks" / "test" / "koala").mkdir(parents=True)
    (tmp_path / "masks" / "train" / "koala").mkdir(parents=True)
    for split in ("train", "test"):
        (tmp_path / "masks" / "one.png").rename(tmp_path / "masks" / split / "koala" / "one.png")
        Image.new("L", (8, 6), 255).save(tmp_path / "masks" / "one.png")
    assert read(tmp_path, masks="masks").split("test")[0].mask.all()


def test_a_box_that_images_of_two_splits_could_own_is_refused(tmp_path):
    for split in ("train", "test"):
        write_image(tmp_path / split / "koala" / "one.png")
    (tmp_path / "boxes.csv").write_text("file,x0,y0,x1,y1\none.png,0,0,1,1\n", encoding="utf-8")
    assert "2 images are called one.png; name it as" in refused(tmp_path, boxes="boxes.csv")


def test_masks_with_blurred_edges_are_refused(tmp_path):
    write_image(tmp_path / "koala" / "one.png")
    (tmp_path / "masks").mkdir()
    Image.new("L", (8, 6), 255).save(tmp_path / "masks" / "one.jpg")
    assert "one.jpg is a mask in a format that blurs edges; save masks as PNG" in refused(tmp_path, masks="masks")


def turned(path, orientation=6, size=(8, 6), **settings):
    """An image whose EXIF says that the camera was held on its side, [width, height] as stored: left half white."""
    image = Image.new("RGB", size)
    image.paste((255, 255, 255), (0, 0, size[0] // 2, size[1]))
    exif = image.getexif()
    exif[0x0112] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, exif=exif, **settings)
    return path


def test_a_folder_and_datasets_read_a_turned_photograph_alike(tmp_path):
    for orientation in range(1, 9):
        turned(tmp_path / "data" / "koala" / f"{orientation}.png", orientation)
    loaded = datasets.load_dataset(
        "imagefolder", data_dir=str(tmp_path / "data"), split="train", cache_dir=str(tmp_path / "cache")
    )
    examples = read(tmp_path / "data").split("test")
    assert len(examples) == 8
    for example, row in zip(examples, loaded, strict=True):
        assert np.array_equal(np.asarray(example.inputs), np.asarray(row["image"]))
    assert examples[5].inputs.size == (6, 8)


def test_masks_and_boxes_lie_on_the_upright_image(tmp_path):
    turned(tmp_path / "data" / "koala" / "x.png")
    (tmp_path / "boxes.csv").write_text("file,x0,y0,x1,y1\nx.png,0,0,5,3\n", encoding="utf-8")
    (boxed,) = read(tmp_path / "data", boxes=str(tmp_path / "boxes.csv")).split("test")
    assert corners(boxed.mask) == (0, 0, 6, 4)
    assert bool((np.asarray(boxed.inputs)[boxed.mask] == 255).all())  # what was left is above
    upright = Image.fromarray(np.asarray(boxed.inputs))
    (tmp_path / "masks").mkdir()
    upright.save(tmp_path / "masks" / "x.png")
    (masked,) = read(tmp_path / "data", masks=str(tmp_path / "masks")).split("test")
    assert np.array_equal(masked.mask, boxed.mask)
    turned(tmp_path / "masks" / "x.png")  # with an orientation of its own
    (masked,) = read(tmp_path / "data", masks=str(tmp_path / "masks")).split("test")
    assert np.array_equal(masked.mask, boxed.mask)
    write_image(tmp_path / "masks" / "x.png", size=(8, 6))
    assert "a mask of 8 × 6 pixels for an image of 6 × 8, upright" in refused(
        tmp_path / "data", masks=str(tmp_path / "masks")
    )


def test_every_ending_that_pillow_reads_is_read_and_the_others_are_named(tmp_path, caplog):
    root = tmp_path / "data"
    endings = ("jpg", "JFIF", "jpe", "jp2", "webp", "bmp", "gif", "ppm", "tif", "tga", "pcx", "ico")
    for ending in endings:
        write_image(root / "koala" / f"x.{ending}", size=(8, 8))
    for other in ("x.heic", "y.heic", "x.svg", "x"):
        (root / "koala" / other).write_text("no image", encoding="utf-8")
    (root / "koala" / "koala_boxes.txt").write_text("x.jpg\t0\t0\t1\t1\n", encoding="utf-8")
    (root / "koala" / ".hidden").write_text("", encoding="utf-8")
    write_image(root / "loose.png")
    task = read(root)
    assert [example.uid for example in task.split("test")] == sorted(f"koala/x.{ending}" for ending in endings)
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2
    assert (
        "4 files in class folders are left out, as Pillow reads no images with their endings (2 .heic, 1 .svg, 1 w"
        in said[0]
    )
    assert "1 images beside the class folders are left out, such as loose.png" in said[1]
    (tmp_path / "masks").mkdir()
    write_image(tmp_path / "masks" / "koala" / "x.jfif", size=(8, 8))
    assert "blurs edges" in refused(root, masks=str(tmp_path / "masks"))
