"""Is attention explanation? Both sides of the debate, as analyses of one model."""
