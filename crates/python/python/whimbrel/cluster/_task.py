"""What a worker does: runs of a scenario by their numbers. Everything a task needs is in its arguments, so that any worker can do it,
and do it again after another one died."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple, Optional

from .. import _core
from .._errors import ScenarioError

__all__ = ["Done", "Spec", "run_batch"]


class Spec(NamedTuple):
    """A scenario as it travels to workers."""

    path: str
    """Absolute path of the file; relative names in the scenario start at its folder."""
    text: str
    changes: tuple[str, ...]
    hash: str
    inputs: tuple[tuple[str, str], ...]
    """Files that the scenario names, with their SHA-256."""
    version: str

    @staticmethod
    def of(scenario: _core.Scenario) -> "Spec":
        path = scenario.path.absolute()
        own = _core.Scenario.from_text(path, scenario.text, scenario.changes)
        inputs = tuple((str(name), digest) for name, digest in own.inputs)
        return Spec(str(path), scenario.text, tuple(scenario.changes), scenario.hash, inputs, _core.__version__)


class Done(NamedTuple):
    """A run, finished or failed."""

    number: int
    line: Optional[str]
    """Its line of ``runs.jsonl``; none if it failed."""
    files: list[tuple[str, bytes]]
    """Its recorded files."""
    error: Optional[str]
    seconds: float
    """Time on the worker, without the transfer."""
    worker: str


_lock = threading.Lock()
_loaded: dict[str, _core.Scenario] = {}


def scenario_of(spec: Spec) -> _core.Scenario:
    """Returns the scenario, checked once in each process."""
    with _lock:
        if spec.hash in _loaded:
            return _loaded[spec.hash]
        here = f"worker on {socket.gethostname()}"
        if spec.version != _core.__version__:
            raise RuntimeError(f"{here} has whimbrel {_core.__version__}, the sweep needs {spec.version}")
        try:
            scenario = _core.Scenario.from_text(Path(spec.path), spec.text, list(spec.changes))
        except ScenarioError as error:
            hint = "files that a scenario names must have the same paths on all workers" if spec.inputs else None
            raise RuntimeError(f"{here}: {error}" + (f"\n  hint: {hint}" if hint else "")) from None
        for (name, digest), (_, wanted) in zip(scenario.inputs, spec.inputs):
            if digest != wanted:
                raise RuntimeError(f"{here} has another content in {name} than the machine that started the sweep")
        if scenario.hash != spec.hash:
            raise RuntimeError(f"{here} reads another scenario from the same text")
        _loaded.clear()
        _loaded[spec.hash] = scenario
        return scenario


def run_batch(spec: Spec, numbers: list[int]) -> list[Done]:
    """Does runs by their numbers. A run that fails has its message; the others are not affected."""
    scenario = scenario_of(spec)
    if len(numbers) > 1:
        try:
            return run_some(scenario, numbers)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # One of them failed (a panic of the simulator is not an Exception): they are done again, one at a time.
            pass
    done = []
    for number in numbers:
        start = time.perf_counter()
        try:
            done += run_some(scenario, [number])
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # A panic of the simulator is not an Exception.
            message = f"{type(error).__name__}: {error}"
            done.append(Done(number, None, [], message, time.perf_counter() - start, socket.gethostname()))
    return done


def run_some(scenario: _core.Scenario, numbers: list[int]) -> list[Done]:
    """Does runs and reads what they recorded."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="whimbrel-") as scratch:
        folder = Path(scratch)
        runs = scenario.run(1, scratch=folder, only=numbers)
        files = {number: [(name, (folder / name).read_bytes()) for name in names] for number, names in runs.recorded()}
    seconds = (time.perf_counter() - start) / max(len(runs), 1)
    host = socket.gethostname()
    return [Done(number, line, files[number], None, seconds, host) for number, line in zip(runs.numbers, runs.lines())]
