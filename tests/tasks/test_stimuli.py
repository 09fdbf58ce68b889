"""The authors' stimuli are read as they are, ill-formed ones give one line, and generated ones have their form."""

import re
from collections import Counter

import pytest

from benchmark.annotations import KEYS, Coreference, Marked, Stimulus, annotation
from benchmark.errors import UserError
from benchmark.settings.configuration import compose
from tasks.opensesame_files import read_marked, read_sentences, read_stimuli
from tasks.opensesame_grammar import (
    AGREEMENT,
    FEMININE,
    REFLEXIVE,
    agreement_stimulus,
    auxiliary_sentence,
    reflexive_stimulus,
    subject_sentence,
)
from tasks.stimuli import KINDS, PROBES, Stimuli
from tests.conftest import shared

GOOD = "my lion around the worm could sleep\t5\t0 1\t3 4 \nyour wolf would cry\t2\t0 1\t\n"


def test_a_stimulus_is_read(tmp_path):
    (tmp_path / "agr.4").write_text(GOOD)
    first, second = read_stimuli(tmp_path / "agr.4", "agr.4", 10)
    assert first.words[5] == "could"
    assert first.stimulus == Stimulus("agr.4", 5, (0, 1), ((3, 4),))
    assert second.stimulus == Stimulus("agr.4", 2, (0, 1), ())
    assert len(read_stimuli(tmp_path / "agr.4", "agr.4", 1)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a cat can run\t2\n", "line 1: 2 columns between tabs; a stimulus has sentence, target, antecedent"),
        (GOOD + "a cat can run\t4\t0 1\t\n", "line 3: word 4 lies outside the sentence, which has words 0 to 3"),
        ("a cat can run\t2\t0 1\t7 8\n", "line 1: word 7 lies outside"),
        ("a cat can run\ttwo\t0 1\t\n", "line 1: 'two' is no list of whole numbers"),
        ("a cat can run\t2\t1 2\t\n", "line 1: the target 2 is a word of its antecedent"),
        ("a cat can run\t2\t\t\n", "line 1: a stimulus has one target, an antecedent"),
        ("a cat can run\t3\t0 1\t2\n", "line 1: a stimulus has one target, an antecedent, and distractors of two"),
        ("\n\n", "has no line"),
    ],
)
def test_an_ill_formed_stimulus_is_one_line(tmp_path, text, message):
    file = tmp_path / "agr.0"
    file.write_text(text)
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        read_stimuli(file, "agr.0", 10)
    assert str(file) in str(caught.value)


def test_ill_formed_sentences_of_probes(tmp_path):
    file = tmp_path / "aux.train"
    file.write_text("a cat can run\n")
    with pytest.raises(UserError, match="line 1: 1 columns between tabs"):
        read_marked(file, 5)
    file.write_text("a cat can run\t9\n")
    with pytest.raises(UserError, match="line 1: word 9 lies outside"):
        read_marked(file, 5)
    with pytest.raises(UserError, match=r"aux\.test is missing; task\.root is the folder with data_agr"):
        read_marked(tmp_path / "aux.test", 5)


def test_a_possessor_is_two_words_of_three_tokens(tmp_path):
    """The files count tokens of BERT, of which an apostrophe and its s are two."""
    file = tmp_path / "sbjn-join.gen_apost"
    file.write_text("our fish's new worker ant will swim\t6\nsome bee's bear's dog can run\t7\n")
    first, second = read_marked(file, 5)
    assert first.words == ("our", "fish", "'s", "new", "worker", "ant", "will", "swim")
    assert first.words[first.marked] == "ant"
    assert second.words[second.marked] == "dog"
    for place in (2, 3):
        file.write_text(f"our fish's new ant will swim\t{place}\n")
        with pytest.raises(UserError, match="is not the number of one word"):
            read_marked(file, 5)


def test_there_is_a_probe_for_every_n():
    task = Stimuli(kinds=["n-th token"], train=4, probes=3, nth=range(1, 10))
    words = [example.meta[KEYS[Marked]] for split in ("train", "test") for example in task.split(split)]
    assert Counter(word.probe for word in words) == {f"n-th token, n = {n}": 10 for n in range(1, 10)}
    assert all(word.probe.endswith(f" {word.word + 1}") for word in words)
    assert len({example.uid for example in task.split("test")}) == 2 * 3 * 9
    assert compose("config", ["+experiment=open_sesame"]).task.nth == list(range(1, 10))


