"""One engine for what reinterprets a model's operations: relevance, DeepLIFT's multipliers, and vectors in parts.

`operations` says of what kind each operation is, `mode` calls the handler of its kind; the other modules are handlers and
the rules that they apply.
"""
