"""Sweeps on a Dask cluster: the bytes of `whimbrel run`, deaths of every process, failures, adaptive stopping."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest
from clusters import Cluster, kill
from conftest import contents, run_command

import whimbrel
from whimbrel.cluster import Precision, SweepError

LONG = ("--set", 'duration="40 s"', "--seeds", "60")


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client():
    """A cluster in this process, for what needs no separate ones."""
    from distributed import Client

    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None, silence_logs=40) as made:
        yield made


def start_sweep(*words: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "whimbrel", "sweep", *map(str, words), "--batch", "0.2", "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(folder: Path) -> list[str]:
    path = folder / "runs.jsonl"
    return [line for line in path.read_text().splitlines() if line] if path.exists() else []


def wait_for_runs(folder: Path, count: int, client: subprocess.Popen) -> int:
    deadline = time.monotonic() + 60
    while len(lines_of(folder)) < count:
        assert time.monotonic() < deadline, "runs are expected to arrive"
        assert client.poll() is None, client.communicate()[1]
        time.sleep(0.02)
    return len(lines_of(folder))


def partition_runs(folder: Path) -> list[int]:
    return sorted(run for path in (folder / "partitions").glob("*.parquet") for run in pyarrow.parquet.read_table(path)["run"].to_pylist())


def test_sweep_survives_the_death_of_worker_scheduler_and_client(small, command, cluster, tmp_path):
    out, expected = tmp_path / "sweep", tmp_path / "run"
    done = run_command(command, "run", small, *LONG, "--out", expected, "-q")
    assert done.returncode == 0, done.stderr
    cluster.start_scheduler()
    cluster.start_workers(3)
    arguments = (small, *LONG, "--out", out, "--scheduler", cluster.address, "--resume", "--patience", "1")

    # A worker dies: the sweep goes on. Then the scheduler dies: the sweep ends with what is finished.
    sweep = start_sweep(*arguments)
    before = wait_for_runs(out, 5, sweep)
    cluster.kill_worker()
    wait_for_runs(out, before + 10, sweep)
    cluster.kill_scheduler()
    _, printed = sweep.communicate(timeout=60)
    assert sweep.returncode == 1 and "the scheduler is lost" in printed and "--resume continues" in printed, printed
    first = lines_of(out)
    assert 15 <= len(first) < 120, len(first)
    assert json.loads((out / "manifest.json").read_text())["status"] == "interrupted"

    # Another scheduler at the same address; then the client dies.
    cluster.start_scheduler()
    cluster.start_workers(1)
    sweep = start_sweep(*arguments)
    wait_for_runs(out, len(first) + 10, sweep)
    kill(sweep)
    second = lines_of(out)
    assert second[: len(first)] == first, "finished runs stay"

    # And to the end.
    sweep = start_sweep(*arguments)
    _, printed = sweep.communicate(timeout=120)
    assert sweep.returncode == 0, printed
    assert contents(out) == contents(expected)
    assert partition_runs(out) == list(range(120)), "each run once"


def test_no_finished_run_is_repeated(small, client, tmp_path):
    out = tmp_path / "out"
    first = whimbrel.sweep(small, out=out, scheduler=client, progress=False)
    assert (first.runs, first.new, first.seeds) == (6, 6, [3, 3])
    journal = lines_of(out)
    # Two runs are missing from the journal, one line is incomplete, and a partition is lost.
    kept = [line for line in journal if json.loads(line)["run"] not in (1, 4)]
    (out / "runs.jsonl").write_text("\n".join(kept) + "\n" + journal[0][:50])
    for path in (out / "partitions").glob("*.parquet"):
        path.unlink()
    second = whimbrel.sweep(small, out=out, scheduler=client, resume=True, progress=False)
    assert (second.runs, second.new) == (6, 2)
    assert partition_runs(out) == list(range(6))
    assert sorted(lines_of(out)) == sorted(journal)


def test_command_continues_a_sweep_and_a_sweep_continues_the_command(small, command, client, tmp_path):
    whimbrel.run(small, out=tmp_path / "whole")
    for number, only in ((0, range(3)), (1, range(3, 6))):
        out = tmp_path / f"out{number}"
        folder = whimbrel._core.Folder(out, whimbrel.load(small), ["whimbrel", "run", str(small)], False, False)
        scratch = tmp_path / f"scratch{number}"
        runs = whimbrel.load(small).run(1, scratch=scratch, only=list(only))
        for line, (_, names) in zip(runs.lines(), runs.recorded()):
            folder.add(line, [(name, (scratch / name).read_bytes()) for name in names])
        del folder
        if number == 0:
            done = run_command(command, "run", small, "--out", out, "--resume", "-q")
            assert done.returncode == 0, done.stderr
        else:
            whimbrel.sweep(small, out=out, scheduler=client, resume=True, progress=False)
        assert contents(out) == contents(tmp_path / "whole")


def test_folder_of_another_scenario_is_not_continued(small, client, tmp_path):
    whimbrel.sweep(small, out=tmp_path / "out", scheduler=client, progress=False)
    for arguments, message in (
        ({"resume": True, "seeds": 4}, "another scenario"),
        ({}, "resume=True"),
        ({"resume": True, "replace": True}, "choose one"),
    ):
        with pytest.raises((whimbrel.FolderError, ValueError), match=message):
            whimbrel.sweep(small, out=tmp_path / "out", scheduler=client, progress=False, **arguments)
    assert whimbrel.sweep(small, out=tmp_path / "out", scheduler=client, progress=False, seeds=2, replace=True).runs == 4


def test_panic_of_one_run_does_not_end_the_sweep(small, client, tmp_path, monkeypatch):
    from whimbrel.cluster import _task

    class Panic(BaseException):
        """A panic in Rust is not an Exception."""

    real = _task.run_some

    def panic(scenario, numbers):
        if 4 in numbers:
            raise Panic("index out of bounds")
        return real(scenario, numbers)

    monkeypatch.setattr(_task, "run_some", panic)
    spec = _task.Spec.of(whimbrel.load(small))
    done = _task.run_batch(spec, [3, 4, 5])
    assert [one.number for one in done if one.line] == [3, 5]
    assert done[1].error == "Panic: index out of bounds"
    report = whimbrel.sweep(small, out=tmp_path / "out", scheduler=client, progress=False, batch_s=1000)
    assert report.runs == 5 and report.failures[0]["message"] == "Panic: index out of bounds"

    def interrupt(scenario, numbers):
        raise KeyboardInterrupt

    monkeypatch.setattr(_task, "run_some", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _task.run_batch(spec, [3, 4])


def test_second_process_may_not_write_to_a_folder(small, command, client, tmp_path):
    out = tmp_path / "out"
    first = whimbrel._core.Folder(out, whimbrel.load(small), ["whimbrel", "run", str(small)], False, False)
    for arguments in ({"resume": True}, {"replace": True}, {}):
        with pytest.raises(whimbrel.FolderError, match="writes to folder"):
            whimbrel.sweep(small, out=out, scheduler=client, progress=False, **arguments)
        with pytest.raises(whimbrel.FolderError, match="writes to folder"):
            whimbrel.run(small, out=out, progress=False, **arguments)
    done = run_command(command, "run", small, "--out", out, "--resume", "-q")
    assert done.returncode == 2 and "writes to folder" in done.stderr, done.stderr
    first.close()
    with pytest.raises(whimbrel.RunError, match="closed"):
        first.finish("complete")
    assert whimbrel.sweep(small, out=out, scheduler=client, resume=True, progress=False).runs == 6
    assert not (out / ".lock").exists()


def test_results_are_complete_only_with_all_runs(small, tmp_path):
    out = tmp_path / "out"
    folder = whimbrel._core.Folder(out, whimbrel.load(small), ["whimbrel"], False, False)
    for line in whimbrel.run(small, progress=False)._runs.lines()[:5]:
        folder.add(line, [])
    assert folder.finish("complete") == 5
    assert json.loads((out / "manifest.json").read_text())["status"] == "interrupted"


def test_result_that_cannot_be_fetched_fails_after_some_times(small, client, tmp_path, monkeypatch):
    from distributed import Future
    from whimbrel.cluster import _sweep

    real, fetched = Future.result, []

    def result(self, timeout=None):
        done = real(self, timeout)
        fetched.extend(one.number for one in done)
        if any(one.number == 4 for one in done):
            raise OSError("the worker does not answer")
        return done

    monkeypatch.setattr(Future, "result", result)
    report = whimbrel.sweep(small, out=tmp_path / "out", scheduler=client, progress=False)
    assert report.runs == 5 and fetched.count(4) == _sweep.FETCHES
    (failure,) = report.failures
    assert failure["run"] == 4 and "could not be fetched 3 times: OSError: the worker does not answer" in failure["message"]


def test_scheduler_that_is_lost_while_tasks_are_submitted_is_named(small, client, tmp_path, monkeypatch):
    from distributed.client import ClosedClientError

    def submit(*_arguments, **_options):
        monkeypatch.setattr(client, "status", "closed")
        raise ClosedClientError("Client is closed. Can't send update-graph message.")

    monkeypatch.setattr(client, "submit", submit)
    with pytest.raises(SweepError, match="the scheduler is lost\n  0 of 6 runs are complete"):
        whimbrel.sweep(small, out=tmp_path / "out", scheduler=client, progress=False)


def test_partition_is_written_while_no_run_arrives(small, tmp_path, monkeypatch):
    from whimbrel.cluster import _partitions

    partitions = _partitions.Partitions(tmp_path, whimbrel.load(small))
    partitions.known()
    partitions.add(whimbrel.run(small, progress=False)._runs.lines()[:2])
    partitions.flush_if_due()
    assert partition_runs(tmp_path) == []
    monkeypatch.setattr(_partitions, "SECONDS", 0.0)
    partitions.flush_if_due()
    assert partition_runs(tmp_path) == [0, 1]
    # A partition that is not complete, after a loss of power, is written again.
    (tmp_path / "partitions/part-000000.parquet").write_bytes(b"PAR1")
    assert partitions.known() == set() and partition_runs(tmp_path) == []


def test_failed_runs_keep_seed_and_message_and_are_tried_again(small, client, tmp_path, monkeypatch):
    from whimbrel.cluster import _task

    real = _task.run_some

    def fail(scenario, numbers):
        if 4 in numbers:
            raise MemoryError("no memory for run 4")
        return real(scenario, numbers)

    monkeypatch.setattr(_task, "run_some", fail)
    out = tmp_path / "out"
    report = whimbrel.sweep(small, out=out, scheduler=client, progress=False)
    assert (report.runs, report.new) == (5, 5)
    (failure,) = report.failures
    assert (failure["run"], failure["point"], failure["seed"]) == (4, 1, 2)
    assert failure["message"] == "MemoryError: no memory for run 4"
    assert failure["params"] == {"flow.bulk.sctp.scheme": "veno"}
    assert [json.loads(line)["run"] for line in (out / "failures.jsonl").read_text().splitlines()] == [4]
    assert json.loads((out / "manifest.json").read_text())["status"] == "failed"
    monkeypatch.setattr(_task, "run_some", real)
    report = whimbrel.sweep(small, out=out, scheduler=client, resume=True, progress=False)
    assert (report.runs, report.new, report.failures) == (6, 1, [])
    assert not (out / "failures.jsonl").exists()
    whimbrel.run(small, out=tmp_path / "whole")
    assert contents(out) == contents(tmp_path / "whole")


def test_run_that_kills_its_workers_is_found_and_the_others_are_done(small, cluster, tmp_path):
    # A plugin of the workers ends the process that is given run 4.
    plugin = tmp_path / "deadly.py"
    plugin.write_text(
        "import os\n"
        "from whimbrel.cluster import _task\n"
        "_task.real = getattr(_task, 'real', _task.run_some)\n"
        "def die(scenario, numbers):\n"
        "    if 4 in numbers:\n"
        "        os._exit(9)\n"
        "    return _task.real(scenario, numbers)\n"
        "_task.run_some = die\n"
    )
    cluster.start_scheduler()
    words = ("--nthreads", 1, "--no-dashboard", "--host", "127.0.0.1", "--local-directory", cluster.folder, "--preload", plugin)
    cluster.workers.append(cluster.start("worker", cluster.address, *words))
    report = whimbrel.sweep(small, out=tmp_path / "out", scheduler=cluster.address, progress=False)
    assert report.runs == 5
    (failure,) = report.failures
    assert failure["run"] == 4 and failure["seed"] == 2 and "process of its worker died" in failure["message"]


def test_worker_with_other_inputs_or_another_version_ends_the_sweep(small, client, tmp_path, monkeypatch):
    from whimbrel.cluster import _sweep, _task
    from whimbrel.cluster._task import Spec

    trace = tmp_path / "rate.csv"
    trace.write_text("\n".join(str(6 * number) for number in range(1, 100)))
    small.write_text(small.read_text().replace('rate = "2 Mbit/s"', 'trace = { file = "rate.csv" }'))
    real = Spec.of
    assert real(whimbrel.load(small)).inputs, "the scenario names a file"
    differing = {
        "the sweep needs 0.0.1": lambda spec: spec._replace(version="0.0.1"),
        "another content in .*rate.csv": lambda spec: spec._replace(inputs=((spec.inputs[0][0], "0" * 64),)),
        "reads another scenario": lambda spec: spec._replace(hash="0" * 64),
        "same paths on all workers": lambda spec: spec._replace(text=spec.text.replace("rate.csv", "gone.csv")),
    }
    for number, (message, change) in enumerate(differing.items()):
        _task._loaded.clear()
        monkeypatch.setattr(_sweep.Spec, "of", staticmethod(lambda scenario, change=change: change(real(scenario))))
        with pytest.raises(SweepError, match=message):
            whimbrel.sweep(small, out=tmp_path / f"out{number}", scheduler=client, progress=False)


def test_points_end_when_their_precision_is_reached(small, client, tmp_path):
    out = tmp_path / "out"
    overrides = {"sweep": {"link.radio.loss.rate": [0.0, 0.02]}, "duration": "8 s"}
    rule = Precision("goodput_mbps", relative=0.05, least=4)
    report = whimbrel.sweep(small, out=out, scheduler=client, seeds=100, precision=rule, progress=False, **overrides)
    exact, noisy = report.seeds
    assert exact == 4 and 4 < noisy < 100, report.seeds
    assert noisy in rule.stages(100)
    assert json.loads((out / "manifest.json").read_text())["status"] == "stopped"
    values = report.results.metric("goodput_mbps").groupby("point")["goodput_mbps"]
    from whimbrel.stats import mean_interval

    for _, group in values:
        assert mean_interval(group).relative <= 0.05
    # The decision does not depend on the order in which runs end: a resumed sweep has nothing to do, a new one does the same runs.
    again = whimbrel.sweep(small, out=out, scheduler=client, seeds=100, precision=rule, resume=True, progress=False, **overrides)
    assert (again.new, again.seeds) == (0, report.seeds)
    other = whimbrel.sweep(small, out=tmp_path / "b", scheduler=client, seeds=100, precision=rule, progress=False, batch_s=0.001, **overrides)
    assert other.seeds == report.seeds


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("no-such-file.toml",), 2, "no such file"),
        (("--set", "link.radio.rat=3"), 2, "did you mean `rate`?"),
        (("--seeds", "0"), 2, "0 given"),
        (("--scheduler", "tcp://127.0.0.1:9"), 1, "no scheduler at tcp://127.0.0.1:9"),
        (("--scheduler", "tcp://127.0.0.1:9", "--workers", "2"), 2, "a scheduler has its own workers"),
        (("--precision", "0"), 2, "more than 0"),
        (("--precision", "0.1", "--metric", "goodput"), 2, "did you mean `goodput_mbps`?"),
        (("--precision", "0.1", "--metric", "cwnd_mean_mtu"), 2, "measured only in studies"),
        (("--batch", "-1"), 2, "more than 0 seconds"),
        (("--workers", "0"), 2, "1 or more"),
    ],
)
def test_wrong_use_from_the_shell_has_a_message_and_makes_no_results(small, tmp_path, words, code, message, capsys, monkeypatch):
    from whimbrel.__main__ import main
    from whimbrel.cluster import _sweep

    monkeypatch.setattr(_sweep, "CONNECT_S", 0.3)
    file = () if words[0].endswith(".toml") else (str(small),)
    assert main(["sweep", *file, *words, "--out", str(tmp_path / "out"), "-q"]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out/runs.jsonl").exists()


def test_plan_of_runs_that_fail_has_a_message(small, capsys, monkeypatch):
    from whimbrel.__main__ import main
    from whimbrel.cluster import _task

    def fail(scenario, numbers):
        raise MemoryError("no memory")

    monkeypatch.setattr(_task, "run_some", fail)
    assert main(["plan", str(small)]) == 1
    assert capsys.readouterr().err == "error: run 0 failed: MemoryError: no memory\n"


def test_precision_needs_the_least_number_of_values():
    rule = Precision("completion_s", relative=0.5, least=4)
    assert not rule.is_reached([1.0, 1.0, None, float("nan")]), "two values are not four"
    assert rule.is_reached([1.0, 1.0, None, 1.0, 1.0])


def test_ctrl_c_keeps_finished_runs(small, cluster, tmp_path):
    cluster.start_scheduler()
    cluster.start_workers(2)
    sweep = start_sweep(small, *LONG, "--out", tmp_path / "out", "--scheduler", cluster.address)
    wait_for_runs(tmp_path / "out", 3, sweep)
    os.kill(sweep.pid, signal.SIGINT)
    _, printed = sweep.communicate(timeout=30)
    assert sweep.returncode == 130 and "--resume continues" in printed, printed
    results = whimbrel.open_results(tmp_path / "out")
    assert 3 <= len(results) < 120 and (tmp_path / "out/results.csv").stat().st_size > 0


def test_ctrl_c_during_a_finaliser_is_not_lost():
    script = """
import os, signal
from whimbrel.cluster._interrupts import noted_interrupts

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

with noted_interrupts() as check:
    check()
    Finalised()
    try:
        check()
    except KeyboardInterrupt:
        print("noted")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "noted\nTrue\n", done.stderr


def test_local_cluster_from_a_script_gives_the_bytes_of_run(small, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import whimbrel\n"
        "if __name__ == '__main__':\n"
        f"    report = whimbrel.sweep({str(small)!r}, out={str(tmp_path / 'out')!r}, workers=2, progress=False)\n"
        "    print(report.runs)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=90)
    assert done.stdout == "6\n", done.stderr
    whimbrel.run(small, out=tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_plan_extrapolates_what_it_measured(small, client):
    plan = whimbrel.plan(small, runs=1_000_000, cores=1000, client=client)
    assert plan.runs == 1_000_000 and plan.run_s > 0 and plan.task_s > 0 and plan.store_s > 0
    assert plan.cpu_s == pytest.approx(1e6 * plan.run_s)
    assert plan.wall_s >= plan.cpu_s / 1000 and 0 < plan.efficiency <= 1
    assert "1000000 runs" in str(plan)
