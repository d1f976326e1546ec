"""Results of runs as tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence, Union

from . import _core

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import xarray

__all__ = ["Results", "open_results", "xarray_of"]


class Results:
    """Finished runs of a scenario.

    The object itself exports its rows through the Arrow PyCapsule interface: ``polars.DataFrame(results)``, ``pyarrow.table(results)``
    and ``duckdb.sql("... from results")`` share its memory.
    """

    def __init__(self, scenario: _core.Scenario, runs: _core.Runs, folder: Optional[Path] = None, scratch: Any = None) -> None:
        self._scenario, self._runs, self._folder, self._scratch = scenario, runs, folder, scratch
        self._table: Optional[_core.Table] = None

    @property
    def scenario(self) -> _core.Scenario:
        """The scenario."""
        return self._scenario

    @property
    def folder(self) -> Optional[Path]:
        """The folder of results, if they were written."""
        return self._folder if self._scratch is None else None

    @property
    def points(self) -> list[dict[str, Any]]:
        """The values of the axes at each point."""
        return self._scenario.points

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<whimbrel.Results: {self._scenario.title}, {len(self)} of {self._scenario.runs} runs>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.text())}</pre>"

    def __arrow_c_schema__(self) -> Any:
        return self._native().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native().__arrow_c_stream__(requested_schema)

    def _native(self) -> _core.Table:
        if self._table is None:
            self._table = self._runs.results()
        return self._table

    def text(self, metrics: Sequence[str] = (), by: Sequence[str] = (), width: int = 120) -> str:
        """Returns the tables that ``whimbrel run`` prints: means with 95 % intervals. ``metrics`` and ``by`` are its options
        ``--metric`` and ``--by``."""
        return self._runs.text(list(metrics), list(by), width)

    def summary(self) -> dict[str, Any]:
        """Returns the object that ``whimbrel run --json`` prints."""
        return self._runs.summary()

    @property
    def table(self) -> "pyarrow.Table":
        """One row for each flow of each run: the columns of ``results.csv``."""
        return arrow(self._native())

    @property
    def links(self) -> "pyarrow.Table":
        """One row for each direction of a link and each run."""
        return arrow(self._runs.links())

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Flows whose association failed: run, seed, flow, reason."""
        return [dict(zip(("run", "seed", "flow", "reason"), failure)) for failure in self._runs.failures()]

    @property
    def wall_s(self) -> float:
        """Time that the runs took, in seconds, summed over processors."""
        return self._runs.wall_s()

    def to_pandas(self, *, arrow: bool = True) -> "pandas.DataFrame":
        """Returns :attr:`table` as a pandas frame. Its columns are those of Arrow and share their memory; with ``arrow=False`` they are
        copied to numpy's types."""
        import pandas

        return self.table.to_pandas(types_mapper=pandas.ArrowDtype if arrow else None)

    def to_polars(self) -> "polars.DataFrame":
        """Returns :attr:`table` as a polars frame that shares its memory."""
        import polars

        return polars.DataFrame(self)

    def to_xarray(self) -> "xarray.Dataset":
        """Returns the metrics as a data set with the dimensions of the sweep, ``seed`` and ``flow``. Runs that are missing are NaN."""
        return xarray_of(self.table, self._scenario)

    def metric(self, name: str, flow: Optional[str] = None) -> "pandas.DataFrame":
        """Returns the values of a metric, one row for each run, with the values of the axes: the input of :mod:`whimbrel.stats`.

        ``flow``: the flow's name; by default the sum over the flows for goodput and counts, and the mean for other metrics, as in the
        table of a run.
        """
        from ._frames import metric_frame

        return metric_frame(self, name, flow)

    def series(self, run: Optional[int] = None, name: Union[str, Sequence[str], None] = None) -> "pyarrow.Table":
        """Returns recorded time series: cwnd, ssthresh, flight, RTT, goodput, queue length. ``run``: the number of a run; by default all
        recorded ones. ``name``: the names of series."""
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet

        files = self._files("series.parquet", run)
        table = pyarrow.concat_tables([pyarrow.parquet.read_table(path, memory_map=True, partitioning=None) for _, path in files])
        if name is not None:
            names = [name] if isinstance(name, str) else list(name)
            table = table.filter(pyarrow.compute.is_in(table["name"], pyarrow.array(names)))
        return table

    def events(self, run: Optional[int] = None, name: Union[str, Sequence[str], None] = None) -> "pyarrow.Table":
        """Returns recorded events: ``run``, ``time_ms``, ``name``, ``flow``, ``node``, and ``data`` as JSON text. :meth:`iter_events`
        returns dictionaries."""
        import pyarrow

        names = None if name is None else {name} if isinstance(name, str) else set(name)
        columns: dict[str, list[Any]] = {key: [] for key in ("run", "time_ms", "name", "flow", "node", "data")}
        for number, event in self.iter_events(run):
            if names is None or event["name"] in names:
                columns["run"].append(number)
                columns["time_ms"].append(float(event["time"]))
                for key in ("name", "flow", "node"):
                    columns[key].append(event[key])
                columns["data"].append(json.dumps(event["data"], separators=(",", ":")))
        kinds = [pyarrow.int64(), pyarrow.float64()] + [pyarrow.string()] * 4
        return pyarrow.table(columns, schema=pyarrow.schema(list(zip(columns, kinds))))

    def iter_events(self, run: Optional[int] = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the number of the run and each recorded event, in the order of time."""
        for number, path in self._files("events.jsonl", run):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    yield number, json.loads(line)

    def recorded(self) -> dict[int, list[Path]]:
        """Returns the recorded files of each run that has some."""
        folder = self._folder or Path()
        return {number: [folder / name for name in names] for number, names in self._runs.recorded() if names}

    def _files(self, kind: str, run: Optional[int]) -> list[tuple[int, Path]]:
        files = [(number, path) for number, paths in self.recorded().items() for path in paths if path.name == kind]
        if run is not None:
            files = [(number, path) for number, path in files if number == run]
        if not files:
            what = kind.split(".")[0]
            which = "no run" if run is None else f"run {run} has not"
            raise LookupError(
                f"{which} recorded {what}\n  hint: whimbrel.run(..., record=True) records what the scenario's table `record` selects; "
                f'record={{"{what}": "all"}} selects all runs'
            )
        return files

    def save(self, folder: Union[str, Path]) -> None:
        """Copies the recorded files and writes :attr:`table` as ``results.parquet``. ``whimbrel.run(out=...)`` writes everything."""
        import pyarrow.parquet

        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(self.table, target / "results.parquet")
        for paths in self.recorded().values():
            for path in paths:
                copy = target / path.relative_to(self._folder or Path())
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)


def arrow(table: _core.Table) -> "pyarrow.Table":
    """Returns a native table as one of pyarrow, without a copy."""
    import pyarrow

    return pyarrow.table(table)


def open_results(folder: Union[str, Path]) -> Results:
    """Opens a folder of results that ``whimbrel run --out``, :func:`whimbrel.run` or :func:`whimbrel.sweep` wrote, complete or not."""
    path = Path(folder)
    scenario, runs = _core.Folder.load(path)
    return Results(scenario, runs, path)


def xarray_of(table: "pyarrow.Table", scenario: _core.Scenario) -> "xarray.Dataset":
    """Returns rows of results as a data set with a dimension for each axis of the sweep, ``seed`` and ``flow``."""
    import numpy
    import xarray

    axes = scenario.axes
    points = scenario.points
    coordinates: dict[str, list[Any]] = {axis: list(dict.fromkeys(text(point[axis]) for point in points)) for axis in axes}
    coordinates["seed"] = [scenario.seed + number for number in range(scenario.seeds)]
    coordinates["flow"] = list(dict.fromkeys(table["flow"].to_pylist()))
    shape = [len(values) for values in coordinates.values()]
    run = table["run"].to_numpy()
    flows = {name: place for place, name in enumerate(coordinates["flow"])}
    # Points are the product of the axes, last axis fastest, and each has its seeds in a row.
    flow = numpy.array([flows[name] for name in table["flow"].to_pylist()], dtype=numpy.int64)
    place = run.astype(numpy.int64) * len(flows) + flow
    variables = {}
    for name, label, definition, _ in _core.metrics():
        values = numpy.full(int(numpy.prod(shape)), numpy.nan)
        values[place] = table[name].to_numpy(zero_copy_only=False)
        if not numpy.isnan(values).all():
            attributes = {"long_name": label, "description": definition}
            variables[name] = (list(coordinates), values.reshape(shape), attributes)
    return xarray.Dataset(variables, coords=coordinates, attrs={"title": scenario.title, "scenario_hash": scenario.hash})


def text(value: Any) -> Any:
    """Returns a swept value as a coordinate: tables and lists as JSON."""
    return json.dumps(value) if isinstance(value, (dict, list)) else value
