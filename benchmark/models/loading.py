"""`load_model`: from a checkpoint, or a model that is loaded, to an instrumented classifier.

What the model is goes into a digest, and what is guessed of a family that is not in the table is measured.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool
from PIL import Image
from torch import Tensor, nn
from transformers import AddedToken

from benchmark.errors import UserError, one_line
from benchmark.models.adopting import Loaded, adopt, prepared
from benchmark.models.attention_interface import Tape, recording
from benchmark.models.blocks import blocks_of
from benchmark.models.checkpoints import read_checkpoint, read_language_model
from benchmark.models.classifier import Classifier
from benchmark.models.devices import align, device_named, memory_budget_of, tokens_at_once
from benchmark.models.encoding import Encoder, height_and_width
from benchmark.models.families import FAMILIES, Family, family_of
from benchmark.models.headless import Head, ZeroHead
from benchmark.models.images import Patch
from benchmark.models.label_matching import with_labels
from benchmark.models.next_token import (
    CONTINUATION,
    CONTINUES,
    LABELS,
    VOCABULARY,
    Answers,
    chat_around,
    tokens_by_name,
)
from benchmark.models.padding import Padding, padding_of
from benchmark.models.streams import streams_of
from benchmark.models.weights import check_classes, check_finite, check_vocabulary, labels_of, n_embeddings
from benchmark.types import Batch

logger = logging.getLogger(__name__)

_DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "bfloat16", "float16")}
_SHORTEST = 8  # room for the special tokens of a pair and for some words
NO_LIMIT = 1 << 20  # tokenizers without a limit say so with a huge number

_ROUNDING = 1e-3  # of the largest logit: what another shape of the batch may change in float32
_TIMES = 5  # how often the longer text repeats the inner tokens

_UNDECIDING = {"_name_or_path", "name_or_path", "transformers_version", "dtype", "use_cache"}
_TOKENIZER_SETTINGS = (
    "truncation_side", "padding_side", "split_special_tokens", "special_tokens_map", "all_special_ids", "pad_token_id",
    "pad_token_type_id", "mask_token_id", "unk_token_id", "model_input_names", "chat_template",
)  # fmt: skip
_PROBE_TEXTS = ("The film, told in 1987, was n't GOOD: naïve Öl  ½ don't [SEP] </s> 中文", "un\u200btold STORY")


def load_model(
    source: str | Path | nn.Module,
    dtype: str | None = None,
    device: str = "auto",
    window: int | None = None,
    max_tokens: int | None = None,
    memory_budget: int | None = None,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    labels: Sequence[str | int | float | bool] | Literal["vocabulary", "continuation"] | None = None,
    head: Head = "own",
    task: Answers = "class",
    gguf_file: str | None = None,
    chat: bool = False,
) -> Classifier:
    """Load a sequence or image classifier or a causal language model, or take one that is loaded, and instrument it.

    Args:
        source: a local directory, `name` / `organisation/name` on the Hugging Face hub, or a transformers model that is
            loaded already. Such a model is copied, weights and configuration: it stays what it is and can be used and
            trained on, and the classifier's numbers do not change with it.
        dtype: "float32" (also for checkpoints stored in half precision), "float64" for parity, "bfloat16" or "float16".
            In the latter two the model computes in half precision; logits, gradients and scores are float32. None: that
            of a model that is loaded already, else float32.
        device: "auto" (where a model that is loaded already lies, else a GPU where there is one), "cpu", "cuda:1", ...
        window: tokens that texts are cut to; None for as many as the model can read.
        max_tokens: tokens of one forward pass of many variants of the examples; None for what suits the device.
        memory_budget: bytes that a method may let attention-sized tensors take at once; None for what suits the device: of
            a GPU a sixteenth of what is free. A text whose attention alone takes eight times as much is explained block by
            block, which takes longer (docs/cost.md).
        tokenizer: a fast one, which is copied; of a model that is loaded already (without one it takes ids only), or in
            place of a checkpoint's own.
        processor: of images, likewise; it is shared.
        labels: names of the classes in the order of the outputs, in place of those in the configuration (LABEL_0, ...);
            the setting `model.labels`. They enter the fingerprint, but not that of a language model.
        head: "zero" for the encoder of a checkpoint that was trained without a classifier, or with another: the head's
            weights are 0, so that every logit is 0 and attention and hidden states are what there is to look at
            (`headless.needs_head`). It has as many classes as `labels` has names.
        task: "next_token" for a causal language model: what is explained is why it gives one token rather than others. Its
            classes are the candidates of each example, the answer first (`models.next_token`); `labels` says what they are
            called, and how many there are: answer and foil, where nothing is said. With labels="vocabulary" they are all
            tokens, so that a probability is that of the language model and the predicted class its own next token. With
            labels="continuation" an answer may have any number of tokens, and what is explained is its log-probability.
        gguf_file: of a causal language model, a GGUF file in the folder or in the hub's repository, from which tokenizer and
            weights are read; quantised weights are computed with in `dtype`.
        chat: of a causal language model, whether each prompt is what a user says in a chat: the tokenizer's template is put
            around it, whose tokens are no words, and the answer begins where the model would.

    Returns:
        The classifier, in evaluation mode with frozen parameters.

    Raises:
        UserError: the path does not exist, the hub cannot be reached, the checkpoint has no classifier head, its
            family bypasses transformers' attention interface, a weight is not finite, or the device cannot compute in
            `dtype`; what is loaded already is no transformers classifier; or `labels` does not name each class once.

    Example:
        >>> benchmark.load_model(checkpoint, device="cpu")  # a folder or a hub id
        Classifier('bert': BertForSequenceClassification, classes bad, good; 2 layers, 2 heads, window 24; float32 on cpu)
        >>> from transformers import AutoModelForSequenceClassification, AutoTokenizer
        >>> loaded = AutoModelForSequenceClassification.from_pretrained(checkpoint)
        >>> tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        >>> model = benchmark.load_model(loaded, tokenizer=tokenizer)
        >>> loaded.config._attn_implementation  # the model itself is left alone
        'sdpa'
        >>> benchmark.load_model(checkpoint, device="cpu", labels=["NEG", "POS"]).labels
        ('NEG', 'POS')
    """
    if dtype is not None and not isinstance(dtype, str):
        raise UserError(
            f"dtype is {type(dtype).__name__}, which names no precision; a tokenizer is given by name: "
            "benchmark.load_model(model, tokenizer=tokenizer)"
        )
    if dtype is not None and dtype not in _DTYPES:
        raise UserError(f"model.dtype={dtype} is unknown; allowed: {', '.join(_DTYPES)}")
    _check_asked(task, gguf_file, labels, chat=chat, of_classifiers=head != "own" or processor is not None)
    if isinstance(source, str | Path):
        precision = _DTYPES[dtype or "float32"]
        if task == "next_token":
            loaded = read_language_model(str(source), precision, tokenizer, gguf_file)
        else:
            loaded = read_checkpoint(str(source), precision, tokenizer, processor, _zero_head(head, labels))
        target = device_named(device)
    else:
        loaded = adopt(source, _DTYPES.get(str(dtype)), tokenizer, processor, task)
        target = next(loaded.model.parameters()).device if device == "auto" else device_named(device)
    classifier = _instrumented(loaded, target, window, max_tokens, memory_budget)
    return with_labels(classifier, labels) if task == "class" else _asked(classifier, labels, chat=chat)


def _check_asked(task: Answers, gguf_file: str | None, labels: Any, *, chat: bool, of_classifiers: bool) -> None:
    """UserError where settings of classifiers and of language models are given together."""
    if task not in get_args(Answers):
        raise UserError(f"task={task}: allowed are {', '.join(get_args(Answers))}")
    if task == "class" and isinstance(labels, str):
        raise UserError(
            f"labels={labels!r}: give a list with a name for each class; of a causal language model alone they may be "
            'the vocabulary, or a continuation: load_model(..., task="next_token", labels="vocabulary")'
        )
    if task == "class" and chat:
        raise UserError('a chat is held with a causal language model: load_model(..., task="next_token", chat=True)')
    if task == "class" and gguf_file is not None:
        raise UserError('a GGUF file is read as a causal language model: load_model(..., task="next_token")')
    if task == "next_token" and of_classifiers:
        raise UserError(
            "a language model has neither another head nor an image processor; leave head and processor out"
        )


def _asked(
    model: Classifier,
    labels: Sequence[str | int | float | bool] | Literal["vocabulary", "continuation"] | None,
    *,
    chat: bool,
) -> Classifier:
    """The language model with what it is asked for, and how: candidates of these names, all tokens or a continuation; in a
    chat or not.
    """
    asked = _in_chat(model) if chat else model
    if isinstance(labels, str) and labels == CONTINUATION:
        return asked.asked_over(CONTINUATION, CONTINUES)
    if isinstance(labels, str) and labels == VOCABULARY:
        return over_vocabulary(asked)
    return asked if labels is None else replace(asked, labels=_called(labels))


def _called(labels: Sequence[str | int | float | bool]) -> tuple[str, ...]:
    """What candidates are called; UserError where that is not a name for each of two or more."""
    named = () if isinstance(labels, str) else tuple(map(str, labels))
    if len(named) < 2 or len(set(named)) < len(named):
        raise UserError(
            f"labels={labels!r}: give a name for each candidate, the answer first, such as ['answer', 'foil'], or "
            f"{VOCABULARY} or {CONTINUATION}"
        )
    return named


def _in_chat(model: Classifier) -> Classifier:
    """The language model with the template of a chat around each prompt; with another, figures are others."""
    around = chat_around(model.tokenizer, model.encoder.structural, model.name)
    if sum(map(len, around)) >= model.window:
        raise UserError(f"model '{model.name}': its chat template alone fills the window of {model.window} tokens")
    told = json.dumps([model.fingerprint, "chat", around])
    return replace(model, encoder=replace(model.encoder, chat=around), fingerprint=sha256(told.encode()).hexdigest())


def over_vocabulary(model: Classifier) -> Classifier:
    """The language model whose classes are all tokens; its fingerprint is another than that of one with candidates."""
    vocabulary = model.run(model.encode([{"input_ids": [0, 0]}], candidates=[(0, 1)])).vocabulary
    assert vocabulary is not None
    return model.asked_over(VOCABULARY, tokens_by_name(model.tokenizer, vocabulary.shape[-1]))


def _zero_head(head: Head, labels: Sequence[str | int | float | bool] | None) -> ZeroHead | None:
    return None if head == "own" else ZeroHead(2 if labels is None else len(labels))


def _instrumented(
    loaded: Loaded, device: torch.device, window: int | None, max_tokens: int | None, memory_budget: int | None
) -> Classifier:
    source, image, tokenizer = loaded.source, loaded.image, loaded.tokenizer
    if loaded.answers == "class":
        check_classes(source, loaded.model.config)
    labels = LABELS if loaded.answers == "next_token" else labels_of(source, loaded.model.config)
    model = align(prepared(loaded.model).to(device))
    config: Any = model.config
    check_finite(source, model)
    if tokenizer is not None:
        check_vocabulary(source, model, tokenizer)
    if image:
        _check_patches(source, config)
    family = family_of(model)
    if loaded.answers == "next_token" and family.read != "last":
        raise UserError(
            f"model '{source}' is of the family {config.model_type}, which does not read from left to right; "
            "task=next_token needs one that does"
        )
    asks_next = loaded.answers == "next_token"
    pad = Padding(0, 0) if image else padding_of(model, tokenizer, family, reads_end=asks_next)
    encoder = Encoder(
        tokenizer=tokenizer,
        processor=loaded.processor,
        family=family,
        window=_allowed_window(window, _window(model, tokenizer, family, image=image), image=image),
        pad_token_id=pad.id,
        removed_token_id=pad.like if asks_next else pad.id,
        device=device,
        dtype=loaded.dtype,
        patch=_patch(model) if image else None,
        vocabulary=None if image else n_embeddings(model),
        token_types=getattr(config, "type_vocab_size", None),
        end_token_id=int(config.eos_token_id) if family.read == "last_end" else None,
        channels=_channels(model),
        answers=loaded.answers,
    )
    if image:
        encoder = _at_size(model, encoder)
    callers, n_heads, n_tokens = _probe(source, model, encoder, image=image)
    if image and n_tokens != encoder.window:
        family = _with_special_tokens(source, family, n_tokens - encoder.window)
        encoder = replace(encoder, family=family, window=n_tokens)
    probed = _probe_input(model, encoder, image=image)
    if image and _reads(model, encoder, _odd_size(encoder)):
        encoder = replace(encoder, size=None)
    paths = {id(module): path for path, module in model.named_modules()}
    classifier = Classifier(
        name=loaded.name,
        model=model,
        encoder=encoder,
        labels=labels,
        family=family,
        attention_modules=tuple(callers),
        streams=streams_of(family, [paths[id(module)] for module in callers]),
        n_heads=n_heads,
        fingerprint=fingerprint_of(model, tokenizer, encoder.window, loaded.processor),
        max_tokens=max_tokens or tokens_at_once(device),
        memory_budget=memory_budget or memory_budget_of(device),
    )
    if classifier.config.model_type not in FAMILIES:
        _check_guess(classifier, _encoded(classifier, [probed]))
        if not image:
            _check_padding(classifier, probed)
    return classifier


def _allowed_window(window: int | None, longest: int, *, image: bool) -> int:
    """The window asked for; UserError where the model cannot read it."""
    if window is None:
        return longest
    if image or not _SHORTEST <= window <= longest:
        allowed = "null for images" if image else f"null and whole numbers from {_SHORTEST} to {longest}"
        raise UserError(f"model.window={window}: allowed are {allowed}")
    return window


def _window(model: nn.Module, tokenizer: Any, family: Family, *, image: bool) -> int:
    config: Any = model.config
    if image:
        return _image_tokens(height_and_width(config.image_size), _patch(model), family)
    limits = [tokenizer.model_max_length] if tokenizer is not None else []
    positions = getattr(config, "max_position_embeddings", None)
    if positions:
        limits.append(positions - ((config.pad_token_id or 0) + 1 if family.positions_after_padding else 0))
    window = min(limits, default=NO_LIMIT)
    return int(window) if window < NO_LIMIT else 512


def _check_patches(source: str, config: Any) -> None:
    """UserError for an image model whose configuration has no image of one size in patches of one size."""
    if missing := [name for name in ("image_size", "patch_size", "num_channels") if not hasattr(config, name)]:
        inner = (
            " at its top (it joins an encoder of images with one of texts)" if hasattr(config, "vision_config") else ""
        )
        raise UserError(
            f"model '{source}' is of the family {config.model_type}, whose configuration has no {' and no '.join(missing)}"
            f"{inner}; supported are transformers that read patches of one size, such as ViT, DeiT, BEiT and DINOv2"
        )


def _patch(model: nn.Module) -> Patch:
    config: Any = model.config
    return height_and_width(config.patch_size)


def _channels(model: nn.Module) -> int:
    return int(getattr(model.config, "num_channels", 3))


def _image_tokens(size: Patch, patch: Patch, family: Family) -> int:
    return (size[0] // patch[0]) * (size[1] // patch[1]) + sum(family.special_ends)


def _at_size(model: nn.Module, encoder: Encoder) -> Encoder:
    """The encoder for images of the size that the processor makes, where the model reads it, else of the configuration's.

    The two differ where a model interpolates its position encodings: DINOv2 is trained at 518 pixels and published with a
    processor that crops to 224.
    """
    config: Any = model.config
    configured = height_and_width(config.image_size)
    made = _made_size(encoder, configured)
    size = made if made != configured and _reads(model, encoder, made) else configured
    assert encoder.patch is not None
    return replace(encoder, size=size, window=_image_tokens(size, encoder.patch, encoder.family))


def _made_size(encoder: Encoder, configured: Patch) -> Patch:
    """Height and width of what the image processor makes of a square image; the configured ones where it makes nothing."""
    if encoder.processor is None:
        return configured
    blank = Image.new("L" if encoder.channels == 1 else "RGB", (max(configured), max(configured)))
    try:
        height, width = encoder.processor(images=[blank], return_tensors="np")["pixel_values"][0].shape[-2:]
    except (ValueError, TypeError, KeyError, AttributeError):  # the first image that is encoded says what is wrong
        return configured
    return int(height), int(width)


def _reads(model: nn.Module, encoder: Encoder, size: Patch) -> bool:
    """Whether the model gives logits for images of this size."""
    pixels = torch.zeros((1, encoder.channels, *size), dtype=encoder.dtype, device=encoder.device)
    try:
        with torch.no_grad():
            model(pixel_values=pixels)
    except (ValueError, RuntimeError):  # another size than its position encodings are for
        return False
    return True


def _odd_size(encoder: Encoder) -> Patch:
    """Height and width of another form than the encoder's, of few patches."""
    assert encoder.patch is not None
    high, wide = encoder.patch
    return 2 * high, (3 if encoder.size != (2 * high, 3 * wide) else 4) * wide


