"""Classifiers from checkpoints: a directory or hub id, with the errors that users meet.

An adapter (LoRA and its kind) that a folder holds is merged into the weights beside it, or named.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING
from transformers.utils import logging as transformers_logging

from benchmark.errors import UserError, near, one_line
from benchmark.models.adopting import Loaded, adopt_tokenizer, check_causal
from benchmark.models.families import UNSUPPORTED
from benchmark.models.headless import ZeroHead
from benchmark.models.kinds import other_kind
from benchmark.models.next_token import ask_for_the_next_token, cut_at_the_start
from benchmark.models.special_tokens import read_as_words
from benchmark.models.weights import (
    LOADING,
    VOCABULARIES,
    check_settings,
    existing_source,
    from_source,
    load_weights,
    name_of,
)
from benchmark.settings.availability import needs

logger = logging.getLogger(__name__)

_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")


def read_checkpoint(
    path_or_hub_id: str,
    dtype: torch.dtype,
    tokenizer: Any,
    processor: Any,
    zero_head: ZeroHead | None = None,
) -> Loaded:
    """The classifier of a directory or hub id, with its own tokenizer or image processor unless one is given."""
    source = existing_source(path_or_hub_id)
    adapter = _adapter_of(source)
    config = from_source(AutoConfig, source)
    check_settings(source, config)
    quantised = _ask_for_plain_weights(config)
    if config.model_type in UNSUPPORTED:
        reason = UNSUPPORTED[config.model_type]
        raise UserError(f"model '{source}' is of the family {config.model_type}, which is not supported: {reason}")
    with _without_adapter(source) if adapter else nullcontext(source) as folder:
        try:
            model, image = _load_classifier(folder, config, dtype, zero_head)
        except UserError as error:
            if zero_head is None and (said := other_kind(source, config)):
                raise UserError(said) from error
            raise
    if quantised:
        model = _dequantised(model, source, quantised, dtype)
    if adapter:
        model = _merged(model, source)
        logger.warning("'%s': its adapter (%s) is merged into its weights", source, adapter)
    if image:
        return Loaded(source, name_of(source), model, dtype, processor=processor or image_processor(source), image=True)
    own = _tokenizer(source) if tokenizer is None else adopt_tokenizer(tokenizer)
    return Loaded(source, name_of(source), model, dtype, tokenizer=own)


def read_language_model(path_or_hub_id: str, dtype: torch.dtype, tokenizer: Any, gguf_file: str | None) -> Loaded:
    """The causal language model of a directory or hub id, or of a GGUF file there; its own tokenizer unless one is given.

    Raises:
        UserError: the checkpoint holds another kind of model, or not all weights of this one; or it is a GGUF file, and
            nobody says which, or gguf is not installed.
    """
    source = existing_source(path_or_hub_id)
    files = [path.name for path in sorted(Path(source).glob("*.gguf"))] if Path(source).is_dir() else []
    if gguf_file is None and files and not (Path(source) / "config.json").is_file():
        raise UserError(f"model.path={source} holds {', '.join(files)}; say which: model.gguf_file={files[0]}")
    if gguf_file is not None:
        needs("gguf", f"model.gguf_file={gguf_file}")
        if Path(source).is_dir() and gguf_file not in files:
            there = near(gguf_file, files) if files else "it holds no file that ends in .gguf"
            raise UserError(f"model.path={source} has no {gguf_file}; {there}")
    stored = {} if gguf_file is None else {"gguf_file": gguf_file}
    config = from_source(AutoConfig, source, **stored)
    check_settings(source, config)
    quantised = "" if gguf_file is not None else _ask_for_plain_weights(config)
    named = [getattr(import_module("transformers"), name, None) for name in config.architectures or ()]
    if named and named[0] is not None:
        check_causal(named[0], f"model.path={source} ({named[0].__name__})")
    adapter = _adapter_of(source)
    with quiet_transformers(), _without_adapter(source) if adapter else nullcontext(source) as folder:
        options = {"config": config, "dtype": dtype, "attn_implementation": "eager", **stored}
        model: Any = load_weights(AutoModelForCausalLM, folder, fresh_head=False, **options)
    if gguf_file is not None or quantised:
        model = _dequantised(model, source, quantised, dtype)
    if adapter:
        model = _merged(model, source)
        logger.warning("'%s': its adapter (%s) is merged into its weights", source, adapter)
    own = _tokenizer(source, **stored) if tokenizer is None else adopt_tokenizer(tokenizer)
    name = name_of(source) if gguf_file is None else gguf_file.removesuffix(".gguf")
    return Loaded(source, name, ask_for_the_next_token(model), dtype, cut_at_the_start(own), answers="next_token")


def _ask_for_plain_weights(config: Any) -> str:
    """Says in a configuration that quantised weights are to be dequantised, where their kind can be told so.

    Returns:
        The kind, such as bitsandbytes or fp8; empty where the weights are plain.
    """
    settings = getattr(config, "quantization_config", None)
    if not isinstance(settings, dict):
        return ""
    kind = str(settings.get("quant_method", "of no kind that is named"))
    if _is_dequantised_when_read(kind):
        settings["dequantize"] = True
    return kind


def _is_dequantised_when_read(kind: str) -> bool:
    """Whether transformers dequantises weights of this kind while it reads them; others it does afterwards, or not."""
    made = AUTO_QUANTIZATION_CONFIG_MAPPING.get(kind)
    return made is not None and "dequantize" in signature(made.__init__).parameters


def _dequantised(model: Any, source: str, kind: str, dtype: torch.dtype) -> nn.Module:
    """What transformers made of quantised weights, without what it knows of where they came from.

    Args:
        model: as it was loaded; its weights may be dequantised already.
        source: of the checkpoint, for messages.
        kind: of the quantisation; empty for a GGUF file, which was asked for as such.
        dtype: of the weights.

    Raises:
        UserError: they are of a kind that transformers cannot dequantise.
    """
    if kind:
        try:
            model = model if _is_dequantised_when_read(kind) else model.dequantize(dtype=dtype)
        except Exception as error:  # those of the package that the weights were quantised with, too
            raise UserError(
                f"model.path={source}: its weights are quantised ({kind}), and have no gradients before they are "
                f"dequantised, which failed ({one_line(error)}); give the checkpoint that they were made from"
            ) from error
        precision = str(dtype).removeprefix("torch.")
        logger.warning("'%s': its weights were quantised (%s); they are computed with as %s", source, kind, precision)
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
    with LOADING:
        plain: nn.Module = type(model)._from_config(model.config, dtype=dtype, attn_implementation="eager")
    plain.load_state_dict(model.state_dict())
    if (how := getattr(model, "generation_config", None)) is not None:  # which tokens end a text
        plain.generation_config = how
    return plain


def _adapter_of(source: str) -> str:
    """What the adapter of a folder is called in messages; empty where the folder holds none.

    Raises:
        UserError: the folder holds an adapter and no model, or one that cannot be merged since peft is not installed.
    """
    folder = Path(source)
    found = [name for name in _ADAPTER_FILES if (folder / name).is_file()]
    if not found:
        return ""
    kind, base = _described_adapter(folder)
    said = f"model.path={source} holds an adapter ({kind}: {', '.join(found)})"
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{said} and no model; merge it into its base{base} with peft "
            "(AutoPeftModelForSequenceClassification.from_pretrained(...).merge_and_unload().save_pretrained(...)) and give "
            "the merged folder"
        )
    if find_spec("peft") is None:
        raise UserError(
            f"{said} beside the weights, which alone are another model than the two together; install peft, with which "
            "it is merged, or take the adapter's files away"
        )
    return kind


def _described_adapter(folder: Path) -> tuple[str, str]:
    try:
        settings = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        settings = {}
    settings = settings if isinstance(settings, dict) else {}
    base = settings.get("base_model_name_or_path")
    return str(settings.get("peft_type") or "adapter"), f" '{base}'" if base else ""


@contextmanager
def _without_adapter(source: str) -> Iterator[str]:
    """A folder that holds the files of the checkpoint but those of its adapter, which transformers would load by itself."""
    with TemporaryDirectory() as name:
        for path in Path(source).resolve().iterdir():
            if path.name not in _ADAPTER_FILES:
                (Path(name) / path.name).symlink_to(path)
        yield name


def _merged(model: nn.Module, source: str) -> nn.Module:
    """The model with the weights of the folder's adapter added to its own.

    Raises:
        UserError: peft cannot read the adapter, or put it on this model.
    """
    peft = import_module("peft")
    wrapped: Any
    try:
        wrapped = peft.PeftModel.from_pretrained(model, source)
        whole: nn.Module = wrapped.merge_and_unload()
    except Exception as error:  # peft raises undocumented ones of many kinds, as transformers does
        raise UserError(f"model.path={source}: its adapter cannot be merged: {one_line(error)}") from error
    return whole


def reads_images(config: Any) -> bool:
    """Whether a configuration is that of an image model."""
    return "ForImageClassification" in "".join(config.architectures or ()) or hasattr(config, "num_channels")


def _load_classifier(
    source: str, config: Any, dtype: torch.dtype, zero_head: ZeroHead | None
) -> tuple[nn.Module, bool]:
    image = reads_images(config)
    auto = AutoModelForImageClassification if image else AutoModelForSequenceClassification
    with quiet_transformers():
        if zero_head is None:
            model = load_weights(
                auto, source, fresh_head=False, config=config, dtype=dtype, attn_implementation="eager"
            )
        else:
            config.num_labels, config.problem_type = zero_head.classes, None
            model = load_weights(auto, source, fresh_head=True, config=config, dtype=dtype, attn_implementation="eager")
            zero_head.put_on(model)
    return model, image


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no table of missing keys from transformers in this block."""
    verbosity, bar = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bar:
            transformers_logging.enable_progress_bar()


