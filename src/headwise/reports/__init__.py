"""The main job: every study that applies to a model and a corpus, in as few passes as possible, on one page."""

from headwise.reports.make import report

__all__ = ["report"]
