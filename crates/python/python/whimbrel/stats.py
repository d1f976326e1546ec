"""Statistics of runs: intervals, comparisons, warm-up, number of seeds.

The formulas are those of scipy, statsmodels and pingouin; this module selects the values, pairs them, and says what they mean. All points
of a scenario use the same seeds (common random numbers), so that differences between schemes are paired by seed.
"""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Sequence, Union

import numpy

from ._frames import check_metric, metric_frame
from ._results import Results

if TYPE_CHECKING:
    import pandas

    from ._scenario import ScenarioLike

__all__ = [
    "Interval",
    "Until",
    "WarmUp",
    "bootstrap_interval",
    "compare",
    "corrected",
    "intervals",
    "mean_interval",
    "mean_series",
    "run_until",
    "seeds_for_difference",
    "seeds_for_precision",
    "warm_up",
]


class Interval(NamedTuple):
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float
    n: int
    """Number of values."""
    level: float

    @property
    def relative(self) -> float:
        """Half the width over the mean; infinite for a mean of zero with a width."""
        half = (self.high - self.low) / 2
        return half / abs(self.mean) if self.mean else math.inf if half else 0.0

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


def known(values: Any) -> numpy.ndarray:
    """Returns the values that exist, as floats."""
    array = numpy.asarray([math.nan if value is None else value for value in values], dtype=float)
    present: numpy.ndarray = array[~numpy.isnan(array)]
    return present


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level: {level} given, allowed is more than 0 and less than 1, for example 0.95")


def mean_interval(values: Any, *, level: float = 0.95) -> Interval:
    """Returns the mean with its t interval (``scipy.stats.t``). Missing values are left out; fewer than two give NaN as bounds."""
    from scipy import stats

    check_level(level)
    sample = known(values)
    if sample.size == 0:
        return Interval(math.nan, math.nan, math.nan, 0, level)
    mean = float(sample.mean())
    if sample.size == 1:
        return Interval(mean, math.nan, math.nan, 1, level)
    error = float(stats.sem(sample))
    if error == 0:
        return Interval(mean, mean, mean, sample.size, level)
    low, high = stats.t.interval(level, sample.size - 1, loc=mean, scale=error)
    return Interval(mean, float(low), float(high), sample.size, level)


def bootstrap_interval(
    values: Any, *, level: float = 0.95, statistic: Callable[..., Any] = numpy.mean, resamples: int = 9999, seed: int = 1
) -> Interval:
    """Returns a statistic with its bias-corrected and accelerated bootstrap interval (``scipy.stats.bootstrap``). The same seed gives the
    same interval."""
    from scipy import stats

    check_level(level)
    sample = known(values)
    if sample.size == 0:
        return Interval(math.nan, math.nan, math.nan, 0, level)
    value = float(statistic(sample))
    if sample.size == 1:
        return Interval(value, math.nan, math.nan, 1, level)
    if numpy.ptp(sample) == 0:
        return Interval(value, value, value, sample.size, level)
    random = numpy.random.default_rng(seed)
    found = stats.bootstrap((sample,), statistic, confidence_level=level, n_resamples=resamples, method="BCa", rng=random)
    return Interval(value, float(found.confidence_interval.low), float(found.confidence_interval.high), sample.size, level)


def intervals(
    results: Results, metric: str, *, flow: Optional[str] = None, level: float = 0.95, method: str = "t", seed: int = 1
) -> "pandas.DataFrame":
    """Returns mean and interval of a metric at each point: the axes, ``mean``, ``low``, ``high``, ``n``. ``method``: ``"t"`` or
    ``"bootstrap"``."""
    import pandas

    if method not in ("t", "bootstrap"):
        raise ValueError(f"method: `{method}` given, allowed are t, bootstrap")
    frame = metric_frame(results, metric, flow)
    rows = []
    for point, group in frame.groupby("point", sort=True):
        values = group[metric]
        found = mean_interval(values, level=level) if method == "t" else bootstrap_interval(values, level=level, seed=seed)
        rows.append({**results.points[int(point)], "mean": found.mean, "low": found.low, "high": found.high, "n": found.n})
    return pandas.DataFrame(rows, columns=[*results.scenario.axes, "mean", "low", "high", "n"])


