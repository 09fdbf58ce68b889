"""What a checkpoint is that is no classifier, by the class that `config.json` names, and what comes nearest to it here."""

from typing import Any

_FINE_TUNED = "a classifier that is fine-tuned from it (python -m benchmark.train task=... model.path={source} out=...)"
_ASKED = 'model=lm model.path={source}, which asks for the next token (in Python load_model(..., task="next_token"))'
_OF_TEXTS = "a classifier of whole texts"
_OF_IMAGES = "a classifier of whole images (AutoModelForImageClassification)"
_OF_SPEECH, _NO_SOUNDS = "a speech-to-text model: it writes down what is said", "a classifier of texts or images"

_KINDS: tuple[tuple[str, str, str], ...] = (
    ("ForMaskedLM", "a masked language model: it gives words for a mask", _FINE_TUNED),
    ("ForPreTraining", "a pre-trained language model: it gives words for a mask", _FINE_TUNED),
    ("ForNextSentencePrediction", "a pre-trained language model: it tells which sentence follows", _FINE_TUNED),
    ("ForCausalLM", "a causal language model: it gives the next token", _ASKED),
    ("LMHeadModel", "a causal language model: it gives the next token", _ASKED),
    *((f"{name}ForConditionalGeneration", _OF_SPEECH, _NO_SOUNDS) for name in ("Whisper", "Speech2Text", "Moonshine")),
    ("ForConditionalGeneration", "a model that generates texts", _OF_TEXTS),
    ("ForTokenClassification", "a token classifier: it labels each token", _OF_TEXTS),
    ("ForQuestionAnswering", "a reader that answers a question with a span of the text", _OF_TEXTS),
    (
        "ForMultipleChoice",
        "a chooser among options that are read side by side",
        f"{_OF_TEXTS}, with task=multiple_choice",
    ),
    ("ForAudioClassification", "a classifier of sounds", _NO_SOUNDS),
    ("ForSpeechSeq2Seq", _OF_SPEECH, _NO_SOUNDS),
    ("ForCTC", _OF_SPEECH, _NO_SOUNDS),
    ("ForSemanticSegmentation", "a segmenter: it labels each pixel", _OF_IMAGES),
    ("ForInstanceSegmentation", "a segmenter: it labels each pixel", _OF_IMAGES),
    ("ForUniversalSegmentation", "a segmenter: it labels each pixel", _OF_IMAGES),
    ("ForObjectDetection", "a detector: it finds boxes in an image", _OF_IMAGES),
    ("ForMaskedImageModeling", "a pre-trained image model: it gives patches for a mask", _OF_IMAGES),
    ("ForDepthEstimation", "an estimator of depth: it gives a number for each pixel", _OF_IMAGES),
    ("ForVideoClassification", "a classifier of videos", _OF_IMAGES),
)
"""How the name of a class of transformers ends, what such a model is, and what comes nearest to it here."""


def other_kind(source: str, config: Any) -> str:
    """What a checkpoint that could not be read as a classifier is instead, with what comes nearest; empty where unknown.

    It is asked when reading failed: weights may hold a classifier under the configuration of what they were made from.
    """
    for name in config.architectures or ():
        for ending, what, nearest in _KINDS:
            if name.endswith(ending):
                return (
                    f"model.path={source} is {what} ({name}), and no classifier of texts or images, which is what was asked "
                    f"for; what comes nearest is {nearest.format(source=source)}"
                )
    return ""
