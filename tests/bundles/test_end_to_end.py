"""A third party's package, from a bundle to the site: bundle, submit, merge, audit, withdraw, site."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from benchmark.bundles import auditing, history
from benchmark.bundles.auditing import seed_of, share_found
from benchmark.bundles.bundle import Bundle
from benchmark.bundles.making import typed
from benchmark.bundles.repository import Repository
from benchmark.commands.board import COMMANDS
from benchmark.errors import UserError
from benchmark.results.store import Ragged
from tests.bundles.world import (
    bundled,
    command,
    compared,
    run_of,
    scores_changed,
    submitted,
    tampered,
)
from tests.covering import one_in

AUDITED = ("k=4", "date=2026-01-05")


@pytest.fixture
def there(world, results, monkeypatch):
    """The repository with the third party's submission; commands are run where its package lies."""
    monkeypatch.chdir(world)
    command("merge", str(results), str(world / "submission-theirs"), "date=2026-01-04")
    return results


def rows(results):
    content = json.loads((results / "leaderboard.json").read_text())
    jsonschema.validate(content, json.loads((results / "leaderboard.schema.json").read_text()))
    return {method["shown"]: method["provenance"] for method in content["comparisons"][0]["methods"]}


def test_what_was_submitted_is_the_row_of_the_method_itself(there, world):
    """x · gradient under another name has the figures of the bundle's own x · gradient."""
    content = json.loads((there / "leaderboard.json").read_text())
    methods = {method["shown"]: method for method in content["comparisons"][0]["methods"]}
    assert methods["theirs"]["figures"] == methods["gradient_x_input"]["figures"]
    assert [one["level"] for one in rows(there).values()].count("reference") == 3
    assert rows(there)["theirs"] == {
        "level": "retested", "k": None, "date": "2026-01-03", "check": rows(there)["theirs"]["check"],
        "submission": Repository(there).submissions()[0].seal,
    }  # fmt: skip
    assert content["comparisons"][0]["bundle"]["version"] == "1.0"


@pytest.mark.thorough
def test_the_whole_way(there, world):
    said = command("audit", str(there), *AUDITED)
    assert "theirs: 4 of 8 explanations computed again: scores " in said
    assert "are others" not in said
    assert rows(there)["theirs"]["level"] == "recomputed"
    assert rows(there)["theirs"]["k"] == 4
    out = world / "site"
    command("site", str(there), f"out={out}")
    bundle_page = (out / "bundles" / "planted-1.html").read_text()
    assert "recomputed" in bundle_page
    method_page = (out / "methods" / "theirs.html").read_text()
    for fact in ("Third Party", "theirs.EmbeddingTimesGradient", "4 of 8 explanations computed again", "licence: MIT"):
        assert fact in method_page
    events = history.read(there)
    assert [event.what for event in events] == ["merged", "audited"]
    (place,) = {event.place for event in events}
    command("withdraw", str(there), place, "why=a mistake in the power", "date=2026-01-06")
    assert "theirs" not in rows(there)
    assert (there / place / "run").is_dir(), "nothing is deleted"
    command("site", str(there), f"out={out}")
    assert "a mistake in the power" in (out / "changes.html").read_text()
    with pytest.raises(UserError, match="is withdrawn already"):
        command("withdraw", str(there), place, "why=again")
    assert str(world) not in "".join(path.read_text() for path in out.rglob("*.html")), "no folder of this machine"


def test_a_class_that_does_not_keep_its_word_is_told_before_anything_is_explained(world, monkeypatch):
    monkeypatch.chdir(world)
    (world / "lying.py").write_text(NOSY.replace("Nosy", "Lying").replace("class_specific = 1, False", "kind = 1, 0"))
    monkeypatch.syspath_prepend(str(world))
    with pytest.raises(
        UserError, match=r"lying cannot be submitted, as class .*FAIL.*; mend it, or what its class declares"
    ):
        submitted(world, "lying.Lying", "lying")


