"""Checks of a model: is a checkpoint read as it should be, so that what is said of it is said of it?"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from benchmark.checking import places
from benchmark.checking.conserved import TOLERANCE, found_in, without_biases_of_norms
from benchmark.checking.methods import chosen, outcome_of
from benchmark.checking.padding import IN_FLOAT32, computes_in_float32
from benchmark.checking.report import Finding, Outcome, Report
from benchmark.checking.subject import Place, gap_of
from benchmark.errors import NotApplicable
from benchmark.models.ledger import keeping_ledger
from benchmark.settings.making import build

RULES = ("lrp_epsilon", "lrp_gamma", "lrp_alpha_beta", "attnlrp", "conservative_lrp", "transformer_attribution")
"""A method of each rule set."""

_EQUAL = 1e-10
_SUM = 1e-6


def logits(place: Place) -> Finding:
    """The answers are those of the plain transformers model with the same weights."""
    inputs, expected = place.model.streams.both_masks(place.batch.tensors), None
    for own in ("sdpa", "eager"):  # the second of families without the first; it computes a softmax in float32
        plain = place.copy().model
        for module in plain.modules():
            config: Any = getattr(module, "config", None)
            if hasattr(config, "_attn_implementation"):
                config._attn_implementation = own
        with torch.no_grad(), suppress(ValueError, NotImplementedError):
            expected = plain(**inputs).logits
            break
    if expected is None:
        raise NotApplicable("the model has no attention of transformers' own that runs here")
    gap = gap_of(place.model.run(place.batch, record=("attentions",)).logits, expected)
    words = f"logits equal those of {type(plain).__name__} with its own attention ({own})"
    return Finding(words, gap, max(tolerance_of(place), 1e-6 if own == "eager" else 0.0))


def tolerance_of(place: Place) -> float:
    """The largest difference of answers that should be equal: rounding of float64, or of what is computed in float32."""
    return IN_FLOAT32 if computes_in_float32(place.model) else _EQUAL


def rows(place: Place) -> Finding:
    """The rows of attention of every layer and head sum to 1."""
    mask = place.batch.attention_mask[:, None]
    gaps = []
    for attention in place.model.run(place.batch, record=("attentions",)).attentions:
        off = (attention.sum(-1) - 1).abs()
        gaps.append(float((off * mask).max()) if attention.shape[2] == mask.shape[2] else float(off.max()))
    wrong = [layer for layer, gap in enumerate(gaps) if not gap <= _SUM]
    return Finding("rows of attention sum to 1", max(gaps), _SUM, f"layer {wrong[0]}" if wrong else "")


def blocks(place: Place) -> Finding:
    """A pass that begins again at block l, with the states that are recorded there, gives the same answer, for each l.

    There are as many as the configuration says.
    """
    model = place.model
    if (count := _blocks_of_config(model.config)) not in (None, model.n_layers):
        return Finding(f"the configuration says {count} attention calls, and {model.n_layers} are found", ok=False)
    trace = model.run(place.batch, record=("hidden", "attentions"))
    worst, where = 0.0, ""
    for layer in range(model.n_layers):
        again = model.run(place.batch.tensors, start=(layer, trace.hidden[layer])).logits
        if (gap := gap_of(again, trace.logits)) > worst:
            worst, where = gap, f"layer {layer}"
    limit = max(1e-8, tolerance_of(place))
    words = (
        f"{model.n_layers} blocks, {model.n_heads} heads each, in the order in which they run: a pass can begin at each"
    )
    return Finding(words, worst, limit, where if worst > limit else "")


def _blocks_of_config(config: Any) -> int | None:
    """How many calls of attention a pass has, as far as the configuration says it; a decoder beside an encoder has two."""
    if getattr(config, "is_encoder_decoder", False):
        if not (hasattr(config, "encoder_layers") and hasattr(config, "decoder_layers")):
            return None
        return int(config.encoder_layers) + 2 * int(config.decoder_layers)
    count: int | None = getattr(config, "num_hidden_layers", None)
    return count


def read(place: Place) -> Finding:
    """Attention of the last layer in rows that are said not to be read changes no answer, and that in the others does."""
    model, batch = place.model, place.batch
    trace = model.run(batch, record=("attentions",), grad=True)
    seed = place.target.seed(trace.logits)
    gradient = model.gradients(trace.logits, trace.attentions[-1:], weights=seed)[0].abs().amax((1, 3))
    weights = model.read_weights(batch)
    if gradient.shape != weights.shape:
        raise NotApplicable("the last layer attends to another sequence than that of the tokens")
    scale = float(gradient.max()) or 1.0
    outside = float((gradient * (weights == 0)).max()) / scale
    rows_read = [sorted(row.nonzero().flatten().tolist()) for row in weights]
    told = "all tokens" if all(len(row) > 3 for row in rows_read) else "; ".join(str(row) for row in rows_read)
    silent = [b for b, row in enumerate(rows_read) if not bool(gradient[b, row].any())]
    if silent:
        return Finding(
            f"the rows that are said to be read ({told}) change no answer", where=f"example {silent[0] + 1}", ok=False
        )
    return Finding(f"rows read of each example: {told}", outside, 1e-9)


def rules(place: Place) -> Finding:
    """Every operation of the model has a rule of relevance; those without are listed."""
    missing: dict[str, list[str]] = {}
    for name in RULES:
        with keeping_ledger(len(place.inputs), lenient=True) as ledger, suppress(NotApplicable):
            build(f"methods/{name}")(place.copy(), place.batch, place.target)
        for operation in ledger.missing:
            missing.setdefault(operation, []).append(name)
    if not missing:
        return Finding(f"every operation has a rule in {', '.join(RULES)}")
    told = "; ".join(f"{operation} ({', '.join(dict.fromkeys(names))})" for operation, names in missing.items())
    return Finding(f"without a rule: {told}", ok=False)


def conserved_by(name: str, place: Place) -> Finding:
    """Relevance by one method's rules leaves every operation that it reaches."""
    model = without_biases_of_norms(place.copy())
    with keeping_ledger(len(place.inputs)) as ledger:
        build(f"methods/{name}")(model, place.batch, place.target)
    return found_in(ledger, TOLERANCE)


