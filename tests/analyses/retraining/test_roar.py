"""What is hidden, by hand; and on a tiny model what is measured, beside a slow computation."""

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import benchmark
from benchmark.analyses.context import Context
from benchmark.analyses.retraining import roar
from benchmark.analyses.retraining.leak import features, leak
from benchmark.analyses.retraining.masked_task import Masked
from benchmark.analyses.retraining.roar import Roar, relative_area
from benchmark.analyses.retraining.students import Students, hidden_at, magnitudes
from benchmark.errors import NoSplit, NotApplicable
from benchmark.evaluations.ranks import tie_keys
from benchmark.progress import Advanced, Began, Ended
from benchmark.progress.spent import Spent
from benchmark.results.cache import cache_directory
from benchmark.results.store import Ragged
from benchmark.run.cell import Cell
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.declared import SettingError
from benchmark.settings.making import make
from benchmark.targets import ClassTarget
from benchmark.training.tiny import TinyModel
from benchmark.types import Attribution, Method
from tasks.planted import Planted
from tests.analyses.killed import KilledError
from tests.progress.heard import heard

pytestmark = pytest.mark.thorough  # each test trains models

TINY = ["model=tiny", "model.steps=60", "model.layers=1", "model.heads=2", "model.hidden=16"]
TASK = ["task.train=60", "task.validation=10", "task.test=24"]


class Longest(Method):
    """The longer a word's first piece is, the more it counts; of the second class, less."""

    version = 1
    class_specific = True

    def explain(self, model, batch, target):
        ids = batch.tensors["input_ids"]
        lengths = [[float(len(model.tokenizer.convert_ids_to_tokens(int(i)))) for i in row] for row in ids]
        sign = 1 - 2 * torch.as_tensor(model.run(batch).logits.argmax(-1)).double()
        return Attribution(target, torch.tensor(lengths, dtype=torch.float64) * sign[:, None])


class Zeros(Method):
    version = 1
    class_specific = False

    def explain(self, model, batch, target):
        return Attribution(target, torch.full(batch.units.shape, torch.nan))


def test_what_is_hidden_at_a_share_by_hand():
    order = {"train": {"a": np.array([2, -1, 0, 1]), "b": np.array([0])}}
    assert [hidden_at(order, share)["train"]["a"].tolist() for share in (0.0, 0.34, 2 / 3, 1.0)] == [
        [False, False, False, False],
        [False, False, True, False],
        [False, False, True, True],
        [True, False, True, True],
    ]
    assert not hidden_at(order, 0.99)["train"]["b"].any(), "⌊.99 · 1⌋ is none"


def test_a_masked_task_has_the_examples_that_are_known_and_tells_itself_from_others():
    task = Planted(train=5, validation=2, test=3)
    uids = [example.uid for example in task.split("train")]
    marks = {uid: np.arange(len(example.inputs)) == 0 for uid, example in zip(uids, task.split("train"), strict=True)}
    part = {uid: marks[uid] for uid in uids[1:4]}
    masked = Masked(task, {"train": part})
    assert [example.uid for example in masked.split("train")] == uids[1:4]
    assert all(example.hidden[0] and example.hidden.sum() == 1 for example in masked.split("train"))
    assert masked.split("test") == task.split("test")
    other = Masked(task, {"train": {**part, uids[1]: ~marks[uids[1]]}})
    assert len({masked.fingerprint, other.fingerprint, task.fingerprint}) == 3


def test_features_of_hidden_places_by_hand():
    hidden = np.zeros(20, dtype=bool)
    hidden[[0, 1, 3]] = True
    assert features(hidden).tolist() == [3, 0.15, 1, 0.5, *[0] * 8]
    assert features(np.array([True])).tolist() == [1, 1, 1, *[0] * 9]


def test_places_that_go_with_the_label_leak_and_others_do_not():
    rng = np.random.default_rng(0)
    labels = {f"{i}": i % 2 for i in range(400)}
    told = {uid: np.arange(20) < (3 if label else 6) for uid, label in labels.items()}
    drawn = {uid: rng.random(20) < 0.3 for uid in labels}
    order = tuple(f"{i}" for i in range(200, 400))
    for hidden, low, high in ((told, 1.0, 1.0), (drawn, 0.38, 0.62)):
        train = {uid: hidden[uid] for uid in list(labels)[:200]}
        assert low <= leak(train, hidden, labels, order).mean() <= high
    alone = {uid: told[uid] for uid in labels if labels[uid] == 1}
    assert leak(alone, told, labels, order).mean() == 0.5, "a single class is what it says of all"
    unknown = {**labels, "0": -1}
    assert leak(told, told, unknown, order).mean() == 1.0


