"""The client of a sweep: hands runs to a Dask cluster, stores what arrives, continues after crashes."""

from __future__ import annotations

import json
import os
import queue
import sys
import time
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import _core
from .._errors import RunError
from .._progress import Progress, bar
from .._results import Results, open_results
from .._run import command, processors
from .._scenario import ScenarioLike, load
from ._interrupts import noted_interrupts
from ._partitions import Partitions
from ._precision import Precision
from ._task import Done, Spec, run_batch

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["SweepError", "SweepReport", "sweep"]

FAILURES = "failures.jsonl"
CONNECT_S = 10.0
"""Time to wait for a scheduler."""
FETCHES = 3
"""Times that a run is done if its result cannot be fetched from the worker."""

class SweepError(RunError):
    """A sweep ended before its runs were complete. Finished runs are kept, and ``resume=True`` continues."""


@dataclass
class SweepReport:
    """The outcome of a sweep."""

    folder: Path
    runs: int
    """Finished runs in the folder."""
    new: int
    """Runs that this call did."""
    failures: list[dict[str, Any]] = field(default_factory=list)
    """Runs that failed: number, point, seed, message."""
    seeds: list[int] = field(default_factory=list)
    """Finished runs of each point."""
    seconds: float = 0.0
    busy_s: float = 0.0
    """Time that workers spent in runs, summed."""

    @property
    def results(self) -> Results:
        """The results, read from the folder."""
        return open_results(self.folder)


def sweep(
    scenario: ScenarioLike,
    /,
    *,
    out: Union[str, "os.PathLike[str]"],
    scheduler: Union[str, "Client", Any, None] = None,
    workers: Optional[int] = None,
    seeds: Optional[int] = None,
    seed: Optional[int] = None,
    replace: bool = False,
    resume: bool = False,
    precision: Optional[Precision] = None,
    batch_s: float = 1.0,
    patience_s: float = 30.0,
    progress: Progress = None,
    **overrides: Any,
) -> SweepReport:
    """Runs every point of a scenario with every seed on a Dask cluster, into a folder of results.

    The files are those of ``whimbrel run --out``, byte for byte. Beside them, ``partitions/*.parquet`` have the rows of finished runs as
    they arrive. If the client, the scheduler or a worker dies, ``resume=True`` (or ``whimbrel run --resume``) continues; no finished run
    is repeated. One process at a time writes to a folder: a second one gets a :class:`FolderError`. The status in ``manifest.json`` is
    "complete", "stopped" (``precision`` made more runs unnecessary), "failed" or "interrupted".

    Parameters
    ----------
    scenario, seeds, seed, **overrides
        As of :func:`whimbrel.load`.
    out, replace, resume
        The folder of results; ``resume`` starts a new sweep if it is empty.
    scheduler
        The address of a scheduler (``"tcp://10.0.0.1:8786"``), a ``distributed.Client`` or a cluster, for example of dask-jobqueue. Default:
        a cluster on this machine with ``workers`` processes, by default one for each processor. A script that uses it needs
        ``if __name__ == "__main__":``, because the processes import it.
    precision
        Ends the runs of a point when the interval of a metric is narrow enough; ``seeds`` is then the maximum.
    batch_s
        Duration of a task in seconds. Short runs are sent in batches.
    patience_s
        Time that a lost scheduler has to come back at the same address, in seconds.
    """
    if replace and resume:
        raise ValueError("replace=True deletes the earlier results, resume=True continues them: choose one")
    if not batch_s > 0:
        raise ValueError(f"batch_s: {batch_s} given, allowed is more than 0 seconds")
    processors(workers)
    if find_spec("distributed") is None:
        raise ImportError("sweeps need Dask: pip install 'whimbrel[sweep]'")
    loaded = load(scenario, seeds=seeds, seed=seed, **overrides)
    spec = Spec.of(loaded)
    folder = Path(out)
    with ExitStack() as open_things:
        # A folder is made only if there is a scheduler, and processes of this machine are started only if the folder is fine.
        client = open_things.enter_context(connected(scheduler, workers)) if scheduler is not None else None
        opened = _core.Folder(folder, loaded, command(loaded), replace, resume)
        open_things.callback(opened.close)
        state = State(folder, opened, loaded, precision)
        if client is None:
            client = open_things.enter_context(connected(None, workers))
        return Loop(client, spec, state, batch_s, patience_s).run(progress)


