"""`benchmark.explain`: texts in, what several methods say of their words out (`explanation.Explanation`)."""

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import ref

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier, Trace
from benchmark.notebook.asked import Asked, named_token
from benchmark.notebook.choices import choose
from benchmark.notebook.explanation import Explanation, attributed_by, labelled, pictures_of, repeatable
from benchmark.notebook.generation import explain_generated, is_given, says
from benchmark.notebook.given import Inputs, batch_size_of, checked_model

DEFAULTS = ("attattr", "rollout", "gradient_x_input")


def explain(
    model: Classifier,
    texts: Any,
    methods: Any = DEFAULTS,
    target: Any = None,
    *,
    against: Any = None,
    answer: Any = None,
    foil: Any = None,
    generate: int | None = None,
    continuation: Any = None,
    batch_size: int = 16,
) -> Explanation:
    """Explain texts with several methods, as a comparison does, without folders.

    With a causal language model (`load_model(..., task="next_token")`) the explanation says why `answer` comes after the
    text rather than `foil`: the difference of their logits is explained.

    Args:
        model: what `benchmark.load_model` returns.
        texts: a text, a pair of texts as a tuple, a mapping of ready ids, an image (PIL, an array, or of a
            model of images the path of a file), or a list of them. The words of a text
            that is split already are a list within the list: `[["a", "fine", "film"]]`.
        methods: names (`benchmark.methods()` lists them), settings of them such as "methods.attattr.edges.steps=5",
            objects that `benchmark.build` makes, functions; or a mapping of names of your own to those. A function takes a
            text and gives one score per word, or takes `(model, batch, target)` and gives an `Attribution`.
        target: the class that is explained: a name, an index, or a list of one for each text. None: the predicted one.
        against: a class in the same forms: explained is then why the target rather than that one (`targets.Contrast`).
        answer: of a causal language model the token that comes next, as a word or an id, or a list of one for each text.
            None: the model's own.
        foil: a token that might have come in its place, in the same forms. None: the most probable token beside the answer.
        generate: of a causal language model, how many tokens it says after one prompt, its most probable one each time; each
            is explained by its log-probability (`generation.Generation`). None: one token is asked for, as above.
        continuation: of a causal language model, a text (or ids of tokens) that goes on from one prompt, as an answer of
            several tokens; explained in the same way, whether or not the model would say it.
        batch_size: texts explained at once; changes no result beyond rounding.

    Returns:
        The scores, with what cannot be said and why: a method that cannot serve is a dash with the reason.

    Raises:
        UserError: a name, a setting or a class that does not exist, or a function that gives something else than scores.

    Example:
        >>> def letters(text):
        ...     return [len(word) for word in text.split()]
        >>> explanation = benchmark.explain(model, "a fine film", methods=["position", letters, "oracle"])
        >>> explanation.table().round(2)
              position  letters  oracle
        word
        a         0.00      1.0     NaN
        fine     -0.33      4.0     NaN
        film     -0.67      4.0     NaN
        >>> explanation.reasons
        {'oracle': 'the task has no rationales'}
    """
    model, size = checked_model(model), batch_size_of(batch_size)
    if generate is not None or continuation is not None:
        if any(given is not None for given in (target, against, answer, foil)) or (
            generate is not None and continuation is not None
        ):
            raise UserError(
                "generate= is what the model says by itself, and continuation= what is given; give one of them, and leave "
                "target, against, answer and foil out"
            )
        following = says(generate) if continuation is None else is_given(continuation)
        return explain_generated(model, texts, methods, following, size)
    inputs = Inputs.of(texts, images=model.encoder.patch is not None)
    asked = Asked.of(model, inputs, target=target, against=against, answer=answer, foil=foil)
    batch = model.encode(inputs.values, candidates=asked.candidates)
    chosen = choose("methods", methods, dict(zip(batch.uids, inputs.values, strict=True)))
    rows = range(len(batch))
    parts = [batch.select(rows[start : start + size]) for start in rows[::size]]
    with repeatable(model):
        traces = [model.run(part) for part in parts]
        logits = torch.cat([trace.logits for trace in traces])
        explained = asked.target(model, logits)
        attributions, reasons = attributed_by(chosen, model, batch, parts, explained)
    return Explanation(
        batch=batch,
        words=labelled(model, batch),
        classes=model.labels,
        probabilities=(probabilities := torch.cat([_probabilities(model, trace) for trace in traces]).cpu()),
        target=explained.to("cpu"),
        methods=tuple(chosen),
        attributions=attributions,
        reasons=reasons,
        single=inputs.single,
        pictures=pictures_of(model, batch),
        explainers=chosen,
        module=ref(model.model),
        candidates=asked.names,
        own=tuple(_own(model, traces, probabilities)),
    )


def _own(
    model: Classifier, traces: Sequence[Trace], probabilities: Float[Tensor, "B C"]
) -> Iterator[tuple[str, float]]:
    """What the model answers by itself, and how probable that is: the predicted class, or the next token of all."""
    for trace in traces:
        if trace.vocabulary is not None:
            best = trace.vocabulary.detach().double().softmax(-1).max(-1)
            yield from ((named_token(model, int(token)), float(p)) for p, token in zip(*best, strict=True))
    if model.encoder.answers == "class":
        yield from ((model.labels[int(row.argmax())], float(row.max())) for row in probabilities)


def _probabilities(model: Classifier, trace: Trace) -> Float[Tensor, "B C"]:
    """Of the classes; of candidates for the next token among the whole vocabulary."""
    logits = trace.logits.detach().double()
    if trace.vocabulary is None:
        return model.probabilities(logits)
    return (logits - trace.vocabulary.detach().double().logsumexp(-1, keepdim=True)).exp()
