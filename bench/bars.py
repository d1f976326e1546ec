"""What a scheme does beside its own kind, with a deep queue, at an access point and over recorded cellular links: `bench/run bars [SCHEME ...]`.

Everything is simulated. The columns of the table:

own           Jain's index of flows of the same kind on 20 Mbit/s, 40 ms and 100 packets, least of the seeds: 2 flows; 2, 8, 25 flows that lose 1 % each
deep queue    alone with a queue of 1000 packets at 20 Mbit/s: goodput in Mbit/s and 95th percentile of the queue in packets, 40 and 100 ms
              without loss, 100 ms with 1 %
access point  Mbit/s, ours : CUBIC. Our association has a Wi-Fi uplink of 20 Mbit/s that loses 1 %, with a queue of 60 and of 250 packets at the
              access point, and LTE of 8 Mbit/s. A TCP flow with CUBIC uses the access point. An equal share of Wi-Fi is about 17.4 : 9.7.
              Schemes that use one path have Wi-Fi only.
cellular      links that follow recordings: goodput and 95th percentile of the delay as a multiple of those of the first scheme, geometric means of
              the recordings; in brackets the least goodput and the longest delay. --traces FOLDER: files with one time in ms for each packet of
              1500 bytes, as mahimahi has them. Without it, the made-up recordings of the study two-cellulars.

A scheme is a name of `whimbrel schemes`, followed by fields that differ: `drain`, `multipath,window=cubic`.
"""

import argparse
import concurrent.futures
import math
import os
import statistics
import sys
import time
from pathlib import Path

from cells import BUFFER, measure, sctp

ROOT = Path(__file__).resolve().parent.parent
# The parts of veno-tabe on each path: the default until 2026-11-29.
BEFORE = (
    "multipath,discriminator.kind=veno,discriminator.share=0.22,discriminator.loss_share=0.06,window.kind=tabe,window.clock=acknowledgements,"
    "window.memory=10,window.least=4,window.most=0.54,window.floor=0.7,window.hystart=true"
)
SCHEMES = [BEFORE, "multipath", "whimbrel", "drain"]
TRAFFIC = 'traffic = { kind = "endless", message_bytes = 1440 }\n'
TCP = f'tcp = {{ scheme = "cubic", mss = 1440, recv_buffer = {BUFFER}, send_buffer = {BUFFER} }}\n'
PROBE = '[[flow]]\nname = "probe"\nkind = "udp"\nfrom = "x"\nto = "y"\ntraffic = { kind = "cbr", rate = "16 kbit/s", message_bytes = 40 }\n'
SEEDS = 3


def head(seconds, warm_up, nodes):
    text = f'title = "bar"\nduration = "{seconds} s"\nmeasure = {{ from = "{warm_up} s" }}\nrecord = {{ series = "none", events = "none", packets = "none" }}\n'
    return text + "".join(f'[[node]]\nname = "{node}"\n' for node in nodes)


def link(a, b, rate, ms, more="", packets=100000):
    return f'[[link]]\nbetween = ["{a}", "{b}"]\nrate = "{rate}"\ndelay = "{ms * 1000:.0f} us"\nqueue = {{ kind = "drop-tail", packets = {packets} }}\n{more}'


def lossy(rate):
    return f'forward = {{ loss = {{ kind = "bernoulli", rate = {rate} }} }}\n' if rate else ""


def ours(scheme, name, source, target, start, more=""):
    return f'[[flow]]\nname = "{name}"\nfrom = "{source}"\nto = "{target}"\n{TRAFFIC}start_within = "{start} s"\n{more}sctp = {{ {sctp(scheme)} }}\n'


def own(command, scheme, flows, loss):
    """The least of Jain's indices of the seeds."""
    each = range(flows)
    text = head(70, 10, ["r", "q", *(f"s{i}" for i in each), *(f"d{i}" for i in each)])
    text += link("r", "q", "20 Mbit/s", 18, packets=100)
    for i in each:
        text += link(f"s{i}", "r", "1 Gbit/s", 1) + link("q", f"d{i}", "1 Gbit/s", 1, lossy(loss)) + ours(scheme, f"f{i}", f"s{i}", f"d{i}", 5)
    found = measure(command, text, SEEDS)
    indices = []
    for seed in range(SEEDS):
        rates = [found[f"f{i}"][seed][0] for i in each]
        indices.append(sum(rates) ** 2 / (flows * sum(rate**2 for rate in rates)))
    return min(indices)


def access_point(command, scheme, packets):
    """Goodput in Mbit/s, of our association and of CUBIC."""
    text = head(130, 10, ["phone", "ap", "mast", "net", "server", "x", "y"])
    text += link("phone", "ap", "1 Gbit/s", 1, 'name = "wifi"\n' + lossy(0.01)) + link("ap", "net", "20 Mbit/s", 10, packets=packets)
    text += link("phone", "mast", "8 Mbit/s", 25, 'name = "lte"\n', packets=150)
    text += link("mast", "server", "1 Gbit/s", 5, 'name = "lan2"\n') + link("net", "server", "1 Gbit/s", 5, 'name = "lan1"\n')
    text += link("x", "ap", "1 Gbit/s", 1) + link("net", "y", "1 Gbit/s", 5)
    text += ours(scheme, "ours", "phone", "server", 1, 'from_links = ["wifi", "lte"]\nto_links = ["lan1", "lan2"]\n')
    text += f'[[flow]]\nname = "cubic"\nkind = "tcp"\nfrom = "x"\nto = "y"\n{TRAFFIC}start_within = "1 s"\n{TCP}'
    found = measure(command, text, SEEDS)
    return tuple(statistics.fmean(rate for rate, _ in found[flow]) for flow in ("ours", "cubic"))


