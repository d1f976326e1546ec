"""Metrics of runs as frames for statistics and figures."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Optional

from . import _core

if TYPE_CHECKING:
    import pandas

    from ._results import Results

__all__ = ["check_metric", "metric_frame", "label_of", "short"]


def check_metric(name: str) -> tuple[str, str, str, bool]:
    """Returns name, heading and definition of a metric, and whether it describes the run as a whole."""
    known = {metric[0]: metric for metric in _core.metrics()}
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 1)
    hint = f"did you mean `{near[0]}`?" if near else "whimbrel.metrics() lists them"
    raise ValueError(f"there is no metric `{name}`; {hint}")


def label_of(name: str) -> str:
    """Returns the heading of a metric, or the name of an axis without the folders of its path."""
    known = {metric[0]: metric[1] for metric in _core.metrics()}
    return known.get(name, short(name))


def short(axis: str) -> str:
    """Returns the last two steps of a dotted path."""
    return ".".join(axis.split(".")[-2:])


def metric_frame(results: "Results", name: str, flow: Optional[str] = None) -> "pandas.DataFrame":
    """Returns the values of a metric, one row for each run: ``run``, ``point``, ``seed``, the axes, and the metric."""
    import json

    import pandas

    _, _, _, of_run = check_metric(name)
    points = results.scenario.points
    rows: list[dict[str, Any]] = []
    runs = results._runs
    if flow is None:
        for number, point, seed, value in zip(runs.numbers, runs.points, runs.seeds, runs.values(name)):
            rows.append({"run": number, "point": point, "seed": seed, **points[point], name: value})
    else:
        table = results.table
        known = list(dict.fromkeys(table["flow"].to_pylist()))
        if flow not in known:
            raise ValueError(f"there is no flow `{flow}`; known are {', '.join(known)}")
        columns = zip(*(table[column].to_pylist() for column in ("run", "seed", "flow", name)))
        seeds = results.scenario.seeds
        for number, seed, of, value in columns:
            if of == flow:
                rows.append({"run": number, "point": number // seeds, "seed": seed, **points[number // seeds], name: value})
    frame = pandas.DataFrame(rows, columns=["run", "point", "seed", *results.scenario.axes, name])
    for axis in results.scenario.axes:
        if frame[axis].map(lambda value: isinstance(value, (dict, list))).any():
            frame[axis] = frame[axis].map(json.dumps)
    frame[name] = frame[name].astype(float)
    return frame
