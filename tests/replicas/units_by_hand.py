"""Texts whose units are taken out one example at a time, with the model of transformers."""

import torch

TEXTS = ("the untoldly film was good", "a dull plot", "bad", "the story was a fine film , good !")


CLASSES = (0, 1, 1, 0)


def alone(batch, row):
    """Ids and the unit of each token of one example, without padding."""
    length = int(batch.attention_mask[row].sum())
    return batch.tensors["input_ids"][row, :length].tolist(), batch.units[row, :length].tolist()


def value_of(eager, ids, target, output, mask=None):
    attention = torch.tensor([mask if mask is not None else [1] * len(ids)])
    logits = eager(input_ids=torch.tensor([ids]), attention_mask=attention).logits[0].detach()
    return float(logits[target] if output == "logit" else logits.softmax(0)[target])
