"""Figures: a table in, an Altair chart out. Nothing here knows a model or a tensor."""
