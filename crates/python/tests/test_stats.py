"""Statistics: known samples, the table of a run, pairs, warm-up, numbers of seeds."""

from __future__ import annotations

import math

import numpy
import pytest

import whimbrel
from whimbrel import stats

# Student 1908, "The probable error of a mean": additional hours of sleep with two drugs, ten patients.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


@pytest.fixture(scope="module")
def results():
    from conftest import SMALL

    return whimbrel.run(SMALL, seeds=12, progress=False, sweep={"link.radio.loss.rate": [0.0, 0.03], "flow.bulk.sctp.scheme": ["standard", "veno", "cubic"]})


def test_t_interval_of_a_published_sample():
    # R: t.test(sleep$extra[sleep$group == 2]): mean 2.33, 95 % from 0.8976775 to 3.7623225.
    found = stats.mean_interval(DRUG_2)
    assert (found.mean, found.n) == (pytest.approx(2.33), 10)
    assert (found.low, found.high) == (pytest.approx(0.8976775, abs=1e-6), pytest.approx(3.7623225, abs=1e-6))
    assert str(found) == "2.33 [0.8977, 3.762]"
    assert found.relative == pytest.approx(1.4323225 / 2.33, abs=1e-6)


def test_intervals_are_those_of_the_table_of_a_run(results):
    frame = stats.intervals(results, "goodput_mbps")
    for row, point in zip(frame.itertuples(), results.summary()["points"]):
        goodput = point["metrics"]["goodput_mbps"]
        assert row.mean == pytest.approx(goodput["mean"])
        assert row.high - row.mean == pytest.approx(goodput["ci95"] or 0, rel=1e-9)
    assert list(frame.columns) == [*results.scenario.axes, "mean", "low", "high", "n"] and set(frame.n) == {12}


def test_bootstrap_interval_is_repeatable_and_near_the_t_interval():
    sample = numpy.random.default_rng(5).normal(10, 2, 200)
    one, two = (stats.bootstrap_interval(sample, seed=3, resamples=2000) for _ in range(2))
    assert one == two
    exact = stats.mean_interval(sample)
    assert one.low == pytest.approx(exact.low, abs=0.06) and one.high == pytest.approx(exact.high, abs=0.06)
    assert stats.bootstrap_interval(sample, seed=4, resamples=2000) != one
    median = stats.bootstrap_interval(sample, statistic=numpy.median, resamples=500)
    assert median.low < 10 < median.high


@pytest.mark.parametrize("interval", [stats.mean_interval, stats.bootstrap_interval])
def test_small_and_odd_samples_have_defined_intervals(interval):
    assert interval([]).n == 0 and math.isnan(interval([]).mean)
    assert interval([None, math.nan, 3.0])[:4][0] == 3.0 and math.isnan(interval([3.0]).low)
    assert interval([2.0, 2.0, 2.0])[:3] == (2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="more than 0 and less than 1"):
        interval([1, 2], level=95)


def test_paired_comparison_of_a_published_sample():
    # R: t.test(extra ~ group, paired = TRUE): t = -4.0621, p = 0.002833, 95 % of the difference -2.4598858 to -0.7001142.
    found = stats.paired(DRUG_1, DRUG_2, 0.95)
    assert found["p"] == pytest.approx(0.00283289, abs=1e-7)
    assert found["difference"] == pytest.approx(-1.58)
    assert (found["low"], found["high"]) == (pytest.approx(-2.4598858, abs=1e-6), pytest.approx(-0.7001142, abs=1e-6))


def test_comparison_pairs_by_seed_at_each_point_of_the_other_axes(results):
    frame = stats.compare(results, "goodput_mbps", axis="scheme", baseline="standard")
    axis = "flow.bulk.sctp.scheme"
    assert sorted(zip(frame["link.radio.loss.rate"], frame[axis])) == [(0.0, "cubic"), (0.0, "veno"), (0.03, "cubic"), (0.03, "veno")]
    values = results.metric("goodput_mbps")
    lossy = values[values["link.radio.loss.rate"] == 0.03].pivot(index="seed", columns=axis, values="goodput_mbps")
    veno = frame[(frame[axis] == "veno") & (frame["link.radio.loss.rate"] == 0.03)].iloc[0]
    assert veno.difference == pytest.approx((lossy["veno"] - lossy["standard"]).mean())
    assert veno.n == 12 and veno.low < veno.difference < veno.high
    # Veno keeps its window after random losses.
    assert veno.significant and veno.difference > 0 and veno.p < veno.p_corrected
    assert (frame["p_corrected"].dropna() >= frame["p"].dropna()).all()
    # Without losses all seeds are the same run: there is no spread, and the answer is certain.
    assert set(frame[frame["link.radio.loss.rate"] == 0.0]["p"]) <= {0.0, 1.0}