def axis_of(results: Results, name: Optional[str]) -> str:
    """Returns the axis with this name, or with this last part of its name."""
    axes = results.scenario.axes
    if name is None and len(axes) == 1:
        return axes[0]
    found = [axis for axis in axes if name is not None and (axis == name or axis.endswith(f".{name}"))]
    if len(found) != 1:
        known_axes = ", ".join(axes) or "none: the scenario has no sweep"
        given = "no axis given" if name is None else f"there is no axis `{name}`" if not found else f"`{name}` is ambiguous"
        raise ValueError(f"{given}; axes are {known_axes}")
    return found[0]


def compare(
    results: Results,
    metric: str,
    *,
    axis: Optional[str] = None,
    baseline: Any = None,
    flow: Optional[str] = None,
    level: float = 0.95,
    correction: str = "holm",
) -> "pandas.DataFrame":
    """Compares the values of an axis with a baseline, paired by seed, at each point of the other axes.

    Each row has the mean difference with its interval, the p value of the paired t test (``pingouin.ttest``), the p value corrected for
    the number of rows (``statsmodels.stats.multitest``), Cohen's d, and whether the difference is significant. ``baseline`` is a value of
    the axis, by default the first. Where no randomness enters (all seeds have the same events), p is 0 or 1; for random runs with a constant
    difference it is NaN, and so it is without two pairs of runs.
    """
    import pandas

    check_level(level)
    check_metric(metric)
    along = axis_of(results, axis)
    frame = metric_frame(results, metric, flow)
    others = [name for name in results.scenario.axes if name != along]
    values = list(dict.fromkeys(frame[along]))
    base = values[0] if baseline is None else baseline
    if base not in values:
        raise ValueError(f"baseline: {base!r} given, values of {along} are {', '.join(map(repr, values))}")
    rows = []
    groups = [((), frame)] if not others else frame.groupby(others, sort=False)
    for key, group in groups:
        place = dict(zip(others, key if isinstance(key, tuple) else (key,)))
        # A value without a run at this point has an empty column.
        table = group.pivot(index="seed", columns=along, values=metric).reindex(columns=values)
        same = {value: is_deterministic(results, group.loc[group[along] == value, "run"]) for value in values}
        for value in values:
            if value != base:
                found_pair = paired(table[value], table[base], level, deterministic=same[value] and same[base])
                rows.append({**place, along: value, **found_pair})
    found = pandas.DataFrame(rows)
    if not len(found):
        raise ValueError(f"{along} has a single value, {base!r}: there is nothing to compare")
    found["p_corrected"] = corrected(found["p"], method=correction)
    found["significant"] = found["p_corrected"] < 1 - level
    return found


def is_deterministic(results: Results, runs: Any) -> bool:
    """Returns whether these runs, two or more, had the same events with every seed."""
    wanted = set(runs)
    pairs = zip(results.table["run"].to_pylist(), results.table["fingerprint"].to_pylist())
    prints = [print for run, print in pairs if run in wanted]
    return len(wanted) > 1 and len(set(prints)) == 1


def paired(values: Any, base: Any, level: float, *, deterministic: bool = False) -> dict[str, Any]:
    """Returns the paired comparison of two samples. ``deterministic``: no randomness enters, so that a constant difference is certain."""
    import pingouin

    both = numpy.array([numpy.asarray(values, dtype=float), numpy.asarray(base, dtype=float)])
    one, two = both[:, ~numpy.isnan(both).any(axis=0)]
    difference = mean_interval(one - two, level=level)
    shown = {"difference": difference.mean, "low": difference.low, "high": difference.high, "n": difference.n}
    shown["relative"] = difference.mean / two.mean() if two.size and two.mean() else math.nan
    if difference.n < 2 or numpy.ptp(one - two) == 0:
        # Without spread there is no test. Equal samples do not differ; a constant difference of random runs may be chance.
        p = math.nan if difference.n < 2 else 1.0 if difference.mean == 0 else 0.0 if deterministic else math.nan
        return {**shown, "p": p, "cohen_d": math.nan}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test = pingouin.ttest(one, two, paired=True, confidence=level)
    p_name = next(name for name in test.columns if name.lower().replace("-", "_") in ("p_val", "p_value", "pval"))
    d_name = next(name for name in test.columns if name.lower().startswith("cohen"))
    return {**shown, "p": float(test[p_name].iloc[0]), "cohen_d": float(test[d_name].iloc[0])}


