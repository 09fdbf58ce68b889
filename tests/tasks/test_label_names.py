"""Labels as text."""

import pytest

from benchmark.errors import UserError
from tasks.label_names import label_text


def test_a_lone_surrogate_in_a_label_is_one_line() -> None:
    with pytest.raises(UserError, match=r"^the label 'go\\ud83d' has a lone surrogate \(\\ud83d at character 2\)"):
        label_text(" go\ud83d ")
    assert label_text(" 1.0 ") == "1"
