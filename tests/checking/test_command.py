"""`attention-benchmark check`, as it is typed."""

import json

import pytest

from benchmark.commands import checking, entry

HEAT = """
from benchmark.types import Attribution

def heat(model, batch, target):
    attention = model.run(batch, record=("attentions",)).attentions[-1].mean(1)
    return Attribution(target, tokens=attention[:, 1])

class Heat:
    class_specific = False
    version = 1

    def __init__(self, row=0):
        self.row = row

    def __call__(self, model, batch, target):
        attention = model.run(batch, record=("attentions",)).attentions[-1].mean(1)
        return Attribution(target, tokens=attention[:, self.row])
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a method of one's own."""
    (tmp_path / "ownheat").mkdir()
    (tmp_path / "ownheat" / "maps.py").write_text(HEAT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def typed(words, capsys):
    """Status, what was printed, and the last line on the standard error."""
    with pytest.raises(SystemExit) as caught:
        entry.main(["check", *words])
    told = capsys.readouterr()
    return caught.value.code, told.out, (told.err.strip().splitlines() or [""])[-1]


def test_a_method_by_name(here, capsys):
    status, out, _ = typed(["rollout", "only=form,class", "model=tiny_bert,gpt2"], capsys)
    assert status == 0
    assert out.startswith("rollout: 4 pass\n")
    assert out.endswith("Report: check/check.md and check.json\n")
    told = json.loads((here / "check" / "check.json").read_text())
    assert [(one["check"], one["model"]) for one in told["checks"]] == [
        ("form", "small bert"), ("class", "small bert"), ("form", "small gpt2"), ("class", "small gpt2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["ownheat.maps.heat", "only=form,class,read"], 1, "first: class (small bert): FAIL"),
        (["ownheat.maps.Heat", "only=form,class,read"], 0, "Heat: 3 pass"),
        (["ownheat.maps.Heat", "Heat.row=1", "only=form,class,read"], 1, "those of row 1; the model reads row 0"),
        (["attattr", "attattr.edges.steps=2", "only=form", "out=elsewhere"], 0, "elsewhere/check.md"),
        (["model=gpt2", "only=logits,rows"], 0, "small gpt2: 2 pass"),
    ],
)  # fmt: skip
def test_what_is_checked(here, capsys, words, status, said):
    found, out, _ = typed(words, capsys)
    assert found == status
    assert said in out


def test_a_method_of_another_folder_of_yamls(here, capsys):
    (here / "yamls" / "methods").mkdir(parents=True)
    (here / "yamls" / "methods" / "second_row.yaml").write_text(
        "second_row:\n  _target_: ownheat.maps.Heat\n  row: 1\n"
    )
    status, out, _ = typed(["second_row", "--config-dir", "yamls", "only=form,read"], capsys)
    assert (status, out.splitlines()[0].startswith("second_row: 1 pass, 1 fail")) == (1, True)
    assert typed(["second_row", "second_row.row=0", "--config-dir", "yamls", "only=form,read"], capsys)[0] == 0


def test_golden_arrays_are_written_and_read(here, capsys):
    assert typed(["rollout", "only=form", "write_golden=own.npz"], capsys)[0] == 0
    assert typed(["rollout", "only=golden", "golden=own.npz"], capsys)[0] == 0
    assert typed(["raw_attention", "only=golden", "golden=own.npz"], capsys)[0] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "error: name a method (attention-benchmark check rollout), or a model"),
        (["rolout"], "error: methods=rolout does not exist; did you mean rollout?"),
        (["rollout", "only=fom"], "error: only=fom is no check; did you mean form"),
        (["model=gpt2", "only=sign"], "error: only=sign is no check of a model"),
        (["rollout", "model=brt"], "error: model=brt: there is no small model of that name; did you mean bert"),
        (["rollout", "model=hf"], "error: model.path is not set"),
        (["attattr", "attattr.edges.stps=3"], "error: methods.attattr.edges.stps is no setting"),
        (["attattr", "attattr.edges.steps=-3"], "error: methods.attattr.edges.steps=-3: allowed are"),
        (["nowhere.Method"], "error: methods.Method._target_=nowhere.Method: there is no module nowhere"),
        (["rollout", "golden=nowhere.npz", "only=golden"], "error: golden=nowhere.npz cannot be read"),
        (["rollout", "--flag"], "error: --flag is no flag"),
    ],
)
def test_a_mistake_is_one_line(here, capsys, words, said):
    status, out, error = typed(words, capsys)
    assert (status, out) == (2, "")
    assert error.startswith(said), error
    assert not (here / "check").exists()


def test_mistakes_are_found_before_anything_is_imported():
    asked = checking.looked_at(["rollout", "model=tiny_bert", "only=[form,read]", "out=here"])
    assert (asked.method, asked.small, asked.only, str(asked.out)) == (
        "rollout",
        ("tiny_bert",),
        ("form", "read"),
        "here",
    )
    assert not asked.has_model
