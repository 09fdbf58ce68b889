"""`benchmark.explain`: scores of any kind of input by any kind of method, and what is shown of them."""

import os
import re
from base64 import b64decode
from functools import partial
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import benchmark
from benchmark.checking import small_models
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.maps import pixel_map
from benchmark.notebook.heatmap import Shades, overlay, scaled, signed
from benchmark.types import Attribution
from methods.controls import Position, Random
from tests import text_models

TEXT = "the untoldly film was <b>dull</b> & good"


def letters(text):
    return [len(word) for word in text.split()]


def signs(model, batch, target):
    tokens = torch.where(batch.units >= 0, (-1.0) ** batch.units, 0.25)
    return Attribution(target=target, tokens=tokens * batch.attention_mask)


def test_names_objects_functions_and_settings(model):
    given = ["rollout", "methods.attattr.edges.steps=3", Position(), letters, signs, "rollout.readout.start_layer=1"]
    explanation = benchmark.explain(model, TEXT, methods=given)
    assert explanation.methods == ("rollout", "attattr", "position", "letters", "signs")
    batch = model.encode([TEXT])
    target = model.predict(batch)
    later = benchmark.build("methods/rollout", "readout.start_layer=1")(model, batch, target)
    few = benchmark.build("methods/attattr", "edges.steps=3")(model, batch, target)
    assert torch.equal(explanation.attributions["rollout"].tokens, later.tokens)
    assert torch.allclose(explanation.attributions["attattr"].tokens, few.tokens)
    table = explanation.table()
    assert table["letters"].tolist() == letters(TEXT)
    assert table["signs"].tolist() == [(-1.0) ** place for place in range(7)]
    assert list(table.index) == TEXT.split()
    assert explanation.special_tokens()["letters"].tolist() == [0.0]
    n_tokens = int((batch.units >= 0).sum())
    assert explanation.special_tokens()["signs"].tolist() == pytest.approx([0.5 / (n_tokens + 0.5)])


def test_a_mapping_names_what_it_holds(model):
    given = {"a": "rollout", "b": Random(seed=3), "c": letters, "d": {"_target_": "methods.controls.Position"}}
    assert benchmark.explain(model, TEXT, methods=given).methods == ("a", "b", "c", "d")
    twice = benchmark.explain(model, TEXT, methods=[Random(seed=3), Random(seed=4)])
    assert twice.methods == ("random", "random (2)")
    assert not twice.table()["random"].equals(twice.table()["random (2)"])


def test_one_text_is_one_text_and_a_list_is_several(model):
    one, several = (
        benchmark.explain(model, "good", methods=letters),
        benchmark.explain(model, ["good"], methods=letters),
    )
    assert one.table().index.names == ["word"]
    assert several.table().index.names == ["text", "word"]
    column = pd.Series(["a fine film", "dull"], index=[7, 9])
    assert list(benchmark.explain(model, column, methods=letters).table().index) == [
        (0, "a"), (0, "fine"), (0, "film"), (1, "dull"),
    ]  # fmt: skip


def test_pairs_words_and_ids(model):
    pair = benchmark.explain(model, ("a fine film", "it was"), methods="position")
    assert list(pair.table().index) == ["a", "fine", "film", "it", "was"]
    words = benchmark.explain(model, [["a", "fine film"], ["dull"]], methods="position")
    assert words.words == (("a", "fine film"), ("dull",))
    ids = benchmark.explain(model, {"input_ids": [2, 5, 6, 3]}, methods="position")
    assert list(ids.table().index) == ["the", "film"]