def test_the_ratio_and_its_interval_by_hand():
    gain, room = np.array([[0.2, 0.4, 0.0]]), np.array([[0.5, 0.5, 0.2]])
    found = relative_area(gain, room)
    assert found.value == pytest.approx(0.5)
    assert np.isnan(relative_area(gain, -room).value), "there is nothing to lose"


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_intervals_of_the_ratio_hold_as_often_as_they_say(seeds):
    rng = np.random.default_rng(seeds)
    held = []
    for _ in range(400):
        of_seed, of_example = rng.normal(0, 0.05, (seeds, 1)), rng.normal(0, 0.3, (1, 60))
        room = 0.5 + (of_seed if seeds > 1 else 0) + of_example + rng.normal(0, 0.1, (seeds, 60))
        gain = 0.3 * room + rng.normal(0, 0.2, (seeds, 60))
        one = relative_area(gain, room)
        held.append(one.low <= 0.3 <= one.high)
    assert np.mean(held) >= 0.92


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roar")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield open_setting(compose("config", [*TINY, *TASK, "limit=8", "tracking=none", f"out={folder}"]))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A comparison whose models learn next to nothing, for what is no figure."""
    folder = tmp_path_factory.mktemp("quick")
    small = ["task.train=16", "task.validation=4", "task.test=6", "model.steps=2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield open_setting(compose("config", [*TINY, *small, "tracking=none", f"out={folder}"]))


def context(setting, folder=None, **methods):
    cells = {
        name: Cell(Path("nowhere"), name, method, setting.model, setting.data, {}, {}, 0.0)
        for name, method in methods.items()
    }
    return Context(setting, cells, {}, folder=folder)


SMALL = {"shares": (0.3, 0.6), "trainings": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("comparison")


@pytest.fixture(scope="module")
def tables(setting, folder):
    found = Roar(**SMALL)(context(setting, folder, longest=Longest(), refuses=Zeros()))
    for table in found:
        table.check()
    return {table.name: table.rows for table in found}


def test_the_accuracy_equals_a_slow_computation(setting, tables):
    curves = tables["roar_curves"].set_index(["explainer", "share", "metric"])["value"]
    model, task = setting.model, setting.task
    hidden = {}
    for split in ("train", "validation", "test"):
        hidden[split] = {}
        for example in task.split(split):
            batch = model.encode_examples([example], model.label_map(task.labels))
            scores = Longest().explain(model, batch, ClassTarget(batch.label)).tokens[0].abs()
            best = {}
            for unit, score in zip(batch.units[0].tolist(), scores.tolist(), strict=True):
                if unit >= 0:
                    best[unit] = max(best.get(unit, 0.0), score)
            keys = torch.from_numpy(roar_keys(example.uid, len(example.inputs)))
            order = sorted(best, key=lambda unit: (-best[unit], float(keys[unit])))
            marks = np.zeros(len(example.inputs), dtype=bool)
            marks[order[: int(0.6 * len(order) + 1e-9)]] = True
            hidden[split][example.uid] = marks
    masked, right = Masked(task, hidden), []
    for seed in (0, 1):
        config = setting.config.copy()
        config.model = {**config.model, "seed": seed}
        source = make(config.model)
        student = benchmark.load_model(source.resolve(masked), device="cpu")
        answers = [
            student.run(student.encode_examples([example], student.label_map(task.labels))).logits.argmax(-1).item()
            == example.label
            for example in masked.split("test")
        ]
        right.append(answers)
    assert curves["longest", 0.6, "accuracy"] == pytest.approx(np.mean(right))


def roar_keys(uid, n):
    return tie_keys([uid], n, 0)[0].numpy()


def test_what_each_order_looks_at_and_who_refuses(tables):
    rows = tables["roar"]
    looks = rows[rows["metric"] == "looks at"].set_index("explainer")["note"]
    assert looks.to_dict() == {
        "longest": "both sides",
        "random": "no class",
        "oracle": "one side",
        "evidence of both sides": "both sides",
    }
    assert rows["explainer"].drop_duplicates().tolist()[:2] == ["longest", "random"]
    refused = rows[rows["explainer"] == "refuses"]
    assert refused["note"].tolist() == ["a score is NaN, which orders nothing"]


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_the_ends_are_models_of_whole_texts_and_of_masks_alone(setting, tables, end):
    task = setting.task
    masked = Masked(
        task,
        {
            split: {one.uid: np.full(len(one.inputs), end == 1.0) for one in task.split(split)}
            for split in ("train", "validation", "test")
        },
    )
    right = []
    for seed in (0, 1):
        source = make({**setting.config.model, "seed": seed})
        student = benchmark.load_model(source.resolve(masked), device="cpu")
        batch = student.encode_examples(masked.split("test"), student.label_map(task.labels))
        right.append((student.run(batch).logits.argmax(-1) == batch.label).double().mean().item())
    curves = tables["roar_curves"]
    found = curves[(curves["share"] == end) & (curves["metric"] == "accuracy")]["value"]
    assert found.nunique() == 1
    assert found.iloc[0] == pytest.approx(np.mean(right))


def test_how_much_of_the_evidence_is_hidden(setting, tables):
    rows = tables["roar"].set_index(["explainer", "metric"])["value"]
    assert rows["evidence of both sides", "evidence hidden at 0.6"] == 1
    assert rows["random", "evidence hidden at 0.6"] == pytest.approx(0.6, abs=0.15)
    evidence = setting.task.evidence("test")
    order = Roar()._preferring(Students(setting, None, None, None, "max", 0).everything, {})
    hidden = hidden_at(order, 0.6)["test"]
    assert rows["random", "evidence hidden at 0.6"] == pytest.approx(
        np.mean([hidden[uid][marks].mean() for uid, marks in evidence.items()])
    )


def test_without_evidence_a_model_learns_from_what_else_is_left(setting, tables, tmp_path, monkeypatch):
    """The same training with all words that speak for a class hidden besides; both sides hide them all already."""
    rows = tables["roar"].set_index(["explainer", "metric"])["value"]
    both = "evidence of both sides"
    assert rows[both, "accuracy without evidence at 0.6"] == rows[both, "accuracy at 0.6"]
    task = setting.task
    students = Students(setting, None, None, None, "max", 0)
    order, _ = students.order("longest", Longest(), lambda own, ranked, label: _all(own, ranked))
    hidden = {
        split: {
            example.uid: hidden_at(order, 0.6)[split][example.uid] | task.evidence(split)[example.uid]
            for example in task.split(split)
        }
        for split in ("train", "validation", "test")
    }
    masked, right = Masked(task, hidden), []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for seed in (0, 1):
        student = benchmark.load_model(make({**setting.config.model, "seed": seed}).resolve(masked), device="cpu")
        batch = student.encode_examples(masked.split("test"), student.label_map(task.labels))
        right.append((student.run(batch).logits.argmax(-1) == batch.label).double().mean().item())
    assert rows["longest", "accuracy without evidence at 0.6"] == pytest.approx(np.mean(right))


def test_a_second_run_trains_nothing_and_says_the_same(setting, folder, tables, monkeypatch):
    monkeypatch.setattr("benchmark.training.tiny.TinyModel.resolve", lambda *_: pytest.fail("it is trained again"))
    again = Roar(**SMALL)(context(setting, folder, longest=Longest(), refuses=Zeros()))
    for table in again:
        assert table.rows.equals(tables[table.name])


def test_trained_models_leave_the_cache(setting, tables):
    models = [path for path in (cache_directory() / "models").iterdir() if path.is_dir()]
    lineages = {path.name for path in models}
    assert len(lineages) <= 7, "the comparison's own, and those of the slow computations"


def test_a_recursive_order_asks_the_model_that_was_trained_before(setting, tmp_path):
    asked = []

    class Watched(Longest):
        def explain(self, model, batch, target):
            mask = model.tokenizer.mask_token_id
            asked.append((model.fingerprint, int((batch.tensors["input_ids"] == mask).sum())))
            return super().explain(model, batch, target)

    found = Roar(shares=(0.3, 0.6), trainings=1, recursive=True)(context(setting, tmp_path, watched=Watched()))
    assert "asked at every share" in found[0].title
    figures = found[0].rows.set_index(["explainer", "metric"])["value"]
    assert figures["watched", "evidence hidden at 0.6"] >= 0
    assert figures["evidence of both sides", "evidence hidden at 0.6"] == 1
    assert np.isfinite(figures["watched", "accuracy without evidence at 0.6"])
    own = [masked for model, masked in asked if model == setting.model.fingerprint]
    others = [masked for model, masked in asked if model != setting.model.fingerprint]
    assert own
    assert not any(own), "the comparison's model reads whole texts"
    assert others
    assert all(others), "and that which was trained again what was left for it"
    assert len({model for model, _ in asked}) == 2


def test_what_is_hidden_stays_hidden(setting):
    students = Students(setting, None, None, None, "max", 0)
    compute = lambda own, ranked, label: _all(own, ranked)  # noqa: E731  # a closure of one line
    first, _ = students.order("longest", Longest(), compute)
    hidden = hidden_at(first, 0.3)
    second, negative = students.order("longest", Longest(), compute, hidden, 0)
    assert negative > 0
    for split, of in hidden_at(second, 0.6).items():
        for uid, marks in of.items():
            assert (marks >= hidden[split][uid]).all()
            assert marks.sum() == int(0.6 * len(marks) + 1e-9)


def _all(setting, ranked):
    return Ragged.merge([Ragged(batch.uids, dict(ranked(batch)), {}) for batch in setting.data.batches])


def test_a_model_that_nobody_can_train_again_is_refused_with_a_line(setting):
    for key, value, words in (
        ("model", {"_target_": "benchmark.training.sources.HubOrDirectory", "path": "x"}, "nobody can train"),
        ("split", "train", "what they learned from"),
    ):
        config = setting.config.copy()
        config[key] = value
        with pytest.raises(NotApplicable, match=words):
            Roar(**SMALL)(context(replace(setting, config=config), longest=Longest()))


class NoMasks(Longest):
    """Refuses texts that hold a mask."""

    def explain(self, model, batch, target):
        if (batch.tensors["input_ids"] == model.tokenizer.mask_token_id).any():
            raise NotApplicable("no masks please")
        return super().explain(model, batch, target)


def test_a_method_that_refuses_later_loses_its_own_line_alone(setting, tmp_path):
    methods = {"longest": Longest(), "no_masks": NoMasks()}
    roar = Roar(shares=(0.3, 0.6), trainings=1, recursive=True)
    rows = roar(context(setting, tmp_path, **methods))[0].rows
    assert rows[rows["explainer"] == "no_masks"]["note"].tolist() == ["no masks please"]
    assert rows[(rows["explainer"] == "longest") & (rows["metric"] == "relative area")]["value"].notna().all()


class OfClass(Method):
    """Never negative: the same for all classes, or of other words for each."""

    version = 1
    class_specific = True

    def __init__(self, *, apart):
        self.apart = apart

    def explain(self, model, batch, target):
        places = torch.arange(batch.units.shape[1]).double().expand(batch.units.shape)
        turned = places.max() - places
        swap = (target.classes.double() if self.apart else torch.zeros(len(batch)))[:, None]
        return Attribution(target, places * (1 - swap) + turned * swap)


def test_magnitudes_that_are_alike_for_two_classes_are_of_no_single_one(setting):
    students = Students(setting, None, None, None, "max", 0)
    assert students.alike("a", OfClass(apart=False)) == pytest.approx(1)
    assert students.alike("a", OfClass(apart=True)) == pytest.approx(-1)
    looks = {apart: roar._looks(students, "a", OfClass(apart=apart), 0.0) for apart in (False, True)}
    assert looks == {False: "both sides", True: "one side"}
    assert roar._looks(students, "a", OfClass(apart=True), 0.05) == "one side", "a few negative scores are no sign"
    assert roar._looks(students, "a", OfClass(apart=True), 1.0) == "both sides"


def test_examples_of_unknown_class_are_not_tested(setting):
    class Half(Planted):
        def split(self, name):
            return [replace(one, label=one.label if i % 2 else -1) for i, one in enumerate(super().split(name))]

    small = {"train": 20, "validation": 6, "test": 10}
    students = Students(replace(setting, task=Half(**small)), None, None, None, "max", 0)
    assert len(students.uids) == 5

    class Nobody(Planted):
        def split(self, name):
            return [replace(one, label=-1) for one in super().split(name)]

    with pytest.raises(NotApplicable, match="no tested example has a label"):
        Roar(**SMALL)(context(replace(setting, task=Nobody(**small)), longest=Longest()))


def test_units_are_ranked_by_the_magnitude_of_their_score(setting):
    batch = setting.data.batches[0]
    tokens = torch.zeros(batch.units.shape, dtype=torch.float64)
    word = next(unit for unit in range(20) if int((batch.units[0] == unit).sum()) >= 2)
    pieces = (batch.units[0] == word).nonzero()[:, 0]
    tokens[0, pieces[0]], tokens[0, pieces[1]] = 3.0, -3.0
    largest, added = (magnitudes(tokens, batch, how)[0][0, word].item() for how in ("max", "sum"))
    assert (largest, added) == (3.0, 0.0)


def test_shares_without_one_between_the_ends_are_a_mistake():
    with pytest.raises(SettingError):
        Roar(shares=(0.0, 1.0))


def test_a_window_that_cuts_what_models_learn_from_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small = ["task.train=20", "task.validation=4", "task.test=6", "model.window=16", "model.steps=2"]
    cut = open_setting(compose("config", [*TINY[:1], *TINY[2:], *small, "tracking=none", f"out={tmp_path}"]))
    with pytest.raises(NotApplicable, match="cuts examples of train"):
        Roar(**SMALL)(context(cut, longest=Longest()))


def test_one_process_trains_a_student_and_the_others_wait(setting, tmp_path):
    students = Students(setting, None, None, tmp_path, "max", 0)
    hidden = hidden_at(students.everything, 0.5)
    lineage = students._lineage(hidden, 0)
    found = []
    waiting = threading.Thread(target=lambda: found.append(students.correct(hidden, 0, keep_model=False)))
    with students._alone(lineage):
        waiting.start()
        waiting.join(0.5)
        assert not found, "another process works on it"
        (tmp_path / "analyses").mkdir()
        file = students._file("answers", [lineage, list(students.uids)])
        Ragged(students.uids, {"correct": np.ones(len(students.uids))}, {}).write(file)
    waiting.join(20)
    assert found[0].tolist() == [1.0] * len(students.uids), "what the other one found is read"


def test_without_a_training_split_or_a_method_it_does_not_apply(setting):
    class NoTraining(Planted):
        def split(self, name):
            raise NoSplit("the task has no training split")

    with pytest.raises(NotApplicable, match="no training split"):
        Roar(**SMALL)(context(replace(setting, task=NoTraining()), longest=Longest()))
    with pytest.raises(NotApplicable, match="refuses: a score is NaN"):
        Roar(**SMALL)(context(setting, refuses=Zeros()))


def test_random_words_are_drawn_once_and_marked_ones_come_first(setting):
    order = {"test": {"a": np.array([0, 1, -1, 2])}}
    one = Roar()._preferring(order, {})
    assert sorted(one["test"]["a"].tolist()) == [-1, 0, 1, 2]
    assert (one["test"]["a"] == Roar()._preferring(order, {})["test"]["a"]).all()
    marked = Roar()._preferring(order, {"test": {"a": np.array([False, False, False, True])}})
    assert marked["test"]["a"][3] == 0
    assert roar.CONTROLS[0] == "random"


LEFT_OUT = "Not to be ranked with the others: "


def left_out(table):
    """The explainers that a sentence leaves out of the ranking."""
    return [
        name
        for said in table.sentences
        if said.startswith(LEFT_OUT)
        for name in said[len(LEFT_OUT) :].partition(".")[0].split(", ")
    ]


def test_what_looks_at_one_side_is_named_as_not_to_be_ranked(quick):
    methods = {"longest": Longest(), "alike": OfClass(apart=False), "apart": OfClass(apart=True)}
    (areas, _) = Roar(shares=(0.5,), trainings=1)(context(quick, **methods))
    looks = areas.rows[areas.rows["metric"] == "looks at"].set_index("explainer")["note"]
    assert set(looks.index) == {*methods, "random", "oracle", "evidence of both sides"}
    assert sorted(left_out(areas)) == sorted(looks.index[looks == "one side"]) == ["apart", "oracle"]


def test_nobody_is_left_out_of_the_ranking_where_nothing_looks_at_one_side():
    values = np.random.default_rng(0).random((2, 12))
    found = {
        name: roar.Explained(looks, {0.5: values}, {0.5: values})
        for name, looks in (("a", roar.NO_CLASS), ("b", roar.BOTH_SIDES), ("random", roar.NO_CLASS))
    }
    table = Roar(shares=(0.5,))._areas(found, [values, values], {})
    assert "b" in set(table.rows["explainer"])
    assert left_out(table) == []


def told_of_models(events):
    """The step of all trainings, and by how much it advanced each time, with the number of models trained until then."""
    begun, trained, steps = [], 0, []
    for event in events:
        if isinstance(event, Began):
            begun.append(event)
            trained += event.name == "training the tiny model"
        elif isinstance(event, Ended):
            begun.pop()
        elif isinstance(event, Advanced) and begun[-1].name == "models without the best words":
            steps.append((event.count, trained))
    (told,) = [event for event in events if getattr(event, "name", "") == "models without the best words"]
    return told, steps


@pytest.mark.parametrize("recursive", [False, True])
def test_progress_is_told_after_each_training_and_ends_at_the_total(quick, recursive):
    """One method and three controls: at both shares, and without the evidence; whole texts and none besides."""
    analysis = Roar(shares=(0.3, 0.6), trainings=1, recursive=recursive)
    with heard() as events:
        analysis(context(quick, longest=Longest()))
    told, steps = told_of_models(events)
    assert (told.total, told.unit, told.done) == (2 + (2 + 1) * 4, "models", 0)
    assert steps == [(1, trained + 1) for trained in range(told.total)]


def test_progress_ends_at_the_total_where_a_method_refuses_later(quick):
    with heard() as events:
        Roar(shares=(0.3, 0.6), trainings=1, recursive=True)(context(quick, longest=Longest(), no_masks=NoMasks()))
    told, steps = told_of_models(events)
    assert sum(count for count, _ in steps) == told.total == 2 + (2 + 1) * 5


@pytest.mark.parametrize(("recursive", "killed"), [(False, 5), (True, 3)])
def test_a_killed_run_goes_on_and_trains_nothing_twice(quick, tmp_path, monkeypatch, recursive, killed):
    """The process ends when a model is trained that has not answered yet; with `recursive`, one that is still to explain."""
    analysis = Roar(shares=(0.3, 0.6), trainings=1, recursive=recursive)
    trained, train, resolve = [], TinyModel._train, TinyModel.resolve

    def counted(source, task, directory):
        trained.append((task.fingerprint, source.seed))
        train(source, task, directory)

    def ends(source, task):
        directory = resolve(source, task)
        if len(trained) == killed:
            raise KilledError
        return directory

    monkeypatch.setattr(TinyModel, "_train", counted)
    whole = analysis(context(quick, tmp_path / "whole", longest=Longest()))
    expected = trained.copy()
    trained.clear()
    with monkeypatch.context() as patch:
        patch.setattr(TinyModel, "resolve", ends)
        with pytest.raises(KilledError):
            analysis(context(quick, tmp_path / "killed", longest=Longest()))
    assert len(trained) == killed < len(expected)
    again = analysis(context(quick, tmp_path / "killed", longest=Longest()))
    assert trained == expected
    assert len(set(trained)) == len(trained)
    for one, other in zip(whole, again, strict=True):
        assert one.rows.equals(other.rows)
        assert one.sentences == other.sentences


@pytest.mark.parametrize(
    ("recursive", "explained", "known", "trained"),
    [
        (False, 1, True, 3 * (2 + (5 + 1) * (2 + 3))),
        (True, 1 + 3 * 4, True, 3 * (2 + (5 + 1) * (2 + 3))),
        (False, 1, False, 3 * (2 + 5 * (2 + 2))),
    ],
)
def test_what_it_foretells_by_hand(quick, monkeypatch, recursive, explained, known, trained):
    """12 of 16 training examples, 4 of validation and 5 of 6 tested ones; recursive: again after 4 shares of 3 seeds."""
    monkeypatch.setattr(roar, "seconds_of_training", lambda model: 10.0)
    spent = Spent(100, 0.3, {"a": 2.0, "b": 4.0, "random": 50.0}, {"aopc": 1.0})
    asked = context(quick, a=Longest(), b=Longest(), random=Longest())
    if not known:
        task = SimpleNamespace(split=quick.task.split)
        asked = replace(asked, setting=replace(quick, task=task))
    analysis = Roar(trainings=3, recursive=recursive, examples=12, limit=5)
    assert analysis.foretold(spent, asked) == pytest.approx(explained * (12 + 4 + 5) * 6.0 + trained * 10.0)
    some = replace(analysis, methods=["a"])
    fewer = 3 * (5 + known) * 10.0
    assert some.foretold(spent, asked) == pytest.approx(explained * 21 * 2.0 + trained * 10.0 - fewer)


def test_nothing_is_foretold_where_nobody_knows_what_a_training_takes(quick, monkeypatch):
    monkeypatch.setattr(roar, "seconds_of_training", lambda model: None)
    assert Roar().foretold(Spent(100, 0.3, {"a": 2.0}, {}), context(quick, a=Longest())) is None
