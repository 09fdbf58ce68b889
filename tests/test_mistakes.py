"""Wrong input, as people type it: each is one line in plain words, said before torch or any library like it is imported.

All of the table is looked at in one process of its own, which tells what was imported after each: seconds depend on the
machine, imported modules do not.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter

import pytest

from benchmark.results.locks import beside
from benchmark.results.store import write_bytes
from tests.conftest import REPOSITORY

HEAVY = ("torch", "transformers", "pandas", "matplotlib", "sklearn", "scipy", "numpy", "pyarrow", "datasets", "wandb")

RAW = (
    "Traceback", "Error in call", "Error locating", "Ambiguous", "missing EQUAL", "viable alternative", "usage:", "__main__",
    "HYDRA", "full_key", "object_type", "Could not", "TypeError", "ValueError", "not subscriptable", "keyword argument",
    "defaults list", "Interpolation", "token recognition", "unrecognized arguments",
)  # fmt: skip
"""Words of Hydra, OmegaConf, argparse and Python that mean nothing to who typed a setting."""

COMPARE: dict[str, str] = {
    # names
    "methods=[rolout]": "methods=rolout does not exist; did you mean rollout?",
    "methods=[]": "methods is empty; name at least one of: accuracy_difference",
    "evaluations=[] analyses=[]": "evaluations is empty; name at least one of: agreement",
    "methods=5": "methods=5 does not exist; allowed: accuracy_difference",
    "'methods={a: 1}'": "methods={'a': 1} does not exist",
    "evaluations=[perturbatoin]": "evaluations=perturbatoin does not exist; did you mean perturbation",
    "analyses=[thresold]": "analyses=thresold does not exist; did you mean threshold?",
    "task=imdb": "task=imdb does not exist; did you mean grid?",
    "model=bert-base-uncased": "model=bert-base-uncased does not exist; allowed: adversarial, deceptive, encoder, finetuned",
    "tracking=wandbb": "tracking=wandbb does not exist; did you mean wandb?",
    "experiment=hao2022": "experiment=hao2022 does not exist; did you mean hao2021",
    "+experiment=all_methods +methods=random": "methods is chosen twice; write methods=NAME once, without +",
    "~methods.nope": "~methods.nope: there is no setting methods.nope",
    "~methods": "~methods: write methods=[...] with those that stay",
    "verbose=true": "verbose is no setting: there is no 'verbose'; allowed: evaluations, analyses, name",
    "+verbose=true": "+verbose=true: there is no setting 'verbose'; allowed: evaluations, analyses, name",
    "+limt=5": "+limt=5: there is no setting 'limt'; did you mean limit",
    "++limt=5": "++limt=5: there is no setting 'limt'; did you mean limit",
    "methods.rollout.readout.start_layr=3": "methods.rollout.readout.start_layr is no setting: there is no 'start_layr",
    "methods.attattr.steps=3": "is no setting: there is no 'steps'; did you mean methods.attattr.edges.steps?",
    "methods.attattr.m=3": "allowed: edges, readout, heads; attention-benchmark show attattr tells what each is",
    "model.path=checkpoints/mine": "it is a setting of model=encoder, model=hf, model=lm: choose one of them beside it",
    "task.files.test=a.csv": "it is a setting of task=eraser, task=prompts, task=text_classification: choose",
    "model=checkpoints/mine": "model=checkpoints/mine does not exist; a checkpoint is model=hf model.path=checkpoints/mine",
    "task=films.csv": 'task=films.csv does not exist; a table is task=text_classification "task.files={test: films.csv}"',
    "task.files={test: films.csv}": 'quotation marks: "task.files={NAME: VALUE}"',
    "limit=2 plan": "'plan' is no setting; it comes first: python -m benchmark plan ...",
    "run limit=2": "'run' is no setting; it is a word of the console command (attention-benchmark run ...); leave it out",
    "+experiments=hao2021": "+experiments=hao2021: there is no setting 'experiments'; did you mean experiment?",
    "methods=[random] methods.attattr.edges.steps=3": "there is no 'attattr'; allowed: random",
    "evaluations.perturbation.operatr=mask": "evaluations.perturbation.operatr is no setting: there is no 'operatr'; d",
    "+evaluations.aopc.foo=1": "evaluations.aopc.foo is no setting: there is no 'foo'; did you mean pool?",
    "+methods.random.foo=1": "methods.random.foo is no setting: there is no 'foo'; allowed: seed, orders",
    "methods=[captum] methods.captum.attribution=X": "methods.captum.attribution is no setting: there is no 'attributi",
    "task.labels=[a]": "task.labels is no setting: there is no 'labels'; allowed: name, seed, train, validation, test",
    # numbers and choices of the comparison
    "limit=abc": "limit=abc is no whole number; give a positive whole number, or null for all",
    "limit=1.5": "limit=1.5 is no whole number",
    "limit=[1,2]": "limit=[1, 2] is no whole number",
    "limit=0": "limit=0 leaves no example",
    "limit=-1": "limit=-1 leaves no example",
    "seed=1.5": "seed=1.5 must be a whole number of at least 0",
    "seed=-1": "seed=-1 must be a whole number of at least 0",
    "batch_size=0": "batch_size=0 must be a whole number of at least 1",
    "batch_size=true": "batch_size=True must be a whole number of at least 1",
    "checkpoint_seconds=-1": "checkpoint_seconds=-1 must be a number of at least 0",
    "stage=explian": "stage=explian does not exist; did you mean explain?",
    "split=tset": "split=tset does not exist; did you mean test?",
    "name=a/b": "name='a/b' names files",
    "out=": "out= must be a text",
    "out=/etc/passwd/runs": "out=/etc/passwd/runs cannot be written to (/etc/passwd is a file); choose another folder",
    "~seed": "seed is not set; give it on the command line: seed=...",
    "'seed=${nope}'": "seed: ${nope} refers to a setting that does not exist",
    "'name=${oc.env:NO_SUCH_VARIABLE}'": "name: the environment variable NO_SUCH_VARIABLE is not set",
    # tables for a paper
    "report.names.methods.randm=X": "report.names.methods.randm: there is no method randm; did you mean random?",
    "'report={names: {methods: {randm: X}}}'": "report.names.methods.randm: there is no method randm; did you mea",
    "'report.latex={colums: two}'": "report.latex.colums is no setting; did you mean columns?",
    "report.latex.columns=tow": "report.latex.columns=tow: allowed are one, two",
    "methods=[random] report.latex.methods=[rollout]": "report.latex.methods=rollout: there is no method rollout; al",
    "report.nmes.random=X": "report.nmes is no setting; did you mean names",
    # numbers and choices of methods, tests, models, tasks and tracking
    "methods.attattr.edges.steps=0": "methods.attattr.edges.steps=0: allowed are whole numbers from 1",
    "methods.attattr.edges.steps=abc": "methods.attattr.edges.steps=abc: allowed are whole numbers from 1",
    "methods.attattr.edges=foo": "methods.attattr.edges=foo: allowed are objects, methods.attattr.edges._target_=CLASS",
    "methods.rollout.readout.start_layer=abc": "methods.rollout.readout.start_layer=abc: allowed are whole numbers",
    "methods.rollout.readout.normalize=rows": "methods.rollout.readout.normalize=rows: allowed are row, none",
    "methods.random.seed=abc": "methods.random.seed=abc: allowed are whole numbers from 0",
    "methods.random.seed=-1": "methods.random.seed=-1: allowed are whole numbers from 0",
    "methods=[captum] methods.captum.arguments=n_steps": "methods.captum.arguments=n_steps: allowed are names with val",
    "methods=[lrp_gamma] methods.lrp_gamma.rules.gamma=-1": "methods.lrp_gamma.rules.gamma=-1: allowed are numbers fro",
    "methods=[lime] methods.lime.operator=erase": "methods.lime.operator=erase: allowed are auto, mask, pad, delete",
    "methods=[lrp_alpha_beta] methods.lrp_alpha_beta.rules.alpha=3": "rules.alpha=3 and methods.lrp_alpha_beta.rules.b",
    "methods=[occlusion] methods.occlusion.stride=4": "methods.occlusion.stride=4: allowed are numbers up to window=3",
    "methods=[captum] methods.captum.algorithm=Salency": "algorithm=Salency is not in captum.attr; did you mean Salien",
    "evaluations.perturbation.operator=msk": "evaluations.perturbation.operator=msk: allowed are auto, mask, pad, dele",
    "evaluations.perturbation.fractions=[10,20]": "fractions=[10, 20]: allowed are increasing numbers from 0 to 1",
    "evaluations.perturbation.fractions=0.5": "evaluations.perturbation.fractions=0.5: allowed are increasing numbers",
    "evaluations.perturbation.fractions=[0.1,abc]": "evaluations.perturbation.fractions=[0.1, 'abc']: allowed are incr",
    "evaluations.perturbation.target=gold": "evaluations.perturbation.target=gold: allowed are predicted, label",
    "evaluations.perturbation.pool=avg": "evaluations.perturbation.pool=avg: allowed are max, sum, mean",
    "evaluations=[attribution_graph] evaluations.attribution_graph.thresholds=[0.5,abc]": "allowed are increasing numb",
    "evaluations.head_pruning.calibration.split=tset": "head_pruning.calibration.split=tset: allowed are train, valida",
    "evaluations.head_pruning.calibration=some": "evaluations.head_pruning.calibration=some: allowed are",
    "evaluations.aopc=3": "evaluations.aopc names no class",
    "tracking.mode=onlin": "tracking.mode=onlin: allowed are online, offline, disabled",
    "tracking.artifacts=[row]": "tracking.artifacts=['row']: allowed are lists of rows, attributions, report",
    "tracking.timeout=0": "tracking.timeout=0: allowed are numbers above 0",
    "model.dtype=float23": "model.dtype=float23: allowed are float32, float64, bfloat16, float16",
    "model.threads=abc": "model.threads=abc: allowed are whole numbers from 1, and null",
    "model.threads=0": "model.threads=0: allowed are whole numbers from 1, and null",
    "model.device=gpu": "model.device=gpu: allowed are auto, cpu, cuda, cuda:1, ...",
    "model.window=2": "model.window=2: allowed are whole numbers from 8, and null",
    "model=hf model.path=x model.threads=-1": "model.threads=-1: allowed are whole numbers from 1, and null",
    "task.train=0": "task.train=0: allowed are whole numbers from 1",
    # files and folders
    "model=hf": "model.path is not set; give it on the command line: model.path=...",
    "model=hf model.path=./nowhere": "model.path=./nowhere is not a directory; give a checkpoint's directory or a hub ",
    "model=hf model.path=a/b/c": "model.path=a/b/c is not a directory",
    "task=text_classification": "task.path is not set; give it, or task.root or task.files",
    "task=text_classification task.root=/nowhere": "task.root=/nowhere is not a directory",
    "task=text_classification task.files=mine.csv": "task.files=mine.csv: allowed are null, and the file of each split",
    "task=text_classification 'task.files={test: /nowhere.csv}'": "/nowhere.csv is missing; set task.files.test to the",
    "task=text_classification task.files.test=/nowhere.csv": "/nowhere.csv is missing; set task.files.test to the tabl",
    "task=text_classification 'task.files={test: /tmp}'": "/tmp is a folder; set task.files.test to the table of the t",
    "task=text_classification 'task.files={tset: a.csv}'": "task.files has the unknown split 'tset'; allowed are train",
    "task=text_classification task.path=x task.label_names=NEG": "task.label_names=NEG: allowed are lists of texts, an",
    "task=eraser task.root=/nowhere": "task.root=/nowhere is not a directory",
    "evaluations=[triggers] evaluations.triggers.file=/no.json": "evaluations.triggers.file=/no.json is no file that e",
    "evaluations=[triggers] evaluations.triggers.lexicon=/no.txt": "lexicon=/no.txt is no file that exists; allowed ar",
    # what an analysis needs
    "analyses=[universality] methods=[random]": "analyses.universality.methods names attattr, which the comparison doe",
    "analyses=[quadrature_cost] methods=[random]": "analyses.quadrature_cost.method names attattr, which the compariso",
    "analyses=[threshold]": "analyses.threshold reads the tests attribution_graph, none of which the comparison has; a",
    "analyses=[open_questions] evaluations=[aopc]": "reads the tests head_pruning, head_pruning_each, triggers, none o",
    "analyses=[universality] methods=[attattr] \"+analyses.universality.settings.a=['task=b']\"": "settings.a: task=b",
    # classes
    "task._target_=tasks.nope.Nope": "task._target_=tasks.nope.Nope: there is no module tasks.nope",
    "methods.random._target_=methods.controls.Randm": "the module methods.controls has no 'Randm'; did you mean Random",
    "methods.random._target_=mypackage.norms.Mine": "methods.random._target_=mypackage.norms.Mine: there is no module ",
    # how a command line is written
    "limit": "'limit' is no setting; write NAME=VALUE; --help lists names",
    "'methods=[rollout,'": "'methods=[rollout,' is no setting; a bracket is open; write it without spaces",
    "methods.attattr.edges.steps=5,10": "steps=5,10 gives several values: -m runs one comparison for each; one list is",
    "-m methods.attattr.edges.steps=5,abc": "methods.attattr.edges.steps=abc: allowed are whole numbers from 1",
    "-m limit=3,x": "limit=x is no whole number",
    "-m methods=[rollout],[rolout]": "methods=rolout does not exist; did you mean rollout?",
    "--limit 5": "--limit is no flag; settings have no dashes: limit=5",
    "--limit=5": "--limit=5 is no flag; settings have no dashes: limit=5",
    "--batch-size=5": "--batch-size=5 is no flag; settings have no dashes: batch_size=5",
    "--hepl": "--hepl is no flag; did you mean --help",
    "--config-dir": "--config-dir lacks its value",
    "--config-dir /nowhere": "--config-dir=/nowhere is no folder; give one that holds YAMLs",
    "--cfg jobb": "--cfg jobb: allowed are job, hydra, all",
}

TRAIN: dict[str, str] = {
    "": "model.path is not set; give it on the command line: model.path=...",
    "model.path=x": "out is not set; give it on the command line: out=...",
    "model.path=x out=y recipe.lr=1": "recipe.lr is no setting: there is no 'lr'; allowed: epochs, batch_size",
    "model.path=x out=y recipe.epochs=0": "recipe.epochs=0: allowed are whole numbers from 1",
    "model.path=x out=y recipe.epochs=abc": "recipe.epochs=abc: allowed are whole numbers from 1",
    "model.path=./nowhere out=y": "model.path=./nowhere is not a directory",
    "model.path=x out=y task.train=0": "task.train=0: allowed are whole numbers from 1",
    "model.path=x out=y +limit=5": "+limit=5: there is no setting 'limit'; allowed: model, out, recipe, task",
    "model.path=x out=y +experiment=hao2021": "+experiment=NAME does not fit",
}

MEANT: dict[str, str] = {
    "--cfg job": "--cfg job",
    "--cfg=job": "--cfg job",
    "experiment=hao2021_pruning": "+experiment=hao2021_pruning",
    "methods=[all,random]": "methods=all",
    "methods=rollout": "methods=rollout",
    "+limit=5": "++limit=5",
    "limit=3 -m seed=1,2 batch_size=4": "-m limit=3 seed=1,2 batch_size=4",
    "limit=2 --config-dir /tmp seed=1": "--config-dir /tmp limit=2 seed=1",
    "hydra.job.chdir=false": "hydra.job.chdir=false",
    "report.names.methods.random=Chance": "++report.names.methods.random=Chance",
    "'report={names: {methods: {random: Chance}}}'": "++report={names: {methods: {random: Chance}}}",
    "analyses=[edges_by_readouts]": "analyses=[edges_by_readouts]",
}
"""What is done with what is not quite Hydra's way of writing it: the words that Hydra gets."""

