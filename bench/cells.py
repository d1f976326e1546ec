"""Schemes over paths that are drawn at random: `bench/run cells [--seed N] [--cells N] [--seeds N] [--plot FILE] [SCHEME ...]`.

A cell is a bottleneck with a drop-tail queue, followed by a link with random losses for our flow: 1 to 90 Mbit/s, 10 to 300 ms of round trip, a queue of
0.05 to 4 bandwidth-delay products and at least 5 packets, all drawn log-uniformly; in three of four cells a loss rate of 0.1 to 3 %. Our flow is alone, then beside a TCP flow with CUBIC.
A datagram each 20 ms measures the queue. All schemes have the same cells and seeds, so the figures of a seed belong together.

`oracle` is CUBIC's window with the cause of each loss known. The columns of the table:

alone    cells with losses or without in which the goodput is at least .95 of the oracle's, and the least ratio
share    cells with losses in which the goodput beside CUBIC is at least .6 of the oracle's; median, least
harm     cells in which CUBIC's loss of goodput is at most 1.1 times the one that another CUBIC flow causes (Ware et al. 2019); median, most
excess   cells in which the harm exceeds that of the oracle, or 1 if that is less, by at most .1; most
surely   cells in which it does so by more than .1 with 95 % confidence, from paired seeds
queue    95th percentile of the queue's delay, in round-trip times, median of the cells: alone, beside CUBIC

A scheme is a name of `whimbrel schemes`, followed by fields that differ: `whimbrel`, `cubic,discriminator=fqrtt`.
"""

import argparse
import concurrent.futures
import csv
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import frontier

ORACLE = "cubic,discriminator=oracle"
SCHEMES = ["multipath", "whimbrel", "veno-tabe", "bbr", "copa", "abba", "cubic", "cubic,discriminator=fqrtt"]
PACKET = 1500
# A burst of a few packets always fits, whatever was drawn.
LEAST_QUEUE = 5
# Of our sockets and of TCP: more than any cell needs.
BUFFER = 64 << 20
# Student's t for 97.5 % by degrees of freedom; the next lower ones stand in for others.
T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 14: 2.14, 19: 2.09}
# The bars of the columns.
ALONE, SHARE, HARM, EXCESS = 0.95, 0.6, 1.1, 0.1


class Cell:
    """A path, by its number in the sequence of a seed."""

    def __init__(self, draw):
        log_uniform = lambda least, most: math.exp(draw.uniform(math.log(least), math.log(most)))
        self.rate = log_uniform(1, 90)
        self.rtt = log_uniform(10, 300)
        self.buffer = log_uniform(0.05, 4)
        self.loss = log_uniform(0.001, 0.03) if draw.random() < 0.75 else 0.0

    def packets(self):
        return max(LEAST_QUEUE, round(self.buffer * self.rate * self.rtt * 1000 / 8 / PACKET))

    def seconds(self):
        """The measured time: as many round trips as CUBIC needs to settle, within two minutes."""
        return min(120, max(40, 0.4 * self.rtt))

    def seeds(self, most):
        """Fast cells vary less and take longer."""
        return max(1, most - (self.rate > 15) - (self.rate > 50))

    def __str__(self):
        return f"{self.rate:.1f} Mbit/s, {self.rtt:.0f} ms, {self.buffer:.2f} BDP, {self.loss:.2%}"

    def scenario(self, ours, beside):
        """The text of a scenario with our flow, if `ours` is given, and the TCP flow beside it, if `beside`."""
        one_way = self.rtt / 2 - 2
        measure = 10 + 20 * self.rtt / 1000
        links = [
            ("s", "r", "1 Gbit/s", 1, ""),
            ("r", "q", f"{self.rate * 1e6:.0f} bit/s", one_way, f'name = "bottleneck"\nforward = {{ queue = {{ kind = "drop-tail", packets = {self.packets()} }} }}\n'),
            ("q", "d", "1 Gbit/s", 1, f'forward = {{ loss = {{ kind = "bernoulli", rate = {self.loss:.6f} }} }}\n' if self.loss else ""),
            ("x", "r", "1 Gbit/s", 1, ""),
            ("q", "y", "1 Gbit/s", 1, ""),
        ]  # fmt: skip
        text = f'title = "cell"\nduration = "{measure + self.seconds():.3f} s"\nmeasure = {{ from = "{measure:.3f} s" }}\nrecord = {{ series = "none", events = "none", packets = "none" }}\n'
        text += "".join(f'[[node]]\nname = "{name}"\n' for name in "srqdxy")
        for a, b, rate, delay, more in links:
            text += f'[[link]]\nbetween = ["{a}", "{b}"]\nrate = "{rate}"\ndelay = "{delay * 1000:.0f} us"\n'
            text += 'queue = { kind = "drop-tail", packets = 100000 }\n' + more
        tcp = f'scheme = "cubic", mss = 1440, recv_buffer = {BUFFER}, send_buffer = {BUFFER}'
        traffic = 'traffic = { kind = "endless", message_bytes = 1440 }\nstart_within = "1 s"\n'
        if ours == "tcp":
            text += f'[[flow]]\nname = "ours"\nkind = "tcp"\nfrom = "x"\nto = "y"\n{traffic}tcp = {{ {tcp} }}\n'
        elif ours:
            text += f'[[flow]]\nname = "ours"\nfrom = "s"\nto = "d"\n{traffic}sctp = {{ {sctp(ours)} }}\n'
        if beside:
            text += f'[[flow]]\nname = "cubic"\nkind = "tcp"\nfrom = "x"\nto = "y"\n{traffic}tcp = {{ {tcp} }}\n'
        probe = 'traffic = { kind = "cbr", rate = "16 kbit/s", message_bytes = 40 }\n'
        return text + f'[[flow]]\nname = "probe"\nkind = "udp"\nfrom = "x"\nto = "y"\n{probe}'