def corrected(p: Any, *, method: str = "holm") -> numpy.ndarray:
    """Returns p values corrected for their number (``statsmodels.stats.multitest.multipletests``): ``"holm"``, ``"fdr_bh"``,
    ``"bonferroni"``, ``"sidak"`` or another method of it. Missing values stay missing and do not count."""
    from statsmodels.stats.multitest import multipletests

    values = numpy.asarray(p, dtype=float)
    result = numpy.full(values.shape, numpy.nan)
    exists = ~numpy.isnan(values)
    if exists.any():
        try:
            result[exists] = multipletests(values[exists], method=method)[1]
        except (ValueError, KeyError):
            raise ValueError(f"correction: `{method}` given, allowed are holm, fdr_bh, bonferroni, sidak and others of statsmodels") from None
    return result


class WarmUp(NamedTuple):
    """The end of a transient."""

    until: float
    """Time, in the unit of the given times: earlier samples should be left out."""
    samples: int
    """Number of samples to leave out."""
    kept: int
    """Number of samples that remain."""
    stationary: bool
    """Whether the rest passes the KPSS test for stationarity at 5 %."""


KEPT = 5
"""Batches that :func:`warm_up` does not leave out: the standard error of fewer is not reliable."""


def warm_up(times: Any, values: Any, *, batch: int = 5, most: float = 0.5) -> WarmUp:
    """Returns where the transient of a time series ends, by MSER-5 (White 1997): the truncation that minimises the standard error of the
    rest, over means of ``batch`` samples (``scipy.stats.sem``). ``most``: the largest share that may be left out; five batches always
    remain. The KPSS test
    (``statsmodels.tsa.stattools.kpss``) says whether the rest is stationary.

    For several runs give the mean over the seeds at each time (Welch's method): the transient is then clearer.
    """
    from scipy import stats
    from statsmodels.tsa.stattools import kpss

    if batch < 1:
        raise ValueError(f"batch: {batch} given, allowed is 1 or more samples")
    if not 0 < most < 1:
        raise ValueError(f"most: {most} given, allowed is more than 0 and less than 1")
    when, sample = numpy.asarray(times, dtype=float), numpy.asarray(values, dtype=float)
    if when.shape != sample.shape or sample.ndim != 1:
        raise ValueError(f"times and values differ in shape: {when.shape} and {sample.shape}")
    batches = sample.size // batch
    if batches <= KEPT:
        raise ValueError(f"{sample.size} samples given, needed are {(KEPT + 1) * batch} or more ({KEPT + 1} batches of {batch})")
    means = sample[: batches * batch].reshape(batches, batch).mean(axis=1)
    limit = min(max(1, int(batches * most)), batches - KEPT)
    errors = [stats.sem(means[cut:], ddof=0) for cut in range(limit + 1)]
    cut = int(numpy.argmin(errors)) * batch
    rest = sample[cut:]
    if numpy.ptp(rest) == 0:
        stationary = True
    else:
        with warnings.catch_warnings():
            # The p value is outside of the table's range, or the form of the result will change.
            warnings.simplefilter("ignore")
            stationary = float(kpss(rest, regression="c", nlags="auto")[1]) >= 0.05
    return WarmUp(float(when[cut]), cut, rest.size, stationary)


def seeds_for_precision(values: Any, relative: float, *, level: float = 0.95) -> int:
    """Returns the number of seeds after which half the t interval is expected to be at most ``relative`` times the mean, from the spread
    of these values."""
    from scipy import stats

    check_level(level)
    sample = known(values)
    if not relative > 0:
        raise ValueError(f"relative: {relative} given, allowed is more than 0")
    if sample.size < 2:
        raise ValueError(f"{sample.size} values given, needed are 2 or more")
    spread, goal = float(numpy.std(sample, ddof=1)), relative * abs(float(sample.mean()))
    if spread == 0:
        return 2
    if goal == 0:
        raise ValueError("the mean is 0: a relative precision has no meaning")

    def is_enough(n: int) -> bool:
        low, high = stats.t.interval(level, n - 1, scale=spread / math.sqrt(n))
        return bool((high - low) / 2 <= goal)

    return smallest(is_enough)


def smallest(is_enough: Callable[[int], bool]) -> int:
    """Returns the smallest number from 2 that is enough; all larger ones are."""
    high = 2
    while not is_enough(high):
        high *= 2
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return high


