"""Cells of the study `matrix`, live and simulated: `bench/run matrix [SCHEME] [CELL ...]`, and the ends of a TCP connection for it.

A cell is a path of studies/matrix/study.toml: rate, round-trip time, buffer, losses, and the flow beside ours. Live, `whimbrel perf` sends over
the emulated links from a socket to another one; the flow beside it is a TCP connection of the kernel, or another `perf`. Simulated, the cell is
that of the study, but with the timer of the driver, and with BBR version 1 where the study has version 3, because that is the kernel's.

Goodput is measured in the same seconds of the cell. A cell agrees if the mean goodput of our flow in the live runs lies within 10 % of the range
of the simulated runs.

Without a cell, 20 cells are measured, taken at equal distances from the list of those up to 200 Mbit/s, and the table in docs/own-scheme.md is
replaced. Cells of 1 Gbit/s need more processors than two.
"""

import concurrent.futures
import csv
import json
import os
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from compare import acknowledged, connect, send_on, sink

ROOT = Path(__file__).resolve().parent.parent
STUDY = ROOT / "studies/matrix"
PAGE = ROOT / "docs/own-scheme.md"
BEGIN, END = "<!-- bench/run matrix -->\n", "<!-- end -->\n"
CELLS = 20
LIVE_SEEDS, SIMULATED_SEEDS = 2, 10
TOLERANCE = 0.1
# Emulations at a time, by the rate of the bottleneck.
PARALLEL = {"1 Mbit/s": 3, "20 Mbit/s": 1, "200 Mbit/s": 1}
# A run counts only if 99 % of the packets left within this time; the shortest round-trip time of the cells is 10 ms.
LATE = "1 ms"
ATTEMPTS = 3
# Of the driver (`whimbrel::TIMER_GRANULARITY`): paced packets leave in bursts of this duration.
GRANULARITY = "250 us"
# The kernel's congestion controls for those of the simulated TCP, and the simulated one that the kernel's BBR is like.
KERNEL = {"cubic": "cubic", "standard": "reno", "bbr": "bbr"}
ALIKE = {"bbr": "bbr1"}
# Limit of the buffers of our sockets and of TCP: more than any cell needs.
BUFFER = 64 << 20
# Addresses of the emulator, by the numbers of the links in the scenarios: our ends, and those of the flow beside.
OURS, BESIDE = ("10.0.0.1", "10.2.0.2"), ("10.3.0.1", "10.4.0.2")
MESSAGE = 1440


def cells():
    """Each cell's number, with its scenario, fields and what it is, up to 200 Mbit/s."""
    text = (STUDY / "study.toml").read_text()
    study = tomllib.loads(text)
    about = dict(re.findall(r'^  # (.*)\n  \{ is = "(c\d+)"', text, re.MULTILINE))
    about = {cell: what for what, cell in about.items()}
    found = {}
    for scenario in study["scenario"]:
        if scenario["name"] not in ("alone", "tcp", "itself"):
            continue
        axis = next(axis for axis in scenario["axis"] if axis["name"] == "cell")
        for value in axis["values"]:
            if value["set"]["link.bottleneck.rate"] in PARALLEL:
                found[value["is"]] = Cell(value["is"], scenario["name"], value["set"], about[value["is"]])
    return dict(sorted(found.items()))


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(of)}" for key, of in value.items()) + " }"
    return json.dumps(value)


def number(span):
    return float(span.removesuffix(" s"))


