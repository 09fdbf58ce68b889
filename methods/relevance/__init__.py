"""Relevance propagation: the mode, its rules and the named rule sets."""

from methods.relevance.propagation import relevance_pass
from methods.relevance.rule_sets import RULE_SETS, RuleSet, rule_set

__all__ = ["RULE_SETS", "RuleSet", "relevance_pass", "rule_set"]
