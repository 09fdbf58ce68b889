"""A seeded grammar of short passages with multiple-choice questions, of which it is known whether order decides."""

import random
from collections.abc import Iterator
from itertools import permutations

from tasks.choice_files import Question

TOPICS = {
    "food": ("bread", "soup", "cheese"),
    "weather": ("rain", "snow", "wind"),
    "travel": ("train", "ticket", "flight"),
}
"""The word that an option names, and the words of a passage that belong to it; a question offers every topic."""

NO_TOPIC = ("time", "rest", "news", "hurry")
_THERE = ("{} is here .", "look at {} !", "i see {} today .", "and {} too .", "there is {} .")
_NOT_THERE = ("there is no {} .", "and no {} ?", "we see no {} now .", "no {} today .")
_OPTIONS = ("it is {} .", "some {} .")
_WORDS_OF_A_TOPIC = 2


def draw_questions(draw: random.Random, prefix: str, count: int, ordered: float) -> Iterator[Question]:
    """Questions of which every six in a row hold each order of the topics once.

    Who prefers some topics to others is then right as often as chance.

    Args:
        draw: determines the questions.
        prefix: of their identifiers.
        count: how many.
        ordered: the share of questions that are decided by order.
    """
    every = list(permutations(sorted(TOPICS)))
    left: list[tuple[str, ...]] = []
    for number in range(count):
        left = left or draw.sample(every, len(every))
        right, other, third = left.pop()
        yield _question(draw, f"{prefix}-{number:05d}", (right, other, third), by_order=draw.random() < ordered)


def _question(draw: random.Random, uid: str, topics: tuple[str, str, str], *, by_order: bool) -> Question:
    """Four sentences, the question what there is, and three options, each in one of two forms at random.

    Two sentences tell of words that are there, all of one topic: the right option. The other two tell of words that are not.
    Where order decides, those are of a topic that is a wrong option: which words follow "no" tells, so that of a shuffled
    passage one can do no better than to guess between the two. Else they belong to no option: the words alone decide.
    """
    right, other, _ = topics
    absent = TOPICS[other] if by_order else NO_TOPIC
    turns = [draw.choice(_THERE).format(word) for word in draw.sample(TOPICS[right], _WORDS_OF_A_TOPIC)]
    turns += [draw.choice(_NOT_THERE).format(word) for word in draw.sample(absent, _WORDS_OF_A_TOPIC)]
    draw.shuffle(turns)
    offered = draw.sample(topics, len(topics))
    options = tuple(tuple(draw.choice(_OPTIONS).format(topic).split()) for topic in offered)
    return Question(
        uid=uid,
        passage=tuple(word for turn in turns for word in turn.split()),
        question=("what", "is", "there", "?"),
        options=options,
        right=tuple(topic == right for topic in offered),
        needs_order=by_order,
    )
