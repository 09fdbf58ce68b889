"""Every method on every family passes the checks of `benchmark.check` that any explainer has to pass.

A cell that cannot work is listed once, in CANNOT, with its reason, and the test holds it to that. The last test prints the
whole matrix.
"""

import pytest

from benchmark.checking import small_models
from benchmark.checking.methods import check
from tests.checking.cheap import COSTLY, METHODS, NAMES_OF_COMPONENTS, built, place
from tests.covering import covering

DECOMPOSITIONS = (
    "alti", "alti_logit", "attention_norm", "attention_norm_residual", "attention_x_input_norm", "decompx",
    "direct_logit_attribution", "globenc", "information_flow", "value_zeroing",
)  # fmt: skip
NORMED_BEHIND = ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "albert")
CANNOT = {
    **{("frequency", family): "no words to count" for family in small_models.IMAGE_FAMILIES},
    **{("full_lrp", family): "pixels of images" for family in small_models.TEXT_FAMILIES},
    **{(method, "bart"): "cross-attention mixes two sequences" for method in DECOMPOSITIONS},
    **{(method, "bart"): "an encoder and a decoder" for method in NAMES_OF_COMPONENTS},
    **{("component_flow", family): "norms stand behind the additions" for family in NORMED_BEHIND},
}
"""(method, family): why the method cannot serve the family, in words that its NotApplicable must hold."""
MAY_FAIL = 0.05
"""The largest share of cells that may stand in CANNOT."""
OUTCOMES: dict[tuple[str, str], bool] = {}
"""Whether a cell did what it should, filled as the cells are run."""
ASKED = ("form", "order", "class")
WHOLLY_ASKED = ("bert", "gpt2", "llama", "vit")
"""Families on which `tests/checking/test_methods.py` makes all checks."""


FAMILIES = [*small_models.FAMILIES]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        *covering({name: FAMILIES for name in METHODS if name not in COSTLY}, share=8),
        *covering(dict.fromkeys(COSTLY, FAMILIES), share=len(FAMILIES)),
    ],
)
def test_contract(name, family, request):
    """Where every annotated shape is checked as well (`make shapes`), one explanation of each is enough."""
    OUTCOMES[name, family] = False
    once = family in WHOLLY_ASKED or request.config.getoption("jaxtyping_packages", None)
    report = check(built(name), place(family), ASKED[:1] if once else ASKED)
    form = report.outcomes[0]
    if (name, family) in CANNOT:
        assert form.status == "not applicable"
        assert CANNOT[name, family] in form.words
    else:
        assert report.ok, report.first
        assert form.status == "pass"
    OUTCOMES[name, family] = True


def table():
    """The matrix as text: `ok`, the number of the reason, `FAIL`, or `-` for a cell that was not run."""
    reasons = list(dict.fromkeys(CANNOT.values()))

    def cell(name, family):
        if not OUTCOMES.get((name, family), True):
            return "FAIL"
        if (name, family) in CANNOT:
            return str(1 + reasons.index(CANNOT[name, family]))
        return "ok" if (name, family) in OUTCOMES else "-"

    width = max(map(len, METHODS))
    lines = [" ".join([" " * width, *small_models.FAMILIES])]
    lines += [
        " ".join([name.ljust(width), *(cell(name, family).rjust(len(family)) for family in small_models.FAMILIES)])
        for name in METHODS
    ]
    return "\n".join([*lines, *(f"{number}: {reason}" for number, reason in enumerate(reasons, 1))])


def test_few_cells_cannot_work(capsys):
    with capsys.disabled():
        print(f"\n\n{table()}\n")
    cells = {(name, family) for name in METHODS for family in small_models.FAMILIES}
    assert set(CANNOT) <= cells
    assert len(CANNOT) <= MAY_FAIL * len(cells)
    assert all(OUTCOMES.values())
