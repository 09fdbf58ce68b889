"""Checks of an explainer, one's own or somebody else's: is it what it says that it is, and does it do no harm?"""
