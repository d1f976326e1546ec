"""A Dask cluster of separate processes, each of which can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import whimbrel

QUIET = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error", "DASK_DISTRIBUTED__WORKER__MEMORY__REBALANCE__MEASURE": "process"}

PACKAGE = str(Path(whimbrel.__file__).resolve().parents[1])


class Cluster:
    """A scheduler and workers on the loopback interface."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler: subprocess.Popen | None = None
        self.workers: list[subprocess.Popen] = []

    def start(self, name: str, *words: object) -> subprocess.Popen:
        log = open(self.folder / f"{name}-{time.monotonic_ns()}.log", "w")
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *map(str, words)]
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env={**os.environ, **QUIET, "PYTHONPATH": PACKAGE})

    def start_scheduler(self) -> None:
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", self.port, "--no-dashboard", "--no-show")
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline and self.scheduler.poll() is None, "no scheduler"
                time.sleep(0.1)

    def start_workers(self, count: int) -> None:
        words = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--local-directory", self.folder, "--death-timeout", 60)
        self.workers += [self.start("worker", self.address, *words) for _ in range(count)]

    def kill_worker(self) -> None:
        kill(self.workers.pop(0))

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        kill(self.scheduler)

    def close(self) -> None:
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            kill(process)


def kill(process: subprocess.Popen) -> None:
    """Kills a process, which has no time to say good-bye."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()