def test_constant_difference_of_random_runs_has_no_p_value():
    assert math.isnan(stats.paired([2.0, 3.0, 4.0], [1.0, 2.0, 3.0], 0.95)["p"])
    assert stats.paired([2.0, 2.0], [1.0, 1.0], 0.95, deterministic=True)["p"] == 0.0
    assert stats.paired([1.0, 2.0], [1.0, 2.0], 0.95)["p"] == 1.0


def test_comparison_of_incomplete_results_leaves_out_what_is_missing(results):
    from whimbrel._results import Results

    # Veno has one run at the first loss rate, CUBIC none.
    left = {"veno": 1, "cubic": 0}

    def is_kept(run, point):
        place = results.points[point]
        return place["link.radio.loss.rate"] > 0 or run % 12 < left.get(place["flow.bulk.sctp.scheme"], 12)

    runs = results._runs
    lines = [line for run, point, line in zip(runs.numbers, runs.points, runs.lines()) if is_kept(run, point)]
    partial = Results(results.scenario, whimbrel._core.Runs.parse(results.scenario, lines))
    frame = stats.compare(partial, "goodput_mbps", axis="scheme", baseline="standard")
    counts = {(row[0], row[1]): row.n for row in frame.itertuples(index=False)}
    assert counts == {(0.0, "veno"): 1, (0.0, "cubic"): 0, (0.03, "veno"): 12, (0.03, "cubic"): 12}
    incomplete = frame[frame["link.radio.loss.rate"] == 0.0]
    assert incomplete["p"].isna().all() and not incomplete["significant"].any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"axis": "scheem"}, "there is no axis `scheem`; axes are"),
        ({}, "no axis given"),
        ({"axis": "scheme", "baseline": "reno"}, "baseline: 'reno' given, values of"),
        ({"axis": "scheme", "metric": "goodput"}, "did you mean `goodput_mbps`"),
        ({"axis": "scheme", "flow": "bluk"}, "there is no flow `bluk`; known are bulk"),
        ({"axis": "scheme", "correction": "magic"}, "`magic` given, allowed are holm"),
    ],
)
def test_wrong_names_are_errors_with_the_known_ones(results, arguments, message):
    metric = arguments.pop("metric", "goodput_mbps") if "metric" in arguments else "goodput_mbps"
    with pytest.raises(ValueError, match=message):
        stats.compare(results, metric, **arguments)


