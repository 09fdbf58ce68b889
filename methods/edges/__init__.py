"""Edge scores: one file each, `(model, batch, target) -> L tensors [B H T T]`."""
