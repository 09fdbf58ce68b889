"""What methods share; every other file beside this folder is a method."""
