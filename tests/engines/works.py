"""Workers without a model, and what they compute."""

from benchmark.engines.crew import Crew, Shard
from benchmark.engines.ray_engine import Ray, results_of


def crew(**settings) -> Crew:
    """Workers without a model."""
    return Crew(Ray(**settings).terms, lambda: None)


def computed(workers: Crew, work, count: int) -> list:
    """The results of so many shards of one batch each, whose numbers stand for the batches."""
    from ray.cloudpickle import dumps

    shards = [Shard(repr(work), dumps(work), dumps([(number, ())]), number) for number in range(count)]
    for shard in shards:
        workers.submit(shard)
    return [result for shard in shards for result in results_of(shard.answer.result())]
