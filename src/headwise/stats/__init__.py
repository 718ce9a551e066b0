"""Mergeable statistics in float64: what a study folds its numbers into, however many shards there are."""

from headwise.stats.bins import NORMS, WEIGHTS, Bins, LinearBins, OctaveBins
from headwise.stats.cells import Cells, Groups, LastAxis, ravel
from headwise.stats.covariance import Covariance
from headwise.stats.histogram import Histogram
from headwise.stats.moments import Moments
from headwise.stats.pieces import Pieces
from headwise.stats.rank import RankHistogram
from headwise.stats.reservoir import Reservoir
from headwise.stats.statistic import Statistic, merge, pack, unpack
from headwise.stats.sums import Sums
from headwise.stats.top import Top

__all__ = [
    "NORMS",
    "WEIGHTS",
    "Bins",
    "Cells",
    "Covariance",
    "Groups",
    "Histogram",
    "LastAxis",
    "LinearBins",
    "Moments",
    "OctaveBins",
    "Pieces",
    "RankHistogram",
    "Reservoir",
    "Statistic",
    "Sums",
    "Top",
    "merge",
    "pack",
    "ravel",
    "unpack",
]
