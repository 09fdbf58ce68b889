"""Each thing that a repository does not take is refused in one line that says what to do."""

import json
import shutil

import numpy as np
import pytest

from benchmark.bundles import history
from benchmark.bundles.bundle import Bundle
from benchmark.bundles.repository import Repository
from benchmark.errors import UserError
from benchmark.results.store import Ragged, hash_of
from tests.bundles.world import (
    bundled,
    command,
    compared,
    flipped,
    record_changed,
    run_of,
    said_changed,
    scores_changed,
    tampered,
    without_example,
)


def of_test(record, name="perturbation"):
    return record["evaluations"][name]


def with_fewer(record):
    """A record of seven examples."""
    record["task"]["n"] = 7
    for test in record["evaluations"].values():
        for figure in test["figures"]:
            figure["n"] = min(figure["n"], 7)


def raised(record):
    """A better figure, without a change of the rows."""
    for figure in of_test(record, "aopc")["figures"]:
        if figure["metric"] == "comprehensiveness":
            figure["value"] = figure["high"] = 0.9


def not_finite(ragged):
    arrays = {**ragged.arrays, "tokens": ragged.arrays["tokens"].copy()}
    arrays["tokens"][0] = np.nan
    return Ragged(ragged.uids, arrays, ragged.cost)


def with_example(uid):
    """The explanations with one more example, a copy of the first, under an identifier (None: that of the first)."""

    def changed(ragged):
        count, total = int(ragged.arrays["lengths"][0]), int(ragged.arrays["lengths"].sum())
        arrays = {
            name: np.concatenate([array, array[: count if len(array) == total else 1]])
            for name, array in ragged.arrays.items()
        }
        return Ragged((*ragged.uids, uid or ragged.uids[0]), arrays, ragged.cost)

    return changed


def another_class(ragged):
    return Ragged(ragged.uids, {**ragged.arrays, "target": 1 - ragged.arrays["target"]}, ragged.cost)


def one_for_all(ragged):
    """The scores of the first class stand for every class."""
    classes = ragged.arrays["classes"]
    return Ragged(
        ragged.uids, {**ragged.arrays, "classes": np.repeat(classes[:, :1], classes.shape[1], axis=1)}, ragged.cost
    )


def check_failed(place):
    report = json.loads((place / "check.json").read_text())
    next(one for one in report["checks"] if one["check"] == "class")["status"] = "fail"
    (place / "check.json").write_text(json.dumps(report))


def without_explanations(place):
    for path in run_of(place).glob("*.safetensors"):
        path.unlink()


def without_run(place):
    shutil.rmtree(place / "run")


def named(name, target="theirs.EmbeddingTimesGradient"):
    """Another name, in all files alike."""

    def changed(place):
        record_changed(lambda record: record["method"].update(name=name))(place)
        said_changed(method=name)(place)

    return changed


def array(name, values, file="attributions-predicted"):
    """An array of a file set to what a function of it gives; None removes it."""

    def with_it(ragged):
        found = {**ragged.arrays, name: values(ragged.arrays.get(name))}
        return Ragged(ragged.uids, {key: value for key, value in found.items() if value is not None}, ragged.cost)

    return scores_changed(with_it, file)


def linked(place):
    (place / "secret").symlink_to("/etc/hostname")


def unlisted(place):
    (run_of(place) / "more.bin").write_bytes(b"0" * 100)


def of_another_class(place):
    path = run_of(place) / "config.yaml"
    path.write_text(path.read_text().replace("theirs.EmbeddingTimesGradient", "theirs.Position"))
    record_changed(lambda record: record["files"].update({"config.yaml": hash_of(path)}))(place)


def report_changed(text):
    return lambda place: (place / "check.json").write_text(text)


def not_of_the_class(record):
    record["method"]["class_specific"] = False


