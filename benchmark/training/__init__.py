"""Making a checkpoint: fine-tuning, and the tiny model of the planted task."""
