"""A WordPiece vocabulary that is the same in every process."""

from collections.abc import Sequence


def train_vocabulary(texts: Sequence[str], size: int, special: Sequence[str]) -> dict[str, int]:
    """Entries of a lower-case WordPiece vocabulary trained on texts, by number.

    The library's trainer numbers the pieces within words ("##a") in the order of a hash map and breaks ties between
    merges by these numbers, so that it gives another vocabulary in every process
    (https://github.com/huggingface/tokenizers/issues/1794). Here these pieces are handed to it in alphabetical order.

    Args:
        texts: the corpus.
        size: entries, special tokens included.
        special: special tokens, which come first.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = {word for text in texts for word in text.split()}
    pieces = {piece for word in words for piece, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word))}
    inner = sorted({letter for piece in pieces for letter in piece[1:]})
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    first_entries = [*special, *(f"##{letter}" for letter in inner)]
    tokenizer.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=first_entries, show_progress=False)
    )
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return vocabulary
