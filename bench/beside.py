"""The scenarios of bench/ns2 here and in ns-2: goodput with 95 % confidence intervals, and whether these overlap."""

import concurrent.futures
import json
import os
import statistics
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "ns2"
# Student's t for 95 % by degrees of freedom.
T95 = {
    7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110,
    18: 2.101, 19: 2.093, 23: 2.069, 31: 2.040, 39: 2.023,
}  # fmt: skip
LEAST = 8

FIVE_HOPS = ["chain.tcl", "hops", 5, "delay", "0.01ms", "packets", 100]
RED = ["chain.tcl", "rate", "10Mb", "queue", "RED", "min", 5, "max", 15, "rwnd", 131072, "streams", 4]
TWO_PATHS = ["two-paths.tcl", "seconds", 400, "good", 8.5, "bad", 1.5]
JSCTP = [
    "two-paths.tcl", "seconds", 400, "bad", 0, "loss2", 0, "rwnd", 262144, "access", "5ms", "wire", "2Mb", "delay", "35ms",
    "rate1", "11Mb", "rate2", "11Mb", "last", "5ms",
]  # fmt: skip
CMT = ["two-paths.tcl", "seconds", 400, "bad", 0, "agent", "SCTP/CMT", "rwnd", 262144]

# What is compared: a title, our scenario, what is changed in it, ns-2's script, and what a point of the scenario changes there.
COMPARISONS = [
    ("chain of five hops", "five-hop.toml", {}, FIVE_HOPS, {"link.first.forward.loss.rate": "loss"}),
    (
        "the same, RTO.Min 0.2 s",
        "five-hop.toml",
        {"flow.bulk.sctp.rto_min": "200 ms"},
        [*FIVE_HOPS, "minrto", 0.2],
        {"link.first.forward.loss.rate": "loss"},
    ),
    (
        "the same, a SACK for each packet",
        "five-hop.toml",
        {"flow.bulk.sctp.sack_frequency": "1"},
        [*FIVE_HOPS, "sack", 0],
        {"link.first.forward.loss.rate": "loss"},
    ),
    ("one hop of 20 ms", "lossy-link.toml", {}, ["chain.tcl"], {"link.radio.forward.loss.rate": "loss"}),
    (
        "two paths, the first bad for 15 %",
        "two-paths.toml",
        {},
        TWO_PATHS,
        {"flow.download.sctp.retransmit_path": ("rtx", {"alternate": 1, "same": 0})},
    ),
    ("two paths of JSCTP", "jsctp.toml", {}, JSCTP, {"link.radio1.forward.loss.rate": "loss"}),
    ("CMT", "cmt.toml", {}, CMT, {"link.radio2.forward.loss.rate": "loss2"}),
    (
        "CMT, here a SACK for each packet",
        "cmt.toml",
        {"flow.download.sctp.sack_frequency": "1"},
        CMT,
        {"link.radio2.forward.loss.rate": "loss2"},
    ),
    (
        "string of 802.11 nodes",
        "string.toml",
        {},
        ["string.tcl"],
        {"flow.bulk.to": ("hops", {"n1": 1, "n2": 2, "n3": 3, "n4": 4})},
    ),
    (
        "RED",
        "red.toml",
        {},
        RED,
        {"link.bottleneck.forward.queue.wait": ("wait", {True: "true", False: "false"})},
    ),
    (
        "TCP, an ACK for each segment",
        "lossy-tcp.toml",
        {},
        ["chain.tcl"],
        {"flow.bulk.tcp.flavour": "kind", "link.radio.forward.loss.rate": "loss"},
    ),
    (
        "TCP, an ACK for two",
        "lossy-tcp.toml",
        {"flow.bulk.tcp.ack_frequency": "2"},
        ["chain.tcl", "sink", 1],
        {"flow.bulk.tcp.flavour": "kind", "link.radio.forward.loss.rate": "loss"},
    ),
]


def interval(values):
    """Mean and half of the 95 % confidence interval."""
    mean = statistics.mean(values)
    return mean, T95[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5


def ours(binary, scenario, changes, seeds):
    sets = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    command = [binary, "run", FOLDER / scenario, *sets, "--json", "--quiet", "--seeds", str(seeds)]
    report = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
    for point in json.loads(report)["points"]:
        goodput = point["metrics"]["goodput_mbps"]
        yield point["params"], goodput["mean"], goodput["ci95"] or 0.0


def once(command):
    """Goodput of one run in Mbit/s; none if ns-2 crashed, as its SCTP does with some seeds."""
    done = subprocess.run(
        ["ns", *map(str, command)], cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if done.returncode != 0:
        return None
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) == 1 and words[0].replace(".", "", 1).isdigit():
            return float(words[0])
        if len(words) > 1 and words[1] == "bytes,":
            seconds = float(command[command.index("seconds") + 1])
            return int(words[0]) * 8 / seconds / 1e6
    return None


def theirs(script, seeds):
    """Goodputs of the first `seeds` runs that ns-2 brings to their end, and how many it did not."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        values = list(pool.map(lambda seed: once([*script, "seed", seed]), range(1, seeds + 9)))
    good = [value for value in values if value is not None]
    crashed = sum(value is None for value in values[: len(values) - max(0, len(good) - seeds)])
    return good[:seeds], crashed


def options(point, names):
    for key, value in point.items():
        name = names[key]
        if isinstance(name, tuple):
            name, mapping = name
            value = mapping[value]
        yield from (name, value)


def beside(binary, only=None, seeds=20):
    print("| scenario | point | ns-2.35 | preset `ns2` | difference | overlap |\n|---|---|---|---|---|---|")
    differ = 0
    for title, scenario, changes, script, names in COMPARISONS:
        if only and only not in title:
            continue
        for point, mean, half in ours(binary, scenario, changes, seeds):
            words = list(options(point, names))
            values, crashed = theirs([*script, *words], seeds)
            label = ", ".join(f"{name} {value}" for name, value in zip(words[::2], words[1::2]))
            if len(values) < LEAST:
                print(f"| {title} | {label} | only {len(values)} runs of ns-2 ended | | | |")
                continue
            other, other_half = interval(values)
            # Without chance both are the same in every run; a thousandth is a packet or two at the ends of the time.
            overlap = abs(mean - other) <= half + other_half + 0.001 * other
            differ += not overlap
            note = f" ({crashed} crashed)" if crashed else ""
            print(
                f"| {title} | {label} | {other:.4f} ± {other_half:.4f}{note} | {mean:.4f} ± {half:.4f} "
                f"| {100 * (mean / other - 1):+.1f} % | {'yes' if overlap else 'NO'} |",
                flush=True,
            )
    print(f"\nintervals that do not overlap: {differ}")
