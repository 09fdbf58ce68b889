"""What a reader of pairs does when the order of words, or a part of them, is gone."""