def negated(name):
    return lambda ragged: Ragged(ragged.uids, {**ragged.arrays, name: -ragged.arrays[name]}, ragged.cost)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "file"),
    [("tokens", "attributions-predicted"), ("classes", "classes")],
)
def test_explanations_that_were_exchanged_are_not_reproduced(name, file, world, results, tmp_path, monkeypatch):
    """Whoever computes figures and rows from the exchanged ones, which then fit them, is found by the audit."""
    monkeypatch.chdir(world)
    monkeypatch.setattr("benchmark.bundles.merging.differences", lambda *_: iter(()))
    place = tampered(world / "submission-theirs", tmp_path / "changed", scores_changed(negated(name), file))
    command("merge", str(results), str(place))
    text, status = COMMANDS["audit"][0]([str(results), *AUDITED])
    assert status == 1
    assert "4 of 8 explanations computed again are others: scores differ by at most 2.0e+00" in text
    assert rows(results)["theirs"]["level"] == "not reproduced"
    text, status = COMMANDS["audit"][0]([str(results), "k=1"])
    assert (status, "was not reproduced on 2026-01-05, and stays so" in text) == (1, True)


@pytest.mark.thorough
def test_an_audit_that_a_method_ends_says_so_and_the_others_go_on(world, results, monkeypatch):
    monkeypatch.chdir(world)
    (world / "ending.py").write_text(NOSY.replace("Nosy", "Ending").replace("raise UserError", "os._exit(4)  # "))
    monkeypatch.syspath_prepend(str(world))
    command("merge", str(results), str(submitted(world, "ending.Ending", "ending")), str(world / "submission-theirs"))
    text, status = COMMANDS["audit"][0]([str(results), *AUDITED])
    assert status == 1
    assert "ending: explaining again ended with status 4" in text
    assert "theirs: 4 of 8 explanations computed again: scores" in text
    assert rows(results)["ending"]["level"] == "not reproduced"


def test_scores_made_elsewhere(world, results, monkeypatch):
    """They need no code, and cannot be audited."""
    monkeypatch.chdir(world)
    bundle = Bundle.read(world / "bundles" / "planted@1.0")
    given = Ragged.read(run_of(world / "submission-theirs") / "attributions-predicted.safetensors")
    assert given.uids == bundle.task.uids
    maps = json.loads(
        (world / "bundles" / "planted@1.0" / "methods" / _run(world, "rollout") / "heatmap.json").read_text()
    )
    words = {entry["uid"]: entry["words"] for entry in maps}
    lines = [json.dumps({"uid": uid, "scores": list(range(len(words[uid])))}) for uid in bundle.task.uids]
    (world / "mine.jsonl").write_text("\n".join(lines))
    out = world / "submission-mine"
    shutil.rmtree(out, ignore_errors=True)
    bundle_word = f"bundle={world / 'bundles' / 'planted@1.0'}"
    command("submit", "scores=mine.jsonl", bundle_word, "author=A", "licence=CC0", f"out={out}")
    assert not (out / "check.json").exists()
    command("merge", str(results), str(out))
    assert rows(results)["mine"] == {**rows(results)["mine"], "level": "retested", "check": None}
    assert "made elsewhere cannot be computed again: it stays retested" in command("audit", str(results), *AUDITED)


def _run(world, name):
    return next(
        path.name for path in (world / "bundles" / "planted@1.0" / "methods").iterdir() if path.name.startswith(name)
    )


