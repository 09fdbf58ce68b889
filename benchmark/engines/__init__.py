"""Where batches are computed: in this process, or in workers of a Ray cluster; the numbers are the same."""
