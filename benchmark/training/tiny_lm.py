"""The small causal language model of a default task: a Llama trained from scratch on first use, then cached."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import UserError
from benchmark.settings.declared import Above, AtLeast, Count, Share, configurable
from benchmark.training.small import AT_ONCE, Small
from benchmark.training.sources import Shape
from benchmark.training.trainer import adamw, passes
from benchmark.types import Example

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SPECIAL = ("<pad>", "<unk>", "<s>")
_PAD, _UNKNOWN = 0, 1
_UNHIDDEN = 3
"""The first of so many parts of the training sees whole prompts, from which `induction` is learned."""

Encoded = tuple[list[int], list[int]]
"""Token ids of a prompt, and those of its candidates, the answer first."""


@configurable
class TinyLM(Small):
    """A `LlamaForCausalLM` and a tokenizer whose tokens are words, trained on the answers of the task's training prompts.

    The loss is that of the token that comes next alone, among the whole vocabulary: −ln p(answer | prompt). Foils and
    rationales take no part. A token for the beginning of the text stands before each prompt.

    After a third of the steps, words are hidden from the attention of all others in half of the prompts, so that a test that
    hides words (`operator=attention`) asks the model nothing that it has not met. The share of hidden words is drawn from
    [0, mask_share] for each prompt; what stands first and last is never hidden.

    Attributes:
        max_length: window in tokens.
        steps, batch_size, learning_rate: AdamW's, with warm-up and decay.
        mask_share: largest share of a prompt's words that is hidden in training; 0 for none.
    """

    kind: ClassVar[str] = "tiny-lm"
    what: ClassVar[str] = "the tiny language model"
    answers: ClassVar[Literal["next_token"]] = "next_token"
    training_version: ClassVar[int] = 2  # 2: words are hidden

    layers: Count = 3
    hidden: Count = 96
    intermediate: Count = 192
    max_length: Count = 64
    steps: Count = 3000
    batch_size: Count = 64
    learning_rate: Annotated[float, Above(0)] = 3e-3
    weight_decay: Annotated[float, AtLeast(0)] = 0.01
    mask_share: Share = 1.0

    @property
    def shape(self) -> Shape:
        """Of the model, before it is trained."""
        return Shape(self.layers, self.heads, None)

    def _new_encoder(self, train: Sequence[Example]) -> "Tokenizer":
        from tokenizers import Tokenizer, models, pre_tokenizers, processors

        if looked_up := [example.meta["kind"] for example in train if example.meta.get("looked_up")]:
            raise UserError(
                f"the tiny language model does not learn task={looked_up[0]} in its minutes; take a model that is there: "
                "model=lm model.path=CHECKPOINT"
            )
        if not all(example.candidates and isinstance(example.inputs, str) for example in train[:1]):
            raise UserError("the tiny language model learns from prompts with candidates for the next token (task=ioi)")
        words = {word for example in train for text in (example.inputs, *example.candidates) for word in text.split()}
        vocabulary = {token: number for number, token in enumerate((*_SPECIAL, *sorted(words)))}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
        return tokenizer

    def _new_model(self, labels: Sequence[str], encoder: "Tokenizer") -> Any:
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(
            vocab_size=encoder.get_vocab_size(),
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.intermediate,
            max_position_embeddings=self.max_length,
            pad_token_id=_PAD,
            bos_token_id=2,
            eos_token_id=None,
        )
        return LlamaForCausalLM(config)

    def _encoded(self, encoder: "Tokenizer", examples: Sequence[Example]) -> list[Encoded]:
        prompts, vocabulary = encoder.encode_batch([example.inputs for example in examples]), encoder.get_vocab()
        return [
            (prompt.ids, [vocabulary.get(word, _UNKNOWN) for word in example.candidates])
            for prompt, example in zip(prompts, examples, strict=True)
        ]

    def _optimizer(self, model: Any) -> torch.optim.Optimizer:
        return adamw(model, self.learning_rate, self.learning_rate, self.weight_decay)

    def _losses(self, model: Any, inputs: Sequence[Encoded], labels: Int[Tensor, "N"]) -> Iterator[Float[Tensor, ""]]:
        for step, rows in enumerate(passes([len(ids) for ids, _ in inputs], self.batch_size)):
            answers = torch.tensor([inputs[row][1][0] for row in rows])
            prompts = [inputs[row][0] for row in rows]
            hides = self.mask_share > 0 and step >= self.steps // _UNHIDDEN
            hidden = _hidden(prompts, self.mask_share) if hides else None
            yield torch.nn.functional.cross_entropy(_next(model, prompts, hidden), answers)

    def _predicted(self, model: Any, inputs: Sequence[Encoded]) -> Int[Tensor, "N"]:
        found = []
        for start in range(0, len(inputs), AT_ONCE):
            part = inputs[start : start + AT_ONCE]
            logits = _next(model, [ids for ids, _ in part])
            found.append(logits.gather(1, torch.tensor([candidates for _, candidates in part])).argmax(1))
        return torch.cat(found)

    def _kept(self, encoder: "Tokenizer") -> Any:
        from transformers import PreTrainedTokenizerFast

        names = dict(zip(("pad_token", "unk_token", "bos_token"), _SPECIAL, strict=True))
        return PreTrainedTokenizerFast(tokenizer_object=encoder, model_max_length=self.max_length, **names)


def _hidden(prompts: Sequence[Sequence[int]], share: float) -> Bool[Tensor, "B T"]:
    """Which tokens no other attends to: in half of the prompts a share of them, drawn from [0, share]; never both ends."""
    rate = torch.rand(len(prompts), 1) * share * (torch.rand(len(prompts), 1) < 0.5)
    hidden = torch.rand(len(prompts), max(map(len, prompts))) < rate
    hidden[:, 0] = False
    hidden[torch.arange(len(prompts)), torch.tensor([len(row) - 1 for row in prompts])] = False
    return hidden


def _next(
    model: Any, prompts: Sequence[Sequence[int]], hidden: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B V"]:
    """Logits of the token behind each prompt."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in prompts], batch_first=True)
    last = torch.tensor([len(row) - 1 for row in prompts])
    attended = ids != _PAD if hidden is None else (ids != _PAD) & ~hidden
    states = model.model(input_ids=ids, attention_mask=attended.long()).last_hidden_state
    return model.lm_head(states[torch.arange(len(last)), last])  # type: ignore[no-any-return]  # a module's call has no type
