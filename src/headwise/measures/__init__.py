"""Pure functions of captured attention, one file an idea; users reach them by name through these registries."""

from headwise.quantities import ATTENTION, MIXING

__all__ = ["ATTENTION", "MIXING"]
