"""Make a bundle of finished run folders."""

import ast
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from benchmark.bundles.bundle import (
    ASKED,
    METHODS,
    MODEL,
    OUTPUTS,
    TEXTS,
    TRUST,
    WORDS,
    Bundle,
    BundledModel,
    BundledTask,
    BundledTest,
    Harness,
    check_name,
    files_below,
)
from benchmark.bundles.opening import open_bundle, outputs_of, portable, settings_of, tests_of, texts_of, words_of
from benchmark.errors import Corrupt, UserError
from benchmark.report.analysis_tables import read_tables
from benchmark.report.run_folders import Stored, read_stored
from benchmark.results import bounded, commits, store
from benchmark.results.annotated import as_json
from benchmark.results.cache import atomic_path
from benchmark.results.comparison_folders import COMMAND, FACTS, Compared
from benchmark.results.digests import sealed
from benchmark.results.record import ROWS, EvaluationRecord, Record
from benchmark.results.trust import told_of
from benchmark.run.stages import asked
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.defaults import whole
from benchmark.settings.making import make
from benchmark.training.sources import Loading
from benchmark.types import Evaluation

MOST_BYTES = 32_000_000
"""The largest model that is part of a bundle; a larger one is given by whoever opens it."""

CARRIED = ("record.json", "config.yaml", "rows.parquet", "classes.safetensors")
"""Files of a run folder that a bundle and a submission have, beside explanations; edges take too much room."""

RETESTED = ("tokens", "classes")
"""What a test may read to be part of a bundle: it is computed again from what a submission carries."""


@dataclass(frozen=True)
class Asked:
    """What somebody says of a bundle.

    Attributes:
        name, version: of the bundle.
        licence: of the texts or images, in words.
        texts: whether the bundle may show them.
        date: when it is made, as YYYY-MM-DD.
        trust: folder of the comparison whose analyses say which test can be trusted; None: the one that is bundled.
    """

    name: str
    version: str
    licence: str
    texts: bool
    date: str
    trust: Path | None = None


@dataclass(frozen=True)
class Found:
    """Run folders of one comparison.

    Attributes:
        stored: what they hold.
        tests: the identity of each test by its name; None where all tests of the folders are meant.
        comparison: the folder of the comparison, where it was given.
    """

    stored: Sequence[Stored]
    tests: Mapping[str, str] | None
    comparison: Path | None

    @property
    def command(self) -> str:
        """That made the comparison, as it is typed, without folders of the machine; empty where it is not known."""
        path = self.comparison / COMMAND if self.comparison else None
        if path is None or not path.is_file():
            return ""
        words = [portable_word(word) for word in typed(path.read_text(encoding="utf-8").strip())]
        return shlex.join(word for word in words if not word.startswith("out="))


def typed(command: str) -> list[str]:
    """The words of a command that was typed, or called in Python (`benchmark.compare('limit=8')`); none of another text."""
    try:
        if not command.startswith("benchmark.compare("):
            return shlex.split(command)
        (call,) = (node for node in ast.walk(ast.parse(command)) if isinstance(node, ast.Call))
        return ["python", "-m", "benchmark", *(str(ast.literal_eval(argument)) for argument in call.args)]
    except (ValueError, SyntaxError):
        return []


def make_bundle(runs: Sequence[Path], asked: Asked, out: Path) -> tuple[Path, tuple[str, ...]]:
    """Write the bundle of some run folders: `out/NAME@VERSION`.

    Args:
        runs: folders with run folders, or the folder of a comparison, whose methods and tests are taken.
        asked: what it is called, and what is said of its texts.
        out: the folder of bundles.

    Returns:
        The bundle's folder, and the names of the tests that it leaves out, since a submission does not carry what they read.

    Raises:
        UserError: the run folders cannot be compared, nothing is left to test, or the model or the examples cannot be opened
            again as they were.
    """
    check_name(asked.name, asked.version)
    folder = out / f"{asked.name}@{asked.version}"
    if folder.exists():
        raise UserError(f"{folder} is there already; a bundle is never changed: give another version")
    found = find(runs)
    check_alike([one.record for one in found.stored])
    tests, left_out = _tests(found)
    first = found.stored[0]
    sources = OmegaConf.create({"task": first.config["task"], "model": first.config["model"]})
    bundle = _bundle(first, found, asked, tests)
    setting = open_setting(settings_of(bundle, folder))
    with atomic_path(folder) as place:
        place.mkdir(parents=True)
        trained = _copy_model(sources, setting, place)
        model = replace(bundle.model, settings=trained or portable(bundle.model.settings))
        task = replace(bundle.task, settings=portable(bundle.task.settings), uids=setting.data.uids)
        outputs_of(setting).to_parquet(place / OUTPUTS, index=False)
        (place / TEXTS).write_text(texts_of(setting), encoding="utf-8")
        if asked.texts and setting.data.batches[0].patch is None:
            (place / WORDS).write_text(words_of(setting), encoding="utf-8")
        store.write_json(place / TRUST, sealed({"columns": _trust(found, asked.trust)}))
        for one in found.stored:
            copy_run(one.folder, place / METHODS / one.folder.name, texts=asked.texts)
        whole_bundle = replace(bundle, model=model, task=task, files=files_below(place))
        whole_bundle.write(place)
        given = [f"{part}.{key}={value}" for part, key, value in _asked_again(bundle, model, task)]
        open_bundle(whole_bundle, place, given)
        tests_of(whole_bundle)
    return folder, left_out


