"""Names as a paper prints them: `lrp_alpha_beta` is LRP αβ, `attention_x_input_norm` Attention × input norm."""

import re

_WORDS = {
    "attattr": "ATTATTR", "attcat": "AttCAT", "attnlrp": "AttnLRP", "alti": "ALTI", "lrp": "LRP", "lime": "LIME",
    "shap": "SHAP", "gradcam": "Grad-CAM", "deeplift": "DeepLIFT", "decompx": "DecompX", "globenc": "GlobEnc",
    "smoothgrad": "SmoothGrad", "taylor": "Taylor", "shapley": "Shapley", "captum": "Captum", "sam": "SAM", "x": "×",
    "l2": "L2", "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε",
}  # fmt: skip
_WHOLE = {"grad_cam": "Grad-CAM", "gauss_legendre": "Gauss–Legendre", "leave_one_out": "Leave-one-out"}


def is_abbreviation(word: str) -> bool:
    """Whether a word is written in letters of its own: `attattr`, but not `random`."""
    return word in _WORDS


def method_title(shown: str) -> str:
    """A method's shown name in words; what stands in brackets behind it stays as it is."""
    name, _, detail = shown.partition(" (")
    words = [_WORDS.get(word, word) for word in re.split(r"[_\s]+", name)]
    title = _WHOLE.get(name) or " ".join(words)
    if title[:1].islower():
        title = title[:1].upper() + title[1:]
    return f"{title} ({detail}" if detail else title


def without_fingerprint(model: str) -> str:
    """A model's name without the digits that tell its weights: `tiny-c99fb17447543bba` is tiny."""
    return re.sub(r"-[0-9a-f]{12,}$", "", model)
