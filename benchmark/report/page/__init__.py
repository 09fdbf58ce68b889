"""The comparison as one page: a file of its own that needs no network, for people who read rather than compute.

`document` puts it together from `assets/` (markup, styles and scripts, inlined as they are) and from data in columns that
`overview`, `contrasts`, `showcase`, `studies` and `provenance` take from run folders and analyses.
"""