def sctp(scheme):
    name, *fields = scheme.split(",")
    text = f'scheme = "{name}", recv_buffer = {BUFFER}, send_buffer = {BUFFER}'
    for field in fields:
        key, _, value = field.partition("=")
        plain = value in ("true", "false") or value.replace(".", "", 1).isdigit()
        text += f", {key} = {value}" if plain else f', {key} = "{value}"'
    return text


def measure(command, text, seeds):
    """The results of a scenario by flow: goodput and 95th percentile of the delay, for each seed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cell.toml"
        file.write_text(text)
        out = Path(folder) / "out"
        arguments = [command, "run", file, "--quiet", "--seeds", str(seeds), "--jobs", "1", "--out", out]
        done = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        flows = {}
        with (out / "results.csv").open() as table:
            for row in csv.DictReader(table):
                flows.setdefault(row["flow"], []).append((float(row["goodput_mbps"] or 0), float(row["delay_p95_ms"] or "nan")))
    return flows


def measure_cell(command, cell, schemes, most_seeds):
    """All results of a cell: by scheme, alone and beside CUBIC."""
    seeds = cell.seeds(most_seeds)
    run = lambda ours, beside: measure(command, cell.scenario(ours, beside), seeds)
    results = {scheme: (run(scheme, False), run(scheme, True)) for scheme in [ORACLE, *schemes]}
    return results, run(None, True), run("tcp", True)


def harm(cell_results, beside):
    """The harm to the CUBIC flow of each seed, relative to that by another CUBIC flow."""
    _, alone, like = cell_results
    found = []
    for (solo, _), (equal, _), (value, _) in zip(alone["cubic"], like["cubic"], beside["cubic"]):
        found.append((solo - value) / max(solo - equal, 0.05 * solo))
    return found


def mean(values):
    return statistics.fmean(values) if values else math.nan


def goodput(flows):
    return mean([value for value, _ in flows["ours"]])


def interval(values):
    """The half-width of the 95 % interval; infinite for one value."""
    if len(values) < 2:
        return math.inf
    freedom = max(known for known in T if known < len(values))
    return T[freedom] * statistics.stdev(values) / math.sqrt(len(values))


def queue(flows, cell):
    """The 95th percentile of the delay in the queue, in round-trip times."""
    base = cell.rtt / 2
    return mean([max(0.0, delay - base) for _, delay in flows["probe"]]) / cell.rtt


def row(scheme, cells, results):
    """The line of a scheme in the table, its worst cells, and its point in the figure."""
    alone, share, harms, excess, surely, queues = [], [], [], [], 0, ([], [])
    for cell, found in zip(cells, results):
        (solo, beside), (best_solo, best_beside) = found[0][scheme], found[0][ORACLE]
        alone.append((goodput(solo) / max(goodput(best_solo), 1e-9), cell))
        if cell.loss:
            share.append((goodput(beside) / max(goodput(best_beside), 1e-9), cell))
        ours, best = harm(found, beside), harm(found, best_beside)
        harms.append((mean(ours), cell))
        beyond = [one - max(1.0, mean(best)) for one in ours]
        excess.append((mean(beyond), cell))
        surely += mean(beyond) - interval(beyond) > EXCESS
        queues[0].append(queue(solo, cell))
        queues[1].append(queue(beside, cell))
    values = lambda pairs: [value for value, _ in pairs]
    least, most = lambda pairs: min(values(pairs), default=math.nan), lambda pairs: max(values(pairs), default=math.nan)
    count = lambda pairs, passes: f"{sum(passes(value) for value in values(pairs))}/{len(pairs)}"
    median = lambda pairs: statistics.median(values(pairs)) if pairs else math.nan
    line = (
        f"| `{scheme}` | {count(alone, lambda v: v >= ALONE)} ({least(alone):.2f}) "
        f"| {count(share, lambda v: v >= SHARE)} ({median(share):.2f}, {least(share):.2f}) "
        f"| {count(harms, lambda v: v <= HARM)} ({median(harms):.2f}, {most(harms):.2f}) "
        f"| {count(excess, lambda v: v <= EXCESS)} ({most(excess):.2f}), {surely} surely "
        f"| {statistics.median(queues[0]):.2f} / {statistics.median(queues[1]):.2f} |"
    )
    worst = [("alone", *min(alone, key=lambda pair: pair[0])), ("excess harm", *max(excess, key=lambda pair: pair[0]))]
    if share:
        worst.insert(1, ("share", *min(share, key=lambda pair: pair[0])))
    passing = lambda pairs, passes: mean([float(passes(value)) for value in values(pairs)])
    point = (passing(alone, lambda v: v >= ALONE), passing(share, lambda v: v >= SHARE), passing(excess, lambda v: v <= EXCESS), statistics.median(queues[0]))
    return line, worst, point


def cells(build, arguments):
    """`build` returns the command; wrong arguments are found before it is called."""
    parser = argparse.ArgumentParser(prog="bench/run cells", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="selects the cells; default: 1")
    parser.add_argument("--cells", type=int, default=64, help="number of cells; default: 64")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each cell at low rates; at high ones one or two fewer; default: 5")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the trade-offs as SVG")
    parser.add_argument("schemes", nargs="*", default=SCHEMES, metavar="SCHEME")
    given = parser.parse_args(arguments)
    if given.cells < 1 or given.seeds < 1:
        sys.exit("bench/run cells: --cells and --seeds are 1 or more")
    command = build()
    draw = random.Random(given.seed)
    drawn = [Cell(draw) for _ in range(given.cells)]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(measure_cell, command, cell, given.schemes, given.seeds) for cell in drawn]
        results = []
        for number, job in enumerate(jobs, 1):
            try:
                results.append(job.result())
            except RuntimeError as error:
                pool.shutdown(cancel_futures=True)
                sys.exit(f"bench/run cells: {error}")
            print(f"{number} of {given.cells} cells, {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(f"{given.cells} cells of seed {given.seed}, {sum(bool(cell.loss) for cell in drawn)} with losses, up to {given.seeds} runs each\n")
    print("| scheme | alone >= .95 of the oracle (least) | share >= .6 of the oracle's with loss (median, least) | harm to CUBIC <= 1.1 (median, most) | excess harm <= .1 (most) | p95 queue alone / beside, RTT |")
    print("|---|---|---|---|---|---|")
    worst, points = {}, []
    for scheme in [ORACLE, *given.schemes]:
        line, worst[scheme], point = row(scheme, drawn, results)
        points.append(("oracle" if scheme == ORACLE else scheme, *point))
        print(line)
    if given.plot:
        frontier.draw(given.plot, points)
    print("\nThe worst cell of each:")
    for scheme in given.schemes:
        for what, value, cell in worst[scheme]:
            print(f"  {scheme}: {what} {value:.2f} at {cell}")
    print(f"\n{time.monotonic() - began:.0f} s")
