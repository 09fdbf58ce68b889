"""The search for triggers, one example and one vocabulary entry at a time."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from benchmark.evaluations.triggers.patterns import Search
from benchmark.evaluations.triggers.universal_trigger import UniversalTrigger
from benchmark.evaluations.triggers.words import Exclusion
from benchmark.models import load_model
from tests import text_models
from tests.replicas.registry import replicates

TEXTS = ["the film was a good story", "a dull plot", "the untold story was bad ! fine"]
VOCABULARY = ("the", "film", "was", "plot", "good", "bad", "fine", "dull", "un", "story")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), dtype="float64", device="cpu")


def loss_and_gradient(model, rows, label, words):
    """mean_x L(y, f(x + w)) and its gradient by the embedding of each word, the words behind [CLS]."""
    loss, gradients = 0.0, [0.0] * len(words)
    for ids in rows:
        whole = torch.tensor([[ids[0], *words, *ids[1:]]])
        embeddings = model.model.get_input_embeddings()(whole).detach().requires_grad_()
        logits = model.model(inputs_embeds=embeddings, attention_mask=torch.ones_like(whole)).logits
        one = F.cross_entropy(logits, torch.tensor([label]))
        (gradient,) = torch.autograd.grad(one, embeddings)
        loss += float(one.detach()) / len(rows)
        for k in range(len(words)):
            gradients[k] = gradients[k] + gradient[0, 1 + k] / len(rows)
    return loss, gradients


def search(model, rows, label, n_words, passes, candidates, generator):
    """Losses of all triggers that were run with so many passes over the examples."""
    ids = sorted(model.tokenizer.convert_tokens_to_ids(list(VOCABULARY)))
    weight = model.model.get_input_embeddings().weight
    words = tuple(ids[i] for i in generator.integers(len(ids), size=n_words))
    loss, gradient = loss_and_gradient(model, rows, label, words)
    losses, passes = {words: loss}, passes - 1
    while passes:
        gains = []
        for k in range(n_words):
            for entry in ids:
                other = (*words[:k], entry, *words[k + 1 :])
                if other not in losses:
                    gains.append((float((weight[entry] - weight[words[k]]) @ gradient[k]), other))
        tried = [other for _, other in sorted(gains, reverse=True)[: min(candidates, passes)]]
        for other in tried:
            losses[other], _ = loss_and_gradient(model, rows, label, other)
            passes -= 1
        best = max(losses, key=losses.get)
        if passes < 2:
            break
        if best != words:
            words = best
            _, gradient = loss_and_gradient(model, rows, label, words)
            passes -= 1
    return losses


@replicates(UniversalTrigger)
@pytest.mark.parametrize(("seed", "candidates", "passes"), [(0, 1, 12), (1, 3, 21), (2, 4, 30)])
def test_search(model, seed, candidates, passes):
    batch = model.encode(TEXTS, labels=[0, 1, 0])
    asked = Search(triggers=100, words=3, exclusion=Exclusion())
    method = UniversalTrigger(forward_passes_per_example=passes, candidates=candidates, seed=seed)
    found = method.search_triggers(model, [batch], asked)
    expected = []
    for label in (0, 1):
        rows = [
            batch.tensors["input_ids"][b, : int(batch.attention_mask[b].sum())].tolist()
            for b in range(3)
            if int(batch.label[b]) == label
        ]
        losses = search(model, rows, label, 3, passes, candidates, np.random.default_rng([seed, label]))
        for words in sorted(losses, key=losses.get, reverse=True):
            expected.append((label, model.tokenizer.convert_ids_to_tokens(list(words)), losses[words]))
    assert len(found) == len(expected)
    for trigger, (label, words, loss) in zip(found, expected, strict=True):
        assert [word.word for word in trigger.words] == words
        assert trigger.attacks == (model.labels[label],)
        assert trigger.score == pytest.approx(loss, rel=1e-9)
        assert all((word.position, word.segment) == (0.0, 1) for word in trigger.words)
