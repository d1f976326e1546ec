"""Exceptions of the package. The native part creates them by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence

__all__ = ["FolderError", "Problem", "RunError", "ScenarioError", "WhimbrelError"]


@dataclass(frozen=True)
class Problem:
    """A problem in a scenario."""

    place: Optional[str]
    """The file as the caller named it, or the override."""
    line: Optional[int]
    """The line in the file, from 1; none for an override."""
    column: Optional[int]
    """The column, in characters, from 1."""
    field: str
    """The field as a dotted path, such as ``link.wifi.rate``; empty for the scenario as a whole."""
    message: str
    """The given value and the allowed ones."""
    hint: Optional[str]
    """A remedy, if known."""


class WhimbrelError(Exception):
    """Base class of the exceptions of this package."""


class ScenarioError(WhimbrelError, ValueError):
    """A scenario cannot be read or is not valid. The message is that of ``whimbrel check``: all problems with their places."""

    def __init__(self, message: str, problems: Sequence[tuple[Any, ...]] = ()) -> None:
        super().__init__(message)
        self.problems: list[Problem] = [problem if isinstance(problem, Problem) else Problem(*problem) for problem in problems]

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.problems))


class RunError(WhimbrelError, RuntimeError):
    """A run failed, or its results could not be written."""


class FolderError(WhimbrelError, OSError):
    """A folder cannot be used for results. Nothing was run."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


# Tracebacks show the names that programs use.
for _class in (Problem, WhimbrelError, ScenarioError, RunError, FolderError):
    _class.__module__ = "whimbrel"
del _class
