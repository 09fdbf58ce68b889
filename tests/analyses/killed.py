"""A run of an analysis that ends in its midst, as by a kill, and goes on."""

from dataclasses import replace

from benchmark.results.store import Ragged


class KilledError(Exception):
    """The process ends."""


def assert_goes_on(analysis, context, folder, monkeypatch, *, within=False):
    """A killed run repeats nothing that was finished, says in the end what an unbroken one says, and leaves nothing.

    Args:
        within: it is killed within what is computed of one setting as well, of which there are several batches.
    """
    config = context.setting.config.copy()
    config["checkpoint_seconds"] = 0  # each batch is a part
    context = replace(context, setting=replace(context.setting, config=config))

    def run(place, dies_after=None, of_parts=False):
        """The tables, and the files that were written; None where the process ended."""
        kept, write = [], Ragged.write

        def counted(self, path):
            write(self, path)
            if path.parent.name.startswith(".") == of_parts:  # parts lie in a folder of their own
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
    for of_parts in (False, True)[: 1 + within]:
        place = folder / f"killed-{of_parts}"
        ended, before = run(place, dies_after=2, of_parts=of_parts)
        assert ended is None
        again, after = run(place, of_parts=of_parts)
        if not of_parts:
            assert before + after == all_files, "what was finished is read, and not computed again"
        for one, other in zip(whole, again, strict=True):
            assert one.rows.equals(other.rows)
            assert one.sentences == other.sentences
        assert not list((place / "analyses").iterdir()), "nothing stays that nobody will read"
