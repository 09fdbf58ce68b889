"""A folder of YAMLs of one's own: what is wrong in it is a line that names the file and says what to do."""

import pytest

from benchmark.commands import entry
from benchmark.commands.running import looked_at
from benchmark.commands.shown import listing
from benchmark.errors import UserError

MODULE = """
class Mine:
    def __call__(self, model, batch, target):
        return None


def scores(model, batch, target):
    return None
"""

FILES = {
    "methods/mine.yaml": "mine: {_target_: own_methods.Mine}\n",
    "methods/surplus.yaml": "surplus: {_target_: own_methods.Mine, steps: 3}\n",
    "methods/function.yaml": "function: {_target_: own_methods.scores}\n",
    "methods/nothing.yaml": "# to be written\n",
    "methods/short.yml": "short: {_target_: own_methods.Mine}\n",
    "beside.yaml": "beside: {_target_: own_methods.Mine}\n",
    "task/nothing.yaml": "",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, content in FILES.items():
        path = tmp_path / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "own_methods.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "conf"


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        ("methods=[short]", r"methods=short does not exist; .*/methods/short\.yml is not read; call it short\.yaml"),
        ("methods=[methods/short.yml]", r"/methods/short\.yml is not read; call it short\.yaml"),
        ("methods=[mine.yaml]", r"methods=mine\.yaml does not exist; choose it by its name: mine"),
        ("methods=[beside]", r"/beside\.yaml lies beside the folder of its group; move it to .*/methods/beside\.yaml"),
        ("methods=[nothing]", r"/methods/nothing\.yaml is empty; its form is nothing: \{_target_: CLASS\}"),
        ("task=nothing", r"/task/nothing\.yaml is empty; its form is _target_: CLASS"),
        (
            "methods=[surplus]",
            r"methods\.surplus\.steps is no setting: there is no 'steps'; own_methods\.Mine takes none",
        ),
        (
            "methods=[function]",
            r"methods\.function\._target_=own_methods\.scores is a function of a model and a batch, .*; name a class",
        ),
    ],
)
def test_a_mistake_in_it_is_told(folder, chosen, line):
    with pytest.raises(UserError, match=line):
        looked_at(["--config-dir", str(folder), chosen])


def test_what_is_right_in_it_is_taken(folder):
    assert looked_at(["--config-dir", str(folder), "methods=[mine,random]"])


@pytest.mark.parametrize("name", ["methods/rollout.yaml", "task/planted.yaml", "experiment/debate.yaml"])
def test_a_name_of_ours_is_refused(folder, name):
    """Ours would run in its place, whichever the command chooses."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("rollout: {_target_: own_methods.Mine}\n")
    with pytest.raises(UserError, match=rf"/{name} has the name of one of ours, .*; give it another name"):
        looked_at(["--config-dir", str(folder), "methods=[mine]"])


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        (
            "methods/mine7.yaml",
            "rollout: {_target_: own_methods.Mine}\n",
            r"/methods/mine7\.yaml has the key 'rollout', which is not its name; call the key 'mine7'$",
        ),
        (
            "evaluations/probe.yaml",
            "prob: {_target_: own_methods.Mine}\n",
            r"has the key 'prob', which is not its name; call the key 'probe', or call the file prob\.yaml$",
        ),
        (
            "analyses/two.yaml",
            "two: {_target_: own_methods.Mine}\nmore: {_target_: own_methods.Mine}\n",
            r"/analyses/two\.yaml has the key 'more'",
        ),
        (
            "methods/over.yaml",
            "defaults: [rollout]\nrollout: {readout: {start_layer: 1}}\n",
            r"/methods/over\.yaml has the key 'rollout'",
        ),
        (
            "methods/bare.yaml",
            "_target_: own_methods.Mine\n",
            r"/methods/bare\.yaml has no key that is its name; its form is bare: \{_target_: CLASS\}$",
        ),
    ],
)
@pytest.mark.parametrize("words", [["methods=[mine]"], ["-m", "methods=[mine],[random]"]], ids=["one", "sweep"])
def test_a_key_is_the_name_of_its_file(folder, name, content, line, words):
    """What is shown and stored under another name would take the place of what has it."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    with pytest.raises(UserError, match=line):
        looked_at(["--config-dir", str(folder), *words])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "methods/given.yaml is empty; its form is given: {_target_: CLASS}\n"),
        ("given:\n", "methods/given.yaml names no class; its form is given: {_target_: CLASS}\n"),
        ("other: {_target_: own_methods.Mine}\n", "has the key 'other', which is not its name; call the key 'given'"),
        (
            "given: {_target_: own_methods.Min}\n",
            "methods.given._target_=own_methods.Min: the module own_methods has no",
        ),
        ("given: {_target_: nowhere.Mine}\n", "methods.given._target_=nowhere.Mine: there is no module nowhere"),
        ("given: {a\n", "error: a YAML is broken: "),
    ],
)
@pytest.mark.parametrize("words", [["list", "methods"], ["show", "given"]], ids=" ".join)
def test_a_list_and_a_page_tell_it_in_one_line(folder, capsys, words, content, expected):
    (folder / "methods" / "nothing.yaml").unlink()
    (folder / "methods" / "given.yaml").write_text(content)
    with pytest.raises(SystemExit) as caught:
        entry.main([*words, "--config-dir", str(folder)])
    told = capsys.readouterr()
    assert (caught.value.code, told.out, len(told.err.splitlines())) == (2, "", 1)
    assert told.err.startswith("error: ")
    assert expected in told.err


def test_what_is_right_is_listed(folder, capsys):
    for group in ("methods", "task"):
        (folder / group / "nothing.yaml").unlink()
    (folder / "experiment").mkdir()
    (folder / "experiment" / "small.yaml").write_text("limit: 3\n")
    entry.main(["list", "--config-dir", str(folder)])
    lines = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    assert ["mine"] in lines
    assert ["small"] in lines


def test_an_address_is_no_file(folder):
    with pytest.raises(
        UserError, match=r"task\.files\.test=https://x\.org/a\.csv is an address, and files alone are read"
    ):
        looked_at(["task=text_classification", "task.files={test: 'https://x.org/a.csv'}"])


@pytest.mark.parametrize("name", ["experiment", "experiments"])
def test_groups_are_listed_by_either_name(name):
    assert listing(name).startswith("experiment\n")
