"""Cost of methods and tests as ratios to F+B, measured within one run on one thread.

F+B is one plain forward and backward pass to the input embeddings of the same model with eager attention, batch 1. The
limits are for MiniLM; where the checkpoint is not beside the repository, a random one of its size stands in, which costs
the same. Not part of the ordinary tests: `make performance`.
"""

import subprocess
import sys
import time
from statistics import median

import pytest
import torch
import transformers

from benchmark import build, load_model
from tests.conftest import REPOSITORY, SHARED

LENGTHS = (128, 512)
LAYERS = 6


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    stored = SHARED / "models" / "minilm-movies"
    if stored.exists():
        return stored
    made = tmp_path_factory.mktemp("minilm")
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=LAYERS, num_attention_heads=12, intermediate_size=1536, num_labels=2
    )
    transformers.BertForSequenceClassification(config).save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def model(folder):
    return load_model(folder, device="cpu")


@pytest.fixture(scope="module")
def eager(folder):
    auto = transformers.AutoModelForSequenceClassification
    loaded = auto.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    return loaded.eval().requires_grad_(requires_grad=False)


def encoded(model, length):
    return model.encode([{"input_ids": [101, *range(2000, 1998 + length), 102], "attention_mask": [1] * length}])


def forward_backward(eager, batch):
    embeddings = eager.get_input_embeddings()(batch.tensors["input_ids"]).requires_grad_()
    rest = {name: tensor for name, tensor in batch.tensors.items() if name != "input_ids"}
    torch.autograd.grad(eager(inputs_embeds=embeddings, **rest).logits[0, 0], embeddings)


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def ratio(action, unit, rounds=7):
    """Median of action / unit over rounds in which both are timed one after the other, so that drift cancels."""
    action()
    unit()
    return median(seconds(action) / median(seconds(unit) for _ in range(3)) for _ in range(rounds))


@pytest.fixture(scope="module")
def figures(request):
    """What was measured, printed as one table at the end."""
    rows = []
    yield rows
    terminal = request.config.pluginmanager.getplugin("terminalreporter")
    terminal.write_line(f"\n\nmedians of one run, one thread, torch {torch.__version__}\n\n| what | measured | limit |")
    terminal.write_line("|---|---:|---:|")
    for what, value, unit, limit in rows:
        terminal.write_line(f"| {what}{', ' if unit else ''}{unit} | {value:.2f} | {limit:g} |")


@pytest.fixture
def report(benchmark, figures):
    """Keep a figure among pytest-benchmark's and in the table, and hold it to its limit."""

    def keep(what, value, unit, limit):
        benchmark.extra_info[what] = value
        figures.append((what, value, unit, limit))
        assert value <= limit

    return keep


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    ("name", "settings", "limit"),
    [
        ("rollout", (), 1.0),
        ("attention_gradcam", (), 1.5),
        ("gradient_x_input", (), 1.3),
        ("transformer_attribution", ("edges.precision=model",), 2.5),
        ("transformer_attribution", (), 5.5),  # its relevance is computed in float64
        ("lrp", ("precision=model",), 2.5),
        ("lrp", (), 5.5),
    ],
)
def test_method(benchmark, report, model, eager, name, settings, limit, length):
    method, batch, target = build(f"methods/{name}", *settings), encoded(model, length), torch.tensor([1])
    benchmark.pedantic(lambda: method(model, batch, target), rounds=2)
    cost = ratio(lambda: method(model, batch, target), lambda: forward_backward(eager, batch))
    report(f"{' '.join((name, *settings))}, {length} tokens", cost, "F+B", limit)


@pytest.mark.parametrize("length", LENGTHS)
def test_attattr_per_layer_and_step(benchmark, report, model, eager, length):
    steps = 20
    method, batch, target = build("methods/attattr", f"edges.steps={steps}"), encoded(model, length), torch.tensor([1])
    benchmark.pedantic(lambda: method(model, batch, target), rounds=1)
    cost = ratio(lambda: method(model, batch, target), lambda: forward_backward(eager, batch), rounds=3)
    report(f"attattr per layer and step, {length} tokens", cost / (LAYERS * steps), "F+B", 0.42)


@pytest.mark.parametrize("length", LENGTHS)
def test_perturbation_curve_over_its_forward_passes(benchmark, report, model, length):
    """A curve's time over that of the same forward passes in the same chunks, with eager attention and nothing else."""
    evaluation, batch = build("evaluations/perturbation"), encoded(model, length)
    attribution = build("methods/raw_attention")(model, batch, torch.tensor([1]))
    masked = benchmark.pedantic(lambda: evaluation.rows(model, batch, attribution), rounds=2)
    assert len(masked)
    calls = []
    original = type(model).run

    def counted(self, inputs, **options):
        calls.append((inputs, options))
        return original(self, inputs, **options)

    type(model).run = counted
    try:
        evaluation.rows(model, batch, attribution)
    finally:
        type(model).run = original

    def passes():
        with torch.no_grad():
            for inputs, _ in calls:
                model.model(**(inputs.tensors if hasattr(inputs, "tensors") else inputs))

    cost = ratio(lambda: evaluation.rows(model, batch, attribution), passes, rounds=5)
    report(f"perturbation curve over its forward passes, {length} tokens", cost, "", 1.1)


@pytest.mark.parametrize(("settings", "limit"), [(("edges.precision=model",), 1.25), ((), 1.6)])
def test_peak_memory_of_transformer_attribution(benchmark, report, folder, settings, limit):
    """High-water mark of a process of its own that explains one text of 512 tokens."""
    script = (
        "import re, sys, torch; torch.set_num_threads(1); from benchmark import build, load_model; "
        "model = load_model(sys.argv[1], device='cpu'); "
        "batch = model.encode([{'input_ids': [101, *range(2000, 2510), 102], 'attention_mask': [1] * 512}]); "
        "build('methods/transformer_attribution', *sys.argv[2:])(model, batch, torch.tensor([1])); "
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    run = [sys.executable, "-c", script, str(folder), *settings]
    found = benchmark.pedantic(
        lambda: subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout, rounds=1
    )
    peak = int(found) * 1024 / 1e9
    what = " ".join(("peak memory of transformer_attribution", *settings))
    report(f"{what}, 512 tokens", peak, "GB of the whole process", limit)
