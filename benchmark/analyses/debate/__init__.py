"""Is attention explanation? Analyses of both sides of the debate (docs/protocols.md, section 16)."""
