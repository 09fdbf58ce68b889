"""Tables in other words: what code may not notice."""

from collections.abc import Sequence
from dataclasses import replace

from benchmark.results.tables import FIGURE_COLUMNS, Table


def reworded(table: Table) -> Table:
    """The table with other titles, sentences, metrics, notes, labels and values of labels; name, figures and keys stay."""
    texts = {metric: f"metric no. {place}" for place, metric in enumerate(dict.fromkeys(table.rows["metric"]))}
    rows = table.rows.assign(
        metric=table.rows["metric"].map(texts),
        note=[f"because of {note[::-1]}" if note else "" for note in table.rows["note"]],
    )
    columns = {label: f"column no. {place}" for place, label in enumerate(table.labels)}
    for label in table.labels:
        values = {value: f"{value!r} in other words" for value in rows[label].unique()}
        rows[label] = rows[label].map(values)
    assert not {*columns} & {*FIGURE_COLUMNS}
    return replace(
        table,
        title="Another title",
        labels=tuple(columns.values()),
        rows=rows.rename(columns=columns),
        sentences=tuple("Another sentence." for _ in table.sentences),
        drawing=None,  # it names metrics and labels of its own table, in its own words
    )


def all_reworded(tables: Sequence[Table]) -> list[Table]:
    """All of these tables in other words."""
    return [reworded(table) for table in tables]