def _with_special_tokens(source: str, family: Family, more: int) -> Family:
    """The family with `more` tokens before its patches, such as registers; that they stand first is a guess, and logged."""
    start, end = family.special_ends
    if start + more < 0:
        raise UserError(
            f"model '{source}' attends over fewer states than it has patches (windows or merged patches), so that its "
            "attention cannot be read as attention to patches"
        )
    logger.warning(
        "'%s' reads %d tokens that are no patches: guessed that they stand first", source, start + more + end
    )
    return replace(family, special_ends=(start + more, end))


def _probe_input(model: nn.Module, encoder: Encoder, *, image: bool) -> dict[str, Tensor]:
    """The ready input of one tiny example."""
    config: Any = model.config
    if image:
        assert encoder.size is not None
        return {"pixel_values": torch.zeros((encoder.channels, *encoder.size), dtype=encoder.dtype)}
    ids = torch.full((3,), min(5, (encoder.vocabulary or 1) - 1))
    if encoder.family.read == "last_end":
        ids[-1] = config.eos_token_id
    return {"input_ids": ids}


def _probe(source: str, model: nn.Module, encoder: Encoder, *, image: bool) -> tuple[list[nn.Module], int, int]:
    """One tiny forward pass: the attention modules in the order of their calls, and how many heads and tokens they have."""
    inputs = _probe_input(model, encoder, image=image)
    tape = Tape(modules=frozenset(id(module) for module in model.modules()), record=True)
    try:
        with torch.no_grad(), recording(tape):
            model(**{name: tensor[None].to(encoder.device) for name, tensor in inputs.items()})
    except NotImplementedError as error:
        raise UserError(f"model '{source}' is not supported: {error}, which is not instrumented") from error
    except (RuntimeError, TypeError, AttributeError, ValueError, LookupError) as error:
        if "not implemented for" not in str(error) and "doesn't support" not in str(error):
            if isinstance(error, UserError) or "memory" in str(error):
                raise
            if failure := _own_failure(model, encoder, inputs):
                raise UserError(
                    f"model '{source}' ({type(model).__name__}) fails by itself on a tiny input ({failure}); its "
                    "config.json may not fit its class"
                ) from error
            raise
        name, reason = str(encoder.dtype).removeprefix("torch."), str(error).splitlines()[0]
        raise UserError(
            f"model.dtype={name} cannot be used on {encoder.device.type} ({reason}); use model.dtype=float32"
        ) from error
    if not tape.callers:
        raise UserError(
            f"model '{source}' ({type(model).__name__}) does not route its attention through transformers' attention "
            "interface, so that it can be neither recorded nor edited"
        )
    heads = sorted({attention.shape[1] for attention in tape.attentions})
    if len(heads) > 1:
        raise UserError(f"model '{source}' has attention layers of {heads} heads; all must have the same number")
    return tape.callers, heads[0], tape.attentions[0].shape[-1]