def seeds_for_difference(values: Any, base: Any, *, relative: float, level: float = 0.95, power: float = 0.8) -> int:
    """Returns the number of seeds after which a paired t test finds a difference of ``relative`` times the mean of ``base`` with this
    power (``statsmodels.stats.power.TTestPower``), from the spread of the differences of these pairs."""
    from statsmodels.stats.power import TTestPower

    check_level(level)
    differences = known(numpy.asarray(values, dtype=float) - numpy.asarray(base, dtype=float))
    if differences.size < 2:
        raise ValueError(f"{differences.size} pairs given, needed are 2 or more")
    spread = float(numpy.std(differences, ddof=1))
    if spread == 0:
        return 2
    effect = abs(relative * float(known(base).mean())) / spread
    if effect == 0:
        raise ValueError("a difference of 0 cannot be found with any number of seeds")
    if not 0 < power < 1:
        raise ValueError(f"power: {power} given, allowed is more than 0 and less than 1, for example 0.8")
    test = TTestPower()

    def is_enough(n: int) -> bool:
        # For large effects the tail on the other side cannot be computed; it is negligible. Two pairs suffice for those above 1000.
        found = float(test.power(min(effect, 1e3), n, 1 - level))
        if math.isnan(found):
            found = float(test.power(min(effect, 1e3), n, (1 - level) / 2, alternative="larger"))
        return found >= power

    return smallest(is_enough)


@dataclass
class Until:
    """The outcome of :func:`run_until`."""

    results: Results
    interval: Interval
    reached: bool
    """Whether the precision was reached."""


def run_until(
    scenario: "ScenarioLike",
    metric: str,
    /,
    *,
    relative: float = 0.05,
    level: float = 0.95,
    least: int = 5,
    most: int = 1000,
    jobs: Optional[int] = None,
    progress: Any = None,
    **overrides: Any,
) -> Until:
    """Runs a scenario without a sweep with more and more seeds until half the interval of a metric is at most ``relative`` times the
    mean, or ``most`` seeds are done. For sweeps, :func:`whimbrel.sweep` does the same at each point.
    """
    from . import _core
    from ._progress import bar
    from ._run import processors
    from ._scenario import load
    from .cluster._precision import Precision

    rule = Precision(metric, relative, level, least)
    loaded = load(scenario, seeds=most, **overrides)
    if len(loaded.points) > 1:
        raise ValueError(f"the scenario has {len(loaded.points)} points: whimbrel.sweep(..., precision=) stops at each point")
    update, close = bar(progress)
    lines: list[str] = []
    try:
        for until in rule.stages(most):
            numbers = range(len(lines), until)
            lines += loaded.run(processors(jobs), only=list(numbers), progress=update).lines()
            runs = _core.Runs.parse(loaded, lines)
            values = runs.values(metric)
            if rule.is_reached(values):
                break
    finally:
        close()
    return Until(Results(loaded, runs), mean_interval(values, level=level), rule.is_reached(values))


def senders(frame: "pandas.DataFrame", name: str) -> "pandas.DataFrame":
    """Returns the rows of a series that the sender recorded. Goodput is measured at receivers, links have no side."""
    if name != "goodput_mbps" and (frame["side"] == "sender").any():
        return frame[frame["side"] == "sender"]
    return frame


def mean_series(
    results: Results,
    name: str,
    *,
    run: Union[int, Sequence[int], None] = None,
    flow: Optional[str] = None,
    path: Union[int, str, None] = None,
    link: Optional[str] = None,
    node: Optional[str] = None,
) -> "pandas.DataFrame":
    """Returns a recorded series as one column for each run, with the time in seconds as its index: the input of :func:`warm_up`.

    Of a flow, the sender's series is taken (goodput is the receiver's). Several flows, paths, links or nodes are an error unless one is
    chosen: ``flow``, ``link`` and ``node`` by name, ``path`` by number or name. A queue has a link and the node that sends from it.
    """
    frame = results.series(name=name).to_pandas()
    if run is not None:
        # Integers of NumPy and arrays as well.
        wanted_runs: Any = run
        frame = frame[frame["run"].isin([run] if isinstance(run, numbers.Integral) else list(wanted_runs))]
    frame = senders(frame, name)
    for column, wanted in (("flow", flow), ("path_name" if isinstance(path, str) else "path", path), ("link", link), ("node", node)):
        recorded = list(frame[column].dropna().unique())
        listed = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in recorded)
        what = column.removesuffix("_name")
        if wanted is not None and wanted not in recorded:
            raise ValueError(f"there is no {what} `{wanted}` of {name}; known are {listed}")
        if wanted is None and len(recorded) > 1:
            raise ValueError(f"{name} was recorded of several {what}s: choose one of {listed}")
        if wanted is not None:
            frame = frame[frame[column] == wanted]
    wide = frame.pivot(index="t_ns", columns="run", values="value")
    wide.index = wide.index / 1e9
    wide.index.name = "time_s"
    return wide