class State:
    """What is done and what is to be done."""

    def __init__(self, path: Path, folder: _core.Folder, scenario: _core.Scenario, precision: Optional[Precision]) -> None:
        self.path, self.folder, self.scenario, self.precision = path, folder, scenario, precision
        self.points, self.seeds = len(scenario.points), scenario.seeds
        self.stages = precision.stages(self.seeds) if precision else [self.seeds]
        finished = folder.finished()
        self.done: set[int] = set(finished)
        self.failed: dict[int, dict[str, Any]] = {}
        self.values: dict[int, Optional[float]] = {}
        self.stage = [0] * self.points
        self.missing = [0] * self.points
        """Runs of the current stage of each point that are not finished."""
        self.pending: deque[int] = deque()
        self.all = 0
        self.partitions = Partitions(path, scenario)
        lost = sorted(self.done - self.partitions.known())
        if lost:
            self.partitions.add(folder.read(lost).lines())
        self.partitions.flush()
        if precision and finished:
            runs = folder.read(finished)
            self.values.update(zip(runs.numbers, runs.values(precision.metric)))
        (path / FAILURES).unlink(missing_ok=True)
        for point in range(self.points):
            self.enter(point, 0)

    def enter(self, point: int, first: int) -> None:
        """Adds the runs of the current stage of a point, from this number of seeds; stages that are complete are judged."""
        while True:
            until = self.stages[self.stage[point]]
            numbers = [point * self.seeds + number for number in range(first, until)]
            self.all += len(numbers)
            missing = [number for number in numbers if number not in self.done and number not in self.failed]
            if missing:
                self.missing[point] = len(missing)
                self.pending.extend(missing)
                return
            if not self.advances(point):
                return
            first = until

    def advances(self, point: int) -> bool:
        """Returns whether a point whose stage is complete needs another one."""
        stage = self.stage[point]
        if self.precision is None or stage + 1 >= len(self.stages):
            return False
        numbers = (point * self.seeds + number for number in range(self.stages[stage]))
        if self.precision.is_reached([self.values.get(number) for number in numbers]):
            return False
        self.stage[point] += 1
        return True

    def settle(self, number: int) -> None:
        """A run is finished or failed."""
        point = number // self.seeds
        self.missing[point] -= 1
        if self.missing[point] == 0:
            until = self.stages[self.stage[point]]
            if self.advances(point):
                self.enter(point, until)

    def finish(self, batch: list[Done]) -> None:
        """Stores runs that arrived: the journal first, then everything that follows from it."""
        lines = []
        for done in batch:
            if done.number in self.done or done.number in self.failed:
                continue
            if done.line is None:
                self.fail(done.number, done.error or "no message", done.worker)
                continue
            self.folder.add(done.line, done.files)
            self.done.add(done.number)
            if self.precision:
                value = json.loads(done.line)["values"].get(self.precision.metric)
                self.values[done.number] = value
            lines.append(done.line)
            self.settle(done.number)
        self.partitions.add(lines)

    def fail(self, number: int, message: str, worker: str = "") -> None:
        """Stores why a run failed."""
        point, of = divmod(number, self.seeds)
        failure = {
            "run": number,
            "point": point,
            "seed": self.scenario.seed + of,
            "params": self.scenario.points[point],
            "worker": worker,
            "message": message,
        }
        self.failed[number] = failure
        with open(self.path / FAILURES, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(failure) + "\n")
        self.settle(number)

    def counts(self) -> list[int]:
        """Returns the finished runs of each point."""
        counts = [0] * self.points
        for number in self.done:
            counts[number // self.seeds] += 1
        return counts


class Loop:
    """Keeps the workers busy until nothing is pending."""

    def __init__(self, client: "Client", spec: Spec, state: State, batch_s: float, patience_s: float) -> None:
        self.client, self.spec, self.state, self.batch_s, self.patience_s = client, spec, state, batch_s, patience_s
        self.arrived: queue.Queue[Any] = queue.Queue()
        self.active: dict[Any, list[int]] = {}
        self.unfetched: Counter[int] = Counter()
        """How often the result of a run could not be fetched."""
        self.alone: set[int] = set()
        """Runs of a batch whose workers died: each is done again by itself."""
        self.suspects: deque[int] = deque()
        """Runs whose workers died, perhaps because of other runs: each is done again when nothing else is active."""
        self.isolated: set[int] = set()
        self.mean_s: Optional[float] = None
        self.busy_s = 0.0
        self.new = 0
        self.threads, self.asked = 1, 0.0
        self.start = time.monotonic()

    def run(self, progress: Progress) -> SweepReport:
        """Runs until everything is done, and completes the folder."""
        state = self.state
        update, close = bar(progress)
        status = "interrupted"
        try:
            with noted_interrupts() as check:
                while state.pending or self.active or self.suspects:
                    check()
                    self.fill()
                    self.take()
                    state.partitions.flush_if_due()
                    if update is not None:
                        done = len(state.done) + len(state.failed)
                        update(min(done / max(state.all, 1), 1.0), done, state.all)
            status = "failed" if state.failed else "complete" if len(state.done) >= state.scenario.runs else "stopped"
        finally:
            close()
            for future in list(self.active):
                cancel(future)
            state.partitions.flush()
            state.folder.finish(status)
        failures = [state.failed[number] for number in sorted(state.failed)]
        seconds = time.monotonic() - self.start
        return SweepReport(state.path, len(state.done), self.new, failures, state.counts(), seconds, self.busy_s)

    def fill(self) -> None:
        """Submits tasks: a few for each thread of the cluster, so that none waits for the client."""
        now = time.monotonic()
        if now - self.asked > 1:
            try:
                self.threads = max(sum(self.client.nthreads().values()), 1)
            except Exception:  # The scheduler is away; `take` notices it.
                pass
            self.asked = now
        while self.state.pending and len(self.active) < 3 * self.threads:
            self.submit(self.batch())
        if self.suspects and not self.active:
            number = self.suspects.popleft()
            self.isolated.add(number)
            self.submit([number])

    def submit(self, numbers: list[int]) -> None:
        try:
            future = self.client.submit(run_batch, self.spec, numbers, pure=False, retries=0)
        except Exception:
            if self.client.status == "running":
                raise
            # The client has given up the scheduler since the last look.
            self.again(numbers)
            self.wait_for_scheduler()
            return
        self.active[future] = numbers
        future.add_done_callback(self.arrived.put)

    def batch(self) -> list[int]:
        """Returns the runs of the next task: as many as last for the duration of a task, fewer at the end."""
        pending = self.state.pending
        if pending[0] in self.alone:
            return [pending.popleft()]
        size = 1 if self.mean_s is None else int(self.batch_s / max(self.mean_s, 1e-4))
        size = max(1, min(size, 1000, len(pending) // (4 * self.threads)))
        numbers = [pending.popleft()]
        while pending and len(numbers) < size and pending[0] not in self.alone:
            numbers.append(pending.popleft())
        return numbers

    def take(self) -> None:
        """Takes what arrived. Waits for it, and for a lost scheduler."""
        try:
            future = self.arrived.get(timeout=0.5)
        except queue.Empty:
            if self.client.status not in ("running", "newly-created"):
                self.wait_for_scheduler()
            return
        numbers = self.active.pop(future, None)
        if numbers is None:
            return
        if future.status == "finished":
            try:
                batch = future.result(timeout=60)
            except Exception as error:  # The worker died with the result.
                self.fetch_failed(numbers, error)
                return
            self.store(batch)
        elif future.status == "error":
            self.failed(numbers, future.exception())
        else:
            self.again(numbers)
            if self.client.status != "running":
                self.wait_for_scheduler()

    def store(self, batch: list[Done]) -> None:
        """Stores a task's runs, and learns how long a run takes."""
        self.state.finish(batch)
        seconds = [done.seconds for done in batch]
        self.busy_s += sum(seconds)
        self.new += sum(done.line is not None for done in batch)
        mean = sum(seconds) / len(seconds)
        self.mean_s = mean if self.mean_s is None else 0.7 * self.mean_s + 0.3 * mean

    def failed(self, numbers: list[int], error: Optional[BaseException]) -> None:
        """A task failed as a whole: its worker died several times, or no worker can read the scenario."""
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            message = str(error)
            if "deserialization" in message:
                message = f"the scheduler or a worker cannot load whimbrel {_core.__version__}\n  hint: install the same version there"
            raise SweepError(f"{message}\n  {self.so_far()}") from error
        if len(numbers) > 1:
            self.alone.update(numbers)
            self.again(numbers)
        elif numbers[0] not in self.isolated:
            self.suspects.extend(numbers)
        else:
            self.state.fail(numbers[0], "the process of its worker died each time it was run (out of memory?)", str(error.last_worker))

    def fetch_failed(self, numbers: list[int], error: Exception) -> None:
        """The result of a task is lost: its runs are done again, each by itself, a limited number of times."""
        if self.client.status != "running":
            self.again(numbers)
            return
        self.unfetched.update(numbers)
        self.alone.update(numbers)
        self.again([number for number in numbers if self.unfetched[number] < FETCHES])
        for number in numbers:
            if self.unfetched[number] >= FETCHES:
                self.state.fail(number, f"its result could not be fetched {FETCHES} times: {type(error).__name__}: {error}")

    def again(self, numbers: list[int]) -> None:
        self.isolated.difference_update(numbers)
        self.state.pending.extendleft(reversed(numbers))

    def wait_for_scheduler(self) -> None:
        """Waits for a scheduler that is away. What it was doing is done again."""
        for future, numbers in list(self.active.items()):
            self.again(numbers)
            del self.active[future]
        deadline = time.monotonic() + self.patience_s
        while time.monotonic() < deadline and self.client.status != "closed":
            if self.client.status == "running":
                return
            time.sleep(0.2)
        raise SweepError(f"the scheduler is lost\n  {self.so_far()}")

    def so_far(self) -> str:
        state = self.state
        return f"{len(state.done)} of {state.all} runs are complete in {state.path}; resume=True (--resume) continues"


def cancel(future: Any) -> None:
    try:
        future.cancel()
    except Exception:  # The scheduler is away.
        pass


class connected:
    """A client of a scheduler, or of a cluster of this machine; what was made here ends here."""

    def __init__(self, scheduler: Any, workers: Optional[int]) -> None:
        self.scheduler, self.workers = scheduler, workers
        self.own: list[Any] = []

    def __enter__(self) -> "Client":
        from distributed import Client, LocalCluster

        scheduler = self.scheduler
        if isinstance(scheduler, Client):
            return scheduler
        if scheduler is None:
            scheduler = LocalCluster(
                n_workers=processors(self.workers), threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=40
            )
            self.own.append(scheduler)
        elif self.workers is not None:
            raise ValueError("workers: the number of processes of a cluster on this machine; a scheduler has its own workers")
        try:
            client = Client(scheduler, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            raise SweepError(f"no scheduler at {scheduler}: {error}\n  hint: `dask scheduler` starts one and prints its address") from error
        self.own.append(client)
        return client

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for made in reversed(self.own):
            try:
                made.close(timeout=5)
            except Exception as problem:  # Nothing is lost: the results are in the folder.
                print(f"note: the cluster did not close: {problem}", file=sys.stderr)
