"""What is installed: every file of the packages, and dependencies that are named with their licences."""

import importlib.metadata
import re
import tomllib
from pathlib import PurePosixPath

import pytest

from tests.conftest import REPOSITORY
from tests.test_sources import tracked

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
TABLE = re.findall(r"^\| (.+?) \| (core|captum|train|vision|ray|gguf|launchers|docs|dev) \| (.+?) \| (.+?) \|$", (
    REPOSITORY / "docs" / "dependencies.md").read_text(encoding="utf-8"), re.MULTILINE)  # fmt: skip


def required():
    """(package, extra) of every requirement; `core` for those of none."""
    project = PROJECT["project"]
    for extra, requirements in {"core": project["dependencies"], **project["optional-dependencies"]}.items():
        for requirement in requirements:
            name = re.match(r"[\w.-]+", requirement)[0]
            if name != project["name"]:
                yield name, extra


def test_every_file_of_the_packages_is_installed():
    data = PROJECT["tool"]["setuptools"]["package-data"]
    patterns = [f"{package}/{pattern}" for package, globs in data.items() for pattern in globs]
    installed = {path for pattern in patterns for path in REPOSITORY.glob(pattern)}
    packages = {"benchmark", "conf", "methods", "tasks"}
    ours = [path for path in tracked() if path.relative_to(REPOSITORY).parts[0] in packages]
    assert len(ours) > 200
    assert [path for path in ours if path.suffix != ".py" and path not in installed] == []


def test_every_dependency_is_named_with_its_extra():
    listed = [(name, extra) for names, extra, _, _ in TABLE for name in names.split(", ")]
    assert sorted(listed) == sorted(required())


LICENCES = {"MIT": "MIT", "BSD": "BSD", "Apache": "Apache", "MPL": "MPL", "its own, like Python's": "matplotlib"}
SAID = [(name, licence) for names, _, licence, _ in TABLE for name in names.split(", ")]


@pytest.mark.parametrize(("name", "said"), SAID, ids=[name for name, _ in SAID])
def test_licences_are_those_that_packages_state(name, said):
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("not installed")
    kinds = metadata.get_all("Classifier", [])
    stated = " ".join([metadata.get("License-Expression") or "", metadata.get("License") or "", *kinds])
    if not (metadata.get("License-Expression") or metadata.get("License") or any("License ::" in x for x in kinds)):
        stated = " ".join(file.read_text() for file in metadata_files(name))
    assert any(word in said and sign in stated for word, sign in LICENCES.items())


def metadata_files(name):
    """The texts of a package's licences, which is all that some state."""
    files = importlib.metadata.files(name) or []
    return [file for file in files if PurePosixPath(file).name.upper().startswith("LICEN")]


def test_no_file_beside_the_pages_hides_a_package():
    """`python docs/mechanisms.py` looks for packages in docs/ first."""
    assert not {path.stem for path in (REPOSITORY / "docs").glob("*.py")} & {"benchmark", "conf", "methods", "tasks"}


def test_the_page_lists_every_extra():
    """And of `all` what it holds."""
    page = (REPOSITORY / "docs" / "getting-started.md").read_text(encoding="utf-8")
    table = page.partition("| extra | for |")[2].partition("\n\n")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE))
    assert {*told} == {*PROJECT["project"]["optional-dependencies"]}
    (held,) = PROJECT["project"]["optional-dependencies"]["all"]
    assert re.split(", | and ", told["all"]) == held.partition("[")[2].rstrip("]").split(",")
