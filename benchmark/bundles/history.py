"""What happened to a repository of results: an append-only file in which each line holds the SHA-256 of the one before."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from benchmark.errors import UserError
from benchmark.results import store
from benchmark.results.annotated import as_dataclass

FILE = "history.jsonl"
_FIRST = "0" * 64


@dataclass(frozen=True)
class Event:
    """A line.

    Attributes:
        number: from 1.
        date: YYYY-MM-DD.
        what: `merged`, `retested`, `audited` or `withdrawn`.
        place: folder of the result, relative to the results.
        tree: SHA-256 over the paths and contents of that folder's files after the event.
        why: in words, where there are any.
        previous: SHA-256 of the line before.
    """

    number: int
    date: str
    what: str
    place: str
    tree: str
    why: str
    previous: str

    @property
    def line(self) -> str:
        """As it stands in the file."""
        return json.dumps(asdict(self), sort_keys=True) + "\n"

    @property
    def head(self) -> str:
        """SHA-256 of the line, which the next one holds."""
        return sha256(self.line.encode()).hexdigest()


def read(root: Path) -> list[Event]:
    """The events of a repository, from the first.

    Raises:
        UserError: a line was changed, removed or put in.
    """
    path = root / FILE
    if not path.is_file():
        return []
    events, previous = list[Event](), _FIRST
    *lines, rest = path.read_bytes().split(b"\n")
    for number, content in enumerate([*lines, *([rest] if rest else [])], start=1):
        try:
            line = content.decode() + "\n"
            event: Event = as_dataclass(Event, json.loads(line), "")
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{path}:{number} is no event ({error}); take the file from the repository again"
            ) from error
        if event.number != number or event.previous != previous or event.line != line:
            raise UserError(
                f"{path}:{number} does not follow from the line before it: the history was changed; take the file from the "
                "repository again"
            )
        events.append(event)
        previous = event.head
    return events


def heads(root: Path) -> list[str]:
    """SHA-256 of each line, behind that of no line."""
    return [_FIRST, *(event.head for event in read(root))]


def add(root: Path, date: str, what: str, place: str, tree: str, why: str = "") -> Event:
    """Write a further line; the whole file is replaced at once, so that a kill leaves the old one or the new one."""
    events = read(root)
    previous = events[-1].head if events else _FIRST
    event = Event(len(events) + 1, date, what, place, tree, why, previous)
    store.write_bytes(root / FILE, "".join(one.line for one in [*events, event]).encode())
    return event


def last_trees(events: Sequence[Event]) -> Mapping[str, str]:
    """By folder of a result the digest that its last event names."""
    return {event.place: event.tree for event in events}
