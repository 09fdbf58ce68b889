"""What layers know: confusion of attention, and diagnostic classifiers of hidden states."""
