"""The pages of the site: what each says, from the boards of a repository. Built twice they are the same bytes."""

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from omegaconf import OmegaConf

from benchmark.bundles import history
from benchmark.bundles.board import SCHEMA_FILE, Board, boards, leaderboard, rankings, schema
from benchmark.bundles.ranking import told
from benchmark.bundles.refusals import CheckReport
from benchmark.bundles.repository import LEADERBOARD, Repository, Result
from benchmark.errors import UserError
from benchmark.report.arrangement import is_control
from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import MetricColumn, make_board
from benchmark.report.naming import method_title
from benchmark.report.page.document import allowed_digest, comparison_page
from benchmark.report.printed import PrintedEntry
from benchmark.results import store
from benchmark.results.cache import atomic_path
from benchmark.results.record import KINDS, Record
from benchmark.results.wording import arrow, bounds, number, slug
from benchmark.settings.configuration import missing_keys

_ASSETS = Path(__file__).parent / "assets"
_STYLES = (Path(__file__).parents[2] / "report" / "page" / "assets" / "base.css", _ASSETS / "site.css")

_MARK = "made-by-attention-benchmark.txt"
"""Tells a site from other folders, which are never replaced."""

LEVELS: Mapping[str, str] = {
    "reference": "part of the bundle: built with it, by the command that the bundle names",
    "retested": "submitted explanations; all rows and figures were computed from them here",
    "recomputed": (
        "retested, and a sample of the explanations was computed anew by the method's own code, with scores that differ by "
        "at most 10⁻⁴ of the largest, or of a method that draws with a rank correlation of at least .99"
    ),
    "not reproduced": "retested, and a sample that was to be computed anew has other scores, or could not be computed",
}
"""How a row is known, in words."""


@dataclass(frozen=True)
class Piece:
    """A part of a line: words, and a link where it leads somewhere."""

    text: str
    link: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what it shows, what it is sorted by (None: its words), and what is known of it."""

    text: str
    order: str | None = None
    link: str = ""
    interval: str = ""
    about: str = ""
    doubted: bool = False


@dataclass(frozen=True)
class Head:
    """A heading of a table."""

    title: str
    note: str = ""
    arrow: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    cells: Sequence[Cell]
    control: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a page: lines of words, a command, a table or a list under a heading."""

    id: str
    title: str = ""
    lines: Sequence[Sequence[Piece]] = ()
    code: str = ""
    heads: Sequence[Head] = ()
    rows: Sequence[Row] = ()
    list: Sequence[str] = ()
    filter: bool = True


@dataclass(frozen=True)
class Page:
    """A page: where it lies below the site's folder, its title, and its parts."""

    path: str
    title: str
    parts: Sequence[Part]


