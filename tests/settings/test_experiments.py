"""Every experiment with some of its methods, tests or analyses, and with a model that is not its own."""

import pytest
from omegaconf import OmegaConf

from benchmark.commands.running import looked_at, settled_as_typed
from benchmark.errors import UserError
from benchmark.settings.configuration import compose, held_to_choice, missing_keys, options
from tests.covering import one_in

GROUPS = ("methods", "evaluations", "analyses")
EXPERIMENTS = options("experiment")


def write_glue(place):
    for folder in ("SST-2", "MRPC", "RTE"):
        (place / folder).mkdir(exist_ok=True)
        for file in ("train.tsv", "dev.tsv", "test.tsv"):
            (place / folder / file).write_text("sentence\tlabel\na fine film\t1\n")


def told(overrides, place):
    """What is still to be given, given: folders and checkpoints."""
    write_glue(place)
    config = settled_as_typed("config", overrides, None, sweep=False)[1]
    return [*overrides, *(f"{key}={place / 'bert' if 'checkpoint' in key else place}" for key in missing_keys(config))]


@pytest.mark.parametrize("name", one_in(6, EXPERIMENTS))
def test_some_of_an_experiment_can_be_chosen(name):
    experiment = f"+experiment={name}"
    whole = compose("config", [experiment])
    for group in GROUPS:
        for chosen in [list(whole[group])[:1], list(whole[group])[-1:]] if len(whole[group]) > 1 else []:
            overrides, config = settled_as_typed(
                "config", [experiment, f"{group}=[{','.join(chosen)}]"], None, sweep=False
            )
            assert list(config[group]) == chosen, overrides
            assert config[group][chosen[0]] == whole[group][chosen[0]], "what the experiment sets of it holds"
            assert all("_target_" in part for part in config[group].values())
            assert all(list(config[other]) == list(whole[other]) for other in GROUPS if other != group)


@pytest.mark.parametrize("name", one_in(6, EXPERIMENTS))
def test_an_experiment_runs_on_another_model(name, place):
    given = [f"+experiment={name}", "model=hf", f"model.path={place / 'bert'}", "tracking=none"]
    _, config = looked_at(told(given, place))
    assert config.model._target_ == "benchmark.training.sources.HubOrDirectory"
    assert set(config.model) == {"_target_", "path"}


def test_what_an_experiment_sets_of_its_own_model_holds_for_that_alone():
    own = compose("config", ["+experiment=order_attacks"]).model
    assert (own.steps, own.batch_size) == (3000, 64)
    named = compose("config", ["+experiment=order_attacks", "model=tiny"]).model
    assert named == own
    other = compose("config", ["+experiment=order_attacks", "model=tiny_vit"]).model
    assert other == compose("config", ["model=tiny_vit"]).model
    typed = compose("config", ["+experiment=order_attacks", "model=tiny_vit", "model.steps=7"]).model
    assert typed.steps == 7
    with pytest.raises(UserError, match=r"^model\.steps is no setting"):
        looked_at(["+experiment=order_attacks", "model=hf", "model.path=.", "model.steps=7"])


def test_what_an_experiment_sets_of_its_own_task_holds_for_that_alone():
    config = compose("config", ["+experiment=hao2021_glue", "task=mrpc"])
    assert config.task == compose("config", ["task=mrpc"]).task
    assert "shortcuts" not in compose("config", ["+experiment=mine_and_repair", "task=sst2"]).task


def test_what_a_command_sets_of_a_method_that_it_does_not_choose_is_a_mistake():
    chosen = ["+experiment=chefer2021_imagenet", "methods=[rollout]"]
    with pytest.raises(
        UserError, match=r"methods\.attention_gradcam is set, but attention_gradcam is not among the methods; add it: "
    ):
        looked_at([*chosen, "methods.attention_gradcam.edges.mean_over=all"])


@pytest.mark.parametrize("group", ["analyses", "evaluations", "methods"])
def test_what_is_added_to_an_experiment_takes_nothing_away(group):
    added = {"analyses": "over_seeds", "evaluations": "complexity", "methods": "smoothgrad"}[group]
    before, after = (
        OmegaConf.to_container(compose("config", overrides)[group])
        for overrides in (["+experiment=debate"], ["+experiment=debate", f"+{group}={added}"])
    )
    assert added not in before
    assert {name: part for name, part in after.items() if name != added} == before
    assert added in after


def test_a_value_that_nothing_needs_is_not_asked_for(place):
    chosen = ["+experiment=hao2021_glue", "analyses=[]", "evaluations=[triggers]", f"model.path={place / 'bert'}"]
    looked_at([*chosen, "task=planted"])
    with pytest.raises(UserError, match=r"^glue is not set"):
        looked_at(chosen)
    write_glue(place)
    looked_at([*chosen, f"glue={place}"])


def test_a_sweep_over_parts_of_an_experiment_is_looked_at(place):
    looked_at(["-m", "+experiment=chefer2021_imagenet", "methods=[rollout],[random]"])


def test_a_sweep_over_experiments_may_set_what_they_alone_have():
    swept = "+experiment=which_test,which_test_digits"
    overrides, _ = looked_at(["-m", swept, "analyses.which_test.limit=4", "limit=6", "methods=[rollout,random]"])
    told = [text for text in overrides if not text.startswith("-")]
    assert swept in told
    assert {"++analyses.which_test.limit=4", "++limit=6"} <= set(told), "Hydra composes without any of the experiments"
    overrides, _ = looked_at(["-m", swept, "~analyses.randomised"])
    assert "~analyses.randomised" in overrides
    with pytest.raises(UserError, match=r"analyses\.which_test\.limits is no setting"):
        looked_at(["-m", swept, "analyses.which_test.limits=4"])


def test_a_configuration_that_hydra_composed_is_held_to_what_was_chosen():
    overrides = ["+experiment=chefer2021_imagenet", "methods=[rollout]"]
    held = held_to_choice(compose("config", overrides[:1]), overrides)
    assert "attention_gradcam" not in held.methods
    assert "rollout" in held.methods


def test_experiments_of_a_folder_of_ones_own(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - order_attacks\n  - override /methods: [random, rollout]\n"
        "methods:\n  rollout: {readout: {start_layer: 1}}\nmodel: {steps: 10}\n"
    )
    config = compose("config", ["+experiment=mine", "methods=[random]", "model=tiny_vit"], str(tmp_path))
    assert list(config.methods) == ["random"]
    assert config.model == compose("config", ["model=tiny_vit"]).model
    assert compose("config", ["+experiment=mine"], str(tmp_path)).model.steps == 10


def test_what_is_left_out_of_a_task_is_told_once(caplog):
    words = ["+experiment=mine_and_repair", "task=planted_feature", "task@task.task=planted", "task.shortcut_rate=0.7"]
    for _ in range(2):
        assert "shortcuts" not in compose("config", words).task
    assert caplog.messages == [
        "task=planted_feature is not the experiment's task, whose settings are left out: "
        "task.shortcuts=6, task.shortcut_strength=0.95, task.shortcut_splits=['train']"
    ]
    caplog.clear()
    every = ["shortcuts=6", "shortcut_strength=0.9", "shortcut_rate=0.5", "shortcut_splits=[train]"]
    again = compose("config", [*words[:3], *(f"task.{setting}" for setting in every)]).task
    assert (again.shortcuts, again.shortcut_rate) == (6, 0.5)
    assert compose("config", ["+experiment=mine_and_repair", "methods=[rollout]"]).task.shortcuts == 6
    compose("config", ["+experiment=planted_real", "task@task.task=planted"])
    assert caplog.messages == []
