"""Why did a causal language model say all this? One explanation for each token that it generates."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from jinja2 import Environment, FileSystemLoader
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.continuations import token_by_token
from benchmark.models.loading import over_vocabulary
from benchmark.models.next_token import VOCABULARY, ids_behind
from benchmark.notebook.asked import text_of
from benchmark.notebook.choices import choose
from benchmark.notebook.explanation import Explanation, attributed_by, labelled, repeatable
from benchmark.notebook.given import Inputs
from benchmark.notebook.heatmap import Line, Shown, html, scaled, shade, signed, terminal
from benchmark.targets import LogProbability
from benchmark.types import Batch


@dataclass(frozen=True, repr=False, eq=False)
class Generation(Explanation):
    """What a language model said, token by token, and the explanation of each: `ln p(y_t | x, y_<t)`.

    Text t of the explanation is the prompt with the t tokens that were said before. Only the words of the prompt are scored
    and removed: what was said is no part of the explanation of its own later tokens.

    What was said is what the model says by itself, or a text that is given (`continuation`).

    Attributes:
        said: the tokens, as the tokenizer writes them.
        text: all of them together.
    """

    said: tuple[str, ...] = ()
    text: str = ""

    def matrix(self, method: str) -> pd.DataFrame:
        """Token × word of the prompt: the scores of one method; KeyError where it gave none."""
        return pd.DataFrame(np.stack(self._scores[method]), index=list(self.said), columns=list(self.words[0]))

    def sequence(self) -> pd.DataFrame:
        """Word × method: the sum of the scores over the tokens, since ln p(y | x) = Σ_t ln p(y_t | x, y_<t)."""
        sums = {name: np.stack(rows).sum(0) for name, rows in self._scores.items()}
        missing = np.full(len(self.words[0]), np.nan)
        index = pd.Index(self.words[0], name="word")
        return pd.DataFrame({name: sums.get(name, missing) for name in self.methods}, index=index)

    def special_tokens(self) -> pd.DataFrame:
        """Not told (NaN): beside the prompt's words stand tokens that the model said, which are special to nobody."""
        return pd.DataFrame(np.nan, index=pd.RangeIndex(len(self), name="text"), columns=list(self.methods))

    @property
    def whole(self) -> Shown:
        """The prompt with the sums, as one text is shown."""
        sums = self.sequence()
        lines = tuple(
            Line(name, sums[name].to_numpy(), np.nan, "")
            if name in self._scores
            else Line(name, None, np.nan, self._reason(name))
            for name in self.methods
        )
        p = float(np.exp(sum(np.log(probability) for _, probability in self.own)))
        return Shown(self.words[0], f"ln p of “{self.text.strip()}”", self.text.strip(), p, lines, columns=0)

    def html(self) -> str:
        """For each method a table of tokens and words, then each token with the prompt shaded for it."""
        environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
        environment.filters |= {"scaled": scaled, "signed": signed}
        tables = {name: np.stack(rows) for name, rows in self._scores.items()}
        return environment.get_template("generation.html.jinja").render(
            said=self.said,
            text=self.text,
            chances=[probability for _, probability in self.own],
            words=self.words[0],
            tables=tables,
            largest={name: _largest(table) for name, table in tables.items()},
            reasons={name: self._reason(name) for name in self.methods if name not in tables},
            each=[html((shown,)) for shown in self.shown],
            shade=shade,
            finite=np.isfinite,
        )

    def __repr__(self) -> str:
        return terminal([self.whole])


def _largest(table: NDArray[np.float64]) -> float:
    return float(np.abs(table[np.isfinite(table)]).max(initial=0.0))


Next = Callable[[Classifier, Any, Batch], Int[Tensor, "N"]]
"""`(model, prompt as it was given, prompt) -> the tokens behind it`."""


