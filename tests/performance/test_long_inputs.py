"""Long inputs fit: peak memory of a whole process that explains 4,096 tokens with a model of MiniLM's size.

Not part of the ordinary tests: `make performance`. All lengths and methods: `python -m tests.performance.long_inputs`.
"""

import pytest

from tests.performance.long_inputs import measure, save

LIMIT = 6.0
"""GB."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "method"), [("llama", "rollout"), ("llama", "gradient_x_input"), ("modernbert", "raw_attention")]
)
def test_an_input_of_4096_tokens_fits(tmp_path, kind, method):
    _, gigabytes = measure(save(kind, tmp_path), 4096, method)
    assert gigabytes < LIMIT