def test_correction_of_p_values():
    # Holm 1979: sorted p values times 4, 3, 2, 1, made monotonic.
    assert stats.corrected([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.corrected([0.01, math.nan, 0.04], method="bonferroni").tolist()[0] == pytest.approx(0.02)
    assert numpy.isnan(stats.corrected([math.nan])).all()


def test_warm_up_is_found_where_the_transient_ends():
    random = numpy.random.default_rng(2)
    times = numpy.arange(400) * 0.5
    level = 10 * (1 - numpy.exp(-times / 8))
    found = stats.warm_up(times, level + random.normal(0, 0.3, times.size))
    assert 15 <= found.until <= 45 and found.stationary
    assert found.samples + found.kept == 400 and times[found.samples] == found.until
    steady = stats.warm_up(times, random.normal(0, 1, times.size))
    assert steady.until < 20 and steady.stationary
    drifting = stats.warm_up(times, times + random.normal(0, 1, times.size))
    assert not drifting.stationary
    assert stats.warm_up(times, numpy.ones(400)).until == 0
    # The end of a series that happens to be flat is no reason to leave out nearly everything.
    short = numpy.concatenate([random.normal(0, 1, 25), numpy.zeros(5)])
    assert stats.warm_up(numpy.arange(30), short, most=0.99).kept >= 25
    with pytest.raises(ValueError, match="needed are 30 or more"):
        stats.warm_up(times[:29], numpy.ones(29))
    for wrong in ([1, 2, 3], numpy.ones((2, 200))):
        with pytest.raises(ValueError):
            stats.warm_up(times[: len(wrong)], wrong)


def test_warm_up_of_a_recorded_series(results):
    from conftest import SMALL

    recorded = whimbrel.run(SMALL, duration="60 s", record="series", seeds=3, flow__bulk__sctp__scheme="standard", progress=False)
    wide = stats.mean_series(recorded, "goodput_mbps")
    assert wide.shape[1] == 3
    found = stats.warm_up(wide.index, wide.mean(axis=1))
    assert 0 <= found.until < 30


def test_series_of_several_flows_paths_and_links_are_not_added_up():
    from conftest import ROOT, SMALL

    head = SMALL.split("[sweep]")[0]
    text = head + "[[flow]]\nname = 'other'\nfrom = 'a'\nto = 'b'\n"
    recorded = whimbrel.run(text, record="series", seeds=2, progress=False)
    with pytest.raises(ValueError, match="several flows: choose one of bulk, other"):
        stats.mean_series(recorded, "cwnd_bytes")
    wide = stats.mean_series(recorded, "cwnd_bytes", flow="other")
    table = recorded.series(run=1, name="cwnd_bytes").to_pandas()
    rows = table[(table["flow"] == "other") & (table["side"] == "sender")]
    assert wide[1].dropna().tolist() == rows["value"].tolist() and list(wide.columns) == [0, 1]
    with pytest.raises(ValueError, match="there is no flow `bluk` of cwnd_bytes; known are bulk, other"):
        stats.mean_series(recorded, "cwnd_bytes", flow="bluk")
    with pytest.raises(ValueError, match="several nodes: choose one of a, b"):
        stats.mean_series(recorded, "queue_packets")
    assert stats.mean_series(recorded, "queue_packets", link="radio", node="a").max().max() > 1
    two = whimbrel.run(ROOT / "examples/failover.toml", record="series", seeds=1, duration="10 s", progress=False)
    with pytest.raises(ValueError, match="several paths: choose one of 0, 1"):
        stats.mean_series(two, "cwnd_bytes")
    first = stats.mean_series(two, "cwnd_bytes", path=0)
    assert first.shape[1] == len(two) and not first.equals(stats.mean_series(two, "cwnd_bytes", path=1))


def test_number_of_seeds_for_a_precision():
    # 95 %, s = 2, mean 10, 5 %: the normal quantile gives (1.96 * 2 / 0.5)^2 = 61.5, the t quantile a few more.
    sample = [10 - math.sqrt(2), 10 - math.sqrt(2), 10 + math.sqrt(2), 10 + math.sqrt(2)]
    spread = numpy.std(sample, ddof=1)
    needed = stats.seeds_for_precision(sample, 0.05)
    assert (1.96 * spread / 0.5) ** 2 < needed < (1.96 * spread / 0.5) ** 2 + 4
    assert stats.seeds_for_precision([3.0, 3.0], 0.01) == 2
    with pytest.raises(ValueError, match="no meaning"):
        stats.seeds_for_precision([-1.0, 1.0], 0.05)


def test_number_of_seeds_for_a_difference():
    # Effect size 0.5, 5 %, power 0.8: 34 pairs (Cohen 1988, table 2.4.1).
    differences = numpy.array([-1.0, 1.0] * 10)
    base = numpy.full(20, 10.0)
    relative = 0.5 * numpy.std(differences, ddof=1) / 10
    assert stats.seeds_for_difference(base + differences, base, relative=relative) == 34
    assert stats.seeds_for_difference([1, 2], [1, 2], relative=0.1) == 2


@pytest.mark.parametrize("effect", [0.2, 0.5, 1.0, 2.0, 4.9, 5.1, 6.0, 12.0, 30.0, 1e6])
def test_number_of_seeds_for_a_difference_has_the_power(effect):
    from scipy import stats as exact

    differences = numpy.array([-1.0, 1.0] * 10)
    base = numpy.full(20, 1.0)
    needed = stats.seeds_for_difference(base + differences, base, relative=effect * numpy.std(differences, ddof=1))

    def power(n):
        # The noncentral t distribution (Cohen 1988, 12.8).
        critical = exact.t.ppf(0.975, n - 1)
        return exact.nct.sf(critical, n - 1, min(effect, 1e3) * math.sqrt(n))

    assert power(needed) >= 0.8 - 1e-6
    assert needed == 2 or power(needed - 1) < 0.8


def test_runs_until_a_precision_is_reached():
    from conftest import SMALL

    overrides = {"flow.bulk.sctp.scheme": "standard", "link.radio.loss.rate": 0.02, "duration": "8 s"}
    found = stats.run_until(SMALL, "goodput_mbps", relative=0.05, most=200, progress=False, **overrides)
    assert found.reached and found.interval.relative <= 0.05 and 5 < len(found.results) < 200
    assert found.interval.n == len(found.results)
    whole = whimbrel.run(SMALL, seeds=len(found.results), progress=False, **overrides)
    assert whole.table["goodput_mbps"].equals(found.results.table["goodput_mbps"])
    assert not stats.run_until(SMALL, "goodput_mbps", relative=0.0001, most=6, progress=False, **overrides).reached
    with pytest.raises(ValueError, match="2 points"):
        stats.run_until(SMALL, "goodput_mbps")