def test_images(tmp_path):
    vision = small_models.load("vit", tmp_path, dtype="float32")
    pixels = small_models.inputs("vit")[0]
    explanation = benchmark.explain(vision, pixels, methods=["rollout", lambda image: range(9)])
    n = len(explanation.words[0])
    assert explanation.table().shape[0] == n
    assert explanation.words[0][0] == "0,0"
    shown = explanation._repr_html_()
    assert shown == explanation.html()
    assert shown.count("<img") == 1 + 2 * 2, "the image, and again below each heatmap"
    assert shown.count('src="data:image/webp;base64,') == shown.count("src=")
    assert shown.count("(99th percentile)") == 2
    assert shown.count("attention-grey") == 1 + 2, "the style, and the image below each heatmap"
    assert ">0,1" not in shown
    (view,) = explanation._views()
    (url, shades), (rows, columns) = view.overlays["rollout"], view.size
    with Image.open(BytesIO(b64decode(url.partition(",")[2]))) as heat:
        assert (heat.mode, heat.size) == ("RGBA", (columns, rows))
        scores = pixel_map(explanation.batch, explanation.attributions["rollout"])[0].double().numpy()
        low, high = np.percentile(scores, [5, 99])
        assert (shades.clear, shades.full) == (low, high), "rollout is positive"
        share = np.clip((scores - low) / (high - low), 0, 1)
        assert np.asarray(heat)[..., 3] == pytest.approx(255 * 0.8 * share, abs=1)
    with pytest.raises(UserError, match=r"no image processor"):
        benchmark.explain(vision, Image.new("RGB", (8, 8)))


@pytest.mark.parametrize(
    ("scores", "clear", "full"),
    [
        (np.linspace(0.78, 0.90, 101), 0.786, 0.8988),  # differs little: shaded from its own low end on
        (-np.linspace(0.0, 1.0, 101), 0.05, 0.99),
        (np.linspace(-1.0, 1.0, 201), 0.0, 0.99),
        (np.full(9, 0.5), 0.0, 0.5),
        (np.zeros(9), 0.0, 0.0),
        (np.eye(1, 500)[0], 0.0, 1.0),  # one pixel in 500: its percentiles are 0
    ],
)
def test_contrast_follows_the_map(scores, clear, full):
    shades = Shades.of(scores)
    assert (shades.clear, shades.full) == (pytest.approx(clear), pytest.approx(full, abs=0.005))
    assert shades.signed == bool((scores < 0).any() and (scores > 0).any())
    assert (shades.share == "largest") == (np.percentile(np.abs(scores), 99) == 0)
    assert overlay(scores[None], shades).startswith("data:image/webp;base64,")


def test_batches_change_nothing_and_the_callers_random_numbers_go_on(model):
    texts = ["good", "the plot was dull", "untoldly film"] * 2
    torch.manual_seed(5)
    whole = benchmark.explain(model, texts, methods=["attattr", "random"])
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), drawn)
    parts = benchmark.explain(model, texts, methods=["attattr", "random"], batch_size=2)
    assert np.allclose(whole.table(), parts.table(), atol=1e-6)
    assert whole.attributions["attattr"].tokens.shape == whole.batch.units.shape


def test_the_class_by_name_index_and_list(model):
    texts = ["good film", "bad plot"]
    assert benchmark.explain(model, texts, "position", target="GOOD").target.classes.tolist() == [1, 1]
    assert benchmark.explain(model, texts, "position", target=0).target.classes.tolist() == [0, 0]
    assert benchmark.explain(model, texts, "position", target=["good", 0]).target.classes.tolist() == [1, 0]
    assert benchmark.explain(model, texts, "position", target=np.array([1, 0])).target.classes.tolist() == [1, 0]
    predicted = benchmark.explain(model, texts, "position")
    assert predicted.target.classes.tolist() == predicted.probabilities.argmax(1).tolist()


def test_what_cannot_be_said_is_said(model):
    def refusing(model, batch, target):
        raise NotApplicable("not today")

    asked = ["taylor", "oracle", "frequency", "universal_trigger", refusing, "position"]
    explanation = benchmark.explain(model, TEXT, methods=asked)
    assert explanation.reasons["refusing"] == "not today"
    assert "training examples" in explanation.reasons["frequency"]
    assert set(explanation.attributions) == {"taylor", "position"}
    assert explanation.table().drop(columns="position").isna().all(axis=None)
    for shown in (repr(explanation), explanation._repr_html_()):
        assert "not today" in shown
        assert "scores heads, not words" in shown


def test_a_bug_of_a_function_keeps_its_trace(model):
    with pytest.raises(ZeroDivisionError):
        benchmark.explain(model, TEXT, methods=[lambda text: 1 / 0])