PROGRAM = """
import json, sys
from benchmark.commands import running
from benchmark.errors import UserError
from tests import quick_hydra

quick_hydra.install()
commands = {"config": running.looked_at, "train": running.training_looked_at}
answers = []
for config_name, words in json.load(sys.stdin):
    try:
        answers.append(["accepted", " ".join(commands[config_name](words)[0])])
    except UserError as error:
        answers.append(["refused", str(error)])
print(json.dumps([answers, sorted(name for name in sys.modules if "." not in name)]))
"""


def small(line):
    """The words of a command line, with one method and one test where it says nothing of which: they compose faster."""
    words = shlex.split(line)
    for group, default in (("methods", "random"), ("evaluations", "aopc")):
        if not re.search(rf"(^|\W){group}=|experiment", line) and f"~{group}" not in line:
            named = re.search(rf"(?<!names\.){group}\.(\w+)", line)
            words = [f"{group}=[{named[1] if named else default}]", *words]
    return words


def run(program, text="", folder=REPOSITORY, path=REPOSITORY):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(path)}
    return subprocess.run(
        program, input=text, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.fixture(scope="session")
def answers(tmp_path_factory, worker_id):
    """What is said of every command line of the tables, and what was imported to say it; one worker asks for all."""
    asked = [*(("config", line) for line in (*COMPARE, *MEANT)), *(("train", line) for line in TRAIN)]
    words = [*map(small, COMPARE), *map(shlex.split, MEANT), *map(shlex.split, TRAIN)]
    lines = [(name, line) for (name, _), line in zip(asked, words, strict=True)]
    folder = tmp_path_factory.getbasetemp()
    shared = (folder if worker_id == "master" else folder.parent) / "mistakes.json"
    with beside(shared, "the answers to mistakes"):
        if not shared.exists():
            done = run([sys.executable, "-c", PROGRAM], json.dumps(lines))
            assert done.returncode == 0, done.stderr
            write_bytes(shared, done.stdout.encode())
    said, imported = json.loads(shared.read_bytes())
    return dict(zip(asked, map(tuple, said), strict=True)), imported


def test_nothing_heavy_is_imported_for_it(answers):
    _, imported = answers
    assert {"benchmark", "hydra"} <= set(imported)
    assert set(HEAVY) & set(imported) == set()


@pytest.mark.parametrize(
    ("config_name", "line", "expected"),
    [*(("config", *row) for row in COMPARE.items()), *(("train", *row) for row in TRAIN.items())],
)
def test_a_mistake_is_one_line_in_plain_words(answers, config_name, line, expected):
    verdict, message = answers[0][config_name, line]
    assert (verdict, expected in message) == ("refused", True), message
    assert len(message.splitlines()) == 1
    assert [words for words in RAW if words in message] == []


@pytest.mark.parametrize(("line", "taken"), MEANT.items())
def test_what_is_meant_is_done(answers, line, taken):
    assert answers[0]["config", line] == ("accepted", taken)


def test_the_table_tries_every_part_of_the_settings():
    parts = Counter(word.lstrip("+~'").partition("=")[0].partition(".")[0] for line in COMPARE for word in line.split())
    for part in ("task", "model", "methods", "evaluations", "analyses", "tracking", "split", "limit", "seed", "out"):
        assert parts[part] >= 1
