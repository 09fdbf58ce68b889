"""Relevance where sums cancel, and every method in every precision of the model."""

import copy
from dataclasses import replace

import pytest
import torch
from scipy.stats import spearmanr
from transformers import AutoModelForSequenceClassification

import benchmark
from benchmark import build
from benchmark.checking import small_models
from benchmark.models.precision import batch_for, precise
from benchmark.run.arrays import flat
from benchmark.targets import ClassTarget
from methods.propagation.shares import RelevanceShares
from methods.shared.input_gradients import output_drops
from tests.checking import cheap
from tests.conftest import shared
from tests.covering import one_in
from tests.methods import test_contract

RELEVANCE = (
    "transformer_attribution", "attention_x_relevance", "partial_lrp", "lrp", "lrp_epsilon", "lrp_gamma", "lrp_alpha_beta",
    "attnlrp",
)  # fmt: skip
IDS = [1, 8, 31, 17, 44, 9, 2]
TARGET = torch.tensor([1])
A_STEP = "accuracy_difference"
"""Counts decisions, which rounding may change."""


def ready(ids):
    return {"input_ids": ids, "attention_mask": [1] * len(ids)}


def setting_of(name):
    """Where the precision of a method stands."""
    return "edges.precision" if name in RELEVANCE[:3] else "precision"


@pytest.fixture(scope="module")
def cancelling(tmp_path_factory):
    """A BERT that cancels at IDS: in six hidden units of the token that is read, what the last attention adds and what it
    is added to differ by rounding alone."""
    folder = small_models.save("bert", tmp_path_factory.mktemp("cancelling"), scale=4.0)
    plain = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager")
    wide = copy.deepcopy(plain).double()
    output = wide.bert.encoder.layer[-1].attention.output
    sums = []
    handle = output.dense.register_forward_hook(lambda _m, _i, y: sums.append(y.detach()))
    residual = output.register_forward_hook(lambda _m, args, _y: sums.append(args[1].detach()))
    with torch.no_grad():
        wide(input_ids=torch.tensor([IDS]))
        handle.remove()
        residual.remove()
        gap = (sums[0] + sums[1])[0, 0]
        plain.bert.encoder.layer[-1].attention.output.dense.bias[:6] -= gap[:6].float()
    plain.save_pretrained(folder)
    return {dtype: benchmark.load_model(folder, dtype=dtype, device="cpu") for dtype in ("float32", "float64")}


def error(found, exact):
    return float((found.double() - exact.double()).abs().max() / exact.double().abs().max())


@pytest.mark.parametrize("name", RELEVANCE)
def test_sums_that_cancel_cost_no_digits(cancelling, name):
    batch = cancelling["float32"].encode([ready(IDS)])
    exact = build(f"methods/{name}")(cancelling["float64"], batch, TARGET).tokens
    found = build(f"methods/{name}")(cancelling["float32"], batch, TARGET).tokens
    rounded = build(f"methods/{name}", f"{setting_of(name)}=model")(cancelling["float32"], batch, TARGET).tokens
    assert found.dtype == torch.float32
    assert error(found, exact) <= 1e-5
    assert error(rounded, exact) > 1e-4


@pytest.mark.parametrize("name", RELEVANCE)
def test_an_example_alone_is_what_it_is_in_a_batch(cancelling, name):
    model, method = cancelling["float32"], build(f"methods/{name}")
    alone = method(model, model.encode([ready(IDS)]), TARGET).tokens
    others = model.encode([ready(IDS), *small_models.inputs("bert", (12, 9))])
    together = method(model, others, TARGET.expand(3)).tokens[:1, : len(IDS)]
    assert error(together, alone) <= 1e-5


def test_shares_of_a_block_are_precise_too(cancelling):
    batch = cancelling["float32"].encode([ready(IDS)])
    exact = RelevanceShares()(cancelling["float64"], batch, ClassTarget(TARGET))
    found = RelevanceShares()(cancelling["float32"], batch, ClassTarget(TARGET))
    assert found.dtype == torch.float32
    assert error(found, exact) <= 1e-5
    assert error(RelevanceShares(precision="model")(cancelling["float32"], batch, ClassTarget(TARGET)), exact) > 1e-4


