"""Results as they arrive: Parquet files below ``partitions/`` of a folder of results.

The journal ``runs.jsonl`` decides which runs are finished. A partition is derived from it, and is there completely or not at all.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from .. import _core

__all__ = ["Partitions"]

ROWS = 4096
"""A partition is written when this number of rows is there,"""
SECONDS = 5.0
"""or the oldest one has waited for this time."""


class Partitions:
    """Writes the rows of finished runs, each exactly once."""

    def __init__(self, folder: Path, scenario: _core.Scenario) -> None:
        self.folder, self.scenario = folder / "partitions", scenario
        self.waiting: list[str] = []
        self.since = time.monotonic()
        self.next = 0

    def known(self) -> set[int]:
        """Returns the runs that are in partitions, and removes what a killed process left incomplete."""
        import pyarrow.parquet

        found: set[int] = set()
        self.folder.mkdir(exist_ok=True)
        for rest in self.folder.glob(".*.new"):
            rest.unlink()
        for path in sorted(self.folder.glob("part-*.parquet")):
            try:
                found.update(pyarrow.parquet.read_table(path, columns=["run"])["run"].to_pylist())
            except pyarrow.ArrowInvalid:  # The machine lost power before the file was on the disk.
                path.unlink()
            self.next = max(self.next, int(path.stem.split("-")[1]) + 1)
        return found

    def add(self, lines: list[str]) -> None:
        """Adds finished runs by their lines of ``runs.jsonl``."""
        if not self.waiting:
            self.since = time.monotonic()
        self.waiting += lines
        if len(self.waiting) >= ROWS:
            self.flush()
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """Writes the waiting rows if the oldest one has waited long enough. Called now and then while no run arrives."""
        if self.waiting and time.monotonic() - self.since >= SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes the waiting rows."""
        import pyarrow
        import pyarrow.parquet

        if not self.waiting:
            return
        table = pyarrow.table(_core.Runs.parse(self.scenario, self.waiting).results())
        path = self.folder / f"part-{self.next:06d}.parquet"
        beside = self.folder / f".{path.name}.new"
        pyarrow.parquet.write_table(table, beside)
        os.replace(beside, path)
        self.waiting, self.next = [], self.next + 1
