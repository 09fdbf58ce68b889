"""A classifier whose token or patch embeddings carry a noise, whatever is computed with it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import sha256

from jaxtyping import Float
from torch import Tensor, nn

from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.embeddings import embedding_modules
from benchmark.models.precision import Twin, WeightParts


@contextmanager
def noisy(model: Classifier, noise: Float[Tensor, "1 T D"]) -> Iterator[Classifier]:
    """In this block a classifier that embeds one example as e + δ; its fingerprint says so, and it remembers nothing.

    Behind the last token δ is 0, where a pass may be shorter.

    Every pass in the block is of variants of that example, as many as there are. Copies that a method makes of the model
    carry the noise, too. Edits of embeddings see e + δ: it is the input, and no step on the way.

    Raises:
        NotApplicable: the model embeds its input twice, as encoder–decoders do; and within the block, a pass has other
            tokens than the example (a method that deletes words, or goes on from states that it kept).
    """
    modules = embedding_modules(model.model, model.family, model.name)
    if model.streams.count > 1 or len(modules) > 1:
        raise NotApplicable("the model embeds its input twice, and a noise of one example would be two")

    def hook(_module: nn.Module, _args: object, output: Tensor) -> Tensor:
        length = output.shape[1]
        if output.shape[2:] != noise.shape[2:] or length > noise.shape[1] or bool(noise[:, length:].any()):
            raise NotApplicable("it reads inputs of another length than the example's, whose noise has no place there")
        return output + noise[:, :length].to(output)

    told = f"{model.fingerprint}\0noise\0{sha256(noise.detach().cpu().double().numpy().tobytes()).hexdigest()}"
    with ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(hook).remove)
        yield replace(model, twin=Twin(), weight_parts=WeightParts(), fingerprint=sha256(told.encode()).hexdigest())
