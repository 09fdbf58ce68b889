"""Numbers of 24 bits in three bytes: nothing is lost, nothing else is touched."""

import numpy as np
import pytest

from benchmark.results.store import Ragged, packed, unpacked
from benchmark.run.arrays import in_24_bits

VALUES = np.float32([0.0, -0.0, 1.0, -1.0, np.pi, 1e-38, -1e-42, 3.3e38, 1 + 2.0**-16, 1 + 3 * 2.0**-17])


def test_what_is_rounded_takes_three_bytes_and_comes_back(tmp_path):
    given = np.random.default_rng(0).standard_normal((4, 1000)).astype(np.float32)
    short = in_24_bits(given)
    assert not (short == given).all()
    np.testing.assert_allclose(short, given, rtol=2**-16)
    content = packed({"layers": short, "tokens": given})
    assert sum(array.nbytes for name, array in content.items() if name.startswith("layers")) == 3 * given.size
    assert content["tokens"] is given
    Ragged(("a",), {"layers": short, "tokens": given}, {}).write(tmp_path / "a.safetensors")
    found = Ragged.read(tmp_path / "a.safetensors").arrays
    assert {name: array.tobytes() for name, array in found.items()} == {
        "layers": short.tobytes(),
        "tokens": given.tobytes(),
    }


def test_rounding_is_to_the_nearest_and_once():
    rounded = in_24_bits(VALUES)
    assert (in_24_bits(rounded) == rounded).all()
    assert rounded[:4].tobytes() == VALUES[:4].tobytes()
    assert rounded[-1] == 1 + 2 * 2.0**-16, "a tie goes to the even one"
    nearest = np.abs(rounded.astype(np.float64) - VALUES)
    spacing = 2.0 ** (np.floor(np.log2(np.abs(VALUES.astype(np.float64)), where=VALUES != 0, out=np.zeros(10))) - 15)
    assert (nearest <= np.maximum(spacing / 2, 2.0**-141)).all()


@pytest.mark.parametrize("array", [np.zeros((0, 3), np.float32), np.arange(4), np.float64([0.5]), np.float32([0.1])])
def test_other_arrays_stay_as_they_are(array):
    content = packed({"x": array})
    assert list(content) == ["x"]
    assert unpacked(content)["x"].tobytes() == array.tobytes()
    assert unpacked(content)["x"].dtype == array.dtype


def test_half_an_array_is_refused():
    content = packed({"x": np.ones(3, np.float32)})
    del content["x.low"]
    with pytest.raises(ValueError, match="half of x is missing"):
        unpacked(content)