def write_site(repository: Repository, out: Path) -> tuple[int, int]:
    """Write the site of a repository into a folder, which is replaced; how many files there are, and their bytes.

    Raises:
        UserError: the repository is not what it was, or the folder holds something else than a site.
    """
    out = out.resolve()
    if out.exists() and not (out.is_dir() and ((out / _MARK).is_file() or not any(out.iterdir()))):
        raise UserError(f"out={out} holds something else than a site, which would be lost; name another folder")
    with repository.held():
        found, head = boards(repository), history.heads(repository.root)[-1]
    pages = [
        index_page(found, repository),
        *(bundle_page(board) for board in found),
        methods_page(found),
        *(method_page(name, found) for name in _methods(found)),
        tests_page(found),
        changes_page(repository),
        submit_page(found),
        data_page(found),
    ]
    shutil.rmtree(out.with_name(f"{out.name}.new"), ignore_errors=True)
    with atomic_path(out.with_name(f"{out.name}.new")) as place:
        place.mkdir(parents=True)
        for page in pages:
            path = place / page.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(render(page), encoding="utf-8")
        for board in found:
            text = comparison_page(
                board.cells,
                board.table,
                board.pairs,
                command=board.bundle.command,
                links={f"{_stem(board)}.html": "how each row is known"},
            )
            (place / f"bundles/{_stem(board)}-explore.html").write_text(text, encoding="utf-8")
        (place / _MARK).write_text("The site of a leaderboard; the command that made it replaces the folder.\n")
        store.write_json(place / LEADERBOARD, leaderboard(found, head))
        store.write_json(place / SCHEMA_FILE, schema())
    if out.exists():
        shutil.rmtree(out)
    out.with_name(f"{out.name}.new").replace(out)
    files = [path for path in out.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


def render(page: Page) -> str:
    """The page as HTML, in one file that asks nothing of a network."""
    styles = "\n".join(path.read_text(encoding="utf-8") for path in _STYLES)
    script = (_ASSETS / "site.js").read_text(encoding="utf-8")
    templates = Environment(loader=FileSystemLoader(_ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return templates.get_template("page.html.jinja").render(
        title=page.title,
        parts=page.parts,
        up="../" * page.path.count("/"),
        styles=Markup(styles),
        script=Markup(script),
        style_digest=allowed_digest(styles),
        script_digest=allowed_digest(script),
    )


def index_page(found: Sequence[Board], repository: Repository) -> Page:
    """All bundles with their best methods, how their rows are known, and mean ranks over tasks."""
    heads = [Head(title) for title in ("bundle", "task", "model", "examples", "first rows", "rows", "last change")]
    dates: dict[str, str] = {}
    for event in history.read(repository.root):
        dates[event.place.partition("/")[0]] = event.date
    rows = [
        Row(
            [
                Cell(
                    board.bundle.key,
                    link=f"bundles/{_stem(board)}.html",
                    about="earlier version" if board.earlier else "",
                ),
                Cell(board.bundle.task.name),
                Cell(board.bundle.model.name),
                Cell(str(board.bundle.task.n), order=str(board.bundle.task.n)),
                Cell(", ".join(_best(board))),
                Cell(", ".join(f"{count} {name}" for name, count in board.levels.items())),
                Cell(dates.get(board.bundle.place, board.bundle.date)),
            ]
        )
        for board in found
    ]
    intro = (
        "Attention explainers of transformers, compared on fixed examples and models. Explanations are stored, every figure "
        "is computed from them here, and each row says how it is known."
    )
    parts = [
        Part("about", lines=[[Piece(intro)]]),
        Part("bundles", "Bundles", heads=heads, rows=rows, filter=len(rows) > 5),
        Part("levels", "How a row is known", list=[f"{name}: {said}." for name, said in LEVELS.items()]),
        *_ranking_parts(found),
    ]
    return Page("index.html", "Attention explainers: a living leaderboard", parts)


def _ranking_parts(found: Sequence[Board]) -> Iterator[Part]:
    shown = False
    for column, ranks in rankings(found):
        if ranks:
            shown = True
            heads = [Head("method"), Head("mean rank", "1 is best", "↓"), Head("tasks"), Head("task × model")]
            rows = [
                Row(
                    [
                        Cell(one.method, link=f"methods/{slug(one.method)}.html"),
                        Cell(number(one.rank.value), f"{one.rank.value}", interval=bounds(one.rank.low, one.rank.high)),
                        Cell(str(one.tasks)),
                        Cell(str(one.rank.n)),
                    ]
                )
                for one in ranks
            ]
            lines = [[Piece(told(ranks))]]
            yield Part(
                f"ranks-{slug(column.code)}",
                f"Over tasks: {column.title or column.code}",
                lines,
                heads=heads,
                rows=rows,
            )
    if not shown:
        yield Part("ranks", "Over tasks", [[Piece(told([]))]])


def _best(board: Board, most: int = 3) -> list[str]:
    """The first methods by their mean rank, controls left out."""
    names = [str(name) for name in dict.fromkeys(board.table["method"]) if not is_control(str(name))]
    return names[:most]


def bundle_page(board: Board) -> Page:
    """The leaderboard of a bundle with intervals and levels, paired differences, tests, and the command."""
    bundle = board.bundle
    facts = [
        f"Task {bundle.task.name} version {bundle.task.version}, {bundle.task.split} split, n = {bundle.task.n}",
        f"model {bundle.model.name} ({bundle.model.dtype}, fingerprint {bundle.model.fingerprint[:12]})",
        f"release {bundle.harness.version}",
        f"licence of the examples: {bundle.licence}",
    ]
    lines = [[Piece("; ".join(facts) + ".")]]
    if board.earlier:
        lines.append([Piece("This is an earlier version: its columns are not compared with those of the newest one.")])
    lines += [[Piece(f"New test, {said}.")] for said in board.lacking]
    shown = "Examples, curves and all pairs of methods" if bundle.texts else "Curves and all pairs of methods"
    lines.append([Piece(shown, link=f"{_stem(board)}-explore.html")])
    parts = [
        Part("about", lines=lines),
        _leaderboard_part(board),
        Part("pairs", "Paired differences", list=[f"{title}: {text}" for title, text in _pair_lines(board)]),
        _tests_part(board),
        Part("command", "How it was computed", code=bundle.command or "not known"),
        Part("submit", "How to submit", code=_submit_command(board)),
    ]
    return Page(f"bundles/{_stem(board)}.html", f"{bundle.key}", parts)


def _leaderboard_part(board: Board) -> Part:
    columns = board.columns
    printed = make_board(board.table, columns)
    by_name = {cell.method: board.result_of(cell) for cell in board.cells}
    heads = [Head("method"), Head("known as"), *(_head(column) for column in columns)]
    rows = [
        Row(
            [
                Cell(row.labels[0], link=f"../methods/{slug(by_name[row.labels[0]].record.method.name)}.html"),
                Cell(by_name[row.labels[0]].level, about=LEVELS[by_name[row.labels[0]].level]),
                *(_figure(entry, printed.notes, column) for entry, column in zip(row.entries, columns, strict=True)),
            ],
            control=is_control(row.labels[0]),
        )
        for row in printed.rows
    ]
    order = "Rows stand in the order of their mean rank over these columns; controls, in grey, stand below, unranked."
    return Part("leaderboard", "Leaderboard", heads=heads, rows=rows, list=[order, *printed.below])


def _head(column: MetricColumn) -> Head:
    return Head(column.title or column.code, column.code, arrow(column.higher_is_better), column.doubt)


def _figure(entry: PrintedEntry, notes: Sequence[str], column: MetricColumn) -> Cell:
    about = "" if entry.mark is None else notes[entry.mark - 1]
    doubted = bool(column.doubt)
    if entry.words:
        return Cell(entry.words, order="", about=about, doubted=doubted)
    assert entry.value is not None
    interval = f"{bounds(entry.low, entry.high)} n {entry.n}".strip()
    return Cell(number(entry.value), f"{entry.value}", interval=interval, about=about, doubted=doubted)


def _pair_lines(board: Board) -> Iterator[tuple[str, str]]:
    headline = {column.code for column in board.columns}
    for members in board.pairs.values():
        for one in members:
            if one.column.code in headline:
                random = f"; against random: {one.random.sentence}" if one.random is not None else ""
                yield one.column.title or one.column.code, "; ".join(one.sentences) + random + "."


def _tests_part(board: Board) -> Part:
    heads = [Head("test"), Head("metric"), Head("to be trusted here"), Head("why")]
    rows = []
    for column in board.columns:
        trust = board.trust.get(column.code)
        link = f"../tests.html#{slug(column.evaluation)}"
        verdict, why = ("not asked", "") if trust is None or not trust.verdict else (trust.verdict, trust.why)
        cells = [Cell(column.evaluation, link=link), Cell(column.title or column.metric), Cell(verdict), Cell(why)]
        rows.append(Row(cells))
    return Part("trust", "Which test to trust here", heads=heads, rows=rows, filter=False)


def _submit_command(board: Board) -> str:
    asked = [
        f"{part}.{key}=FOLDER"
        for part, settings in (("task", board.bundle.task.settings), ("model", board.bundle.model.settings))
        for key in missing_keys(OmegaConf.create(dict(settings)))
    ]
    words = [
        "attention-benchmark submit METHOD.yaml",
        f"bundle=bundles/{board.bundle.key}",
        "author=NAME licence=TEXT",
        *asked,
    ]
    return " ".join(words)


def _methods(found: Sequence[Board]) -> list[str]:
    return sorted({result.record.method.name for board in found for result in board.results})


def methods_page(found: Sequence[Board]) -> Page:
    """All methods, and in which bundles they are."""
    heads = [Head("method"), Head("name"), Head("bundles"), Head("known as"), Head("check")]
    rows = []
    for name in _methods(found):
        own = [(board, result) for board in found for result in board.results if result.record.method.name == name]
        levels = ", ".join(sorted({result.level for _, result in own}))
        checks = ", ".join(sorted({_check_said(one.check) for _, one in own if one.check is not None})) or "–"
        places = ", ".join(dict.fromkeys(board.bundle.key for board, _ in own))
        cells = [
            Cell(method_title(name), link=f"methods/{slug(name)}.html"),
            Cell(name),
            Cell(places),
            Cell(levels),
            Cell(checks),
        ]
        rows.append(Row(cells, control=is_control(name)))
    return Page("methods.html", "Methods", [Part("methods", heads=heads, rows=rows)])


def method_page(name: str, found: Sequence[Board]) -> Page:
    """A method in all bundles: its figures, the report of its check, who made it, what it costs."""
    parts = []
    for board in found:
        cells = [cell for cell in board.cells if board.result_of(cell).record.method.name == name]
        if cells:
            parts.append(_rows_of_method(board, cells))
            parts += [_provenance_part(board, board.result_of(cell)) for cell in cells]
    return Page(f"methods/{slug(name)}.html", method_title(name), parts)


def _rows_of_method(board: Board, cells: Sequence[NamedCell]) -> Part:
    """Its headline figures in one bundle."""
    columns = board.columns
    names = [cell.method for cell in cells]
    printed = make_board(board.table, columns)
    lines = {row.labels[0]: row.entries for row in printed.rows}
    heads = [Head("metric"), *(Head(name) for name in names)]
    rows = []
    for place, column in enumerate(columns):
        figures = [_figure(lines[name][place], printed.notes, column) for name in names]
        rows.append(Row([Cell(f"{column.title or column.code} {arrow(column.higher_is_better)}".strip()), *figures]))
    link = [[Piece("The whole leaderboard", link=f"../bundles/{_stem(board)}.html")]]
    return Part(f"rows-{_stem(board)}", f"In {board.bundle.key}", link, heads=heads, rows=rows, filter=False)


def _provenance_part(board: Board, result: Result) -> Part:
    record, submission = result.record, result.submission
    facts = [f"{result.level}: {LEVELS[result.level]}"]
    if submission is not None:
        whence = submission.package or f"source {submission.source[:12]}"
        facts += [
            f"submitted by {submission.author} on {submission.date}; licence: {submission.licence}",
            f"class {submission.target}, version {submission.version}, {whence}",
            f"command: {submission.command}",
        ]
    if result.audit:
        facts.append(f"audit of {result.audit['date']}: {result.audit['words']}")
    if result.check is not None:
        facts.append(f"check, as it was submitted: {_check_said(result.check)}")
        told = [one for one in result.check.checks if one.status in ("fail", "property")]
        facts += [f"{one.check} ({one.model}): {one.status}: {one.words}" for one in told]
    if submission is not None and submission.kind == "scores":
        facts.append("its scores were made elsewhere, and read from a file")
    else:
        facts += _cost_said(record, submitted=submission is not None)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record.versions.items()))
    facts.append(f"hash {record.hash[:16]}; computed with {versions}")
    return Part(f"provenance-{_stem(board)}-{record.hash[:8]}", "How it is known", list=facts)


def _cost_said(record: Record, *, submitted: bool) -> list[str]:
    """What explaining took, where that is known."""
    cost = record.cost
    named = (
        (cost.seconds, "seconds"), (cost.forward_passes, "forward passes"), (cost.backward_passes, "backward passes"),
    )  # fmt: skip
    spent = [f"{value:.4g} {what}" for value, what in named if value is not None and math.isfinite(value) and value]
    whose = ", as the author's machine counted" if submitted else ""
    return [f"explaining all {record.task.n} examples took {', '.join(spent)}{whose}"] if spent else []


def _check_said(report: CheckReport) -> str:
    outcomes = [one.status for one in report.checks]
    counts = {status: outcomes.count(status) for status in ("pass", "fail", "property", "not applicable", "not tested")}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def tests_page(found: Sequence[Board]) -> Page:
    """Every test: what its metrics measure, and in which bundles it can be trusted."""
    parts = []
    names = sorted(
        {test.name for board in found for test in board.bundle.tests}, key=lambda name: _kind_of(name, found)
    )
    for name in names:
        columns = {column.metric: column for board in found for column in board.columns if column.evaluation == name}
        heads = [Head("metric"), Head("what it measures"), *(Head(board.bundle.key) for board in found)]
        rows = [
            Row([Cell(column.title or metric), Cell(column.meaning), *(_trust_cell(board, column) for board in found)])
            for metric, column in columns.items()
        ]
        versions = ", ".join(
            f"{board.bundle.key}: version {test.version}, settings {test.digest[:8]}"
            for board in found
            for test in board.bundle.tests
            if test.name == name
        )
        parts.append(Part(slug(name), name, [[Piece(f"{versions}.")]], heads=heads, rows=rows, filter=False))
    return Page("tests.html", "Tests of explanations", parts)


def _kind_of(name: str, found: Sequence[Board]) -> tuple[int, str]:
    for board in found:
        for cell in board.cells:
            if (test := cell.evaluation(name)) is not None:
                return (KINDS.index(test.about.kind) if test.about.kind in KINDS else len(KINDS)), name
    return len(KINDS), name


def _trust_cell(board: Board, column: MetricColumn) -> Cell:
    if column.code not in {own.code for own in board.columns}:
        return Cell("not run")
    trust = board.trust.get(column.code)
    return Cell("not asked") if trust is None or not trust.verdict else Cell(trust.verdict, about=trust.why)


def changes_page(repository: Repository) -> Page:
    """The history, newest first."""
    heads = [Head(title) for title in ("number", "date", "what", "result", "why", "hash of the line before")]
    rows = [
        Row(
            [
                Cell(str(event.number), str(event.number)),
                Cell(event.date),
                Cell(event.what),
                Cell(event.place),
                Cell(event.why),
                Cell(event.previous[:12]),
            ]
        )
        for event in reversed(history.read(repository.root))
    ]
    words = "Each line holds the SHA-256 of the line before it; nothing is deleted, and what is withdrawn says why."
    return Page("changes.html", "Changes", [Part("changes", lines=[[Piece(words)]], heads=heads, rows=rows)])


def submit_page(found: Sequence[Board]) -> Page:
    """How somebody submits a method, or scores that were made elsewhere."""
    method = "my_method:\n  _target_: mypackage.MyMethod\n"
    scores = '{"uid": "test-00021", "scores": [0.1, -2, 0]}\n'
    first = found[0] if found else None
    command = (
        "attention-benchmark submit METHOD.yaml bundle=bundles/NAME@1.0 author=NAME licence=TEXT"
        if first is None
        else _submit_command(first)
    )
    parts = [
        Part(
            "method",
            "A method",
            [[Piece("A YAML names the class, as those of the benchmark's own methods do:")]],
            code=method,
        ),
        Part(
            "explain",
            "Explain",
            [[Piece("The command checks the method, explains all examples of the bundle and tests them:")]],
            code=command,
        ),
        Part(
            "scores",
            "Scores made elsewhere",
            [
                [
                    Piece(
                        "A JSON line for each example has one score per word; scores=FILE then stands in place of the YAML:"
                    )
                ]
            ],
            code=scores,
        ),
        Part(
            "send",
            "Send it",
            [
                [
                    Piece(
                        "Put the folder submission/ into a pull request to the repository of results. There, all rows are "
                        "computed again: "
                    )
                ]
            ],
            code="attention-benchmark merge results/ submission/",
        ),
    ]
    return Page("submit.html", "How to submit", parts)


def data_page(found: Sequence[Board]) -> Page:
    """Where the numbers lie: the JSON of all figures, and the rows in the repository."""
    lines = [
        [
            Piece("All figures with what they rest on: "),
            Piece(LEADERBOARD, link=LEADERBOARD),
            Piece(", as "),
            Piece(SCHEMA_FILE, link=SCHEMA_FILE),
            Piece(" says."),
        ]
    ]
    heads = [Head("bundle"), Head("method"), Head("rows, in the repository"), Head("SHA-256")]
    rows = []
    for board in found:
        for result in board.results:
            inside = (
                f"bundles/{board.folder.name}/methods/{result.run.name}"
                if result.submission is None
                else f"results/{result.folder}/run/{result.run.name}"
            )
            rows.append(
                Row(
                    [
                        Cell(board.bundle.key),
                        Cell(result.record.method.name),
                        Cell(f"{inside}/rows.parquet"),
                        Cell(result.record.files.get("rows.parquet", "")),
                    ]
                )
            )
    return Page("data.html", "Data", [Part("data", lines=lines, heads=heads, rows=rows)])


def _stem(board: Board) -> str:
    """What the files of a bundle's pages are called."""
    return slug(board.bundle.place.replace("@", "-"))
