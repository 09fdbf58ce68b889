"""CoNLL-2012 is read with nested and crossing mentions; ill-formed files give one line; documents are cut at sentences."""

import re

import pytest

from benchmark.annotations import Coreference, annotation
from benchmark.errors import NoSplit, UserError
from tasks.conll2012 import read_conll2012
from tasks.coreference import CoreferenceDocuments


def row(word, tag, coreference="-"):
    return f"doc 0 0 {word} {tag} * - - - - * {coreference}"


DOCUMENT = [
    "#begin document (doc); part 000",
    row("The", "DT", "(1"), row("sister", "NN"), row("of", "IN"), row("Ann", "NNP", "(2)|1)"), row("saw", "VBD"),
    row("herself", "PRP", "(1)"), "",
    row("She", "PRP", "(1)"), row("and", "CC", "(3"), row("Ann", "NNP", "(2"), row("Lee", "NNP", "3)"),
    row("left", "VBD", "2)"),
    "", "#end document",
]  # fmt: skip


def test_nested_and_crossing_mentions(tmp_path):
    file = tmp_path / "a_conll"
    file.write_text("\n".join(DOCUMENT) + "\n")
    (document,) = read_conll2012(file)
    assert document.uid == "(doc); part 000"
    assert [len(sentence) for sentence in document.sentences] == [6, 5]
    found = {(m.start, m.stop, m.head, m.entity, m.kind) for m in document.coreference.mentions}
    assert found == {
        (0, 4, 1, "1", "nominal"), (3, 4, 3, "2", "proper"), (5, 6, 5, "1", "pronoun"), (6, 7, 6, "1", "pronoun"),
        (7, 10, 9, "3", "proper"), (8, 11, 10, "2", "nominal"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([row("a", "DT")], "line 1: a word stands outside of a document"),
        ([DOCUMENT[0], "doc 0 0 a DT -"], "line 2: 6 columns; CoNLL-2012 has at least 12"),
        ([DOCUMENT[0], row("a", "DT", "7)")], "line 2: a mention of 7 ends that did not begin"),
        ([DOCUMENT[0], row("a", "DT", "(x")], "line 2: '(x' is no mention"),
        ([DOCUMENT[0], row("a", "DT", "(7"), "#end document"], "line 3: the document ends inside a mention of 7"),
        ([DOCUMENT[0], row("a", "DT")], "has no end (#end document)"),
        ([DOCUMENT[0], DOCUMENT[0]], "line 2: a document begins inside of another"),
        (["#end document"], "line 1: a document ends that did not begin"),
        ([""], "has no document"),
    ],
)
def test_an_ill_formed_file_is_one_line(tmp_path, lines, message):
    file = tmp_path / "a_conll"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        read_conll2012(file)
    assert str(file) in str(caught.value)


def test_documents_are_cut_at_sentences_and_found_by_folder(tmp_path):
    folder = tmp_path / "dev" / "news"
    folder.mkdir(parents=True)
    (folder / "a.gold_conll").write_text("\n".join(DOCUMENT) + "\n")
    whole = CoreferenceDocuments(root=str(tmp_path)).split("validation")
    assert [len(example.inputs) for example in whole] == [11]
    task = CoreferenceDocuments(root=str(tmp_path), words=8)
    first, second = task.split("validation")
    assert second.inputs == ["She", "and", "Ann", "Lee", "left"]
    assert [(m.start, m.head) for m in annotation(second.meta, Coreference).mentions] == [(0, 0), (1, 3), (2, 4)]
    assert first.label == -1
    assert task.labels == ()
    with pytest.raises(NoSplit, match="no CoNLL-2012 file of the test split"):
        task.split("test")


def test_generated_examples_have_a_reflexive():
    task = CoreferenceDocuments(train=20, validation=20, test=200)
    examples = task.split("test")
    assert 20 < len(examples) < 90
    for example in examples:
        assert {"himself", "herself"} & set(example.inputs)
        assert annotation(example.meta, Coreference).mentions
    assert task.fingerprint == CoreferenceDocuments(train=20, validation=20, test=200).fingerprint
