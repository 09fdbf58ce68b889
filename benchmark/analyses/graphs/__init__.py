"""Attribution graphs beside the best possible, random and annotated ones."""
