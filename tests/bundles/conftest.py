"""The repository that tests of bundles share, made once."""

import sys
from pathlib import Path

import pytest

from tests.bundles.world import PACKAGE, bundled, compared, submitted


@pytest.fixture(scope="package")
def world(tmp_path_factory):
    """A bundle, the third party's package and its submission, which nobody changes."""
    place = tmp_path_factory.mktemp("world")
    (place / "theirs.py").write_text(PACKAGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        patch.syspath_prepend(str(place))
        bundled(place, compared(place))
        submitted(place)
        yield place
    sys.modules.pop("theirs", None)


@pytest.fixture
def results(world, tmp_path) -> Path:
    """An empty repository beside the bundle."""
    (tmp_path / "bundles").symlink_to(world / "bundles")
    return tmp_path / "results"
