"""What `--help` and `--version` print: without Hydra, which takes half a second to import."""

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

_COMPARE = """\
Compare attention-based explainers of one model on one task, and write the leaderboard.

usage: {program} [SETTING=VALUE ...]

Main settings
  task=NAME            what is classified; its own settings are task.KEY=VALUE
  model=NAME           the classifier: tiny, tiny_vit for images (both trained on first use), or hf with
                       model.path=DIRECTORY_OR_HUB_ID
  methods=[A,B,...]    the explainers, or all; their settings are methods.NAME.KEY=VALUE
  evaluations=[A,...]  the tests of explanations; their settings are evaluations.NAME.KEY=VALUE
  analyses=[A,...]     what needs several methods, tasks or models at once; analyses.NAME.KEY=VALUE
  split=test           which examples are explained and scored; limit=N takes N of them, drawn by seed=S
  seed=S               also the seed of what methods, tests and analyses draw, where they are given none
  batch_size=16        examples explained at once
  out=runs             where run folders and the leaderboard go; finished run folders are reused
  tracking=none        no Weights & Biases; tracking.mode=offline|online|disabled
  engine=local         this process computes, or engine=ray: workers on this machine or a cluster (engine.workers=N)
  report.latex.columns=two  LaTeX for a two-column paper; also .layout, .metrics, .methods, .interval
  report.names.methods.attattr=Ours   what it is called in tables and figures; also .tasks, .models, .metrics
  report.figures.width=column         figures for a paper; also page, .title, .format
  +experiment=NAME     a whole comparison from the literature

Flags
  -m KEY=A,B,...       one comparison for each value
  --config-dir DIR     a folder with YAMLs of your own, such as DIR/methods/NAME.yaml
  --cfg job            print the whole configuration and stop
  --version            print the version and stop

Examples
  {program}
  {program} methods=[rollout,transformer_attribution] evaluations=[perturbation] limit=50
  {program} task=sst2 task.root=DIR model=hf model.path=DIR
  {program} task=digit_scenes model=tiny_vit
  {program} +experiment=attattr_steps
  {program} -m methods=[attattr] methods.attattr.edges.steps=5,10,20
  python -m benchmark.report RUNS

`attention-benchmark show NAME` prints what a method, a test, an analysis, a task or an experiment is, and its settings.
"""

_TRAIN = """\
Fine-tune a base model for a task, as a checkpoint that a comparison takes as model.path.

usage: {program} task=NAME model.path=BASE out=DIR [SETTING=VALUE ...]

Main settings
  task=NAME            what is classified; its own settings are task.KEY=VALUE
  model.path=BASE      directory or hub id of the base: an encoder or a classifier, with its tokenizer
  out=DIR              where the finished checkpoint goes; the same command goes on after a kill
  recipe.KEY=VALUE     how it is trained, see below

Flags
  --config-dir DIR     a folder with YAMLs of your own, such as DIR/task/NAME.yaml
  --cfg job            print the whole configuration and stop

Examples
  {program} task=sst2 model.path=nreimers/MiniLM-L6-H384-uncased out=checkpoints/sst2
  {program} task=rte task.root=DIR model.path=BASE out=DIR recipe.epochs=5
"""

_PLAN = """\
What a comparison would take, before it runs: passes, seconds, memory and disk of each method, and seconds by worker count.

usage: {program} [SETTING=VALUE ...]

The settings are those of the comparison. One batch of its examples is explained and tested with each method, and kept: the
comparison goes on from there. The plan lies in OUT/plans, and the comparison's folder then shows what was planned beside
what was taken (plan.md).

Flags
  --config-dir DIR     a folder with YAMLs of your own, such as DIR/methods/NAME.yaml

Examples
  {program}
  {program} methods=[rollout,transformer_attribution] evaluations=[perturbation] limit=50\
"""

_CHECK = """\
Is an explainer what it says that it is? Form, determinism, padding, class, sign, conservation of relevance and more, each a
line with what was seen (docs/check.md); or a model: is it read right?

usage: {program} METHOD [METHOD.SETTING=VALUE ...] [model=NAMES]
       {program} model=NAMES
       {program} ... model=hf model.path=DIRECTORY_OR_HUB_ID

  METHOD               a name of `attention-benchmark list methods`, of --config-dir, or the dotted path of a class or a
                       function of your own, such as mine.heat.Heat
  model=bert,gpt2,...  small models with random weights, of every family that the benchmark knows; bert where none is named
  only=form,order,...  some of the checks
  golden=FILE.npz      arrays that the scores have to equal; write_golden=FILE.npz writes them
  out=check            folder of check.json and check.md

Flags
  --config-dir DIR     a folder with YAMLs of your own, such as DIR/methods/NAME.yaml

Status: 0 no check fails; 1 one does, and the first that does stands in the first line; 2 a mistake in the command.

Examples
  {program} rollout
  {program} attattr attattr.edges.steps=50 model=bert,gpt2,vit
  {program} model=llama\
"""

_PAGES: Mapping[str, tuple[str, Sequence[str]]] = {
    "config": (_COMPARE, ("task", "model", "methods", "evaluations", "analyses", "tracking", "engine", "experiment")),
    "train": (_TRAIN, ("task",)),
    "plan": (_PLAN, ()),
    "check": (_CHECK, ()),
}
_KEYED = ("methods", "evaluations", "analyses")


def asked(words: Sequence[str], page: str, program: str) -> str | None:
    """What to print where a command line asks for help or for the version; None where it asks for neither."""
    if {"--help", "-h", "help"} & {*words}:
        return help_of(page, program)
    return f"attention-explainer-benchmark {own_version()}" if "--version" in words else None


def help_of(page: str, program: str) -> str:
    """A whole page: usage, then the names in each group and the settings with their defaults.

    Args:
        page: `config` (a comparison) or `train`, after the YAML with the settings; or `plan` or `check`, which have no YAML.
        program: as it is typed.
    """
    text, groups = _PAGES[page]
    usage = text.replace("{program}", program)
    if not groups:
        return usage
    listed = [
        f"  {group}: {', '.join(sorted([*(['all'] if group in _KEYED else []), *_names(group)]))}" for group in groups
    ]
    return "\n".join(
        [
            usage,
            "Names in each group",
            *listed,
            "",
            "Settings and their defaults",
            *(f"  {line}" for line in _defaults(page)),
        ]
    )


def own_version() -> str:
    """The installed version."""
    try:
        return version("attention-explainer-benchmark")
    except PackageNotFoundError:
        return "(not installed)"


def _names(group: str) -> list[str]:
    return sorted(entry.name.removesuffix(".yaml") for entry in (files("conf") / group).iterdir())


def _defaults(config_name: str) -> list[str]:
    """The YAML's own lines, from the end of its list of defaults to what is Hydra's."""
    lines = (files("conf") / f"{config_name}.yaml").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if not line) + 1
    end = lines.index("hydra:")
    return [line for line in lines[start:end] if line]
