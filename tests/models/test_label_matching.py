"""The task's classes among the model's, and names that are told."""

import numpy as np
import pytest

import benchmark
from benchmark.errors import UserError
from benchmark.models.label_matching import label_map, with_labels
from benchmark.types import Example
from tests import text_models


def test_names_are_matched_without_case_and_whole_floats_are_whole():
    assert label_map(["NEG", "POS"], ["pos", "Neg"], "m") == [1, 0]
    assert label_map(["1.0", "2"], ["2.0", "1"], "m") == [1, 0]
    assert label_map(["a", "b", "c"], ["c"], "m") == [2]


def test_synsets_are_matched_in_whole_or_by_their_first_name():
    assert label_map(["goldfish", "tabby"], ["tabby, tabby cat", "goldfish, Carassius auratus"], "m") == [1, 0]
    assert label_map(["tench, Tinca tinca", "tabby, tabby cat"], ["Tabby"], "m") == [1]
    assert label_map(["maillot", "maillot, tank suit"], ["maillot, tank suit", "maillot"], "m") == [1, 0]


def test_synsets_that_begin_alike_are_not_taken_for_each_other():
    with pytest.raises(UserError, match=r"label crane, machine of the task is unknown to the model 'm'"):
        label_map(["crane, bird", "alp"], ["crane, machine", "alp"], "m")
    assert label_map(["crane, bird, wader", "alp"], ["crane, wader"], "m") == [0]
    assert label_map(["crane", "alp"], ["crane, wader"], "m") == [0], "a name alone leaves it open"


def test_classes_of_one_name_are_matched_in_order_or_not_at_all():
    assert label_map(["crane", "alp", "crane"], ["crane", "crane", "alp"], "m") == [0, 2, 1]
    with pytest.raises(UserError, match=r"label crane of the task names 1 of its classes and 2 of the model 'm'"):
        label_map(["crane", "alp", "crane"], ["crane", "alp"], "m")
    with pytest.raises(UserError, match=r"label crane of the task names 2 of its classes and 1 of the model 'm'"):
        label_map(["crane", "alp"], ["crane", "crane"], "m")


def test_long_lists_of_classes_are_cut():
    with pytest.raises(UserError, match=r"'19', \.\.\. \(1000 in all\)\]") as caught:
        label_map([str(number) for number in range(1000)], ["panda"], "m")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("model", "task", "proposed"),
    [
        (["LABEL_0", "LABEL_1"], ["NEG", "POS"], '"model.labels=[NEG,POS]"'),
        (["NEG", "POS"], ["positive", "negative"], '"model.labels=[negative,positive]"'),
        (["NEG", "POS"], ["1", "5"], "\"model.labels=['1','5']\""),
        (["NEG", "POS"], ["0", "1"], '"task.label_names=[NEG,POS]"'),
        (["a", "b", "c"], ["d", "e"], "the model has 3 classes: name each in their order with model.labels="),
        (["LABEL_0", "LABEL_1"], ["so, so", "große"], "\"model.labels=['so, so','große']\""),
    ],
)
def test_the_words_to_type_are_proposed(model, task, proposed):
    with pytest.raises(UserError) as caught:
        label_map(model, task, "m")
    assert proposed in str(caught.value)
    assert "the model 'm'" in str(caught.value)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return benchmark.load_model(
        text_models.save_bert(tmp_path_factory.mktemp("mine") / "bert", labels=("LABEL_0", "LABEL_1"))
    )


def test_told_names_are_those_of_the_outputs_and_part_of_the_fingerprint(model):
    told = with_labels(model, ["NEG", "POS"])
    assert (told.labels, told.label_map(["POS"])) == (("NEG", "POS"), [1])
    assert len({model.fingerprint, told.fingerprint, with_labels(model, ["POS", "NEG"]).fingerprint}) == 3
    assert with_labels(model, None) is with_labels(model, ["LABEL_0", "LABEL_1"]) is model
    assert told.model is model.model