def test_words_beyond_the_window_have_a_dash(model):
    explanation = benchmark.explain(model, "the " * 30, methods="position")
    assert explanation.table()["position"].isna().sum() == 30 - (model.window - 2)
    assert "beyond the model's window" in explanation._repr_html_()
    assert " –" in repr(explanation)


def test_the_heatmap_is_scoped_escaped_and_says_more_than_colours(model):
    shown = benchmark.explain(model, TEXT, methods=[letters, signs])._repr_html_()
    style = re.search(r"<style>(.*?)</style>", shown, re.DOTALL)[1]
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"@media[^{]+\{(.*?\})\}", r"\1", style))
    assert len(selectors) > 8
    assert all(selector.strip().startswith(".attention-heatmap") for selector in selectors)
    assert not re.search(r"https?:|<script|@import|url\(", shown)
    assert "&lt;b&gt;dull&lt;/b&gt;" in shown
    assert "<b>dull</b>" not in shown
    assert "+1.00" in shown
    assert "−1.00" in shown
    assert shown.count("attention-below") == 1 + 3  # the style, and the words at odd places
    assert "rgba(67,147,195,0.550)" in shown
    assert re.search(r"special tokens \d+ %", shown)


def test_scores_of_one_line_have_one_form():
    assert [scaled(value, 0.00534) for value in (0.00012, -0.00534, 0, -1e-9)] == [
        "0.00012",
        "-0.00534",
        "0.00000",
        "0.00000",
    ]
    assert [scaled(value, 12.0) for value in (1, 12.0, -3)] == ["1.0", "12.0", "-3.0"]
    assert [scaled(value, 2e-8) for value in (2e-8, 0)] == ["2.00e-08", "0"]
    assert [signed(value, 1.0) for value in (1, -1, 0, 1e-9)] == ["+1.00", "−1.00", "0.00", "0.00"]


def test_what_is_left_out_of_an_image_are_patches(tmp_path, monkeypatch):
    vision = small_models.load("vit", tmp_path, dtype="float32")
    pixels = small_models.inputs("vit")[0]
    monkeypatch.setattr("benchmark.notebook.heatmap.MOST_WORDS", 5)
    shown = repr(benchmark.explain(vision, pixels, methods="rollout"))
    assert shown.splitlines()[-1] == "... 4 more patches; .table() has them all"


def test_the_terminal_gets_lines_that_fit(model, monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((60, 24)))
    texts = [TEXT, "映画 は good"] * 4
    given = {f"method {number}": Random(seed=number) for number in range(8)}
    shown = repr(benchmark.explain(model, texts, methods=given))
    assert max(map(len, shown.splitlines())) <= 60
    assert "3 more texts; .table() has them all" in shown
    assert shown.count("untoldly") == 3 * 2  # three texts, each in two blocks of columns


def test_the_same_as_a_comparison(place, tmp_path, no_pictures):
    """The scores are those that a run folder keeps."""
    from benchmark.comparison import run_comparison
    from benchmark.results.store import Ragged
    from benchmark.settings.configuration import compose
    from tests.tiny_task import TinyTask

    chosen = ("task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", f"out={tmp_path}")
    tests = ("methods=[attattr]", "evaluations=[rationale]")
    comparison = run_comparison(compose("config", [*chosen, *tests], str(place / "conf")))
    stored = Ragged.read(comparison.cells[0] / "attributions-predicted.safetensors")
    texts = {example.uid: example.inputs for example in TinyTask().split("test")}
    model = benchmark.load_model(place / "bert", device="cpu")
    explanation = benchmark.explain(model, [texts[uid] for uid in stored.uids], methods="attattr")
    found = explanation.attributions["attattr"].tokens[explanation.batch.attention_mask]
    assert np.allclose(found.numpy(), stored.arrays["tokens"], atol=1e-6)


def nothing(text):
    return 3


def not_finite(text):
    return [float("nan")] * len(text.split())


def pair(one, other):
    return [1]


def untyped(model, batch, target):
    return torch.zeros(3)


def misshapen(model, batch, target):
    return Attribution(target=target, tokens=torch.zeros(1, 2))


def infinite(model, batch, target):
    return Attribution(target=target, tokens=torch.full(batch.units.shape, torch.inf))