def test_a_package_that_is_not_installed_is_not_audited(there, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert auditing.is_there("methods.controls.Position")
    assert not auditing.is_there("nowhere.Position")
    monkeypatch.setattr(auditing, "is_there", lambda target: False)
    said = command("audit", str(there), "k=1")
    assert "not audited: its package is not installed here (theirs.EmbeddingTimesGradient)" in said
    assert rows(there)["theirs"]["level"] == "retested"


def test_an_audit_without_a_way_to_cut_the_network_off(there, monkeypatch):
    monkeypatch.setattr(auditing, "_can_be_cut_off", lambda: False)
    with pytest.raises(UserError, match=r"the network cannot be cut off here .* network=allowed"):
        command("audit", str(there), *AUDITED)


@pytest.mark.thorough
def test_a_submitted_method_sees_no_network_no_credential_and_no_answer(world, results, monkeypatch):
    """Nothing of the environment reaches it, nor what it gave before; and it can write nothing that stays."""
    monkeypatch.chdir(world)
    (world / "nosy.py").write_text(NOSY.replace("RESULTS", str(results)).replace("WORLD", str(world)))
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    command("merge", str(results), str(submitted(world, "nosy.Nosy", "nosy")))
    text, status = COMMANDS["audit"][0]([str(results), *AUDITED])
    assert status == 1
    assert "nosy: explaining again ended with status 3: tokens: [], network: False, results: [], disk: False" in text


NOSY = """
import os
import socket

from benchmark.errors import UserError
from benchmark.types import Attribution, Method


class Nosy(Method):
    version, class_specific = 1, False

    def explain(self, model, batch, target):
        if "request.json" in " ".join(os.sys.argv):
            tokens = [name for name in os.environ if "TOKEN" in name]
            try:
                socket.create_connection(("127.0.0.1", 9), timeout=2)
                reached = True
            except ConnectionRefusedError:
                reached = True  # somebody answers, if only with a refusal
            except OSError:
                reached = False
            try:
                open("WORLD/written", "w").close()
                disk = True
            except OSError:
                disk = False
            seen = os.listdir("RESULTS") if os.path.isdir("RESULTS") else None
            raise UserError(f"tokens: {tokens}, network: {reached}, results: {seen}, disk: {disk}")
        return Attribution(target=target, tokens=batch.attention_mask.float().cumsum(1))
"""


@pytest.mark.thorough
class TestNewColumns:
    """A test that is added, or changed, is computed for what was submitted before."""

    def test_a_minor_version_adds_a_column(self, world, results, tmp_path, monkeypatch, no_pictures):
        own = _with_bundles(results, world)
        command("merge", str(results), str(world / "submission-theirs"))
        more = compared(tmp_path / "more", "evaluations=[perturbation,aopc,class_specificity,decision_flips]")
        bundled(own, more, version="1.1")
        assert "decision_flips: in 3 of 4 methods" in _bundle_page(results, tmp_path)
        said = command("merge", str(results), "--retest")
        assert "theirs: the tests of planted@1.1 computed from its explanations" in said
        assert "decision_flips: in" not in _bundle_page(results, tmp_path)
        assert command("merge", str(results), "--retest").count("\n") == 0, "nothing is left to do"
        assert [event.what for event in history.read(results)] == ["merged", "retested"]

    def test_a_major_version_takes_what_was_submitted_along(self, world, results, tmp_path, no_pictures):
        own = _with_bundles(results, world)
        command("merge", str(results), str(world / "submission-theirs"))
        other = compared(tmp_path / "other", "evaluations=[aopc]", "evaluations.aopc.fractions=[0.5]")
        bundled(own, other, version="2.0")
        command("merge", str(results), "--retest")
        content = json.loads((results / "leaderboard.json").read_text())
        versions = {c["bundle"]["version"]: {m["shown"] for m in c["methods"]} for c in content["comparisons"]}
        assert "theirs" in versions["2.0"]
        assert "theirs" in versions["1.0"], "the old column stays"
        digests = {c["bundle"]["version"]: c["tests"]["aopc"]["digest"] for c in content["comparisons"]}
        assert digests["1.0"] != digests["2.0"], "versions of a test never share a column"
        assert "earlier version" in _bundle_page(results, tmp_path)


def _with_bundles(results, world):
    place = results.parent
    (place / "bundles").unlink()
    shutil.copytree(world / "bundles", place / "bundles")
    return place


def _bundle_page(results, tmp_path):
    command("site", str(results), f"out={tmp_path / 'site'}")
    return (tmp_path / "site" / "bundles" / "planted-1.html").read_text()


class Killed(BaseException):
    """As if the process were gone."""


@pytest.mark.thorough
class TestKills:
    """After a kill at any moment of a change, the next command goes on."""

    @pytest.fixture
    def killed(self, monkeypatch):
        """Ends the process at the number of a call: of a move of a folder, or of a write of the history."""

        def at(number):
            calls = iter(range(100))

            def ending(function):
                def called(*arguments, **settings):
                    if next(calls) == number:
                        raise Killed
                    return function(*arguments, **settings)

                return called

            monkeypatch.setattr(Path, "replace", ending(Path.replace))
            monkeypatch.setattr(history, "add", ending(history.add))
            monkeypatch.setattr("benchmark.bundles.repository.shutil.rmtree", ending(shutil.rmtree))

        yield at
        monkeypatch.undo()

    @pytest.mark.parametrize("number", one_in(2, range(6)))
    def test_of_a_merge(self, number, world, results, killed, monkeypatch):
        monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        killed(number)
        try:
            command("merge", str(results), str(world / "submission-theirs"))
        except Killed:
            monkeypatch.undo()
        else:
            monkeypatch.undo()
            assert number > 3, "it was killed"
        command("merge", str(results), str(world / "submission-theirs"))
        assert [result.level for result in Repository(results).results()].count("retested") == 1
        assert [event.what for event in history.read(results)] == ["merged"]

    @pytest.mark.parametrize("number", one_in(2, range(5)))
    def test_of_a_withdrawal(self, number, there, killed, monkeypatch):
        place = history.read(there)[-1].place
        killed(number)
        with suppress(Killed):
            command("withdraw", str(there), place, "why=a\u2028b")
        monkeypatch.undo()
        with suppress(UserError):  # it is withdrawn already
            command("withdraw", str(there), place, "why=again")
        assert [event.what for event in history.read(there)] == ["merged", "withdrawn"]
        assert [bool(one.withdrawn) for one in Repository(there).results() if one.submission] == [True]


def test_a_history_that_ends_too_early_is_seen(there):
    """The leaderboard names the last line that it was written from."""
    command("withdraw", str(there), history.read(there)[-1].place, "why=wrong")
    first, _ = (there / history.FILE).read_text().splitlines(keepends=True)
    (there / history.FILE).write_text(first)
    next(there.glob("*/*/*/withdrawn.json")).unlink()
    with pytest.raises(UserError, match=r"history\.jsonl lacks lines that leaderboard\.json was written from"):
        command("site", str(there), f"out={there.parent / 'site'}")


def test_a_folder_that_is_no_site_is_left_alone(there, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("mine")
    for out in (tmp_path / "precious", tmp_path / "precious" / "thesis.tex", there):
        with pytest.raises(
            UserError, match=r"holds something else than a site, which would be lost; name another folder"
        ):
            command("site", str(there), f"out={out}")
    assert (tmp_path / "precious" / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -m benchmark limit=8 'methods=[a,b]'", ["python", "-m", "benchmark", "limit=8", "methods=[a,b]"]),
        ("benchmark.compare('limit=8', \"name=x\")", ["python", "-m", "benchmark", "limit=8", "name=x"]),
        ("benchmark.compare(*words)", []),
        ("it's no command", []),
    ],
)
def test_the_words_of_a_command(command, words):
    assert typed(command) == words


def test_examples_of_an_audit_are_drawn_by_what_nobody_knew_before():
    first = seed_of("a", "b", "nonce")
    assert first == seed_of("a", "b", "nonce") != seed_of("a", "b", "another")


@pytest.mark.parametrize(("share", "k"), [(0.05, 59), (0.14, 20)])
def test_how_many_exchanged_explanations_an_audit_finds(share, k):
    """So many examples, drawn from very many, hold one of this share with probability .95."""
    assert share_found(k) == pytest.approx(share, abs=0.005)
    draws = np.random.default_rng(0).random((20_000, k)) < share_found(k)
    assert draws.any(1).mean() == pytest.approx(0.95, abs=0.005)


def test_texts_stay_out_where_their_licence_does_not_let_them_in(world, results, tmp_path):
    place = tmp_path / "own"
    place.mkdir()
    bundle = bundled(place, next((world / "runs" / "comparisons").glob("*")), texts="false")
    assert not list(bundle.rglob("heatmap.json"))
    words = json.loads((world / "bundles/planted@1.0/methods" / _run(world, "rollout") / "heatmap.json").read_text())[
        0
    ]["words"]
    sentence = " ".join(words)
    for path in bundle.rglob("*"):
        if path.is_file() and "model" not in path.parts:
            assert sentence.encode() not in path.read_bytes()
    assert sum(line.count("  ") for line in (bundle / "texts.sha256").read_text().splitlines()) == 8


@pytest.mark.thorough
def test_a_bundle_asks_for_folders_of_a_machine(world, tmp_path, no_pictures):
    """A model that lies in a folder is no part of the bundle, and nothing says where it lay."""
    checkpoint = next((world / "bundles" / "planted@1.0" / "model").iterdir())
    comparison = compared(tmp_path, "model=hf", f"model.path={checkpoint}", trained=False)
    bundle = bundled(tmp_path, comparison)
    assert Bundle.read(bundle).model.settings["path"] == "???"
    for path in bundle.rglob("*.json"):
        assert str(tmp_path) not in path.read_text()
    for path in bundle.rglob("*.yaml"):
        assert str(checkpoint) not in path.read_text()
    (tmp_path / "m.yaml").write_text("m:\n  _target_: methods.controls.Position\n")
    words = (str(tmp_path / "m.yaml"), f"bundle={bundle}", "author=A", "licence=MIT", f"out={tmp_path / 's'}")
    with pytest.raises(UserError, match=r"planted@1\.0 asks for model\.path=FOLDER, which lie on your machine"):
        command("submit", *words)
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    assert Path(command("submit", *words, f"model.path={other}").rpartition(": ")[2]).is_dir()
