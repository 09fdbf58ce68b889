"""Hydra configurations: one YAML per option of a group."""
