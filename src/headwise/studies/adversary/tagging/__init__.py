"""Sequence tagging in the small: data, score, a tagger of many members, its adversaries, frozen-attention probes."""
