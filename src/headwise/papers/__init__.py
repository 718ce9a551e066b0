"""The five papers as data: every figure and table by name, the run that makes it, and what it is said to show."""

from headwise.papers import brunner2019, brunner2020, clark2019, kobayashi2020, yang
from headwise.papers.claim import Claim, Evidence, Item, Job, Judged, Paper, Training, judge

PAPERS = {module.PAPER.name: module.PAPER for module in (clark2019, brunner2019, brunner2020, kobayashi2020, yang)}

__all__ = ["PAPERS", "Claim", "Evidence", "Item", "Job", "Judged", "Paper", "Training", "judge"]
