"""What a YAML leaves to its class can be set from the command line, and is written beside results."""

import pytest
from omegaconf import OmegaConf

import benchmark
from benchmark.errors import UserError
from benchmark.settings.configuration import KEYED, compose, options, settled
from benchmark.settings.defaults import parameters, whole, written
from benchmark.settings.identity import digest_of
from benchmark.settings.making import make
from tests.conftest import GIVEN
from tests.covering import one_in

GROUPS = {"methods": True, "evaluations": True, "analyses": True, "task": False, "model": False, "tracking": False}
EVERY = [(group, name) for group in GROUPS for name in options(group)]


def leaves(node, path=()):
    """Dotted names and values of everything that can be set."""
    for key, value in node.items():
        if key.startswith("_"):
            continue
        if "_target_" in str(value) and isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield ".".join((*path, key)), value


def spelled(value):
    """A value as it is typed behind `name=`."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{spelled(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spelled, value)) + "]"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


@pytest.mark.parametrize("part", one_in(3, EVERY), ids=" ".join)
def test_every_field_of_every_yaml_can_be_set(part):
    group, name = part
    keyed = GROUPS[group]
    chosen = f"+{group}={f'[{name}]' if keyed else name}"
    config = compose(None, [chosen])[group]
    config = config[name] if keyed else config
    plain = whole(OmegaConf.to_container(config, resolve=True))
    given = {key: value for key, value in leaves(plain) if value != "???"}
    prefix = f"{group}.{name}" if keyed else group
    overrides = [chosen, *(f"{prefix}.{key}={spelled(value)}" for key, value in given.items())]
    changed = OmegaConf.select(compose(None, overrides), prefix)
    found = OmegaConf.to_container(changed, resolve=True)
    assert whole(found) == plain
    assert dict(leaves(found)).items() >= given.items()
    if "???" not in str(plain) and name != "text_classification" and group != "tracking":  # the first needs a place
        first, second = make(config), make(changed)
        assert digest_of(getattr(first, "explainers", first)) == digest_of(getattr(second, "explainers", second))


def test_a_setting_of_the_class_is_added():
    assert settled("config", ["methods=[attattr]", "methods.attattr.heads=sum"])[0][-1] == "++methods.attattr.heads=sum"
    assert benchmark.build("methods/attattr", "heads=sum").heads == "sum"


def test_a_part_that_the_yaml_leaves_to_the_class_keeps_its_other_settings():
    changed = benchmark.build("evaluations/head_pruning", "calibration.limit=7")
    assert (changed.calibration.split, changed.calibration.limit) == ("validation", 7)


def test_another_class_has_other_settings():
    overrides = [
        "methods.rollout.edges._target_=methods.edges.attattr.AttAttr",
        "methods.rollout.edges.quadrature=right",
    ]
    assert compose("config", overrides).methods.rollout.edges.quadrature == "right"
    with pytest.raises(UserError, match="there is no 'stps'; did you mean steps"):
        compose("config", [overrides[0], "methods.rollout.edges.stps=3"])


@pytest.mark.parametrize(("override", "expected"), [
    ("methods.attattr.hedas=sum", r"methods.attattr.hedas is no setting: there is no 'hedas'; did you mean heads"),
    ("evaluations.aopc.fraction=[.1]", r"there is no 'fraction'; did you mean fractions"),
    ("task.tran=3", "there is no 'tran'; did you mean train"),
    ("methods.attattr.edges.steps.more=3", "methods.attattr.edges.steps.more is no setting"),
])  # fmt: skip
def test_what_no_class_has_is_told_with_the_nearest_names(override, expected):
    with pytest.raises(UserError, match=expected):
        compose("config", [override])


def test_defaults_are_written_as_a_yaml_would_hold_them():
    from benchmark.evaluations.head_pruning import Calibration

    assert written(Calibration()) == {
        "_target_": "benchmark.evaluations.head_pruning.Calibration", "split": "validation", "limit": 100
    }  # fmt: skip
    assert written((0.1, None, True)) == [0.1, None, True]
    assert parameters("no.such.thing") == {}


@pytest.mark.parametrize("group", KEYED)
def test_all_is_every_yaml_of_a_group_and_of_a_further_folder(group, tmp_path):
    of_ours = [name for name in options(group) if f"{group}/{name}" not in GIVEN]
    assert list(compose(None, [f"+{group}=all"])[group]) == of_ours
    (tmp_path / group).mkdir()
    (tmp_path / group / "mine.yaml").write_text("mine: {_target_: builtins.dict}\n")
    found = compose(None, [f"+{group}=[all]"], str(tmp_path))[group]
    assert sorted(found) == sorted([*of_ours, "mine"])
    assert "mine" not in compose(None, [f"+{group}=all"])[group]


@pytest.mark.parametrize("override", [
    "report.names.methods.attattr=ATTATTR", "+report.names.methods.attattr=ATTATTR",
    "report.names.methods={attattr: ATTATTR}", "report={names: {methods: {attattr: ATTATTR}}}",
])  # fmt: skip
def test_a_method_is_called_otherwise_whichever_way_it_is_written(override):
    report = compose("config", [override, "report.latex.columns=two"]).report
    assert (report.names.methods, report.latex.columns, report.latex.interval) == (
        {"attattr": "ATTATTR"},
        "two",
        "half",
    )
