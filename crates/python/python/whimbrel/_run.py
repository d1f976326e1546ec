"""Running scenarios and studies on this machine."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from . import _core
from ._progress import Progress, bar
from ._results import Results
from ._scenario import ScenarioLike, arguments, load

__all__ = ["Claim", "StudyReport", "run", "study"]

Factory = Union[None, Callable[[], Any], Mapping[str, Callable[[], Any]]]
Record = Union[bool, str, Sequence[str], Mapping[str, str]]


def run(
    scenario: ScenarioLike,
    /,
    *,
    seeds: Optional[int] = None,
    seed: Optional[int] = None,
    jobs: Optional[int] = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    replace: bool = False,
    resume: bool = False,
    record: Record = False,
    watch: bool = False,
    discriminator: Factory = None,
    window: Factory = None,
    path_policy: Factory = None,
    progress: Progress = None,
    **overrides: Any,
) -> Results:
    """Runs every point of a scenario with every seed, on all processors. The same scenario and seeds give the same results as
    ``whimbrel run``, byte for byte.

    Other Python threads run meanwhile. Ctrl-C ends the runs and raises ``KeyboardInterrupt``; with ``out``, finished runs are kept and
    ``resume=True`` continues.

    Parameters
    ----------
    scenario, seeds, seed, **overrides
        As of :func:`whimbrel.load`.
    jobs
        Number of concurrent runs. Default: the number of processors. It does not affect the results.
    out
        Folder for the files that ``whimbrel run --out`` writes. ``replace`` replaces earlier results in it, ``resume`` continues them.
    record
        Whether runs record series, events and packets for :meth:`Results.series` and :meth:`Results.events`. ``True``: what the
        scenario's table ``record`` selects. A name or several (``"series"``, ``"events"``, ``"packets"``): these, of all runs. A mapping:
        the selection of each, such as ``{"series": "first-seed"}``. With ``out`` the default is ``True``; without it, files are kept in
        a temporary folder until the results are deleted.
    watch
        Whether to measure the metrics that are "measured only in studies", such as ``cwnd_mean_mtu``. Not together with recording.
    discriminator, window, path_policy
        Parts written in Python, for prototypes: a class, or a function that returns the part of a path (:mod:`whimbrel.prototypes`). A mapping
        of names of flows selects flows; otherwise all flows of SCTP (and of TCP) use it. Such runs are slow and write no folder.
    progress
        A function of (fraction, finished runs, all runs), ``True`` for a bar, ``False`` for nothing. Default: a bar in notebooks and
        terminals.
    """
    chosen = record_changes(record)
    loaded = load(scenario, **chosen, **overrides, seeds=seeds, seed=seed)
    if watch and (record or out is not None):
        raise ValueError("watch=True measures runs that record nothing: leave out `record` and `out`")
    if (replace or resume) and out is None:
        raise ValueError("replace and resume need out=, the folder of the earlier results")
    if replace and resume:
        raise ValueError("replace=True deletes the earlier results, resume=True continues them: choose one")
    scratch = tempfile.TemporaryDirectory(prefix="whimbrel-") if record and out is None else None
    update, close = bar(progress)
    try:
        runs = loaded.run(
            processors(jobs),
            out=None if out is None else Path(out),
            scratch=None if scratch is None else Path(scratch.name),
            command=command(loaded),
            replace=replace,
            resume=resume,
            watch=watch,
            parts=part_requests(discriminator=discriminator, window=window, path_policy=path_policy),
            progress=update,
        )
    finally:
        close()
    folder = Path(scratch.name) if scratch is not None else None if out is None else Path(out)
    return Results(loaded, runs, folder, scratch)


def record_changes(record: Record) -> dict[str, str]:
    """Returns the overrides of a ``record`` argument."""
    kinds = ("series", "events", "packets")
    if isinstance(record, bool):
        return {}
    if isinstance(record, Mapping):
        chosen = dict(record)
    else:
        names = [record] if isinstance(record, str) else list(record)
        chosen = {kind: "all" if kind in names else "none" for kind in kinds} | {name: "all" for name in names}
    unknown = [name for name in chosen if name not in kinds]
    if unknown:
        raise ValueError(f"record: `{unknown[0]}` given, allowed are {', '.join(kinds)}")
    return {f"record.{kind}": value for kind, value in chosen.items()}


def part_requests(**parts: Factory) -> list[tuple[Optional[str], str, Callable[[], Any]]]:
    """Returns the parts in Python as flow, family and factory."""
    requests: list[tuple[Optional[str], str, Callable[[], Any]]] = []
    for family, factory in parts.items():
        if factory is None:
            continue
        by_flow = factory if isinstance(factory, Mapping) else {None: factory}
        for flow, make in by_flow.items():
            if not callable(make):
                raise TypeError(f"{family}: {make!r} given, allowed is a class or a function that returns the part of a path")
            requests.append((flow, family, make))
    return requests


def command(scenario: _core.Scenario) -> list[str]:
    """Returns the command that repeats the results, as ``whimbrel run`` stores it."""
    words = ["whimbrel", "run", str(scenario.path)]
    for change in scenario.changes:
        words += ["--set", change]
    return words


def processors(jobs: Optional[int]) -> int:
    """Returns the number of concurrent runs: as requested, or the number of processors that this process may use."""
    if jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs < 1:
        raise ValueError(f"{jobs} given as the number of concurrent runs, allowed is 1 or more")
    return int(jobs)


@dataclass(frozen=True)
class Claim:
    """A claim of a study and what was measured."""

    id: str
    claim: str
    verdict: str
    """``reproduced``, ``mostly``, ``direction only``, ``not``, ``inconclusive`` or ``vacuous``."""
    paper: Any
    measured: Any
    ci95: Optional[float]
    note: str


class StudyReport:
    """The claims of a study with their verdicts, and the points of the paper's figures."""

    def __init__(self, report: Mapping[str, Any], text: str) -> None:
        self.json, self._text = dict(report), text
        self.study, self.title, self.source = report["study"], report["title"], report["source"]
        self.claims = [Claim(**{key: claim[key] for key in Claim.__dataclass_fields__}) for claim in report["claims"]]

    def __repr__(self) -> str:
        counts = {claim.verdict: 0 for claim in self.claims}
        for claim in self.claims:
            counts[claim.verdict] += 1
        return f"<whimbrel.StudyReport: {self.study}, " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) + ">"

    def __str__(self) -> str:
        return f"{self.study}: {self.title} ({self.source})\n{self._text}"

    def points(self, claim: str) -> list[dict[str, Any]]:
        """Returns the measured points of a claim or a figure: the values of the axes, ``mean``, ``ci95`` and the paper's value."""
        for entry in (*self.json["claims"], *self.json["figures"]):
            if entry["id"] == claim:
                return [{**dict(point["at"]), **{k: v for k, v in point.items() if k != "at"}} for point in entry["points"]]
        known = ", ".join(entry["id"] for entry in (*self.json["claims"], *self.json["figures"]))
        raise LookupError(f"{self.study} has no claim or figure `{claim}`; known are {known}")


