"""A seeded grammar of short passages with multiple-choice questions, of which it is known whether order decides."""

import random

from tasks.choice_files import Question

TOPICS = {
    "food": ("bread", "soup", "cheese", "salad"),
    "weather": ("rain", "snow", "wind", "storm"),
    "travel": ("train", "ticket", "flight", "station"),
    "sport": ("match", "team", "goal", "race"),
}
"""The word that an option names, and the words of a passage that belong to it."""

NO_TOPIC = ("time", "rest", "news", "hurry")
_THERE = ("{} is here .", "look at {} !", "i see {} today .", "and {} too .", "there is {} .")
_NOT_THERE = ("there is no {} .", "and no {} ?", "we see no {} now .", "no {} today .")
_OPTIONS = ("it is {} .", "some {} .", "{} .", "it is about {} .")
_WORDS_OF_A_TOPIC = 2


def draw_question(draw: random.Random, uid: str, ordered: float) -> Question:
    """Four sentences, the question what there is, and three options, each in one of four forms at random.

    Two sentences tell of words that are there, all of one topic: the right option. The other two tell of words that are not.
    With probability `ordered` those are of a topic that is a wrong option: only which words follow "no" decides, so that of
    a shuffled passage one can do no better than to guess between the two. Otherwise they belong to no option: the words
    alone decide.

    Args:
        draw: determines the question.
        uid: of the question.
        ordered: the share of questions that are decided by order.
    """
    right, other, third = draw.sample(sorted(TOPICS), 3)
    by_order = draw.random() < ordered
    absent = TOPICS[other] if by_order else NO_TOPIC
    turns = [draw.choice(_THERE).format(word) for word in draw.sample(TOPICS[right], _WORDS_OF_A_TOPIC)]
    turns += [draw.choice(_NOT_THERE).format(word) for word in draw.sample(absent, _WORDS_OF_A_TOPIC)]
    draw.shuffle(turns)
    topics = draw.sample([right, other, third], 3)
    options = tuple(tuple(draw.choice(_OPTIONS).format(topic).split()) for topic in topics)
    return Question(
        uid=uid,
        passage=tuple(word for turn in turns for word in turn.split()),
        question=("what", "is", "there", "?"),
        options=options,
        right=tuple(topic == right for topic in topics),
        needs_order=by_order,
    )
