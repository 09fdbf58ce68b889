"""What explanations make of planted features."""