@pytest.mark.parametrize("name", ["lrp", "partial_lrp", "transformer_attribution"])
def test_chunks_of_the_twin_change_nothing(cancelling, name):
    model, method = cancelling["float32"], build(f"methods/{name}")
    batch, target = model.encode(small_models.inputs("bert")), torch.tensor([0, 1, 2])
    whole = method(model, batch, target).tokens
    assert error(method(replace(model, memory_budget=1), batch, target).tokens, whole) <= 1e-5


@pytest.mark.parametrize("name", ["leave_one_out", "occlusion", "attention_masking"])
def test_effects_of_removals_do_not_depend_on_the_batch(cancelling, name):
    model, method = cancelling["float32"], build(f"methods/{name}")
    inputs = small_models.inputs("bert", (7, 12, 9, 5))
    target = torch.tensor([0, 1, 2, 0])
    together = method(model, model.encode(inputs), target).tokens
    for row, one in enumerate(inputs):
        alone = method(model, model.encode([one]), target[row : row + 1]).tokens[0]
        assert error(together[row, : len(alone)], alone) <= 1e-6


def test_a_small_effect_on_a_probability_near_one_keeps_its_digits(cancelling):
    model = cancelling["float32"]
    logits = torch.tensor([[[14.0, 0.0]], [[14.125, 0.0]], [[13.9375, 0.0]]])
    found = output_drops(model, logits, ClassTarget(torch.tensor([0])), "probability")[:, 0]
    q = torch.exp(-logits[:, 0, 0].double())
    exact = q[1:] / (1 + q[1:]) - q[0] / (1 + q[0])  # differences of 1 - p
    assert error(found, exact) <= 1e-6


def real_texts(*words):
    """The first words of a short sentence of SST-2, and of movie reviews."""
    sentence = shared("data/glue/SST-2/dev.tsv").read_text().splitlines()[1].split("\t")[0].split()
    reviews = sorted(shared("data/eraser_movies/docs").iterdir())
    return [" ".join(sentence[:3]), *(" ".join(reviews[i].read_text().split()[:n]) for i, n in enumerate(words))]


@pytest.fixture(scope="module")
def minilm():
    return benchmark.load_model(shared("models/minilm-movies"), device="cpu", window=256)


WITHOUT_A_MODEL = ("constant", "frequency", "inverted", "oracle", "position", "random")
LONG_RUNNING = ("captum", "shapley_sampling", *cheap.NAMES_OF_COMPONENTS)
"""The passes of the first two are those of kernel_shap; the others run the model with every edge's slot, of thousands."""
LONG = ("conservative_lrp", *RELEVANCE)
"""Held to the same on longer texts, where relevance loses its digits."""

OF_TEXTS = [name for name in cheap.METHODS if (name, "bert") not in test_contract.CANNOT]
RELEVANCE_OF_IMAGES = ("full_lrp",)  # which is computed with a float64 twin of the model
A_ROUNDING = "activation_patching"  # of one component moves logits by less than the distance of two numbers of bfloat16
OF_IMAGES = [name for name in cheap.METHODS if name not in OF_TEXTS]
HELD = [name for name in OF_TEXTS if name not in (*WITHOUT_A_MODEL, *LONG_RUNNING, *LONG, A_STEP)]


def ranked_alike(found, best):
    """Spearman's ρ ≥ .999, where what differs by less than 1e-5 of the largest score is equal."""
    unit = 1e-5 * float(best.abs().max()) or 1.0
    one, two = ((values.double().flatten() / unit).round() for values in (found, best))
    return bool((one == two).all()) or spearmanr(one, two)[0] >= 0.999


def encode(model, inputs, uids):
    """A batch that has what text and annotators give."""
    return replace(small_models.encoded(model, inputs), uids=uids)


