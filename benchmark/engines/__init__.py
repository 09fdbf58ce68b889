"""Where the batches of a comparison are computed: in this process, or in workers of a Ray cluster; the numbers are the same."""
