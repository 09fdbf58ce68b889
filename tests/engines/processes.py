"""Processes that a process has started, and where they listen; read from /proc."""

import re
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
_LISTENING = "0A"


def family(root: int) -> dict[int, str]:
    """Command of a process and of all its descendants, by their numbers."""
    children = defaultdict(list)
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            children[int((place / "stat").read_text().rpartition(")")[2].split()[1])].append(int(place.name))
    numbers = [root]
    for number in numbers:
        numbers += children[number]
    return {number: _command(number) for number in numbers}


def _command(number: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_bytes().partition(b"\0")[0].decode()
    return ""


def is_running(number: int) -> bool:
    """Whether there is such a process that has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def listening(numbers) -> list[tuple[int, str]]:
    """Process and hexadecimal address of each of their sockets that waits for others to connect by a network."""
    addresses = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENING:
                addresses[words[9]] = words[1].partition(":")[0]
    found = []
    for number in numbers:
        with suppress(OSError):
            for link in Path(f"/proc/{number}/fd").iterdir():
                with suppress(OSError):
                    socket = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
                    if socket and socket[1] in addresses:
                        found.append((number, addresses[socket[1]]))
    return found
