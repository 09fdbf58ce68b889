"""Adversarial triggers: words at relative positions of a text that change a prediction (Hao 2021, "Adversarial Attack")."""
