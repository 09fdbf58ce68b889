"""The doors: what a person types, from the words of a command line to the lines that answer them."""