FORGED = {
    "a path as name": (named("../../../evil"), r"method=\.\./\.\./\.\./evil is of another form"),
    "a control's name": (named("oracle"), r"oracle is what a control is called; give the method another name"),
    "a name that is taken": (named("rollout"), r"planted@1\.0 has a method 'rollout' of another class; give yours another"),
    "another class shown": (said_changed(target="great.lab.Wonder"),
        r"are of different methods \(great\.lab\.Wonder, theirs"),
    "another class run": (of_another_class, r"are of different methods \(theirs\.Emb.*, theirs\.Emb.*, theirs\.Position\)"),
    "another kind": (said_changed(kind="whatever"), r"kind=whatever is of another form"),
    "no version of a bundle": (said_changed(bundle="planted@x.y"), r"bundle=planted@x\.y is of another form"),
    "no release": (said_changed(harness="new"), r"harness=new is of another form"),
    "no day": (said_changed(date="tomorrow"), r"date=tomorrow is of another form"),
    "lines in a name": (said_changed(author="a\u2028b"),
        r"author has more than 1000 letters, or letters that cannot be shown"),
    "other lengths": (array("lengths", lambda own: own - 1), r"the numbers of tokens are others than the bundle's"),
    "no lengths": (array("lengths", lambda own: None), r"the array 'lengths' is missing"),
    "no target": (array("target", lambda own: None), r"the array 'target' is missing"),
    "no such class": (array("target", lambda own: own + 7), r"what is explained is no class of the model"),
    "a number of tokens": (array("tokens", lambda own: own[:-1]), r"'tokens' has not one entry for each token"),
    "whole numbers": (array("tokens", lambda own: own.astype(np.int64)), r"'tokens' is no array of scores"),
    "a strange array": (array("foo", lambda own: np.zeros(8)), r"there is an array 'foo', which no explanation has"),
    "infinite scores": (array("classes", lambda own: own + np.inf, "classes"), r"'classes' are no finite numbers"),
    "says that it ignores the class": (record_changed(not_of_the_class),
        r"does not look at the class, and its scores differ"),
    "a broken report": (report_changed("{}"), r"check\.json is no report of a check \(checks is missing\)"),
    "a report of something else": (report_changed('{"checks": [{"ok": true}]}'), r"check\.json is no report of a check"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_what_is_forged_is_refused(name, world, results, tmp_path):
    change, words = FORGED[name]
    place = tampered(world / "submission-theirs", tmp_path / "changed", change)
    with pytest.raises(UserError, match=words):
        command("merge", str(results), str(place))
    assert history.read(results) == []


@pytest.mark.parametrize(
    ("change", "words"), [(linked, "secret is no plain file"), (unlisted, "more.bin is none of the files")]
)
def test_what_nobody_listed_is_refused(change, words, world, results, tmp_path):
    """Whoever seals it again has to list it, and cannot list a link."""
    place = tampered(world / "submission-theirs", tmp_path / "changed", change, resealed=False)
    with pytest.raises(UserError, match=words):
        command("merge", str(results), str(place))


REFUSED = {
    "other data": (record_changed(lambda r: r["task"].update(fingerprint="0" * 64)),
        r"the data is another than that of plant"),
    "other task": (record_changed(lambda r: r["task"].update(version=99)), r"the task is another .*version 99"),
    "other model": (record_changed(lambda r: r["model"].update(fingerprint="0" * 64)), r"the model is another"),
    "other precision": (record_changed(lambda r: r["model"].update(dtype="bfloat16")), r"the precision of the model is"),
    "fewer examples": (record_changed(with_fewer), r"7 examples are explained, and planted@1\.0 has 8; explain all of them"),
    "other digest": (record_changed(lambda r: of_test(r).update(digest="0" * 64)),
        r"perturbation is version 2, settings 0000"),
    "other statistics": (record_changed(lambda r: of_test(r).update(statistics=1)),
        r"statistics 1, which planted@1\.0 does"),
    "missing example": (scores_changed(without_example), r"example '.*' is missing of the 8 examples"),
    "strange example": (scores_changed(with_example("strange")), r"example 'strange' is no example of planted@1\.0; leave"),
    "example twice": (scores_changed(with_example(None)), r"example '.*' is there twice; give each example once"),
    "not finite": (scores_changed(not_finite), r"some scores of 'tokens' are no finite numbers"),
    "another class": (scores_changed(another_class), r"explained for another class than the predicted one"),
    "one map for all classes": (scores_changed(one_for_all, "classes"),
        r"are the same for every class; declare class_specific"),
    "check of the class failed": (check_failed, r"the check of the class failed .* mend the method"),
    "no explanations": (without_explanations, r"figures and no explanations .* refused"),
    "no run folder": (without_run, r"has 0 run folders .* figures alone cannot be computed again and are refused"),
    "raised figure": (record_changed(raised),
        r"aopc\.comprehensiveness is 0\.9 .* in the record, and .* from its rows; sub"),
    "renamed method": (record_changed(lambda r: r["method"].update(name="other")), r"are of different methods"),
    "other settings": (record_changed(lambda r: r["method"]["identity"].append(0)), r"its hash is not that of these"),
    "older release": (said_changed(harness="0.2.9"), r"release 0\.2\.9, and planted@1\.0 asks for .*pip install --upgrade"),
    "other bundle": (said_changed(bundle_seal="0" * 64), r"made with another planted@1\.0 than this one"),
    "no such bundle": (said_changed(bundle="planets@1.0"), r"has no bundle 'planets'; did you mean planted\?"),
    "no such minor version": (said_changed(bundle="planted@1.7"), r"there is no bundle planted@1\.7"),
    "other major version": (said_changed(bundle="planted@2.0"), r"is at planted@1\.0: rows of before and after may not"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_nothing_is_left(name, world, results, tmp_path):
    change, words = REFUSED[name]
    place = tampered(world / "submission-theirs", tmp_path / "changed", change)
    with pytest.raises(UserError, match=words) as caught:
        command("merge", str(results), str(place))
    assert "\n" not in str(caught.value)
    assert not list(results.glob("*/*/*")), "nothing is half taken"
    assert history.read(results) == []


@pytest.mark.parametrize("name", ["rows.parquet", "attributions-predicted.safetensors", "record.json"])
def test_a_flipped_byte_is_refused(name, world, results, tmp_path):
    place = tampered(world / "submission-theirs", tmp_path / "changed", flipped(name), resealed=False)
    with pytest.raises(UserError, match=rf"{name} is not what was written: its SHA-256 is another"):
        command("merge", str(results), str(place))


def test_a_changed_file_of_the_run_folder_that_is_sealed_again_is_refused_by_the_record(world, results, tmp_path):
    place = tampered(world / "submission-theirs", tmp_path / "changed", flipped("attributions-predicted.safetensors"))
    with pytest.raises(UserError, match=r"attributions-predicted\.safetensors is corrupt"):
        command("merge", str(results), str(place))


def test_rows_of_a_submission_are_not_read_at_all(world, results, tmp_path):
    """Whatever they hold, the repository's are computed from the explanations."""
    place = tampered(world / "submission-theirs", tmp_path / "changed", flipped("rows.parquet"))
    command("merge", str(results), str(place))
    taken = next(results.glob("planted@1/theirs/*/run/*/rows.parquet"))
    assert taken.read_bytes() == (run_of(world / "submission-theirs") / "rows.parquet").read_bytes()


def test_one_version_of_a_method_has_one_source(world, results, tmp_path):
    command("merge", str(results), str(world / "submission-theirs"))
    place = tampered(world / "submission-theirs", tmp_path / "changed", said_changed(source="0" * 64))
    with pytest.raises(
        UserError, match=r"theirs version 1 was submitted for planted@1\.0 with another source; raise `version`"
    ):
        command("merge", str(results), str(place))


def halved(ragged):
    arrays = {**ragged.arrays, "tokens": ragged.arrays["tokens"] / 2}
    return Ragged(ragged.uids, arrays, ragged.cost)


def test_nothing_is_taken_twice(world, results, tmp_path):
    command("merge", str(results), str(world / "submission-theirs"))
    said = command("merge", str(results), str(world / "submission-theirs"))
    assert said.startswith("theirs: is there already")
    assert len(history.read(results)) == 1
    other = tampered(world / "submission-theirs", tmp_path / "changed", scores_changed(halved))
    with pytest.raises(
        UserError, match=r"planted@1 has these settings of the method already, as theirs .* with other expl"
    ):
        command("merge", str(results), str(other))


def test_what_was_withdrawn_does_not_come_back(world, results):
    command("merge", str(results), str(world / "submission-theirs"))
    command("withdraw", str(results), history.read(results)[-1].place, "why=wrong")
    with pytest.raises(UserError, match=r"as theirs, and they were withdrawn \(wrong\); raise `version`"):
        command("merge", str(results), str(world / "submission-theirs"))


def test_a_submission_of_before_is_refused_by_the_next_major_version(world, results, tmp_path):
    results.parent.joinpath("bundles").unlink()
    shutil.copytree(world / "bundles", results.parent / "bundles")
    bundled(results.parent, next((world / "runs" / "comparisons").glob("*")), version="2.0")
    with pytest.raises(
        UserError, match=r"is for planted@1\.0, and the bundle is at planted@2\.0: rows of before and after may not"
    ):
        command("merge", str(results), str(world / "submission-theirs"))


class TestStored:
    """What lies in a repository is held to its history."""

    @pytest.fixture
    def taken(self, world, results):
        command("merge", str(results), str(world / "submission-theirs"))
        return next(results.glob("planted@1/theirs/*"))

    @pytest.mark.parametrize("name", ["rows.parquet", "attributions-predicted.safetensors", "record.json"])
    def test_a_flipped_byte(self, taken, results, name):
        flipped(name)(taken)
        with pytest.raises(UserError, match=r"is not what was taken: a file of it was changed since"):
            Repository(results).results()

    def test_a_record_that_is_sealed_again(self, taken, results):
        record_changed(raised)(taken)
        with pytest.raises(UserError, match=r"is not what was taken"):
            command("site", str(results), f"out={results.parent / 'site'}")

    def test_a_folder_that_was_put_there(self, taken, results):
        shutil.copytree(taken, taken.with_name("put"))
        with pytest.raises(UserError, match=r"put was never taken"):
            Repository(results).results()

    def test_a_folder_that_is_gone(self, taken, results):
        shutil.rmtree(taken)
        with pytest.raises(UserError, match=r"is gone, and the history names it; take it from the repository"):
            Repository(results).results()

    def test_a_history_that_was_changed(self, taken, results):
        path = results / history.FILE
        path.write_text(path.read_text().replace("merged", "audited"))
        history.add(results, "2026-01-04", "merged", "x", "y")
        path.write_text(path.read_text().replace("audited", "merged", 1))
        with pytest.raises(UserError, match=r"history\.jsonl:2 does not follow from the line before it"):
            history.read(results)


class TestBundles:
    def test_of_run_folders_that_differ(self, world, tmp_path, no_pictures):
        compared(tmp_path, "limit=6")
        with pytest.raises(UserError, match=r"cannot be one bundle, as the choice of examples differs: n=6.* and n=8"):
            command("bundle", str(tmp_path / "runs"), str(world / "runs"), "name=x", "version=1.0", "licence=MIT")

    def test_is_never_changed(self, world):
        with pytest.raises(
            UserError, match=r"planted@1\.0 is there already; a bundle is never changed: give another version"
        ):
            bundled(world, next((world / "runs" / "comparisons").glob("*")))

    def test_a_file_that_was_changed(self, world, tmp_path):
        place = tmp_path / "planted@1.0"
        shutil.copytree(world / "bundles" / "planted@1.0", place)
        (place / "texts.sha256").write_text("another")
        with pytest.raises(UserError, match=r"texts\.sha256 is not what was written"):
            Bundle.read(place)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["name=a", "version=1.0"], "licence= is missing"),
            (["name=A b", "version=1.0", "licence=x"], "name=A b: allowed are small letters"),
            (["name=a", "version=one", "licence=x"], "version=one: give two numbers"),
            (["name=a", "version=1.0", "licence=x", "texts=yes"], "texts=yes: allowed are true, false"),
            (["name=a", "version=1.0", "licence=x", "date=soon"], "date=soon: give a day"),
            (["name=a", "version=1.0", "licenze=x"], "licenze is no setting of this command; did you mean licence"),
        ],
    )
    def test_a_mistake_in_the_command(self, world, words, said):
        with pytest.raises(UserError, match=said):
            command("bundle", str(world / "runs"), *words)