def _own_failure(model: nn.Module, encoder: Encoder, inputs: dict[str, Tensor]) -> str:
    """What the model says when it is run on the input without anything of this project; empty where it runs."""
    try:
        with torch.no_grad():
            model(**{name: tensor[None].to(encoder.device) for name, tensor in inputs.items()})
    except Exception as error:  # of whatever kind: the model is a stranger's
        return f"{type(error).__name__}: {one_line(error)}"
    return ""


def states_read(model: Classifier, batch: Batch) -> Bool[Tensor, "B T"]:
    """True for the tokens with `∂y_0/∂x[j] ≠ 0`, x the output of the last block; of a language model `∂Σy²/∂x[j]`.

    Of an encoder–decoder: for the decoder's positions.
    """
    states: list[Tensor] = []

    def leaf(_module: nn.Module, _args: Any, output: Any) -> Any:
        other_outputs = output[1:] if isinstance(output, tuple) else None
        states.append((output if other_outputs is None else output[0]).detach().requires_grad_())
        return states[-1] if other_outputs is None else (states[-1], *other_outputs)

    handle = blocks_of(model.model, model.attention_modules)[-1].register_forward_hook(leaf)
    try:
        with torch.enable_grad():
            output = model.model(**batch.tensors)
    finally:
        handle.remove()
    vocabulary = getattr(output, "vocabulary", None)
    read = output.logits[:, 0] if vocabulary is None else vocabulary.square()
    (gradient,) = torch.autograd.grad(read.sum(), states[-1:])
    return gradient.abs().sum(-1) > 0