def held_to_five_digits(name, model, texts):
    """Alone as in a batch to 1e-5 of the largest score, and ranked as in float64."""
    uids, target = tuple(f"t{i}" for i in range(len(texts))), torch.ones(len(texts), dtype=torch.long)
    batch, method = encode(model, texts, uids), cheap.built(name)
    together, exact = (method(each, batch, target) for each in (model, precise(model, "float64")))
    last = len(texts) - 1
    alone = method(model, encode(model, texts[last:], uids[last:]), target[:1])
    field = "heads" if together.tokens is None else "tokens"
    found, best, single = (getattr(result, field) for result in (together, exact, alone))
    assert float((found[last] - single[0]).abs().max()) <= 1e-5 * float(single.abs().max())
    contents = batch.units >= 0 if field == "tokens" else torch.ones_like(found, dtype=torch.bool)
    assert all(ranked_alike(a[content], b[content]) for a, b, content in zip(found, best, contents, strict=True))


@pytest.mark.parametrize("name", one_in(6, HELD))
def test_every_method_explains_real_texts_to_five_digits(name, minilm):
    held_to_five_digits(name, minilm, real_texts(25))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", LONG)
def test_relevance_of_long_texts_keeps_five_digits(name, minilm):
    held_to_five_digits(name, minilm, real_texts(120))


# What a precision costs at most, of the largest score, on a small model. Effects of removals are small differences, and
# relevance of other weights (the rounded ones of half precision) is other relevance where it is ill-conditioned.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 0.1, "bfloat16": 0.7}


@pytest.fixture(scope="module", params=TOLERANCE)
def in_precision(request, tmp_path_factory):
    folder = small_models.save("bert", tmp_path_factory.mktemp("models"), scale=4.0)
    return tuple(benchmark.load_model(folder, dtype=dtype, device="cpu") for dtype in (request.param, "float64"))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", OF_IMAGES)
def test_every_method_of_images_in_every_precision(name, dtype, tmp_path):
    """Against float64 with the same rounded weights: their relevance differs from that of others by its size."""
    model = benchmark.load_model(small_models.save("vit", tmp_path), dtype=dtype, device="cpu")
    method, batch, target = (
        cheap.built(name),
        encode(model, small_models.inputs("vit", (5, 7)), ("a", "b")),
        torch.tensor([0, 2]),
    )
    wide = batch_for(precise(model, "float64"), batch)
    found, exact = method(model, batch, target), method(precise(model, "float64"), wide, target)
    assert_in_precision(found, model)
    fields = [field for field in ("tokens", "pixels", "heads") if getattr(exact, field) is not None]
    assert fields
    allowed = 1e-5 if name in RELEVANCE_OF_IMAGES else max(1e-5, TOLERANCE[dtype])
    for field in fields:
        assert error(getattr(found, field), getattr(exact, field)) <= allowed, field


@pytest.mark.parametrize("name", one_in(3, OF_TEXTS))
def test_every_method_in_every_precision(name, in_precision):
    model, wide = in_precision
    inputs, uids, target = small_models.inputs("bert", (5, 7)), ("a", "b"), torch.tensor([0, 2])
    batch = encode(model, inputs, uids)
    method = cheap.built(name)
    found, exact = method(model, batch, target), method(wide, batch, target)
    assert_in_precision(found, model)
    for field in ("tokens", "heads", "layers", "totals"):
        values, best = getattr(found, field), getattr(exact, field)
        assert (values is None) == (best is None)
        if field in ("tokens", "heads") and values is not None and best.any() and name != A_STEP:
            if name == A_ROUNDING and model.dtype == torch.bfloat16:
                continue
            assert error(values, best) <= TOLERANCE[str(model.dtype).removeprefix("torch.")], field
    stored = flat(batch, found, {"seconds": 1.0})
    assert all(array.dtype.name in ("float32", "float64", "int64") for array in stored.arrays.values())


def assert_in_precision(found, model):
    """Finite, and in float32 unless the model is in float64."""
    expected = torch.float64 if model.dtype == torch.float64 else torch.float32
    for field in ("tokens", "heads", "layers", "totals", "pixels"):
        if (values := getattr(found, field)) is not None:
            assert values.dtype == expected, field
            assert values.isfinite().all()
