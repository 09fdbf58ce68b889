"""Every method of `conf/methods`, with settings that make it cheap where they say nothing of what is checked."""

from functools import cache
from pathlib import Path

from omegaconf import OmegaConf

import benchmark
import conf
from benchmark.checking import small_models
from benchmark.checking.small_models import words
from benchmark.settings.configuration import options
from benchmark.settings.defaults import whole
from benchmark.types import Example

OTHERS = {
    "universal_trigger": "a search",
    "importances": "reads a file of its model: `test_circuits.py` holds it to the same",
    "scores": "reads a file of its examples: `test_given_scores.py` holds it to the same",
}
METHODS = [name for name in options("methods") if name not in OTHERS]
NAMES_OF_COMPONENTS = (
    "activation_patching", "component_flow", "eap", "eap_clean_corrupted", "eap_ig", "eap_ig_activations", "relp",
)  # fmt: skip
HEADS_ONLY = ("taylor", "accuracy_difference", "random_components", *NAMES_OF_COMPONENTS)
COSTLY = ("activation_patching", "eap_ig_activations", "shapley_sampling")
"""Methods of which all checks take many seconds."""
CHEAPER = {"steps": 3, "n_steps": 3, "samples": 8, "n_samples": 8}
"""Settings, wherever a method's YAML has them, that need not be large for the contract to be tested."""


def cheap(name):
    """Overrides that make a method's YAML cheap."""

    def walk(node, path):
        for key, value in node.items():
            if isinstance(value, dict):
                yield from walk(value, [*path, key])
            elif key in CHEAPER and isinstance(value, int) and value > CHEAPER[key]:
                yield f"{'.'.join([*path, key])}={CHEAPER[key]}"

    settings = OmegaConf.load(Path(conf.__file__).parent / "methods" / f"{name}.yaml")[name]
    return list(walk(whole(OmegaConf.to_container(settings)), []))


@cache
def built(name, *, cheaply=True):
    """The method; one that counts words has seen some."""
    method = benchmark.build(f"methods/{name}", *(cheap(name) if cheaply else ()))
    if name == "frequency":
        return method.fit([Example(str(i), " ".join(words(range(5, 5 + i))), 0) for i in range(50)])
    return method


@cache
def place(family):
    """A small model of the family with its inputs, made once in a process."""
    return small_models.place(family)