def _check_padding(model: Classifier, inputs: Mapping[str, Tensor]) -> None:
    """UserError where the logits of a text change with what is beside it in a batch.

    Where a family's own forward lets padding through, a text has other logits in a batch than alone, and its explanations
    and tests would depend on what it is batched with.

    Args:
        inputs: `input_ids` of a text, and what goes with them.
    """
    longer = {name: torch.cat([ids[:1], *[ids[1:-1]] * _TIMES, ids[-1:]]) for name, ids in inputs.items()}
    with torch.no_grad():  # the model's own pass: what is measured here is no cost of an explanation
        outputs = [model.model(**_encoded(model, batch).tensors) for batch in ([inputs], [inputs, longer])]
    alone, beside = (getattr(output, "vocabulary", output.logits)[0].float() for output in outputs)
    change = float((beside - alone).abs().max())
    rounding = max(_ROUNDING, 10 * torch.finfo(model.encoder.dtype).eps)
    if change > rounding * max(1.0, float(alone.abs().max())):
        raise UserError(
            f"model '{model.name}' is of the family {model.config.model_type}, in which padding reaches the logits: those "
            f"of a text change by {change:.2g} when a longer one is beside it in a batch; it is not supported"
        )


def _encoded(model: Classifier, inputs: Sequence[Mapping[str, Tensor]]) -> Batch:
    """A batch of ready inputs; of a language model with the first two tokens of its vocabulary as candidates."""
    return model.encode(inputs, candidates=[(0, 1)] * len(inputs))


