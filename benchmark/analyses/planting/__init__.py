"""What is planted into data, and what explanations make of it."""