def test_names_can_be_told_where_a_model_is_loaded(tmp_path, model):
    folder = text_models.save_bert(tmp_path / "bert", labels=("LABEL_0", "LABEL_1"))
    told = benchmark.load_model(folder, device="cpu", labels=["NEG", "POS"])
    same = with_labels(benchmark.load_model(folder, device="cpu"), ["NEG", "POS"])
    assert (told.labels, told.fingerprint) == (("NEG", "POS"), same.fingerprint)
    assert benchmark.explain(told, "a fine film", methods=["position"], target="pos").target.classes.tolist() == [1]
    adopted = benchmark.load_model(model.model, labels=["NEG", "POS"])
    assert adopted.labels == ("NEG", "POS")
    with pytest.raises(
        UserError, match=r"model.labels=\['NEG'\]: .* which it calls LABEL_0, LABEL_1; give a list of 2"
    ):
        benchmark.load_model(folder, device="cpu", labels=["NEG"])


@pytest.mark.parametrize("labels", [["NEG"], ["NEG", "neg"], "NEG", ["a", "b", "c"]])
def test_a_name_for_each_class(model, labels):
    with pytest.raises(
        UserError, match=r"model.labels=.* has 2 classes, which it calls LABEL_0, LABEL_1; give a list of 2"
    ):
        with_labels(model, labels)


@pytest.mark.parametrize("labels", [["POS", "NEG"], ["pos", "other"]])
def test_a_model_s_own_names_are_not_given_to_other_classes(tmp_path, labels):
    """It would swap its classes, whichever its outputs mean."""
    folder = text_models.save_bert(tmp_path / "bert", labels=("NEG", "POS"))
    told = rf"calls class 0 {labels[0]}, which is the name of class 1 of the model 'bert': its classes are NEG, POS, in this"
    with pytest.raises(UserError, match=told):
        benchmark.load_model(folder, device="cpu", labels=labels)
    assert benchmark.load_model(folder, device="cpu", labels=["neg", "good"]).labels == ("neg", "good")


def test_classes_of_one_name_can_be_told_apart(tmp_path):
    folder = text_models.save_bert(tmp_path / "bert", labels=("crane", "crane"))
    told = benchmark.load_model(folder, device="cpu", labels=["crane", "crane (machine)"])
    assert told.label_map(["crane (machine)", "crane"]) == [1, 0]


@pytest.mark.mistyped
def test_an_example_that_is_none_of_the_task_is_refused(model):
    with pytest.raises(UserError, match="example 'x' has the label 2 of 2 classes"):
        model.encode_examples([Example("x", "a film", 2)], [0, 1])
    with pytest.raises(UserError, match="example 'x' has the label -2 of 2 classes"):
        model.encode_examples([Example("x", "a film", -2)], [0, 1])


def test_an_unknown_label_stays_unknown(model):
    assert model.encode_examples([Example("x", "a film", -1), Example("y", "a film", 1)], [1, 0]).label.tolist() == [
        -1,
        0,
    ]
    with pytest.raises(UserError, match="example 'x' has a rationale of 3 marks for 2 words"):
        model.encode_examples([Example("x", "a film", 0, np.array([True, False, True]))], [0, 1])


def test_a_rationale_may_be_a_list_of_yes_and_no(model):
    batch = model.encode_examples([Example("x", "a film", 0, [True, False]), Example("y", "a film", 0, (0, 1))], [0, 1])
    assert [marks.tolist() for marks in batch.rationale] == [[True, False], [False, True]]
    assert {marks.dtype for marks in batch.rationale} == {np.dtype(bool)}


@pytest.mark.parametrize("marks", [[0.5, 1], ["yes", "no"], [[True], [False]], [[True], [False, True]], True])
def test_a_rationale_that_is_no_row_of_yes_and_no_is_one_line(model, marks):
    with pytest.raises(UserError, match="example 'x' has a rationale that is no row of"):
        model.encode_examples([Example("x", "a film", 0, marks)], [0, 1])