def _check_guess(model: Classifier, batch: Batch) -> None:
    """Warn where the classifier reads other tokens than the guessed family says."""
    measured, guessed = states_read(model, batch)[0], model.read_weights(batch)[0] > 0
    if not torch.equal(measured, guessed):
        logger.warning(
            "the guess is wrong: the logits of '%s' depend on the final states of the tokens %s, not %s, of %d; readouts "
            "start from the wrong row",
            model.name,
            *(", ".join(map(str, row.nonzero().flatten().tolist())) for row in (measured, guessed)),
            len(measured),
        )


def fingerprint_of(model: nn.Module, tokenizer: Any, window: int, processor: Any = None) -> str:
    """SHA-256 over configuration and weights, and over what turns an input into tensors.

    The latter are the settings of tokenizer and processor, the window that texts are cut to, and the tensors of some
    texts, a pair and an image, which also tell apart what no setting names.
    """
    digest = sha256()
    config: Any = model.config
    digest.update(_told(_deciding(config.to_dict())))
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    if tokenizer is not None:
        digest.update(_told({**_of_tokenizer(tokenizer), "window": window}))
    if processor is not None:
        digest.update(_told(_of_processor(processor)))
    return digest.hexdigest()


def _told(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(_plain(facts), sort_keys=True).encode()


def _plain(value: Any) -> Any:
    """A value as JSON can say it, the same in every process: no order of a set, and no address of an object."""
    if value is None or isinstance(value, str | bool | int | float):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return _plain(value.tolist())
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, torch.dtype | AddedToken):
        return str(value)
    return [type(value).__module__, type(value).__qualname__]


