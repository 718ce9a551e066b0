"""One text through one model, as data: what was captured, and every quantity of it by name.

What draws or shows a trace stands above and registers itself in `WAYS`.
"""

from headwise.traces.long import Keeper, LongTrace, Top, TopMaps, top_of
from headwise.traces.trace import Alternative, NullSpace, Rivals, Trace
from headwise.traces.ways import WAYS

__all__ = ["WAYS", "Alternative", "Keeper", "LongTrace", "NullSpace", "Rivals", "Top", "TopMaps", "Trace", "top_of"]
