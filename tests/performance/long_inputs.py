"""Peak memory and time of methods on long inputs: `python -m tests.performance.long_inputs [model] [method] [T]`.

Every figure is the high-water mark of a process of its own, which loads a random model of MiniLM's size, explains one text
and ends. With `eager` instead of a method it makes one plain forward and backward pass to the input embeddings (F+B).
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers

from benchmark import build, load_model
from tests.conftest import REPOSITORY

SIZE = {
    "hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 1536, "vocab_size": 2000,
    "max_position_embeddings": 4096, "num_labels": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
MODELS = {"llama": {}, "modernbert": {"cls_token_id": 1, "sep_token_id": 2}}
LENGTHS = (512, 1024, 2048, 4096)
METHODS = (
    "raw_attention", "rollout", "attention_gradcam", "gradient_x_input", "lrp", "lrp precision=model",
    "transformer_attribution", "transformer_attribution edges.precision=model", "attattr edges.steps=2",
)  # fmt: skip
AT_MOST = {"lrp": 2048, "transformer_attribution": 2048, "attattr": 2048}
"""Methods whose longest input is shorter than 4,096 tokens."""


def save(kind: str, folder: Path) -> Path:
    """A random classifier of MiniLM's size that reads 4,096 tokens."""
    torch.manual_seed(0)
    config = {"llama": transformers.LlamaConfig, "modernbert": transformers.ModernBertConfig}[kind]
    model = transformers.AutoModelForSequenceClassification.from_config(config(**SIZE, **MODELS[kind]))
    model.save_pretrained(folder / kind)
    return folder / kind


def explain(folder: str, length: str, method: str, *settings: str) -> None:
    """Explain one text of so many tokens; print the seconds that it took and the high-water mark of this process."""
    torch.set_num_threads(1)
    ids = {"input_ids": [1, *(5 + i % 1990 for i in range(int(length) - 2)), 2], "attention_mask": [1] * int(length)}
    if method == "eager":
        seconds = plain(folder, ids)
    else:
        model = load_model(folder, device="cpu")
        explainer, batch = build(f"methods/{method}", *settings), model.encode([ids])
        start = time.perf_counter()
        tokens = explainer(model, batch, [1]).tokens
        seconds = time.perf_counter() - start
        assert tokens.shape == (1, int(length))
        assert bool(tokens.isfinite().all())
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    print(seconds, int(found[1]) * 1024 / 1e9)


def plain(folder: str, ids: dict[str, list[int]]) -> float:
    """Seconds of F+B with eager attention."""
    auto = transformers.AutoModelForSequenceClassification
    model = auto.from_pretrained(folder, attn_implementation="eager").eval().requires_grad_(requires_grad=False)
    embeddings = model.get_input_embeddings()(torch.tensor([ids["input_ids"]])).requires_grad_()
    start = time.perf_counter()
    torch.autograd.grad(model(inputs_embeds=embeddings).logits[0, 0], embeddings)
    return time.perf_counter() - start


def measure(folder: Path, length: int, method: str, *settings: str) -> tuple[float, float]:
    """(seconds, GB of the whole process) of one explanation in a process of its own."""
    run = [
        sys.executable,
        "-m",
        "tests.performance.long_inputs",
        "explain",
        str(folder),
        str(length),
        method,
        *settings,
    ]
    done = subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {done.stderr[-500:]}")
    seconds, gigabytes = map(float, done.stdout.split()[-2:])
    return seconds, gigabytes


def main() -> None:
    """One line for each model, method and length."""
    words = sys.argv[1:]
    kinds = [word for word in words if word in MODELS] or list(MODELS)
    lengths = [int(word) for word in words if word.isdigit()] or LENGTHS
    named = [word for word in words if word not in MODELS and not word.isdigit()] or ["eager", *METHODS]
    with tempfile.TemporaryDirectory() as made:
        for kind in kinds:
            folder = save(kind, Path(made))
            for method in named:
                for length in lengths:
                    if length <= AT_MOST.get(method.split()[0], length):
                        seconds, gigabytes = measure(folder, length, *method.split())
                        print(f"{kind}, {method}, {length} tokens: {gigabytes:.2f} GB, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    explain(*sys.argv[2:]) if sys.argv[1:2] == ["explain"] else main()
