"""Checks of a checkpoint: its files are whole, and its weights are those of its configuration, in their sizes too."""

import copy
import importlib.util
import json
import logging
import os
import pickle
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn

from benchmark.errors import UserError, one_line
from benchmark.settings.availability import check_on_hub

logger = logging.getLogger(__name__)

LOADING = threading.RLock()
"""Held while transformers makes a model: it takes methods of all models away meanwhile (the tying of weights, the drawing
of their first values), and two threads that did so at once could leave them taken away."""

VOCABULARIES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model",
)  # fmt: skip
"""Files that a tokenizer's words are in."""

_CHECKED_ENDINGS = (".safetensors", ".bin", ".json", ".txt", ".model")
_POINTER = b"version https://git-lfs"  # what stands in place of a large file that Git LFS has not fetched
_SHOWN = 3  # names in a message
_WRAPPERS = re.compile(r"(?:(?:module|model|_orig_mod|_forward_module|network|net)\.)+")
"""What DataParallel, torch.compile, Lightning and DeepSpeed put before each name."""

_OLD_BUFFERS = ("position_ids", "inv_freq", "masked_bias", ".attn.bias", ".attention.bias")
"""Constants that older versions saved."""

_LAYERS = (
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_hidden_groups",
    "num_encoder_layers", "num_decoder_layers",
)  # fmt: skip
_WIDTHS = (
    "hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "intermediate_size", "n_inner", "hidden_dim",
    "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size", "type_vocab_size", "num_labels", "num_attention_heads",
    "n_head", "n_heads", "encoder_attention_heads", "decoder_attention_heads",
)  # fmt: skip
_TIMES = 16
"""How much wider than any stored tensor a configuration may be here: what differs by less is told by what does not fit."""

_FEW = 200
_SMALL_WIDTH = 1000
_SMALL = {"vocab_size": 500_000}  # image models of some families have one that nothing is made of
"""Sizes that are never refused here."""

_LEAST_BYTES = 64  # that a tensor takes in a file, its name included


def existing_source(source: str) -> str:
    """The source itself; UserError for a path that does not exist, or whose files are not whole."""
    path = Path(source).expanduser()
    if path.is_dir():
        _check_files(path)
        check_size(path)
        return str(path)
    looks_like_path = source.startswith((".", "/", "~")) or source.count("/") > 1 or path.exists()
    if looks_like_path:
        raise UserError(f"model.path={source} is not a directory; give a checkpoint's directory or a hub id")
    check_on_hub("model.path", source)
    return source


