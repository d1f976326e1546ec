"""Sweeps on a Dask cluster: on this machine, or on any scheduler.

Dask distributes the runs; this package decides what to run next, stores what arrives and knows how to continue.
"""

from ._plan import Plan, plan
from ._precision import Precision
from ._sweep import SweepError, SweepReport, sweep

__all__ = ["Plan", "Precision", "SweepError", "SweepReport", "plan", "sweep"]
