"""What an analysis is where it says nothing of itself, what else is taken for one, and what is refused in one line."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pytest

from benchmark.analyses import base
from benchmark.analyses.base import Analysis, ModelsAnalysis, PlainAnalysis, as_analysis
from benchmark.analyses.context import Context
from benchmark.analyses.opening import digests, weight_digests
from benchmark.comparison import analyse, in_order
from benchmark.errors import NotApplicable, UserError
from benchmark.opened import open_comparison
from benchmark.report.analysis_tables import read_tables
from benchmark.results.record import TaskRecord
from benchmark.results.store import read_sealed
from benchmark.results.tables import not_applicable
from benchmark.settings.configuration import compose
from benchmark.settings.declared import Count, configurable
from benchmark.settings.identity import identity


class Bare(Analysis):
    """Nothing but its answer."""

    def __call__(self, context):
        return [not_applicable("bare", "none")]


def setting(fingerprint, n=3):
    facts = TaskRecord("task", 1, "test", None, None, n, "data", 0, 0)
    return SimpleNamespace(
        model=SimpleNamespace(fingerprint=fingerprint, name=fingerprint), data=SimpleNamespace(facts=facts)
    )


class Opens(Bare):
    """Two settings, or none."""

    refuses = False

    def opened(self, context):
        if self.refuses:
            raise NotApplicable("there is none")
        return {"one": setting("a"), "two": setting("b")}


CONTEXT = Context(SimpleNamespace(model=None), {}, {})


def test_defaults():
    bare = Bare()
    assert (bare.version, bare.limit, bare.trainings) == (1, None, None)
    assert not any((bare.says_nothing, bare.reads_tables, bare.reads_their_tables, bare.reads_elsewhere))
    assert bare.opened(CONTEXT) == bare.reads(CONTEXT) == {}
    assert as_analysis(bare) is bare
    assert [name for name, _ in in_order({"bare": bare})] == ["bare"]


def test_a_bare_analysis_leaves_its_table(tmp_path):
    analyse({"bare": Bare()}, CONTEXT, tmp_path)
    assert [table.name for table in read_tables(tmp_path)] == ["bare"]
    assert read_sealed(tmp_path / "analyses" / "bare.json")["reads"] == {}


@pytest.mark.parametrize(("says_nothing", "names"), [(False, ["silent"]), (True, [])])
def test_one_that_is_not_applicable_has_a_dash_unless_it_says_nothing(tmp_path, says_nothing, names):
    class Silent(Bare):
        def __call__(self, context):
            raise NotApplicable("never")

    Silent.says_nothing = says_nothing
    analyse({"silent": Silent()}, CONTEXT, tmp_path)
    assert [table.name for table in read_tables(tmp_path)] == names


def test_what_is_opened_is_read():
    analysis = Opens()
    assert analysis.reads_elsewhere
    assert analysis.reads(CONTEXT) == digests(analysis.opened(CONTEXT))
    assert digests({"one": setting("a", n=4)})["one"] != analysis.reads(CONTEXT)["one"], "other examples"
    analysis.refuses = True
    assert analysis.reads(CONTEXT) == {}, "what cannot be asked reads nothing"


def test_models_beside_a_comparisons_own(monkeypatch):
    @configurable
    class Beside(ModelsAnalysis):
        limit: Count | None = 2

        def __call__(self, context):
            return []

    found, asked = {"own": setting("a"), "further": setting("b")}, []
    monkeypatch.setattr(base, "beside", lambda *given: asked.append(given) or found)
    assert Beside().reads(CONTEXT) == {}, "its own model is in the comparison's name"
    assert Beside().reads_elsewhere
    assert Beside({"further": "here"}).reads(CONTEXT) == weight_digests(found)
    assert asked == [(CONTEXT.setting, {"further": "here"}, "analyses.beside.models")]
    for one in found.values():
        one.limited = lambda limit, one=one: (one, limit)
    assert Beside().looked_at(CONTEXT) == {name: (one, 2) for name, one in found.items()}


@dataclass(frozen=True)
class Plain:
    """A stranger's, which is of no class of ours."""

    limit: int = 3
    version: ClassVar[int] = 7
    reads_tables: ClassVar[bool] = True

    def reads(self, context):
        return {"file": "digest"}

    def __call__(self, context):
        return [not_applicable("plain", "none")]


def test_a_callable_is_an_analysis():
    plain = as_analysis(Plain())
    assert isinstance(plain, PlainAnalysis)
    assert (plain.version, plain.limit, plain.reads_tables, plain.says_nothing) == (7, 3, True, False)
    assert plain.reads_elsewhere
    assert plain.reads(CONTEXT) == {"file": "digest"}
    assert [table.name for table in plain(CONTEXT)] == ["plain"]
    assert identity(plain) == identity(Plain()), "its run folders have the names that it gives them"

    def function(context):
        return []

    assert (as_analysis(function).version, as_analysis(function).reads(CONTEXT)) == (1, {})
    assert not as_analysis(function).reads_elsewhere


class TakesMore(Bare):
    def __call__(self, context, folder):
        return []


class ReadsMore(Bare):
    def reads(self):
        return {}


def nothing():
    return []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (TakesMore(), r"TakesMore\(context, folder\) is called as TakesMore\(context\)"),
        (nothing, r"nothing\(\) is called as nothing\(context\)"),
        (ReadsMore(), r"ReadsMore\.reads\(\) is called as ReadsMore\.reads\(context\)"),
        (
            Bare,
            r"Bare is no analysis: subclass benchmark\.analyses\.base\.Analysis, or give what can be called as f\(con",
        ),
        (3, r"int is no analysis: subclass"),
    ],
)
def test_what_cannot_be_called_is_one_line(value, message):
    with pytest.raises(UserError, match=message) as refused:
        as_analysis(value)
    assert "\n" not in str(refused.value)


def test_a_comparison_says_which_analysis_it_is():
    own = "+analyses.mine._target_=tests.analyses.test_base.TakesMore"
    with pytest.raises(
        UserError, match=r"^analyses\.mine: TakesMore\(context, folder\) is called as TakesMore\(context\)"
    ):
        open_comparison(compose("config", ["methods=[random]", own]))
