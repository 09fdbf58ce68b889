"""The README's example of a new method gives what it says; counts and names of the pages are those of the code."""

import re

import torch
import yaml

from benchmark.checking import small_models
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from tests import pages
from tests.conftest import REPOSITORY


def test_the_method_of_the_readme(tmp_path, monkeypatch):
    for name, code in pages.named_files(REPOSITORY / "README.md").items():
        assert len(code.splitlines()) <= 30
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    config = compose("config", ["methods=[embedding_norm,random]"], str(tmp_path / "myconf"))
    method = make(config.methods.embedding_norm)
    model = small_models.load("bert", tmp_path, dtype="float32")
    batch = model.encode(small_models.inputs("bert"))
    found = method(model, batch, torch.tensor([0, 1, 2]))
    embedding = model.model.get_input_embeddings()
    expected = embedding(batch.tensors["input_ids"]).norm(dim=-1) * batch.attention_mask
    assert torch.allclose(found.tokens, expected)
    assert list(config.methods) == ["embedding_norm", "random"]


def test_the_readme_can_be_read_at_once():
    """Whoever decides whether to stay reads all of it: what only a user of a part needs stands on a page of its own."""
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 210


def test_the_pages_count_methods_and_cells():
    from benchmark.results.control_names import CONTROLS
    from tests.checking.cheap import METHODS
    from tests.methods.test_contract import CANNOT

    text = "".join((REPOSITORY / name).read_text(encoding="utf-8") for name in ("README.md", "docs/models.md"))
    counts = f"({len(METHODS) - len(CONTROLS)} methods and {len(CONTROLS)} controls)"
    cells = f"{len(CANNOT)} of {len(METHODS) * len(small_models.FAMILIES)} cells"
    assert [shown for shown in (counts, cells) if shown not in text] == [], "the pages count otherwise"


def test_results_name_the_area_of_accuracy():
    """The mean height of the curve, or the area of the published tables: a title says which."""
    blocks = yaml.safe_load((REPOSITORY / "docs" / "results.yaml").read_text(encoding="utf-8"))["blocks"]
    titles = {key: title for block in blocks.values() for key, title in block.get("columns", {}).items()}
    areas = {key: title for key, title in titles.items() if "positive_auc" in key or "negative_auc" in key}
    assert areas
    for key, title in areas.items():
        assert ("mean accuracy" if key.endswith("mean") else "published area") in title


def test_the_pages_name_every_option_and_no_other():
    from benchmark.settings.configuration import options

    text = "".join(page.read_text(encoding="utf-8") for page in pages.PAGES)
    for group in ("methods", "evaluations", "analyses", "task", "experiment"):
        for name in options(group):
            assert f"`{name}`" in text or f"+experiment={name}" in text, f"no page names {group}/{name}"
    for name in re.findall(r"\+experiment=(\w+)", text):
        assert name == "NAME" or name in options("experiment")