def test_pieces_of_words_are_joined(tmp_path):
    file = tmp_path / "nth.test"
    file.write_text("the rt ##c acts now\na b\n")
    (line,) = read_sentences(file, 3, 10)
    assert line.words == ("the", "rtc", "acts", "now")
    assert line.marked == 2


def sexes(words, places):
    return [words[place] in FEMININE for place in places]


@pytest.mark.parametrize("number", range(20))
def test_generated_agreement_has_its_condition(number, tmp_path):
    import random

    draw = random.Random(number)
    plural_tags = {"N_pl": True, "N_sg": False}
    for _ in range(40):
        made = agreement_stimulus(draw, number)
        stimulus = made.stimulus
        assert stimulus.condition == f"agr.{number}"
        subject = plural_tags[made.tags[stimulus.antecedent[1]]]
        assert subject == made.plural
        assert made.tags[stimulus.target] == ("Aux" if number % 2 == 0 else "AuxPl" if subject else "AuxSg")
        assert len(stimulus.distractors) == (number >= 4)
        if number >= 4:
            (pair,) = stimulus.distractors
            assert ("Prep" in made.tags) == (number < 12)
            same = plural_tags[made.tags[pair[1]]] == subject
            assert same == (
                f"agr.{number}" in ("agr.4", "agr.5", "agr.10", "agr.11", "agr.12", "agr.13", "agr.18", "agr.19")
            )
        line = f"{' '.join(made.words)}\t{stimulus.target}\t{' '.join(map(str, stimulus.antecedent))}\t"
        line += " ".join(str(word) for pair in stimulus.distractors for word in pair)
        (tmp_path / "made").write_text(line + "\n")
        assert read_stimuli(tmp_path / "made", stimulus.condition, 1)[0].stimulus == stimulus


@pytest.mark.parametrize("number", range(9))
def test_generated_reflexives_have_their_condition(number):
    import random

    draw = random.Random(number)
    for _ in range(40):
        made = reflexive_stimulus(draw, number)
        stimulus, feminine = made.stimulus, made.words[made.stimulus.target] == "herself"
        assert sexes(made.words, [stimulus.antecedent[1]]) == [feminine]
        others = sexes(made.words, [pair[1] for pair in stimulus.distractors])
        expected = {0: [], 1: [1], 2: [0], 3: [1], 4: [0], 5: [1, 1], 6: [0, 1], 7: [1, 0], 8: [0, 0]}[number]
        assert [other == feminine for other in others] == [bool(same) for same in expected]
        assert ("Rel" in made.tags) == (number >= 3)


def test_what_probes_learn_first_fails_in_the_generalisation_set():
    import random

    draw = random.Random(0)
    for _ in range(100):
        easy, hard = (auxiliary_sentence(draw, generalise=generalise) for generalise in (False, True))
        first = [next(i for i, tag in enumerate(made.tags) if tag in ("Aux", "MAux")) for made in (easy, hard)]
        assert first[0] == easy.marked
        assert first[1] < hard.marked
        easy, *hard = (subject_sentence(draw, before=before) for before in ("nothing", "compound", "possessor"))
        first = [next(i for i, tag in enumerate(made.tags) if tag in ("N", "MN")) for made in (easy, *hard)]
        assert first[0] == easy.marked
        assert first[1] < hard[0].marked
        assert first[2] + 1 == hard[1].words.index("'s") < hard[1].marked


@pytest.mark.parametrize("generalise", [False, True])
def test_to_be_an_auxiliary_is_not_enough(generalise):
    """About a quarter of the sentences have an auxiliary after the main one, as a fifth of the authors'."""
    import random

    draw = random.Random(0)
    made = [auxiliary_sentence(draw, generalise=generalise) for _ in range(400)]
    after = sum("Aux" in sentence.tags[sentence.marked :] for sentence in made) / 400
    assert 0.15 < after < 0.35


