import pytest

from benchmark.report.cells import distinguish, named, natural


def test_one_variant_needs_no_detail():
    assert distinguish([{"steps": 5}]) == [""]
    assert distinguish([{"steps": 5}, {"steps": 5}]) == ["", ""]
    assert named("attattr", "") == "attattr"


def test_only_what_differs_is_shown_by_its_short_name():
    variants = [{"edges.rule": "left", "edges.steps": steps} for steps in (5, 10)]
    assert distinguish(variants) == ["steps=5", "steps=10"]
    assert named("attattr", "steps=5") == "attattr (steps=5)"


def test_settings_that_vary_together_are_shown_once():
    assert distinguish([{"split": "test", "data": "a"}, {"split": "train", "data": "b"}]) == [
        "split=test",
        "split=train",
    ]


def test_short_names_that_clash_are_spelled_out():
    variants = [{"edges.layer": e, "readout.layer": r} for e, r in ((1, 1), (1, 2), (2, 1))]
    assert distinguish(variants)[1] == "edges.layer=1, readout.layer=2"


def test_a_class_is_named_by_its_last_part_and_a_missing_setting_by_nothing():
    variants = [
        {"readout._target_": "methods.readouts.Rollout", "seed": None},
        {"readout._target_": "methods.readouts.Max"},
    ]
    assert distinguish(variants) == ["readout=Rollout", "readout=Max"]


@pytest.mark.parametrize(
    ("first", "second"), [("a (m=5)", "a (m=10)"), ("a", "a (m=5)"), ("a (m=0.5)", "a (m=1)"), ("a", "b")]
)
def test_natural_order(first, second):
    assert sorted([second, first], key=natural) == [first, second]