def conservation(place: Place) -> list[Finding]:
    """What `conserved` asks, of each rule set."""
    found = []
    for name in RULES:
        try:
            one = conserved_by(name, place)
        except NotApplicable as answer:
            one = Finding(f"not applicable: {answer}", ok=True)
        place_named = f"{name}, {one.where}" if one.where else name
        found.append(Finding(one.words, one.gap, one.tolerance, place_named, one.ok))
    return found


def gradients(place: Place) -> Finding:
    """The gradient of the answer reaches the attention of every layer."""
    trace = place.model.run(place.batch, record=("attentions",), grad=True)
    found = place.model.gradients(trace.logits, trace.attentions, weights=place.target.seed(trace.logits))
    sizes = [float(one.abs().max()) for one in found]
    silent = [layer for layer, size in enumerate(sizes) if not size > 0]
    if silent:
        return Finding("no gradient of the answer reaches its attention", where=f"layer {silent[0]}", ok=False)
    return Finding(f"the gradient reaches the attention of all {len(sizes)} layers")


def memory(place: Place) -> Finding:
    """What the attention of all layers takes, by length."""
    model = place.model
    lengths = sorted({min(length, model.window) for length in (32, 128, 512)})
    told: Sequence[str] = [f"{model.attention_bytes(n) / n / 1024:.1f} KiB a token at {n} tokens" for n in lengths]
    return Finding(
        f"attention of {model.n_layers} layers in {str(model.dtype).removeprefix('torch.')}: {', '.join(told)}"
    )


CHECKS: Mapping[str, Callable[[Place], Finding | list[Finding]]] = {
    "logits": logits,
    "rows": rows,
    "blocks": blocks,
    "read": read,
    "gradients": gradients,
    "rules": rules,
    "conservation": conservation,
    "memory": memory,
}
"""By the name that `only` takes."""


def check_model(model: Any, only: Sequence[str] = ()) -> Report:
    """Check a model: are its answers, attention, blocks and rows read right, and does relevance get through?

    Args:
        model: a loaded one (`benchmark.load_model`), or the name of a small one.
        only: names of checks; none for all.

    Returns:
        A `Report`.

    Raises:
        UserError: there is no such check or model.

    Example:
        >>> check_model("gpt2", only=["logits", "rows", "blocks"]).ok
        True
    """
    asked = chosen(only, list(CHECKS), "check of a model")
    outcomes: list[Outcome] = []
    told: dict[str, str] = {}
    called = []
    with torch.random.fork_rng(devices=[]):
        for place in places.of(model):
            called.append(place.name)
            told[place.name] = place.model.fingerprint
            for name in asked:
                outcomes += outcome_of(place.name, name, partial(CHECKS[name], place), {})
    return Report(", ".join(called), "model", told, tuple(outcomes))
