#!/usr/bin/env python3
"""What Pongaliur 2005 measures, in ns-2: transports in a mobile ad hoc network, and what SACKs say about delay.

Use: manet-sacks.py SPEED PAUSE SECONDS RUNS [TRAFFIC ...]    TRAFFIC as manet.tcl has it; sctp tcp:32:512 without.
Prints for each run: packets of data delivered of those sent, their mean delay, bytes of routing for each byte of data, goodput, and for
SCTP the correlations of delay with duplicates, of delay with gap ack blocks and of both.
"""

import random
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NODES, FLOWS, SIDE, FROM, SLOT = 50, 25, 1500.0, 20.0, 0.5


def movements(seed, speed, pause, seconds):
    """Random waypoints; all nodes begin with a pause."""
    rng = random.Random(seed)
    lines = []
    for node in range(NODES):
        place = [rng.uniform(1, SIDE - 1) for _ in "XY"]
        lines += [f"$node_({node}) set {axis}_ {value:.6f}" for axis, value in zip("XYZ", [*place, 0.0])]
        time = max(pause, 0.001)
        while time < seconds:
            target = [rng.uniform(1, SIDE - 1) for _ in "XY"]
            lines.append(f'$ns_ at {time:.6f} "$node_({node}) setdest {target[0]:.6f} {target[1]:.6f} {speed:.6f}"')
            time += sum((a - b) ** 2 for a, b in zip(place, target)) ** 0.5 / speed + pause
            place = target
    return "\n".join(lines) + "\n"


class Receiver:
    """What the receiver of an association knows: the cumulative TSN, those beyond it, and duplicates not yet reported."""

    def __init__(self):
        self.cumulative, self.beyond, self.duplicates = None, set(), 0

    def data(self, tsn):
        if self.cumulative is None:
            self.cumulative = tsn - 1
        new = tsn > self.cumulative and tsn not in self.beyond
        if not new:
            self.duplicates += 1
            return False
        self.beyond.add(tsn)
        while self.cumulative + 1 in self.beyond:
            self.cumulative += 1
            self.beyond.discard(self.cumulative)
        return True

    def sack(self):
        blocks = sum(tsn - 1 not in self.beyond for tsn in self.beyond)
        duplicates, self.duplicates = self.duplicates, 0
        return blocks, duplicates


def correlation(pairs):
    try:
        return statistics.correlation(*zip(*pairs))
    except (statistics.StatisticsError, TypeError):
        return float("nan")


def run(folder, traffic, seconds):
    # Some runs of ns-2 with SCTP end in a memory error, others might never end.
    command = ["timeout", "90", "ns", FOLDER / "manet.tcl", "AODV", "movements.tcl", NODES, FLOWS, seconds, traffic]
    ns = subprocess.Popen(
        [*map(str, command), "/dev/stdout", "agents"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, errors="replace",
    )
    sent, delays, receivers = {}, [], defaultdict(Receiver)
    packets = arrived = routing = octets = useful = 0
    # By association and half second: delays of what arrived, then gap ack blocks and duplicates of each SACK.
    slots = defaultdict(lambda: ([], []))
    seen = defaultdict(set)
    for line in ns.stdout:
        fields = line.replace("[", " ").replace("]", " ").split()
        if len(fields) < 8 or fields[0] not in ("s", "r", "f"):
            continue
        event, time, node, layer, packet, kind, size = *fields[:4], fields[5], fields[6], fields[7]
        time = float(time)
        if layer == "RTR" and kind == "AODV" and event in "sf" and time >= FROM:
            routing += int(size)
        if layer != "AGT":
            continue
        flow = int(node.strip("_"))
        # After the four numbers of the frame and dashes: source, target, lifetime, next hop; then the transport's.
        rest = fields[17:]
        is_data = kind == "tcp" or (kind == "sctp" and rest[1] == "D")
        if is_data and event == "s":
            sent[packet] = time
            if kind == "sctp" and receivers[flow + FLOWS].cumulative is None:
                receivers[flow + FLOWS].cumulative = int(rest[2]) - 1
            if time >= FROM:
                packets += 1
                octets += int(size)
        elif is_data and event == "r":
            delay = time - sent.get(packet, time)
            if kind == "sctp":
                new = receivers[flow].data(int(rest[2]))
            else:
                new = rest[0] not in seen[flow]
                seen[flow].add(rest[0])
            if time >= FROM:
                arrived += 1
                delays.append(delay)
                useful += int(size) * new
                slots[flow, int(time / SLOT)][0].append(delay)
        elif kind == "sctp" and event == "s" and rest[1] == "S" and time >= FROM:
            slots[flow, int(time / SLOT)][1].append(receivers[flow].sack())
    if ns.wait() != 0:
        return None
    rows = [
        (slot, statistics.mean(d), statistics.mean(g for g, _ in s), statistics.mean(n for _, n in s))
        for (_, slot), (d, s) in slots.items()
        if d and s
    ]
    whole = defaultdict(lambda: ([], []))
    for (_, slot), (d, s) in slots.items():
        whole[slot][0].extend(d)
        whole[slot][1].extend(s)
    network = [
        (slot, statistics.mean(d), sum(g for g, _ in s), sum(n for _, n in s)) for slot, (d, s) in whole.items() if d and s
    ]
    values = [arrived / packets, 1e3 * statistics.mean(delays), routing / octets, useful * 8 / (seconds - FROM) / 1e6]
    for table in (rows, network, [row for row in network if 110 <= row[0] < 120]):
        values += [
            correlation([(row[1], row[3]) for row in table]),
            correlation([(row[1], row[2]) for row in table]),
            correlation([(row[2], row[3]) for row in table]),
        ]
    return values


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    speed, pause, seconds, runs = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print("traffic run delivered delay_ms routing goodput_mbps | correlations by associations (duplicates, gaps, each other)", end="")
    print(" | of the whole network | from 55 to 60 s")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for traffic in sys.argv[5:] or ["sctp", "tcp:32:512"]:
            all_values = []
            for seed in range(1, runs + 1):
                (folder / "movements.tcl").write_text(movements(seed, speed, pause, seconds))
                values = run(folder, traffic, seconds)
                if values is None:
                    print(traffic, seed, "ns-2 failed", flush=True)
                    continue
                all_values.append(values)
                print(traffic, seed, *(f"{v:.3g}" for v in values), flush=True)
            if all_values:
                print(traffic, "mean", *(f"{statistics.mean(v):.3g}" for v in zip(*all_values)), flush=True)


if __name__ == "__main__":
    main()
