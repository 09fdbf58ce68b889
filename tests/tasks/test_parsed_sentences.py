"""CoNLL-U is read as it is defined, ill-formed files give one line, and generated sentences have sound trees."""

from collections import Counter

import pytest

from benchmark.annotations import KEYS, Coreference, Parse, annotation
from benchmark.errors import NoSplit, NotApplicable, UserError
from tasks.conllu import read_conllu
from tasks.parsed_sentences import ParsedSentences
from tests.conftest import shared


def row(number, form, head, relation):
    return "\t".join([str(number), form, "_", "_", "_", "_", str(head), relation, "_", "_"])


GOOD = "\n".join(
    [
        "# sent_id = one", "# text = du sang", row("1-2", "du", "_", "_"), row(1, "de", 3, "case"), row(2, "le", 3, "det"),
        row(3, "sang", 0, "root"), row("3.1", "bu", "_", "_"), "", "# a comment alone", "", row(1, "oui", 0, "root"),
    ]
)  # fmt: skip


def test_ranges_and_empty_nodes_are_left_out(tmp_path):
    file = tmp_path / "a.conllu"
    file.write_text(GOOD.replace("\n", "\r\n"))
    first, second = read_conllu(file)
    assert first.uid == "one"
    assert first.words == ("de", "le", "sang")
    assert first.parse == Parse((2, 2, -1), ("case", "det", "root"))
    assert second.words == ("oui",)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\tword\t0"], "line 1: 3 columns between tabs; CoNLL-U has 10"),
        ([row(1, "a", 0, "root"), row(3, "b", 1, "obj")], "line 2: ID '3'; the next word is 2"),
        (["# c", row(1, "a", "x", "root")], "line 2: HEAD 'x' is no whole number"),
        (
            [row(1, "a", 0, "root"), row(2, "b", 5, "obj")],
            "line 2: HEAD 5 lies outside the sentence, which has 2 words",
        ),
        ([row(1, "a", 2, "obj"), row(2, "b", 1, "obj")], "line 1: the sentence has 0 roots"),
        ([row(1, "a", 0, "root"), row(2, "b", 0, "root")], "line 1: the sentence has 2 roots"),
        ([row(1, "a", 0, "root"), row(2, "b", 3, "x"), row(3, "c", 2, "x")], "line 2: word 2 is its own head"),
        (["# nothing"], "has no sentence"),
    ],
)
def test_an_ill_formed_file_is_one_line(tmp_path, lines, message):
    file = tmp_path / "a.conllu"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"a\.conllu") as caught:
        read_conllu(file)
    assert message in str(caught.value)


def test_files_are_found_by_their_endings(tmp_path):
    (tmp_path / "xx-ud-dev.conllu").write_text(row(1, "oui", 0, "root:x") + "\n")
    task = ParsedSentences(root=str(tmp_path))
    assert task.labels == ()
    (example,) = task.split("validation")
    assert example.label == -1
    assert annotation(example.meta, Parse).relations == ("root",)
    assert ParsedSentences(root=str(tmp_path), relations="full").split("validation")[0].meta["parse"].relations == (
        "root:x",
    )
    with pytest.raises(NotApplicable, match="no coreference"):
        annotation(example.meta, Coreference)
    with pytest.raises(NoSplit, match=r"ends in test.conllu"):
        task.split("test")
    before = task.fingerprint
    (tmp_path / "yy-ud-dev.conllu").write_text(row(1, "oui", 0, "root") + "\n")
    with pytest.raises(UserError, match="several files of the validation split"):
        ParsedSentences(root=str(tmp_path)).split("validation")
    (tmp_path / "xx-ud-dev.conllu").unlink()
    assert ParsedSentences(root=str(tmp_path)).fingerprint != before


def reaches_root(heads, word):
    seen = set()
    while word >= 0 and word not in seen:
        seen.add(word)
        word = heads[word]
    return word == -1


def test_generated_sentences_have_trees_and_agree_as_they_say():
    task = ParsedSentences(train=5, validation=5, test=400)
    plural = {"dogs", "cats", "horses", "birds", "farmers", "doctors", "teachers", "guards", "pilots", "singers"}
    between, reflexives = Counter(), 0
    for example in task.split("test"):
        words, parse = example.inputs, annotation(example.meta, Parse)
        assert len(words) == len(parse.heads) == len(parse.relations)
        assert parse.heads.count(-1) == 1
        assert all(reaches_root(parse.heads, word) for word in range(len(words)))
        root = parse.heads.index(-1)
        of_root = {parse.relations[i]: i for i, head in enumerate(parse.heads) if head == root}
        subject, auxiliary = of_root["nsubj"], of_root["aux"]
        agrees = (words[subject] in plural) == (words[auxiliary] in ("are", "were"))
        assert agrees == (example.label == 0)
        for word in range(len(words)):
            if parse.relations[word] in ("det", "amod", "case"):
                assert parse.heads[word] > word
        between[auxiliary - subject] += 1
        mentions = annotation(example.meta, Coreference).mentions
        anaphors = [m for m in mentions if m.kind == "pronoun"]
        reflexives += len(anaphors)
        for mention in anaphors:
            assert [m.head for m in mentions if m.entity == mention.entity] == [subject, mention.head]
            assert words[mention.head] in ("himself", "herself")
    labels = [example.label for example in task.split("test")]
    assert 0.4 < sum(labels) / len(labels) < 0.6
    assert set(between) == {1, 4, 5}
    assert 60 < reflexives < 140


def test_the_same_seed_gives_the_same_sentences():
    def texts(**settings):
        task = ParsedSentences(train=3, validation=3, test=20, **settings)
        return [" ".join(example.inputs) for example in task.split("test")], task.fingerprint

    assert texts() == texts()
    assert texts()[0] != texts(seed=1)[0]
    assert texts()[1] != texts(seed=1)[1]
    assert KEYS[Parse] in ParsedSentences(train=1, validation=1, test=1).split("test")[0].meta


def test_the_english_web_treebank_is_read_whole():
    root = shared("data/ud_english_ewt")
    task = ParsedSentences(root=str(root), relations="full")
    counts = {split: len(task.split(split)) for split in ("validation", "test")}
    words = {split: sum(len(e.inputs) for e in task.split(split)) for split in counts}
    for split, ending in (("validation", "dev"), ("test", "test")):
        lines = (root / f"en_ewt-ud-{ending}.conllu").read_text().split("\n")
        assert counts[split] == sum(line.startswith("# sent_id") for line in lines)
        assert words[split] == sum(line.split("\t")[0].isdigit() for line in lines)
    relations = Counter(r for e in task.split("test") for r in e.meta["parse"].relations)
    assert relations["root"] == counts["test"]
    assert "nmod:poss" in relations