def says(count: Any) -> Next:
    """The tokens that the model says by itself; UserError for what is no number of them."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UserError(f"generate={count!r}: give the number of tokens, 1 or more")
    return lambda model, _given, prompt: continuation(model, prompt, count)


def is_given(text: Any) -> Next:
    """The tokens of a text, or ids of tokens, that are given; UserError for anything else."""
    given = text.tolist() if isinstance(text, np.ndarray | Tensor) else text
    ids = [int(one) if isinstance(one, np.integer) else one for one in given] if isinstance(given, list | tuple) else []
    if not isinstance(text, str) and not (ids and all(type(one) is int and one >= 0 for one in ids)):
        raise UserError(f"continuation={text!r}: give a text, or a list of ids of tokens")

    def tokens(model: Classifier, given: Any, prompt: Batch) -> Int[Tensor, "N"]:
        found = ids or ids_behind(model.tokenizer, text_of(model, given), text, "continuation")
        if beyond := [one for one in found if one >= len(model.labels)]:
            raise UserError(f"continuation: there is no token {beyond[0]}; the vocabulary has {len(model.labels)}")
        _check_room(model, prompt, len(found), "continuation")
        return torch.tensor(found, device=model.device)

    return tokens


def explain_generated(model: Classifier, texts: Any, methods: Any, following: Next, batch_size: int) -> Generation:
    """Explain each token of what comes behind one prompt.

    Raises:
        UserError: the model is a classifier, more than one prompt is given, it ends at once, or it has no room to go on.
    """
    if model.encoder.answers != "next_token":
        raise UserError(
            "generate and continuation are for causal language models: "
            'benchmark.load_model(..., task="next_token"); this is a classifier'
        )
    inputs = Inputs.of(texts, images=False)
    if len(inputs.values) != 1:
        raise UserError(
            f"one prompt at a time is explained token by token, and {len(inputs.values)} are given; call it for each"
        )
    over = model if model.encoder.over == VOCABULARY else over_vocabulary(model)
    prompt = over.encode(inputs.values)
    with repeatable(over):
        ids = following(over, inputs.values[0], prompt)
        batch = grown(over, prompt, ids)
        chosen = choose("methods", methods, dict.fromkeys(batch.uids, inputs.values[0]))
        parts = [
            batch.select(range(len(batch))[start : start + batch_size]) for start in range(0, len(batch), batch_size)
        ]
        probabilities = torch.cat([over.run(part).logits.detach().double().softmax(-1) for part in parts]).cpu()
        target = LogProbability(ids)
        attributions, reasons = attributed_by(chosen, over, batch, parts, target)
    chances = probabilities.gather(1, ids[:, None].cpu())[:, 0].tolist()
    said = tuple(map(str, ids.tolist())) if over.tokenizer is None else tuple(over.tokenizer.batch_decode(ids[:, None]))
    return Generation(
        batch=batch,
        words=labelled(over, batch),
        classes=over.labels,
        probabilities=probabilities,
        target=target.to("cpu"),
        methods=tuple(chosen),
        attributions=attributions,
        reasons=reasons,
        single=False,
        explainers=chosen,
        module=ref(over.model),
        own=tuple(zip(said, chances, strict=True)),
        said=said,
        text=" ".join(said) if over.tokenizer is None else str(over.tokenizer.decode(ids)),
    )


def continuation(model: Classifier, prompt: Batch, count: int) -> Int[Tensor, "N"]:
    """The tokens that a model over its vocabulary says after one prompt, the most probable each time, up to an end.

    Raises:
        UserError: it ends at once, or prompt and continuation do not fit its window.
    """
    _check_room(model, prompt, count, f"generate={count}")
    ends = _ends(model)
    said: list[int] = []
    while len(said) < count:
        batch = grown(model, prompt, torch.tensor([*said, 0], device=model.device))
        token = int(model.run(batch.select([len(said)])).logits.argmax(-1))
        if token in ends:
            break
        said.append(token)
    if not said:
        raise UserError("the model ends at once: the most probable token after the prompt is one that ends the text")
    return torch.tensor(said, device=model.device)


def _check_room(model: Classifier, prompt: Batch, count: int, where: str) -> None:
    """UserError where so many tokens do not fit the window behind the prompt."""
    length = int(prompt.attention_mask.sum())
    if length + count > model.window:
        raise UserError(
            f"{where}: the prompt has {length} tokens, and with {count} more it does not fit the model's window of "
            f"{model.window}"
        )


def _ends(model: Classifier) -> set[int]:
    """The ids that end a text, of the model's configuration and of how it generates."""
    found: set[int] = set()
    for config in (model.config, getattr(model.model, "generation_config", None)):
        end = getattr(config, "eos_token_id", None)
        found |= set() if end is None else {end} if isinstance(end, int) else set(end)
    return found


def grown(model: Classifier, prompt: Batch, said: Int[Tensor, "N"]) -> Batch:
    """Row t: the prompt with the first t tokens that were said, under a name of its own; see `token_by_token`."""
    rows, _ = token_by_token(model, prompt, said[None])
    names = tuple(map(str, range(len(said))))
    return replace(rows, uids=names, keys=tuple(f"{prompt.draw_keys[0]}\0{name}" for name in names))
