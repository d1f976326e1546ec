"""Running scenarios: the same bytes as the command, tables, errors, progress, Ctrl-C."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pyarrow
import pytest
from conftest import ROOT, SMALL, contents, run_command

import whimbrel


def test_folder_is_that_of_the_command_byte_for_byte(small, command, tmp_path):
    done = run_command(command, "run", small, "--set", 'link.radio.delay="30 ms"', "--seeds", 2, "--seed", 7, "--out", tmp_path / "c")
    assert done.returncode == 0, done.stderr
    results = whimbrel.run(small, seeds=2, seed=7, out=tmp_path / "p", **{"link.radio.delay": "30 ms"})
    assert contents(tmp_path / "p") == contents(tmp_path / "c")
    assert len(results) == 4
    assert results.text() == run_command(command, "show", tmp_path / "c").stdout


def test_number_of_jobs_and_recording_do_not_change_results(small):
    one = whimbrel.run(small, jobs=1)
    assert one.table.equals(whimbrel.run(small, jobs=2).table)
    recorded = whimbrel.run(small, jobs=2, record=True)
    # Samples of series are events of the simulator as well.
    assert one.table.drop_columns("events").equals(recorded.table.drop_columns("events"))


def test_interrupted_folder_is_resumed_to_the_same_bytes(small, tmp_path):
    whole = tmp_path / "whole"
    whimbrel.run(small, out=whole)

    def stop(fraction, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whimbrel.run(small, out=tmp_path / "part", duration="4 s", jobs=1, progress=stop)
    with pytest.raises(whimbrel.FolderError, match="resume=True"):
        whimbrel.run(small, out=tmp_path / "part", duration="4 s")
    whimbrel.run(small, out=tmp_path / "part", duration="4 s", resume=True)
    differing = {name for name, digest in contents(tmp_path / "part").items() if contents(whole)[name] != digest}
    assert differing == {"manifest.json"}, "it names the override"


@dataclasses.dataclass
class Node:
    name: str


@dataclasses.dataclass
class Link:
    name: str
    between: list[str]
    rate: str
    delay: str = "20 ms"
    queue: dict | None = None
    loss: dict | None = None


@dataclasses.dataclass
class Flow:
    name: str
    from_: str
    to: str


@dataclasses.dataclass
class Net:
    node: list[Node]
    link: list[Link]
    flow: list[Flow]
    duration: str = "4 s"
    seeds: int = 3
    sweep: dict | None = None


def test_file_text_dictionary_and_dataclass_are_the_same_scenario(small):
    loss = {"kind": "bernoulli", "rate": 0.01}
    queue = {"kind": "drop-tail", "packets": 30}
    sweep = {"flow.bulk.sctp.scheme": ["standard", "veno"]}
    net = Net([Node("a"), Node("b")], [Link("radio", ["a", "b"], "2 Mbit/s", queue=queue, loss=loss)], [Flow("bulk", "a", "b")], sweep=sweep)
    table = dataclasses.asdict(net)
    table["flow"] = [{"name": "bulk", "from": "a", "to": "b"}]
    hashes = {whimbrel.load(form).hash for form in (small, str(small), SMALL, table, net, whimbrel.load(small))}
    assert len(hashes) == 1


def test_numbers_of_every_type_are_values(small):
    import decimal
    import enum
    import fractions

    import numpy

    class Level(enum.IntEnum):
        TEN = 10

    class Name(str, enum.Enum):
        VENO = "veno"

    key = "link.radio.loss"
    for rate in (numpy.float64(0.25), numpy.float32(0.25), numpy.float16(0.25), numpy.longdouble(0.25), numpy.array(0.25), fractions.Fraction(1, 4), decimal.Decimal("0.25"), 0.25):
        loaded = whimbrel.load(small, **{key: {"kind": "bernoulli", "rate": rate}})
        assert loaded.resolved["link"][0]["loss"]["rate"] == 0.25, type(rate)
    for packets in (numpy.int64(10), numpy.uint8(10), numpy.array(10), Level.TEN, 10):
        loaded = whimbrel.load(small, **{"link.radio.queue.packets": packets})
        assert loaded.resolved["link"][0]["queue"]["packets"] == 10, type(packets)
    for scheme in (numpy.str_("veno"), Name.VENO, "veno"):
        assert whimbrel.load(small, **{"flow.bulk.sctp.scheme": scheme}).points == [{}]
    assert whimbrel.load(small, **{"flow.bulk.sctp.ecn": numpy.bool_(False)})
    swept = whimbrel.load(small, sweep={"link.radio.loss.rate": numpy.linspace(0, 0.5, 3)})
    assert sorted({point["link.radio.loss.rate"] for point in swept.points}) == [0.0, 0.25, 0.5]
    for wrong in (1j, numpy.complex128(1), object()):
        with pytest.raises(TypeError, match="cannot be written as a value of a scenario"):
            whimbrel.load(small, **{key: wrong})


def test_override_replaces_an_axis_and_a_sweep_override_adds_one(small):
    assert whimbrel.load(small, flow__bulk__sctp__scheme="cubic").points == [{}]
    swept = whimbrel.load(small, sweep={"link.radio.loss.rate": numpy.array([0.0, 0.05])})
    assert swept.points == [{"link.radio.loss.rate": 0.0}, {"link.radio.loss.rate": 0.05}]
    again = whimbrel.load(swept, **{"link.radio.loss.rate": 0.02})
    assert again.points == [{}] and again.resolved["link"][0]["loss"]["rate"] == 0.02


def test_errors_are_those_of_check_with_their_places(small, command):
    small.write_text(SMALL.replace('delay = "20 ms"', 'delya = "20 ms"').replace("0.01", "2"))
    with pytest.raises(whimbrel.ScenarioError) as caught:
        whimbrel.run(small)
    printed = run_command(command, "check", small).stderr
    assert [f"error: {line}" for line in str(caught.value).splitlines() if "hint" not in line] == [
        line for line in printed.splitlines() if line.startswith("error: ") and "nothing was run" not in line
    ]
    first, second = caught.value.problems
    assert (first.place, first.line, first.column, first.hint) == (str(small), 14, 1, "did you mean `delay`?")
    assert second.field == "link.radio.loss.rate" and second.line == 16
    assert isinstance(caught.value, ValueError)
    assert type(caught.value).__module__ == "whimbrel", "the name in tracebacks is the one that programs catch"
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value) and copy.problems == caught.value.problems


@pytest.mark.parametrize(
    ("scenario", "overrides", "message"),
    [
        ("no-such-file.toml", {}, "cannot read scenario no-such-file.toml: no such file"),
        (SMALL, {"link__radio__rate": 3}, "lacks its unit"),
        (SMALL, {"link__radio__rate": "3 bananas"}, "unknown unit"),
        (SMALL, {"seeds": 0}, "0 given, allowed is 1 to 1000000 runs"),
        (SMALL, {"link__radio__delay": float("nan")}, "delay"),
        (SMALL, {"sweep": 3}, "sweep"),
        (SMALL, {"sweep": {"link.radio.loss.rate": [0, 0.1, 0.0]}}, "the value 0.0 is listed more than once"),
        (SMALL, {'a"b': "\0\n"}, "a"),
        ({"node": []}, {}, "`flow` is missing"),
        ({}, {}, "missing"),
        ("\n", {}, "missing"),
    ],
)
def test_nonsense_is_an_error_with_a_message(scenario, overrides, message):
    with pytest.raises(whimbrel.ScenarioError, match=message):
        whimbrel.load(scenario, **overrides)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"jobs": 0}, ValueError),
        ({"record": "serie"}, ValueError),
        ({"replace": True}, ValueError),
        ({"watch": True, "record": True}, ValueError),
        ({"link.radio.loss": object()}, TypeError),
        ({"out": "/proc/no/such"}, whimbrel.FolderError),
    ],
)
def test_wrong_arguments_are_errors(small, arguments, error):
    with pytest.raises(error):
        whimbrel.run(small, **arguments)
    with pytest.raises(TypeError, match="int given, allowed is a path"):
        whimbrel.load(3)


def test_other_results_are_never_overwritten(small, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/thesis.tex").write_text("work of years")
    with pytest.raises(whimbrel.FolderError, match="is not empty"):
        whimbrel.run(small, out=tmp_path / "thesis", replace=True)
    assert (tmp_path / "thesis/thesis.tex").exists()


def test_tables_share_memory_with_pyarrow_polars_and_pandas(small):
    import polars

    results = whimbrel.run(small)
    native = results._native()
    # Each export refers to the same buffers.
    first, second = (pyarrow.table(native)["goodput_mbps"].chunk(0) for _ in range(2))
    assert first.buffers()[1].address == second.buffers()[1].address
    frame = results.to_polars()
    assert frame["goodput_mbps"].to_arrow().buffers()[1].address == first.buffers()[1].address
    pandas_frame = results.to_pandas()
    chunk = pandas_frame["goodput_mbps"].array.__arrow_array__().combine_chunks()
    assert pyarrow.chunked_array([chunk] if isinstance(chunk, pyarrow.Array) else chunk).equals(results.table["goodput_mbps"])
    assert frame.shape == (6, results.table.num_columns) and polars.DataFrame(results).equals(frame)
    assert results.to_pandas(arrow=False)["goodput_mbps"].dtype == float


def test_table_matches_results_csv(small, tmp_path):
    import pyarrow.csv

    results = whimbrel.run(small, out=tmp_path / "out")
    options = pyarrow.csv.ConvertOptions(column_types=results.table.schema, strings_can_be_null=True)
    written = pyarrow.csv.read_csv(tmp_path / "out/results.csv", convert_options=options)
    for name in written.column_names:
        assert written[name].to_pylist() == results.table[name].to_pylist(), name
    loaded = whimbrel.open_results(tmp_path / "out")
    assert loaded.table.equals(results.table) and loaded.text() == results.text()


def test_xarray_has_the_dimensions_of_the_sweep(small):
    data = whimbrel.run(small, **{"sweep": {"link.radio.loss.rate": [0, 0.02], "flow.bulk.sctp.scheme": ["standard", "veno"]}}).to_xarray()
    assert set(data.goodput_mbps.dims) == {"link.radio.loss.rate", "flow.bulk.sctp.scheme", "seed", "flow"}
    assert data.goodput_mbps.shape == (2, 2, 3, 1)
    frame = whimbrel.run(small, flow__bulk__sctp__scheme="veno", link__radio__loss__rate=0.02, seeds=1).table
    value = data.goodput_mbps.sel({"link.radio.loss.rate": 0.02, "flow.bulk.sctp.scheme": "veno", "seed": 1, "flow": "bulk"})
    assert float(value) == frame["goodput_mbps"][0].as_py()
    assert data.goodput_mbps.attrs["long_name"] == "goodput, Mbit/s"


def test_series_and_events_are_recorded_on_request(small):
    results = whimbrel.run(small, record=True)
    series = results.series(name="cwnd_bytes")
    assert set(series["name"].to_pylist()) == {"cwnd_bytes"} and series.num_rows >= 8
    assert sorted(set(series["run"].to_pylist())) == [0, 3], "the first seed of each point"
    lost = results.events(name="recovery:loss_judged")
    assert lost.num_rows > 0 and set(lost["run"].to_pylist()) == {0}
    folder = results._folder
    assert folder.exists() and results.folder is None
    del results
    assert not folder.exists()
    with pytest.raises(LookupError, match="record=True"):
        whimbrel.run(small).series()
    everything = whimbrel.run(small, record="series")
    assert sorted(everything.recorded()) == [0, 1, 2, 3, 4, 5]


def test_watched_runs_have_metrics_of_windows(small):
    assert whimbrel.run(small).table["cwnd_mean_mtu"].null_count == 6
    assert whimbrel.run(small, watch=True).table["cwnd_mean_mtu"].null_count == 0


def test_progress_is_reported_and_an_exception_in_it_ends_the_runs(small):
    seen = []
    whimbrel.run(small, duration="60 s", progress=lambda *state: seen.append(state))
    assert seen[-1] == (1.0, 6, 6) and all(0 <= fraction <= 1 for fraction, _, _ in seen)

    def fail(fraction, done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        whimbrel.run(small, duration="1000000 s", seeds=1000, progress=fail)


def test_other_threads_run_meanwhile(small):
    count, stop = 0, threading.Event()

    def work():
        nonlocal count
        while not stop.wait(0.001):
            count += 1

    thread = threading.Thread(target=work)
    thread.start()
    start = time.monotonic()
    whimbrel.run(small, duration="600 s", jobs=1, progress=False)
    elapsed = time.monotonic() - start
    stop.set()
    thread.join()
    assert elapsed > 0.2, "long enough to be seen"
    assert count > 50 * elapsed, "a thread that would wait for the lock counts nothing"


def test_ctrl_c_ends_a_long_run_and_keeps_finished_ones(small, tmp_path):
    out = tmp_path / "out"
    program = (
        "import sys, whimbrel\n"
        "try:\n"
        f"    whimbrel.run({str(small)!r}, duration='20 s', seeds=100000, jobs=1, out={str(out)!r})\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted'); sys.exit(42)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not (out / "runs.jsonl").exists() or (out / "runs.jsonl").stat().st_size < 1000:
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    printed, _ = child.communicate(timeout=30)
    assert (child.returncode, printed) == (42, "interrupted\n")
    loaded = whimbrel.open_results(out)
    assert 1 <= len(loaded) < 200000 and loaded.table.num_rows == len(loaded)


def test_scenario_files_of_the_project_load():
    for path in sorted((ROOT / "examples").glob("*.toml")):
        scenario = whimbrel.load(path)
        assert scenario.runs == len(scenario.points) * scenario.seeds, path
        # What `explain` prints is the same scenario at its first point.
        assert "[[node]]" in scenario.explain()


def test_lists_of_metrics_schemes_and_parts():
    assert "goodput_mbps" in {metric.name for metric in whimbrel.metrics()}
    multipath = next(scheme for scheme in whimbrel.schemes() if scheme.name == "multipath")
    assert multipath.source and multipath.text
    assert ("discriminator", "veno") in {(part.family, part.name) for part in whimbrel.parts()}
    assert whimbrel.schema()["properties"]["flow"]


def test_study_gives_the_verdicts_of_the_command(command, tmp_path):
    import json

    studies = ROOT / "studies"
    done = run_command(command, "study", "run", "ye-retransmit-path", "--quick", "--json", "--studies", studies, "-q")
    assert done.returncode == 0, done.stderr
    report = whimbrel.study("ye-retransmit-path", quick=True, studies=studies, out=tmp_path)
    assert [claim.verdict for claim in report.claims] == [claim["verdict"] for claim in json.loads(done.stdout)["claims"]]
    assert report.points(report.claims[0].id) and report.title in str(report)
    assert (tmp_path / "ye-retransmit-path").is_dir()
    with pytest.raises(LookupError, match="there is no study `ye-retransmit`"):
        whimbrel.study("ye-retransmit", studies=studies)


def test_package_is_typed():
    folder = Path(whimbrel.__file__).parent
    assert (folder / "py.typed").exists()
    stub = (folder / "_core.pyi").read_text()
    from whimbrel import _core

    for name in dir(_core):
        if not name.startswith("__"):
            assert f"class {name}:" in stub or f"def {name}(" in stub, name
    for kind in (_core.Scenario, _core.Runs, _core.Folder, _core.Table):
        for name in vars(kind):
            if not name.startswith("__"):
                assert f"def {name}(" in stub, f"{kind.__name__}.{name}"


def test_annotations_of_the_package_are_consistent(tmp_path):
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "crates/python/pyproject.toml", "--cache-dir", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "crates/python", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    # A user's program is checked against them.
    program = tmp_path / "program.py"
    program.write_text("import whimbrel\nresults = whimbrel.run(3)\nresults.metric('goodput_mbps', flow=1)\n")
    done = subprocess.run([*command, program], capture_output=True, text=True, cwd=ROOT / "crates/python", timeout=600)
    assert done.stdout.count("[arg-type]") == 2, done.stdout + done.stderr


def test_processes_of_a_cpu_set_use_only_its_processors():
    from whimbrel._run import processors

    assert processors(None) == len(os.sched_getaffinity(0))