def find(runs: Sequence[Path]) -> Found:
    """The run folders below some folders, or those of a comparison.

    Raises:
        UserError: there are none, or one is corrupt.
    """
    comparisons = [run for run in runs if (run / FACTS).is_file()]
    if comparisons and len(runs) > 1:
        raise UserError(f"{comparisons[0]} is the folder of a comparison: give it alone, or folders of run folders")
    if comparisons:
        facts = Compared.read(comparisons[0])
        out = comparisons[0].resolve().parents[1]
        cells = [out / cell for cell in facts.cells]
        return Found([read_stored(cell, facts.tests) for cell in cells], facts.tests, comparisons[0])
    for run in runs:
        if not run.is_dir():
            raise UserError(f"{run} is no folder; give folders with run folders, or the folder of a comparison")
    cells = sorted({cell.resolve() for run in runs for cell in store.find_cells(run)})
    if not cells:
        raise UserError(f"no finished run folder below {', '.join(map(str, runs))}; run a comparison first")
    return Found([read_stored(cell) for cell in cells], None, None)


def check_alike(records: Sequence[Record]) -> None:
    """The records are of the same examples and weights, and no method stands there twice.

    Raises:
        UserError: they are not.
    """
    facts = {
        "the task": [f"{r.task.name} version {r.task.version}" for r in records],
        "the data": [f"{r.task.split} {r.task.fingerprint[:12]}" for r in records],
        "the choice of examples": [f"n={r.task.n}, limit={r.task.limit}, seed={r.task.seed}" for r in records],
        "the model": [f"{r.model.fingerprint[:12]} ({r.model.dtype})" for r in records],
    }
    for name, values in facts.items():
        if len(set(values)) > 1:
            raise UserError(
                f"the run folders cannot be one bundle, as {name} differs: {' and '.join(sorted(set(values)))}"
            )
    names = [record.method.name for record in records]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(
            f"the run folders hold {twice[0]} with several settings; give the folder of a comparison, which has each name "
            "once"
        )


def settings_of_identity(identity: Any) -> Any:
    """Settings that make an object again, from its `benchmark.settings.identity.identity`."""
    if isinstance(identity, list):
        if (
            len(identity) == 3
            and isinstance(identity[0], str)
            and "." in identity[0]
            and isinstance(identity[2], Mapping)
        ):
            return {
                "_target_": identity[0],
                **{name: settings_of_identity(value) for name, value in identity[2].items()},
            }
        return [settings_of_identity(value) for value in identity]
    if isinstance(identity, Mapping):
        return {name: settings_of_identity(value) for name, value in identity.items()}
    return identity


def is_carried(name: str) -> bool:
    """Whether bundles and submissions have a file of this name: explanations of the scored examples, rows and record."""
    return name in CARRIED or (
        name.startswith("attributions-") and "-calibration-" not in name and name.endswith(".safetensors")
    )


def copy_run(source: Path, target: Path, *, texts: bool) -> None:
    """Copy what a bundle and a submission have of a run folder, each file as it is but for what tells of the machine.

    Folders of the machine leave `config.yaml` (`portable`), and the record names the files that are there.
    """
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.is_file() and (is_carried(path.name) or (texts and path.name == "heatmap.json")):
            shutil.copyfile(path, target / path.name)
    config = target / "config.yaml"
    if config.is_file():
        settings = OmegaConf.to_container(OmegaConf.create(bounded.parse_yaml(bounded.read_bytes(config))))
        config.write_text(OmegaConf.to_yaml(OmegaConf.create(portable(settings))), encoding="utf-8")
    record = store.read_record(target)
    names = {path.name for path in target.iterdir()} - {"record.json"}
    files = {name: store.hash_of(target / name) for name in sorted(names)}
    if damaged := sorted(name for name in names - {"config.yaml"} if files[name] not in record.digests(name)):
        raise Corrupt(source / damaged[0], store.NOT_AS_RECORDED)
    origins = {name: origin for name, origin in record.origins.items() if name in files or name.startswith(ROWS)}
    commits.write_record(target, replace(record, files=files, coming={}, origins=origins))


def portable_word(word: str) -> str:
    """A word of a command line without a folder of the machine in it."""
    key, sign, value = word.partition("=")
    return word if portable(value or key) != ASKED else f"{key}=FOLDER" if sign else Path(key).name