def _tokenizer(source: str, **options: Any) -> Any:
    """The checkpoint's tokenizer, which reads special tokens in texts as `read_as_words` says; None without one.

    Raises:
        UserError: its files are there but broken, or it cannot align words.
    """
    folder = Path(source)
    present = [name for name in (*VOCABULARIES, "tokenizer_config.json") if (folder / name).is_file()]
    try:
        tokenizer = from_source(AutoTokenizer, source, **options)
    except UserError as error:
        kinds: tuple[type[Exception], ...] = (OSError, ValueError, KeyError, AttributeError, TypeError)
        if folder.is_dir():  # a package that only a tokenizer's files would need, which are not there
            kinds = (*kinds, ImportError)
        if present or not isinstance(error.__cause__, kinds):
            raise UserError(f"{error} (its tokenizer: {', '.join(present)})") from error
        logger.info("no tokenizer at '%s' (%s): the model takes ready ids", source, error)
        return None
    if not tokenizer.is_fast:
        raise UserError(f"model.path={source} has a slow tokenizer, which cannot align words; save a tokenizer.json")
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # transformers makes an empty one where no file is found
        if words := [name for name in present if name in VOCABULARIES]:
            raise UserError(f"model.path={source} has a tokenizer without a single word ({', '.join(words)})")
        return None
    return read_as_words(tokenizer)


def image_processor(source: str) -> Any:
    """The checkpoint's own image processor; None without one, UserError where its file is broken."""
    try:
        return from_source(AutoImageProcessor, source, backend="pil")
    except UserError as error:
        if (Path(source) / "preprocessor_config.json").is_file():
            raise
        logger.info("no image processor at '%s' (%s): the model takes pixel values", source, error)
        return None