def test_sentences_of_probes_have_the_authors_templates():
    import random

    root = shared("data/opensesame")
    for stem in ("data_aux/aux", "data_sbjn/sbjn", "data_sbjn-join/sbjn-join"):
        for part in ("train", "test", "gen_apost" if "join" in stem else "gen"):
            lines = [line.split("\t") for line in (root / f"{stem}.{part}.pos").read_text().splitlines()]
            # any number of adjectives is one of the templates, none where there are many templates; a possessor and its 's
            # are one word of theirs
            adjectives = "" if "apost" in part else " JJ*"
            theirs = {re.sub(r"( JJ)+", adjectives, tags) for tags, _ in lines}
            draw = random.Random(0)
            before = "nothing" if "gen" not in part else "possessor" if "join" in stem else "compound"
            ours = [
                auxiliary_sentence(draw, generalise=part == "gen")
                if "aux" in stem
                else subject_sentence(draw, before=before)
                for _ in range(200)
            ]
            known = {re.sub(r"( JJ)+", adjectives, " ".join(made.tags)).replace(" Poss", "") for made in ours}
            assert known <= theirs, (stem, part, known - theirs)


def test_splits_hold_what_they_say():
    task = Stimuli(stimuli=10, train=20, probes=6)
    assert task.labels == ("singular", "plural")
    kinds = {name: Counter() for name in ("train", "validation", "test")}
    for name, count in kinds.items():
        for example in task.split(name):
            word = example.meta.get(KEYS[Marked])
            count[(word.probe, word.part) if word else annotation(example.meta, Stimulus).condition] += 1
            assert example.label in (0, 1)
    assert kinds["train"] == {(probe, "train"): 20 for probe in PROBES}
    assert kinds["validation"] == dict.fromkeys((*AGREEMENT, *REFLEXIVE), 2)
    parts = {(probe, part): 6 for probe in PROBES for part in ("test", "generalisation")}
    assert kinds["test"] == dict.fromkeys((*AGREEMENT, *REFLEXIVE), 8) | parts
    reflexive = next(e for e in task.split("test") if e.uid.startswith("refl.5"))
    mentions = annotation(reflexive.meta, Coreference).mentions
    assert [m.entity for m in mentions].count("antecedent") == 2
    assert mentions[-1].kind == "pronoun"
    assert Stimuli(stimuli=10, train=20, probes=6).fingerprint == task.fingerprint
    assert Stimuli(stimuli=10, train=20, probes=6, seed=1).fingerprint != task.fingerprint


@pytest.mark.thorough
def test_the_authors_stimuli_are_read_whole_and_have_the_same_form():
    root = shared("data/opensesame")
    task = Stimuli(root=str(root), stimuli=10**6, train=10**6, probes=10**6)
    assert task.labels == ()
    counted = Counter()
    for split in ("train", "validation", "test"):
        for example in task.split(split):
            word = example.meta.get(KEYS[Marked])
            counted[(word.probe, word.part) if word else example.meta[KEYS[Stimulus]].condition] += 1
    assert all(counted[condition] == 2000 for condition in (*AGREEMENT, *REFLEXIVE))
    assert counted["auxiliary", "train"] == counted["subject noun", "train"] == 40000
    assert counted["auxiliary", "generalisation"] == counted["subject noun with possessor", "generalisation"] == 10000
    found = {"subject noun": Counter(), "subject noun with possessor": Counter()}
    for example in task.split("test"):
        word = example.meta.get(KEYS[Marked])
        if word and word.probe in found and word.part == "generalisation":
            found[word.probe][example.inputs[word.word]] += 1
    nouns = {noun for example in task.split("train") if (word := example.meta[KEYS[Marked]]).probe == "subject noun"
             for noun in [example.inputs[word.word]]}  # fmt: skip
    assert all(set(counts) <= nouns for counts in found.values()), "the word to find is a subject of training sentences"
    assert set(PROBES) == set(KINDS[2:])
    import random

    for number, condition in [*enumerate(AGREEMENT), *enumerate(REFLEXIVE)]:
        agreement = condition in AGREEMENT
        file = root / ("data_agr" if agreement else "data_refl") / f"{condition}.pos"
        theirs = {line.split("\t")[0] for line in file.read_text().splitlines()}
        draw, make = random.Random(0), agreement_stimulus if agreement else reflexive_stimulus
        ours = {" ".join(make(draw, number).tags) for _ in range(200)}
        assert ours <= theirs, condition
