"""What a comparison would take, measured on a few of its examples before it is run."""
