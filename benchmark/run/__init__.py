"""A comparison while it is computed: task, model and examples; cells; explaining; testing; what is kept after a kill."""
