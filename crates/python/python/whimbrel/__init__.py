"""Whimbrel: a multi-homed SCTP in a deterministic network simulator, for experiments in Python.

    >>> import whimbrel
    >>> results = whimbrel.run("examples/lossy-link.toml", seeds=10)
    >>> print(results)
    >>> frame = results.to_pandas()

:func:`run` runs a scenario on this machine, :func:`sweep` on a Dask cluster; :mod:`whimbrel.stats` has intervals and comparisons,
:mod:`whimbrel.plot` figures. The same scenario and seed give the same results as the command ``whimbrel run``, byte for byte.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._core import __version__
from ._errors import FolderError, Problem, RunError, ScenarioError, WhimbrelError
from ._info import Metric, Part, Scheme, metrics, parts, schema, schemes
from ._results import Results, open_results
from ._run import Claim, StudyReport, run, study
from ._scenario import Scenario, ScenarioLike, load

if TYPE_CHECKING:
    from . import plot, stats
    from .cluster import SweepReport, plan, sweep

__all__ = [
    "Claim",
    "FolderError",
    "Metric",
    "Part",
    "Problem",
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "ScenarioLike",
    "Scheme",
    "StudyReport",
    "SweepReport",
    "WhimbrelError",
    "__version__",
    "load",
    "metrics",
    "open_results",
    "parts",
    "plan",
    "plot",
    "run",
    "schema",
    "schemes",
    "stats",
    "study",
    "sweep",
]

# Modules with dependencies of their own are imported when they are used.
_LATER = {"sweep": ".cluster", "plan": ".cluster", "SweepReport": ".cluster"}


def __getattr__(name: str) -> Any:
    if name in ("plot", "stats"):
        try:
            return import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            raise ImportError(f"whimbrel.{name} needs {error.name}: pip install 'whimbrel[{name}]'") from error
    if name in _LATER:
        return getattr(import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
