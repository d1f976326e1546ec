"""What there is: metrics, schemes, parts, the schema of scenario files."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from . import _core

__all__ = ["Metric", "Part", "Scheme", "metrics", "parts", "schema", "schemes"]


class Metric(NamedTuple):
    """A metric of a run or of one of its flows."""

    name: str
    label: str
    definition: str
    of_run: bool
    """Whether it describes the run as a whole and is the same for all its flows."""


class Scheme(NamedTuple):
    """A named bundle of parts."""

    name: str
    summary: str
    source: str

    @property
    def text(self) -> str:
        """The scheme as scenario text."""
        return _core.scheme_text(self.name) or ""


class Part(NamedTuple):
    """A replaceable part of a scheme."""

    family: str
    name: str
    summary: str
    source: str


def metrics() -> list[Metric]:
    """Returns all metrics, in the order of columns."""
    return [Metric(*metric) for metric in _core.metrics()]


def schemes() -> list[Scheme]:
    """Returns all schemes."""
    return [Scheme(*scheme) for scheme in _core.schemes()]


def parts() -> list[Part]:
    """Returns all discriminators, windows, distributions, couplings and path policies."""
    return [Part(*part) for part in _core.parts()]


def schema() -> dict[str, Any]:
    """Returns the JSON schema of scenario files."""
    parsed: dict[str, Any] = json.loads(_core.schema())
    return parsed