def _check_files(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.suffix not in _CHECKED_ENDINGS or not path.is_file():
            continue
        with path.open("rb") as file:
            start = file.read(len(_POINTER))
        if start == _POINTER:
            raise UserError(
                f"model.path={folder} holds only a Git LFS pointer in place of {path.name}; run: git lfs pull"
            )
        if not start:
            raise UserError(f"model.path={folder} cannot be loaded: {path.name} is empty; fetch or copy it again")


def check_size(folder: Path) -> None:
    """UserError where a configuration asks for far more layers, or far wider ones, than its weights can fill.

    Every layer has a tensor of its own, so that there are no more layers than tensors; every width is one side of a tensor.
    Of a file whose tensors cannot be listed without executing it, its length is the bound. Sizes that cost nothing to try
    are let pass: what does not fit is told of when it is loaded.
    """
    config = _json(folder / "config.json")
    shapes, size = dict(_shapes(folder)), _pickled(folder)
    if not shapes and not size:
        return
    tensors = len(shapes) + size // _LEAST_BYTES
    widest = max((side for shape in shapes.values() for side in shape), default=0) + size
    for name, bound in (*((name, tensors) for name in _LAYERS), *((name, _TIMES * widest) for name in _WIDTHS)):
        value = config.get(name)
        if type(value) is int and value > max(bound, _SMALL.get(name, _SMALL_WIDTH if name in _WIDTHS else _FEW)):
            raise UserError(
                f"model.path={folder}: config.json has {name}={value}, and the weights {_told(shapes, size)}; "
                "use the config.json that the weights were saved with"
            )


def _told(shapes: Mapping[str, tuple[int, ...]], size: int) -> str:
    if not shapes:
        return f"are a file of {size} bytes"
    numbers = [int(found[1]) for name in shapes if (found := re.search(r"\.(\d+)\.", name))]
    widest = max((side for shape in shapes.values() for side in shape), default=0)
    layers = f" of {max(numbers) + 1} layers" if numbers else ""
    return f"have {len(shapes)} tensors{layers}, none with a side above {widest}"


def _shapes(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor in files of safetensors; broken ones are told of when they are read."""
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as stored:
                for name in stored.keys():  # noqa: SIM118 - it is no mapping
                    yield name, tuple(stored.get_slice(name).get_shape())
        except (SafetensorError, OSError):
            continue


def _pickled(folder: Path) -> int:
    """Bytes of weights that are no safetensors."""
    return sum(file.stat().st_size for file in folder.glob("*.bin"))


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def from_source(auto: Any, source: str, **options: Any) -> Any:
    """`auto.from_pretrained(source, **options)`, which never runs code of the checkpoint's own.

    Raises:
        UserError: there is nothing to load, or it is broken; with the way out. Any exception counts, since transformers,
            tokenizers, safetensors and torch raise undocumented ones of many kinds for a broken file.
    """
    try:
        with LOADING:
            return auto.from_pretrained(source, trust_remote_code=False, **options)
    except Exception as error:  # undocumented ones of many kinds, as said above
        reason = _reason(error)
        if Path(source).is_dir():
            raise UserError(f"model.path={source} cannot be loaded: {reason}") from error
        if not isinstance(error, OSError | ValueError):
            raise UserError(f"model.path={source}, of the hub, cannot be loaded: {reason}") from error
        raise UserError(
            f"model.path={source} is no local directory and cannot be fetched from the hub ({reason}); "
            "check the network, or download it and set model.path to its directory"
        ) from error


def _reason(error: Exception) -> str:
    """The reason of an error, without the library's advice to trust the file."""
    if isinstance(error, pickle.UnpicklingError):
        return "its weights are a pickle with more in it than tensors, which is not executed; save a model.safetensors"
    if "trust_remote_code" in str(error):
        return "it needs Python code of its own, which is not executed; use a model of a family that transformers has"
    kind = "" if isinstance(error, OSError | ValueError | RuntimeError) else f"{type(error).__name__}: "
    return f"{kind}{one_line(error)}"


def load_weights(auto: Any, source: str, *, fresh_head: bool, **options: Any) -> nn.Module:
    """A model whose weights are all those of its checkpoint, as its configuration says.

    Args:
        auto: the automatic class.
        source: directory or hub id.
        fresh_head: whether the classifier may be a new one; the layers below it never are.
        options: for `from_pretrained`.

    Raises:
        UserError: weights are missing, of other sizes, or of layers that the configuration does not have.
    """
    loading: dict[str, Any] = {"output_loading_info": True, "ignore_mismatched_sizes": True, **options}
    model, report = from_source(auto, source, **loading)
    if prefix := _wrapper(report):
        logger.warning(
            "'%s': its weights were saved from a wrapped model; '%s' is taken off their names", source, prefix
        )
        if "config" in loading:
            loading["config"] = copy.deepcopy(options["config"])
        model, report = from_source(auto, source, **loading, key_mapping={f"^{re.escape(prefix)}": ""})
    misfits = {
        name: f"{name} is {list(stored)}, not {list(expected)}" for name, stored, expected in report["mismatched_keys"]
    }
    body = f"{model.base_model_prefix}."

    def refuse(what: str, names: Iterable[str]) -> None:
        if affected := sorted(names):
            more = f" and {len(affected) - _SHOWN} more" if len(affected) > _SHOWN else ""
            raise UserError(
                f"model.path={source}: weights and config.json do not fit: {what} {', '.join(affected[:_SHOWN])}{more}; "
                "use the config.json that the weights were saved with"
            )

    def below(name: str) -> bool:
        return name.startswith(body) and "pooler" not in name  # a pooler belongs to the head

    refuse("layers without weights:", filter(below, report["missing_keys"]))
    refuse("weights without a layer:", _of_other_layers(model, report["unexpected_keys"]))
    if lost := _inside_layers(model, report["unexpected_keys"]):
        raise UserError(
            f"model.path={source} holds weights inside its layers for which the installed transformers has no place "
            f"({', '.join(lost[:_SHOWN])}), so that another model would run; use the version that it was saved with"
        )
    refuse("other sizes:", (text for name, text in misfits.items() if below(name) or not fresh_head))
    if not fresh_head:
        _check_head(source, report)
    return model  # type: ignore[no-any-return]  # of transformers


def _wrapper(report: Mapping[str, Any]) -> str:
    """The names of modules around the model that stand before all weights that have no place; empty where none does."""
    unexpected, missing = set(report["unexpected_keys"]), set(report["missing_keys"])
    if not unexpected or not missing:
        return ""
    found = [_WRAPPERS.match(name) for name in unexpected]
    prefixes = {match.group() for match in found if match is not None}
    for prefix in sorted(prefixes, key=len):
        stripped = {name.removeprefix(prefix) for name in unexpected}
        if 2 * len(missing & stripped) > len(missing):  # not all: transformers leaves some names out of its report
            return prefix
    return ""


def _inside_layers(model: nn.Module, unexpected: Iterable[str]) -> list[str]:
    """Weights of a numbered layer of the body that the model does not use, buffers of older versions aside."""
    body = {_numberless(name).partition("#")[0] for name in model.state_dict() if re.search(r"\d", name)}
    prefix = f"{model.base_model_prefix}."
    body |= {start.removeprefix(prefix) for start in body}
    return sorted(
        name
        for name in unexpected
        if re.search(r"\.\d+\.", name)
        and _numberless(name).partition("#")[0] in body
        and not name.endswith(_OLD_BUFFERS)
    )


def check_settings(source: str, config: Any) -> None:
    """UserError for settings of config.json that change what a model computes and that transformers no longer obeys."""
    if pruned := {layer: heads for layer, heads in (getattr(config, "pruned_heads", None) or {}).items() if heads}:
        raise UserError(
            f"model.path={source}: config.json says that heads were pruned (pruned_heads, in {len(pruned)} layers), which "
            "the installed transformers cannot read since its version 5; load and save it unpruned with the version that "
            "it was saved with, its pruned heads' weights 0"
        )
    positions = getattr(config, "position_embedding_type", None)
    if positions not in (None, "absolute") and not _obeys(config, "position_embedding_type"):
        raise UserError(
            f"model.path={source}: config.json says position_embedding_type={positions}, which the installed transformers "
            f"does not compute for the family {config.model_type}, so that another model would run; use the version that "
            "it was saved with"
        )


def _obeys(config: Any, setting: str) -> bool:
    """Whether the code of the configuration's family reads a setting."""
    name = type(config).__module__.replace(".configuration_", ".modeling_")
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return True
    return setting in Path(found.origin).read_text("utf-8")


def _of_other_layers(model: nn.Module, unexpected: Iterable[str]) -> list[str]:
    """Weights that the model would have if it had more layers: their names differ from others in a number alone."""
    names_of_model = {_numberless(name) for name in model.state_dict()}
    prefix = f"{model.base_model_prefix}."
    names_of_model |= {name.removeprefix(prefix) for name in names_of_model}
    return [name for name in unexpected if re.search(r"\d", name) and _numberless(name) in names_of_model]


def _numberless(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _check_head(source: str, report: Mapping[str, Any]) -> None:
    if missing := sorted(report["missing_keys"]):
        raise UserError(
            f"model.path={source} has no trained classifier head (missing weights: {', '.join(missing[:_SHOWN])}, ...); "
            "fine-tune it first: python -m benchmark.train task=... model.path=... out=..."
        )
    if unused := sorted(report["unexpected_keys"]):
        logger.warning("'%s' holds weights that the model does not use: %s", source, ", ".join(unused[:_SHOWN]))


def check_finite(source: str, model: nn.Module) -> None:
    """UserError for a weight that is not finite."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise UserError(f"model.path={source} holds values that are not finite (NaN or infinity) in '{name}'")


def n_embeddings(model: Any) -> int:
    """How many tokens a model of texts has an embedding for; UserError where no table of embeddings is the model's input."""
    try:
        weight = model.get_input_embeddings().weight
    except (NotImplementedError, AttributeError) as error:
        raise UserError(
            f"{type(model).__name__} has no table with an embedding for each token, in which tokens could be recorded or "
            "removed, and is not supported"
        ) from error
    return int(weight.shape[0])


def check_vocabulary(source: str, model: Any, tokenizer: Any) -> None:
    """UserError where the tokenizer knows tokens that the model has no embedding for."""
    rows = n_embeddings(model)
    if (largest := max(tokenizer.get_vocab().values())) >= rows:
        raise UserError(
            f"model.path={source}: the tokenizer's ids reach {largest}, but the model has {rows} embeddings; "
            "use the tokenizer that the model was trained with"
        )


def check_classes(source: str, config: Any) -> None:
    """UserError for a model that gives a number in place of probabilities of classes."""
    multilabel = getattr(config, "problem_type", None) == "multi_label_classification"
    if getattr(config, "problem_type", None) == "regression" or (config.num_labels == 1 and not multilabel):
        raise UserError(
            f"model '{source}' is a regression ({_of_outputs(config)}): it gives a number and no probabilities of classes, "
            "of which explanations and tests speak here; what comes nearest is a classifier of ranges of that number: "
            "python -m benchmark.train task=... model.path=... out=..., with the ranges as labels"
        )
    if config.num_labels == 1:
        raise UserError(
            f"model '{source}' has a single label (num_labels=1), so that its classes cannot be compared; nearest comes "
            "the same model with two outputs, the first of which is 0: their softmax is the sigmoid of the second"
        )


def _of_outputs(config: Any) -> str:
    told = "problem_type=regression, " if getattr(config, "problem_type", None) == "regression" else ""
    return f"{told}num_labels={config.num_labels}"


def labels_of(source: str, config: Any) -> tuple[str, ...]:
    """The names of the classes in their order; UserError where config.json does not name them all."""
    missing = [index for index in range(config.num_labels) if index not in (config.id2label or {})]
    if missing:
        raise UserError(
            f"model.path={source}: id2label of config.json has {config.num_labels} names, but none for class {missing[0]}"
        )
    return tuple(str(config.id2label[index]) for index in range(config.num_labels))


def name_of(source: str) -> str:
    """What run folders call a model: the last part of its path (also of `.`; links keep their names), or of its hub id."""
    return Path(os.path.abspath(source) if Path(source).is_dir() else source).name or "model"
