"""Special tokens that stand in a text: the tokenizer's own are text there, those a model was trained with are words."""

import json
from typing import Any

from tokenizers import Tokenizer

_OWN = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def structural_tokens(tokenizer: Any) -> dict[str, int]:
    """The tokens that frame, separate, pad or mask texts, with their ids: the named ones, and what is put around a text.

    A text that spells one of them does not mean it: "[SEP]" in a text is five characters, and no end of a sentence.
    """
    named = [str(token) for name in _OWN if (token := getattr(tokenizer, name, None)) is not None]
    encoded = tokenizer("a", "a", return_special_tokens_mask=True, verbose=False)
    pairs = zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)
    frame = tokenizer.convert_ids_to_tokens([index for index, is_frame in pairs if is_frame])
    return {token: int(tokenizer.convert_tokens_to_ids(token)) for token in dict.fromkeys([*named, *frame])}


def added_tokens(tokenizer: Any) -> dict[str, int]:
    """The other tokens that were added to the vocabulary, with their ids: entity markers, user names and their kind.

    They are one token each where they stand in a text, and a word or a part of one.
    """
    own = structural_tokens(tokenizer)
    return {str(token): index for index, token in tokenizer.added_tokens_decoder.items() if str(token) not in own}


def read_as_words(tokenizer: Any) -> Any:
    """The tokenizer, changed in place: its structural tokens are text where a text spells them, its other tokens are kept.

    A tokenizer can split either all tokens that are flagged as special, or none. So the flag is taken from those that stay.
    """
    kept = set(added_tokens(tokenizer))
    if any(token.special and str(token) in kept for token in tokenizer.added_tokens_decoder.values()):
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        for token in state["added_tokens"]:
            token["special"] = token["special"] and token["content"] not in kept
        tokenizer._tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.split_special_tokens = True
    tokenizer.backend_tokenizer.encode_special_tokens = True
    tokenizer.backend_tokenizer.no_truncation()  # what the caller's last call asked for is no part of what it is
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.padding_side = "right"
    return tokenizer
