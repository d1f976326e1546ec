"""Scenarios from files, TOML text, dictionaries and dataclasses."""

from __future__ import annotations

import dataclasses
import decimal
import numbers
import os
from pathlib import Path
from typing import Any, Iterable, Mapping, Union

from . import _core

__all__ = ["Scenario", "ScenarioLike", "arguments", "load"]

Scenario = _core.Scenario
"""A checked scenario; :func:`whimbrel.load` creates it."""

ScenarioLike = Union[str, "os.PathLike[str]", Mapping[str, Any], _core.Scenario]
"""A scenario: the path of a file, TOML text (with a line break), a dictionary, a dataclass, or a loaded :class:`Scenario`."""


def load(scenario: ScenarioLike, /, *, seeds: int | None = None, seed: int | None = None, **overrides: Any) -> Scenario:
    """Reads and checks a scenario. Nothing is run.

    Parameters
    ----------
    scenario
        The path of a file; TOML text, which contains a line break; a dictionary or a dataclass with the keys of a scenario file; or a
        loaded scenario, to which the overrides are added. Relative paths in a text or a dictionary start at the current folder.
    seeds
        Runs of each point.
    seed
        The first seed.
    **overrides
        Values of fields, as of ``--set`` of the command: dotted paths, in which members of arrays are named by their names. Write
        ``**{"link.wifi.loss.rate": 0.01}`` or ``link__wifi__loss__rate=0.01``. A field in the sweep then has only this value. The value
        of ``sweep`` is a mapping of dotted paths to lists; it replaces the scenario's sweep.

    Raises
    ------
    ScenarioError
        With all problems, each with file, line, column and a remedy.
    """
    changes = arguments(overrides, seeds=seeds, seed=seed)
    if isinstance(scenario, _core.Scenario):
        if not changes:
            return scenario
        return _core.Scenario.from_text(scenario.path, scenario.text, [*scenario.changes, *changes])
    if isinstance(scenario, Mapping) or (dataclasses.is_dataclass(scenario) and not isinstance(scenario, type)):
        return _core.Scenario.from_text(Path("<scenario>"), to_toml(scenario), changes)
    if isinstance(scenario, str) and "\n" in scenario:
        return _core.Scenario.from_text(Path("<text>"), scenario, changes)
    if isinstance(scenario, (str, os.PathLike)):
        return _core.Scenario.from_file(Path(scenario), changes)
    kinds = "a path, TOML text, a dictionary, a dataclass or a Scenario"
    raise TypeError(f"{type(scenario).__name__} given, allowed is {kinds}")


def arguments(overrides: Mapping[str, Any], *, seeds: int | None = None, seed: int | None = None) -> list[str]:
    """Returns overrides as the arguments of ``--set``, in their order; seeds last, as the command orders them."""
    changes = []
    for key, value in overrides.items():
        path = key.replace("__", ".")
        changes.append(f"{path}={toml_value(plain(value))}")
    changes += [f"{name}={int(value)}" for name, value in (("seeds", seeds), ("seed", seed)) if value is not None]
    return changes


def plain(value: Any) -> Any:
    """Returns a value made of plain Python types. Absent members of a dataclass or a dictionary (None) are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name.rstrip("_"): plain(item) for name, item in fields if item is not None}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        # Not `str(value)`, which is the name of a member of an enumeration.
        return str.__str__(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        # A scalar of numpy, which may be a float as well. One of its types has no counterpart in Python.
        item = value.item()
        return float(item) if type(item) is type(value) else plain(item)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (numbers.Real, decimal.Decimal)):
        return float(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"{value!r} cannot be written as a value of a scenario: a number, a text, a list or a table is expected")


def to_toml(scenario: Any) -> str:
    """Returns a dictionary or a dataclass as the text of a scenario file."""
    import tomli_w

    return tomli_w.dumps(plain(scenario))


def toml_value(value: Any) -> str:
    """Returns a plain value as TOML in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{quoted(key)} = {toml_value(item)}" for key, item in value.items()) + " }"
    return "[" + ", ".join(toml_value(item) for item in value) + "]"


def quoted(text: str) -> str:
    """Returns a text as a basic string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char >= " " and char != "\x7f" else f"\\u{ord(char):04x}" for char in escaped) + '"'
