"""What the delay of lost packets tells about their cause, in cells of the study `matrix`: `bench/run bound [CELL ...]`.

Our flow has CUBIC's window and the oracle's verdicts, so that it does what is wanted of it. The simulator names the cause of each loss. A rule that
knows the distributions of the delays of delivered packets and of packets that a queue drops, and judges single losses by the delay
beside them, is best if it takes the losses with the greatest ratio of both densities for congestion. Its error is a bound of every rule that judges by
this delay.

Without a cell: those where the stored results of the study have a harm of `whimbrel` above 1.1. The table in docs/own-scheme.md is then replaced.
"""

import bisect
import json
import math
import subprocess
import sys
import tempfile

from matrix import STUDY, cells, into_page, toml

BEGIN = "<!-- bench/run bound -->\n"
# Classes of delays with about the same number of packets.
CLASSES = 500
# The share of congestion losses that is to be recognised.
WANTED = 0.9
# What the discriminator `hazard` remembers.
MEMORY = 30
HARM = 1.1
HEAD = [
    "| cell | path | congestion losses | transmission losses | of these taken for congestion | z |",
    "|---|---|--:|--:|--:|--:|",
]


def harmful():
    """The cells where the harm of `whimbrel` exceeds the criterion."""
    claims = json.loads((STUDY / "results.json").read_text())["claims"]
    points = [point for claim in claims if claim["id"].startswith("whimbrel-harm") for point in claim["points"]]
    return [dict(point["at"])["cell"] for point in points if (point["mean"] or 0) > HARM]


def losses(binary, cell):
    """Delays of delivered packets of our flow, of congestion losses and of transmission losses, in ms, in the measured time."""
    oracle = {"flow.bulk.sctp.scheme": "cubic", "flow.bulk.sctp.discriminator": "oracle", "record.events": "first-seed"}
    settings = [part for key, value in {**cell.fields, **oracle}.items() for part in ("--set", f"{key}={toml(value)}")]
    sent, received, dropped = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([binary, "run", cell.file(), *settings, "--seeds", "1", "--quiet", "--out", f"{folder}/out"], check=True, stdout=subprocess.DEVNULL)
        for line in open(f"{folder}/out/events.jsonl"):
            if '"flow":"bulk"' not in line:
                continue
            if '"transport:tsn_sent"' in line:
                event = json.loads(line)
                sent.append((event["time"], event["data"]["tsn"]))
            elif '"transport:packet_received","node":"d"' in line:
                event = json.loads(line)
                if event["data"]["length"] > 1000:
                    received.append(event["time"])
            elif '"network:packet_dropped"' in line:
                event = json.loads(line)["data"]
                if event["forward"] and event.get("data_chunks"):
                    dropped[event["sent"], event["tsn"]] = event["congestion"]
    # A packet holds one DATA chunk, and packets of a flow arrive in order.
    arrivals, before, waiting = iter(received), None, []
    delays, causes = [], {True: [], False: []}
    for time, tsn in sent:
        if (time, tsn) in dropped:
            waiting.append(dropped[time, tsn])
            continue
        arrival = next(arrivals, None)
        if arrival is None:
            break
        delay = arrival - time
        if time >= cell.begin * 1000:
            delays.append(delay)
            # The greater one of the delays before and after the loss, as the discriminator `hazard` has it.
            for cause in waiting:
                causes[cause].append(max(delay, before or delay))
        before, waiting = delay, []
    return sorted(delays), causes[True], causes[False]


def bound(binary, cell):
    """A row of the table."""
    delays, congestion, transmission = losses(binary, cell)
    edges = sorted({delays[place * len(delays) // CLASSES] for place in range(1, CLASSES)})

    def count(values):
        counts = [0] * (len(edges) + 1)
        for value in values:
            counts[bisect.bisect_right(edges, value)] += 1
        return counts

    # The channel strikes packets whatever their delay is: its losses are distributed as the packets are.
    all_packets, of_queue = count(delays), count(congestion)
    ratio = lambda place: of_queue[place] / all_packets[place] if all_packets[place] else math.inf
    false, right, taken, z = 0.0, 0, None, 0.0
    scale = MEMORY / (cell.end - cell.begin)
    for place in sorted(range(len(of_queue)), key=ratio, reverse=True):
        false += all_packets[place] / len(delays) * len(transmission)
        right += of_queue[place]
        # The excess of losses over those of the channel, in standard deviations of the latter, within the memory.
        z = max(z, right / math.sqrt(max(false, 0.25)) * math.sqrt(scale))
        if taken is None and right >= WANTED * len(congestion):
            taken = false
    return f"| {cell.name} | {cell.about} | {len(congestion)} | {len(transmission)} | {taken or 0:.0f} | {z:.1f} |"


def bounds(binary, wanted):
    known = cells()
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"no cells: {', '.join(unknown)}; cells up to 200 Mbit/s are {', '.join(known)}")
    rows = []
    print("\n".join(HEAD), flush=True)
    for name in wanted or harmful():
        rows.append(bound(binary, known[name]))
        print(rows[-1], flush=True)
    if not wanted:
        into_page(BEGIN, HEAD + rows)