def empty(model, batch, target):
    return Attribution(target=target)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "there is nothing to explain"),
        ((None,), r"texts=None is no text"),
        (("  ",), "a text of zero words"),
        ((["a", 3],), "text 1 is 3, which is no text"),
        ((("a", "b", "c"),), "is a tuple, but no pair"),
        (("good", "rolout"), r"methods=rolout does not exist; did you mean rollout\?"),
        (("good", ["rollout.readout.start=2"]), r"methods\.rollout\.readout\.start is no setting"),
        (("good", ["attattr.edges.steps=abc"]), r"methods\.attattr\.edges\.steps=abc: allowed are whole numbers"),
        (("good", ["rollout=2"]), r"'rollout=2' names no setting; write methods\.NAME\.SETTING=VALUE"),
        (("good", ["scores"]), r"methods\.scores\.path is not set; add 'methods\.scores\.path=\.\.\.' to methods"),
        (("good", []), "methods is empty"),
        (("good", [Random]), r"Random is a class; give an object of it, such as Random\(\)"),
        (("good", [3]), "int 'int' is no method"),
        (("good", [max]), "max does not say what it takes; wrap it"),
        (("good", [pair]), r"pair\(one, other\) can be called neither way; give a function of a text"),
        (
            ("a film", [nothing]),
            "what nothing gives for text 0 is the number 3.0; give one for each of the 2 words: a film",
        ),
        (("a film", [letters], "great"), r"target='great' is no class of the model; allowed: bad, good"),
        (("a film", [letters], 2), "target=2 is no class of the model, whose classes are 0 to 1"),
        (("a film", [letters], [0, 1]), "2 classes for 1 text; give the text once for each class"),
        (("a film", [letters], 1.0), r"target=1\.0 is no class"),
        (("a film", [not_finite]), r"gives for text 0 has nan for word 0 \('a'\)"),
        (("a film", [untyped]), r"untyped gives Tensor; give a benchmark\.types\.Attribution"),
        (("a film", [misshapen]), r"misshapen gives tokens of shape \[1, 2\]; give a tensor of shape \[1, 4\]"),
        (("a film", [infinite]), "infinite gives tokens scores that are not finite"),
        (("a film", [empty]), "an Attribution without scores"),
    ],
)
def test_mistakes_are_one_line(model, arguments, message):
    with pytest.raises(UserError, match=message):
        benchmark.explain(model, *arguments)


def test_the_model_has_to_be_loaded(model):
    with pytest.raises(UserError, match=r"model is str; give what benchmark\.load_model returns"):
        benchmark.explain("checkpoint", "a film")
    with pytest.raises(UserError, match=r"load_model\(model, tokenizer=tokenizer\)"):
        benchmark.explain(model.model, "a film")
    with pytest.raises(UserError, match="batch_size=0: allowed are whole numbers from 1"):
        benchmark.explain(model, "a film", batch_size=0)


@pytest.mark.parametrize("ask", [benchmark.explain, partial(benchmark.evaluate, evaluations="aopc")])
def test_scores_that_are_no_real_numbers_are_one_line(model, ask):
    def turned(model, batch, target):
        return Attribution(target=target, tokens=torch.ones(batch.units.shape, dtype=torch.complex64))

    with pytest.raises(
        UserError, match=r"gave as tokens a tensor of complex64 .*; expected is a torch tensor of floating-"
    ):
        ask(model, "a fine film", methods={"turned": turned})


def test_a_mistake_is_one_line_in_a_notebook(model):
    with pytest.raises(UserError) as caught:
        benchmark.explain(model, "a film", "rolout")
    assert caught.value._render_traceback_() == [f"UserError: {caught.value}"]


def test_words_given_as_texts_are_noticed(model, caplog):
    benchmark.explain(model, list(text_models.WORDS[:3]), methods="position")
    assert "3 texts of one word each; the words of one text are a list in a list" in caplog.text


def test_words_from_right_to_left_stand_in_their_order_and_their_numbers_in_theirs(model):
    shown = benchmark.explain(model, "هذا فيلم رائع", methods=["raw_attention"]).html()
    assert '<div class="attention-words" dir="auto">' in shown
    assert shown.count('class="attention-value" dir="ltr">') == 3