class Cell:
    def __init__(self, name, scenario, fields, about):
        self.name, self.scenario, self.about = name, scenario, about.removesuffix(", held out")
        self.fields = dict(fields)
        self.rate = fields["link.bottleneck.rate"]
        self.begin, self.end = number(fields["measure.from"]), number(fields["duration"])
        # The flow beside ours: a scheme of TCP, or our own again.
        self.beside = {"alone": None, "itself": "itself", "tcp": fields.get("flow.cross.tcp.scheme", "cubic")}[scenario]
        if self.beside in ALIKE:
            self.fields["flow.cross.tcp.scheme"] = ALIKE[self.beside]

    def settings(self, scheme):
        fields = {**self.fields, "flow.bulk.sctp.scheme": scheme, "node.s.timer_granularity": GRANULARITY}
        if self.beside == "itself":
            fields |= {"flow.cross.sctp.scheme": scheme, "node.x.timer_granularity": GRANULARITY}
        return [part for key, value in fields.items() for part in ("--set", f"{key}={toml(value)}")]

    def file(self):
        return STUDY / f"{self.scenario}.toml"

    def simulate(self, binary, scheme):
        """The goodputs of both flows in Mbit/s for each seed."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [binary, "run", self.file(), *self.settings(scheme), "--seeds", str(SIMULATED_SEEDS), "--quiet", "--out", f"{folder}/out"],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            rows = list(csv.DictReader(open(f"{folder}/out/results.csv")))
        of = lambda flow: [float(row["goodput_mbps"]) for row in rows if row["flow"] == flow]
        return {"ours": of("bulk"), "other": of("cross")}

    def live(self, binary, scheme, seed, name):
        """The goodputs of one run, or the reason why there are none."""
        note = "not run"
        for _ in range(ATTEMPTS):
            outcome = self.emulate(binary, scheme, seed, name)
            if not isinstance(outcome, str):
                return outcome
            note = outcome
        return {"note": note}

    def emulate(self, binary, scheme, seed, name):
        script = f"{sys.executable} {__file__}"
        # The flows end after the measured time. What is measured then does not count.
        seconds = int(self.end) + 2
        perf = f"{binary} perf --insecure --length {MESSAGE} --buffer {BUFFER} --scheme {scheme} --json"
        serve = f"{binary} perf --server --insecure --once --buffer {BUFFER} --json --listen"
        with tempfile.TemporaryDirectory() as folder:
            runs = [f"d: {serve} {OURS[1]} > server.json"]
            if self.beside == "itself":
                runs += [f"y: {serve} {BESIDE[1]} > other-server.json", f"x: sleep 0.5; {perf} --time {seconds} {BESIDE[1]} > other.json"]
            elif self.beside:
                runs += [f"y: {script} sink 5001", f"x: sleep 0.5; {script} flow {BESIDE[1]} 5001 {KERNEL[self.beside]} {self.begin} {self.end} > other.json"]
            client = f"sleep 0.5; {perf} --time {seconds} {OURS[1]} > ours.json"
            done = subprocess.run(
                [binary, "emulate", self.file(), *self.settings(scheme), "--json", "--quiet", "--seed", str(seed), "--name", name, "--late", LATE,
                 "--duration", f"{seconds + 60} s", *(part for run in runs for part in ("--run", run)), "--at", "s", "--", "sh", "-c", client],
                cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            lines = done.stdout.strip().splitlines()
            report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"too_slow": None}
            if report["too_slow"]:
                return f"the machine was too slow: {report['too_slow']}"
            if done.returncode != 0:
                return f"failed: {' '.join((done.stderr or done.stdout).split())[-200:]}"
            figures = {"ours": self.measured(f"{folder}/ours.json")}
            if self.beside == "itself":
                figures["other"] = self.measured(f"{folder}/other.json")
            elif self.beside:
                figures["other"] = json.loads(Path(f"{folder}/other.json").read_text())["mbps"]
            return figures

    def measured(self, path):
        """Goodput in a report of `perf` within the measured time."""
        intervals = json.loads(Path(path).read_text())["intervals"]
        inside = [one for one in intervals if one["start"] >= self.begin - 0.5 and one["end"] <= self.end + 0.5]
        return sum(one["bytes"] for one in inside) * 8 / 1e6 / sum(one["end"] - one["start"] for one in inside)


def widen():
    """Lets TCP of this network namespace have large buffers."""
    for name in ("tcp_rmem", "tcp_wmem"):
        Path(f"/proc/sys/net/ipv4/{name}").write_text(f"4096 131072 {BUFFER}")


def flow(address, port, control, begin, end):
    """Sends over TCP and prints the goodput between two times after the start."""
    widen()
    connection, start = connect(address, port, control)
    send_on(connection)
    time.sleep(begin)
    first, since = acknowledged(connection), time.monotonic()
    time.sleep(start + end - since)
    print(json.dumps({"mbps": (acknowledged(connection) - first) * 8 / 1e6 / (time.monotonic() - since)}), flush=True)
    # Sends on until the emulation ends: our flow may still be measured.
    time.sleep(60)


def spread(values):
    return f"{statistics.mean(values):.3g} ({min(values):.3g} to {max(values):.3g})" if values else "-"


def share(ours, other):
    return f"{statistics.mean(a / (a + b) for a, b in zip(ours, other)):.2f}" if other else "-"


def judge(cell, simulated, runs):
    """A row of the table, and whether the cell agrees (None without a live run)."""
    live = {flow: [run[flow] for run in runs if flow in run] for flow in ("ours", "other")}
    notes = sorted({run["note"] for run in runs if "note" in run})
    head = f"| {cell.name} | {cell.about} |"
    if not live["ours"]:
        return f"{head} not run: {notes[0]} | {spread(simulated['ours'])} | | | |", None
    mean, least, most = statistics.mean(live["ours"]), min(simulated["ours"]), max(simulated["ours"])
    ratio = mean / min(max(mean, least), most)
    agrees = abs(ratio - 1) <= TOLERANCE
    shares = f"{share(live['ours'], live['other'])} | {share(simulated['ours'], simulated['other'])}"
    return f"{head} {spread(live['ours'])} | {spread(simulated['ours'])} | {ratio:.2f}{'' if agrees else ', differs'} | {shares} |", agrees


def into_page(begin, table):
    """Replaces the table behind a mark of the page."""
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(before + begin + "\n" + "\n".join(table) + "\n\n" + END + rest.split(END, 1)[1])


HEAD = ["| cell | path | live, Mbit/s | simulated, Mbit/s | ratio | share live | simulated |", "|---|---|--:|--:|--:|--:|--:|"]


def matrix(binary, wanted):
    known = cells()
    scheme, *unknown = [name for name in wanted if name not in known] or ["whimbrel"]
    if unknown:
        sys.exit(f"no cells: {', '.join(unknown)}; cells up to 200 Mbit/s are {', '.join(known)}")
    # Names the schemes if it is none.
    if subprocess.run([binary, "schemes", "show", scheme], stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit(1)
    chosen = [known[name] for name in wanted if name in known]
    keeps = not chosen
    chosen = chosen or [list(known.values())[place * len(known) // CELLS] for place in range(CELLS)]
    print(f"scheme {scheme}: {len(chosen)} of {len(known)} cells\n\n" + "\n".join(HEAD), flush=True)
    rows, agreeing = [], []
    for rate, parallel in PARALLEL.items():
        names = queue.SimpleQueue()
        for place in range(parallel):
            names.put(f"matrix-{place}")

        def one(cell, seed):
            name = names.get()
            try:
                return cell.live(binary, scheme, seed, name)
            finally:
                names.put(name)

        part = [cell for cell in chosen if cell.rate == rate]
        # Simulations first: they would delay the packets of emulations.
        simulated = {cell.name: cell.simulate(binary, scheme) for cell in part}
        with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
            waiting = [(cell, [pool.submit(one, cell, seed) for seed in range(1, LIVE_SEEDS + 1)]) for cell in part]
            for cell, futures in waiting:
                runs = [future.result() for future in futures]
                row, agrees = judge(cell, simulated[cell.name], runs)
                agreeing.append(agrees)
                rows.append(row)
                print(row, flush=True)
    print(f"\n{agreeing.count(True)} of {len(agreeing)} cells agree, {agreeing.count(None)} not run", flush=True)
    if keeps:
        into_page(BEGIN, HEAD + rows)


def main():
    match sys.argv[1:]:
        case ["sink", port]:
            widen()
            sink(int(port))
        case ["flow", address, port, control, begin, end]:
            flow(address, int(port), control, float(begin), float(end))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