def alone(command, scheme, bottleneck, loss, seconds=70):
    """Goodput in Mbit/s, and the 95th percentile of the delay of datagrams beside it in ms."""
    text = head(seconds, 5, ["s", "r", "q", "d", "x", "y"])
    text += link("s", "r", "1 Gbit/s", 1) + link("x", "r", "1 Gbit/s", 1) + link("q", "y", "1 Gbit/s", 1) + link("q", "d", "1 Gbit/s", 1, lossy(loss))
    text += f'[[link]]\nbetween = ["r", "q"]\n{bottleneck}' + ours(scheme, "ours", "s", "d", 1) + PROBE
    found = measure(command, text, SEEDS)
    return statistics.fmean(rate for rate, _ in found["ours"]), statistics.fmean(delay for _, delay in found["probe"])


def deep_queue(command, scheme, rtt, loss):
    """Goodput in Mbit/s, and the 95th percentile of the queue in packets."""
    rate, delay = alone(command, scheme, f'rate = "20 Mbit/s"\ndelay = "{rtt // 2 - 2} ms"\nqueue = {{ kind = "drop-tail", packets = 1000 }}\n', loss)
    return rate, max(0.0, delay - rtt / 2) * 20e6 / 8 / 1500 / 1000


def cellular(command, scheme, trace):
    queue = 'queue = { kind = "drop-tail", packets = 1000 }'
    forward = f'forward = {{ trace = {{ file = "{trace}", random_offset = true }}, {queue} }}\nreverse = {{ rate = "5 Mbit/s", {queue} }}\n'
    return alone(command, scheme, f'delay = "18 ms"\n{forward}', 0)


def start(pool, command, scheme, traces):
    """The jobs of a scheme: lists of one kind each."""
    return {
        "own": [pool.submit(own, command, scheme, *case) for case in ((2, 0), (2, 0.01), (8, 0.01), (25, 0.01))],
        "deep": [pool.submit(deep_queue, command, scheme, *case) for case in ((40, 0), (100, 0), (100, 0.01))],
        "point": [pool.submit(access_point, command, scheme, packets) for packets in (60, 250)],
        "cellular": [pool.submit(cellular, command, scheme, trace) for trace in traces],
    }


def row(scheme, jobs, first):
    results = lambda kind, of=jobs: [job.result() for job in of[kind]]
    pairs = list(zip(results("cellular"), results("cellular", first)))
    rates = [max(one[0], 1e-9) / max(base[0], 1e-9) for one, base in pairs]
    delays = [one[1] / base[1] for one, base in pairs]
    middle = lambda values: math.exp(statistics.fmean(map(math.log, values)))
    return (
        f"| `{scheme}` | {', '.join(f'{index:.2f}' for index in results('own'))} "
        f"| {', '.join(f'{rate:.1f} / {queue:.0f}' for rate, queue in results('deep'))} "
        f"| {', '.join(f'{one:.1f} : {other:.1f}' for one, other in results('point'))} "
        f"| {middle(rates):.2f} ({min(rates):.2f}) / {middle(delays):.2f} ({max(delays):.2f}) |"
    )


def bars(build, arguments):
    """`build` returns the command; wrong arguments are found before it is called."""
    parser = argparse.ArgumentParser(prog="bench/run bars", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=ROOT / "studies/two-cellulars", help="folder of recordings")
    parser.add_argument("schemes", nargs="*", default=SCHEMES, metavar="SCHEME")
    given = parser.parse_args(arguments)
    if not given.traces.is_dir():
        sys.exit(f"bench/run bars: no folder {given.traces}")
    traces = sorted(file.resolve() for file in given.traces.iterdir() if file.suffix in (".trace", ".up", ".down"))
    if not traces:
        sys.exit(f"bench/run bars: no file of {given.traces} ends with .trace, .up or .down")
    command = build()
    began = time.monotonic()
    print(f"{SEEDS} seeds each; {len(traces)} recordings: {', '.join(trace.name for trace in traces)}\n")
    print("| scheme | own | deep queue | access point | cellular: goodput / p95 of the delay |\n|---|---|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {scheme: start(pool, command, scheme, traces) for scheme in given.schemes}
        for scheme in given.schemes:
            try:
                print(row(scheme, jobs[scheme], jobs[given.schemes[0]]), flush=True)
            except RuntimeError as error:
                pool.shutdown(cancel_futures=True)
                sys.exit(f"bench/run bars: {error}")
    print(f"\n{time.monotonic() - began:.0f} s")
