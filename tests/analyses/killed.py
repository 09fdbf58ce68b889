"""A run of an analysis that ends in its midst, as by a kill, and goes on."""

from dataclasses import replace

from benchmark.results.store import Ragged


class KilledError(Exception):
    """The process ends."""


def assert_goes_on(analysis, context, folder, monkeypatch):
    """A killed run repeats nothing that was finished, and says in the end what an unbroken one says."""

    def run(place, dies_after=None):
        """The tables, and the files of what is finished that were written; None where the process ended."""
        kept, write = [], Ragged.write

        def counted(self, path):
            write(self, path)
            if not path.parent.name.startswith("."):  # parts lie in a folder of their own
                kept.append(path.name)
                if len(kept) == dies_after:
                    raise KilledError

        monkeypatch.setattr(Ragged, "write", counted)
        try:
            return analysis(replace(context, folder=place)), kept
        except KilledError:
            return None, kept
        finally:
            monkeypatch.setattr(Ragged, "write", write)

    whole, all_files = run(folder / "whole")
    assert len(all_files) >= 3
    ended, before = run(folder / "killed", dies_after=2)
    assert ended is None
    again, after = run(folder / "killed")
    assert before + after == all_files, "what was finished is read, and not computed again"
    for one, other in zip(whole, again, strict=True):
        assert one.rows.equals(other.rows)
        assert one.sentences == other.sentences
    assert not list((folder / "killed" / "analyses").glob("*.safetensors")), "nothing stays that nobody will read"