def _tests(found: Found) -> tuple[tuple[BundledTest, ...], tuple[str, ...]]:
    """The tests that every method has and that can be computed again, and the names of the others."""
    kept, left_out = list[BundledTest](), list[str]()
    first, *others = [_by_name(one.record) for one in found.stored]
    for name, test in first.items():
        if found.tests is not None and found.tests.get(name) != test.digest:
            continue
        differing = [other for other in others if name in other and other[name].digest != test.digest]
        if differing:
            raise UserError(
                f"the run folders cannot be one bundle, as the test {name} has other settings in some of them"
            )
        settings = settings_of_identity(test.identity)
        made: Evaluation = make(OmegaConf.create(settings), Evaluation)
        carried = made.reads in RETESTED and all(stage.sample is None for stage in asked(made))
        if carried and all(name in other for other in others):
            kept.append(BundledTest(name, test.version, test.digest, test.statistics, settings))
        else:
            left_out.append(name)
    if not kept:
        raise UserError("the run folders have no test in common that reads scores of words, patches or classes")
    return tuple(kept), tuple(left_out)


def _by_name(record: Record) -> dict[str, EvaluationRecord]:
    return {test.name: test for test in record.evaluations.values()}


def _bundle(first: Stored, found: Found, asked: Asked, tests: tuple[BundledTest, ...]) -> Bundle:
    """The bundle with the settings of this machine."""
    task, model = first.record.task, first.record.model
    releases = {one.record.versions.get("benchmark", ""): one.record for one in found.stored}
    newest = releases[max(releases, key=lambda text: [int(part) for part in text.split(".") if part.isdigit()])]
    facts = {name: getattr(task, name) for name in ("name", "version", "split", "limit", "seed", "n", "fingerprint")}
    return Bundle(
        name=asked.name,
        version=asked.version,
        task=BundledTask(**facts, uids=(), settings=dict(first.config["task"])),
        model=BundledModel(model.name, model.fingerprint, model.dtype, model.labels, dict(first.config["model"])),
        tests=tests,
        harness=Harness(
            newest.versions.get("benchmark", version_of("attention-explainer-benchmark")), newest.git_commit
        ),
        environment=dict(newest.versions),
        licence=asked.licence,
        texts=asked.texts,
        date=asked.date,
        command=found.command,
    )


def _copy_model(sources: Any, setting: Setting, place: Path) -> dict[str, Any] | None:
    """Put a small model that was trained for the task into the bundle: its settings there; None of another model."""
    source = make(sources.model)
    own_answers = getattr(source, "answers", "class"), getattr(source, "head", "own")
    if hasattr(source, "path") or own_answers != ("class", "own") or not isinstance(source, Loading):
        return None
    trained: Any = source
    checkpoint = Path(trained.resolve(getattr(setting.task, "learned_from", setting.task)))
    if not checkpoint.is_dir() or sum(path.stat().st_size for path in checkpoint.rglob("*")) > MOST_BYTES:
        return None
    shutil.copytree(checkpoint, place / MODEL / checkpoint.name)
    loading = {name: getattr(source, name) for name in Loading.__dataclass_fields__}
    target = "benchmark.training.sources.HubOrDirectory"
    labels = getattr(source, "labels", None)
    path = f"{MODEL}/{checkpoint.name}"
    return dict(whole({"_target_": target, "path": path, "labels": labels, **loading, "device": "auto"}))


def _asked_again(bundle: Bundle, model: BundledModel, task: BundledTask) -> Iterator[tuple[str, str, Any]]:
    """Part, key and value of every setting that whoever opens the bundle is asked for, as it is on this machine."""
    for part, before, after in (
        ("task", bundle.task.settings, task.settings),
        ("model", bundle.model.settings, model.settings),
    ):
        if after.get("_target_") == before.get("_target_"):
            yield from ((part, key, value) for key, value in _differing(before, after))


def _differing(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in before.items():
        inner = f"{path}{key}"
        if isinstance(value, Mapping) and isinstance(after[key], Mapping):
            yield from _differing(value, after[key], f"{inner}.")
        elif value != after[key]:
            yield inner, value


def _trust(found: Found, asked: Path | None) -> dict[str, Any]:
    """By `test.metric` what the analyses of a comparison say of it.

    Raises:
        UserError: that comparison is of other data or another model than the bundle.
    """
    folder = found.comparison if asked is None else asked
    if folder is None:
        return {}
    if asked is not None:
        bundled, others = found.stored[0].record, find([asked]).stored
        known = bundled.task.fingerprint, bundled.model.fingerprint
        if any((other.record.task.fingerprint, other.record.model.fingerprint) != known for other in others):
            raise UserError(f"trust={asked} is of other data or another model than the run folders")
    return {name: as_json(trust) for name, trust in told_of(read_tables(folder)).items()}