def _deciding(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in _UNDECIDING}


def _of_tokenizer(tokenizer: Any) -> dict[str, Any]:
    """The tokenizer as it is stored, what its backend does not store, and what it makes of some texts."""
    encoded = [
        dict(tokenizer(*texts, verbose=False)) for texts in ((_PROBE_TEXTS[0],), (_PROBE_TEXTS[1],), _PROBE_TEXTS)
    ]
    tokenizer.backend_tokenizer.no_truncation()  # what a call asked for is no part of what it is
    tokenizer.backend_tokenizer.no_padding()
    stored = sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()  # its vocabulary may have 10⁵ entries
    return {
        "backend": stored,
        "encoded": encoded,
        **{name: getattr(tokenizer, name, None) for name in _TOKENIZER_SETTINGS},
    }


def _of_processor(processor: Any) -> dict[str, Any]:
    """Settings, and a digest of the pixels of one image; of a callable of the user's own the pixels alone."""
    settings = processor.to_dict() if hasattr(processor, "to_dict") else {}
    height, width = np.mgrid[:37, :53]
    image = np.stack([height * 6, width * 4, (height * width) % 251], axis=-1).astype(np.uint8)
    try:
        pixels = processor(images=[Image.fromarray(image)], return_tensors="pt")["pixel_values"]
        rounded = np.round(pixels.double().cpu().numpy(), 3) + 0.0  # no −0
        shown = [list(pixels.shape), sha256(rounded.tobytes()).hexdigest()]
    except (ValueError, TypeError, KeyError, RuntimeError):
        shown = []  # it is told when an image is encoded, with the image's name
    return {"settings": _deciding(settings), "pixels": shown}