def study(
    study: Union[str, "os.PathLike[str]"],
    /,
    *,
    quick: bool = False,
    studies: Union[str, "os.PathLike[str]"] = "studies",
    jobs: Optional[int] = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    replace: bool = False,
    progress: Progress = None,
) -> StudyReport:
    """Runs a study and judges its claims, as ``whimbrel study run`` does.

    Parameters
    ----------
    study
        The folder of a study, or its name in the folder ``studies``.
    quick
        The short form: fewer seeds, shorter sweeps.
    out, replace
        Folder for the results of each scenario.
    """
    folder = Path(study)
    if not (folder / "study.toml").is_file():
        shelf = Path(studies)
        folder = shelf / str(study)
        if not (folder / "study.toml").is_file():
            known = sorted(path.parent.name for path in shelf.glob("*/study.toml"))
            listed = f"; in {shelf} are {', '.join(known)}" if known else f"; there are no studies in {shelf}"
            raise LookupError(f"there is no study `{study}`{listed}\n  hint: name the folder of the study, or that of all studies with studies=")
    update, close = bar(progress)
    try:
        report, text = _core.run_study(
            folder, quick=quick, jobs=processors(jobs), out=None if out is None else Path(out), replace=replace, progress=update
        )
    finally:
        close()
    return StudyReport(report, text)
