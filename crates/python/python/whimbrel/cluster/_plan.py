"""What a large sweep would cost: measured on this machine, extrapolated."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from .. import _core
from .._errors import RunError
from .._scenario import ScenarioLike, load
from ._partitions import Partitions
from ._task import Spec, run_batch

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """An estimate of a sweep."""

    runs: int
    cores: int
    run_s: float
    """Time of a run on one core, mean over a sample."""
    task_s: float
    """Time that the scheduler and the client need for a task."""
    store_s: float
    """Time that the client needs to store a run."""
    batch: int
    """Runs in a task."""
    line_bytes: int
    """Bytes of a run in ``runs.jsonl``."""

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return -(-self.runs // self.batch)

    @property
    def cpu_s(self) -> float:
        """Time in runs, summed over cores."""
        return self.runs * self.run_s

    @property
    def client_s(self) -> float:
        """Time of what only one process does: handing out tasks, storing runs."""
        return self.tasks * self.task_s + self.runs * self.store_s

    @property
    def wall_s(self) -> float:
        """Duration of the sweep: that of the runs, or of the client if that is longer, and the last tasks."""
        return max(self.cpu_s / self.cores, self.client_s) + self.batch * self.run_s

    @property
    def efficiency(self) -> float:
        """Share of the cores' time that is spent in runs."""
        return self.cpu_s / (self.wall_s * self.cores)

    def __str__(self) -> str:
        return (
            f"{self.runs} runs of {1e3 * self.run_s:.1f} ms on {self.cores} cores: {duration(self.wall_s)}, efficiency {self.efficiency:.0%}\n"
            f"  runs         {duration(self.cpu_s)} of processor time\n"
            f"  client       {duration(self.client_s)}: {self.tasks} tasks of {self.batch} runs at {1e3 * self.task_s:.2f} ms, "
            f"{1e3 * self.store_s:.3f} ms to store a run\n"
            f"  runs.jsonl   {self.runs * self.line_bytes / 1e9:.1f} GB"
        )


def duration(seconds: float) -> str:
    """Returns a time span in words."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def plan(
    scenario: ScenarioLike,
    /,
    *,
    runs: Optional[int] = None,
    cores: int = 1000,
    sample: int = 20,
    batch_s: float = 1.0,
    client: Any = None,
    **overrides: Any,
) -> Plan:
    """Measures a sample of a scenario's runs and the cost of a task, and returns what ``runs`` runs on ``cores`` cores would take.

    ``client``: a ``distributed.Client`` whose overhead is measured; by default that of a scheduler and a worker in this process.
    """
    loaded = load(scenario, **overrides)
    everything = loaded.runs
    chosen = sorted({int(k * everything / sample) for k in range(sample)} & set(range(everything)))
    spec = Spec.of(loaded)
    done = [run_batch(spec, [number])[0] for number in chosen]
    wrong = next((one for one in done if one.line is None), None)
    if wrong is not None:
        raise RunError(f"run {wrong.number} failed: {wrong.error}")
    run_s = statistics.fmean(one.seconds for one in done)
    lines = [one.line for one in done if one.line]
    count = everything if runs is None else runs
    batch = max(1, min(1000, int(batch_s / max(run_s, 1e-4))))
    return Plan(
        runs=count,
        cores=cores,
        run_s=run_s,
        task_s=task_seconds(client, batch),
        store_s=store_seconds(loaded, lines),
        batch=batch,
        line_bytes=int(statistics.fmean(map(len, lines))),
    )


def nothing(size: int) -> bytes:
    """A task that only returns bytes, as many as its runs would."""
    return bytes(size)


def task_seconds(client: Any, batch: int) -> float:
    """Returns the time of a task without its runs: submitted, done and gathered."""
    from distributed import Client, as_completed

    own = None
    if client is None:
        own = client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=40)
    try:
        client.submit(nothing, 1, pure=False).result()
        count, start = 300, time.perf_counter()
        futures = [client.submit(nothing, 2000 * batch, pure=False) for _ in range(count)]
        for future in as_completed(futures):
            future.result()
        return (time.perf_counter() - start) / count
    finally:
        if own is not None:
            own.close()


def store_seconds(scenario: _core.Scenario, lines: list[str]) -> float:
    """Returns the time that the client needs for a run: journal, partition, final files. It is the slope between two numbers of runs."""
    few, many = 50, 550
    copies = []
    for number in range(many):
        run = json.loads(lines[number % len(lines)])
        # Recorded files are left out.
        copies.append(json.dumps({**run, "run": number, "files": [], "cut": []}))
    return max(stored(scenario, copies) - stored(scenario, copies[:few]), 0.0) / (many - few)


def stored(scenario: _core.Scenario, lines: list[str]) -> float:
    """Returns the time to store runs in a folder."""
    with tempfile.TemporaryDirectory(prefix="whimbrel-") as scratch:
        folder = _core.Folder(Path(scratch), scenario, [], False, False)
        partitions = Partitions(Path(scratch), scenario)
        partitions.known()
        start = time.perf_counter()
        for line in lines:
            folder.add(line, [])
        partitions.add(lines)
        partitions.flush()
        folder.finish("interrupted")
        folder.close()
        return time.perf_counter() - start
