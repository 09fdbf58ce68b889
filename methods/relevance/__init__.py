"""Relevance propagation: the mode, its rules and the named rule sets."""

from methods.relevance.propagation import relevance_pass, relevances
from methods.relevance.rule_sets import RULE_SETS, Conservative, RuleName, Rules, RuleSet, rule_set

__all__ = ["RULE_SETS", "Conservative", "RuleName", "RuleSet", "Rules", "relevance_pass", "relevances", "rule_set"]
