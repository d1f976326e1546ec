"""Ad hoc networks beside ns-2: the same movements and the same traffic in both."""

import csv
import json
import os
import random
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NODES, FLOWS, SIDE, SPEEDS, PAUSE = 50, 25, 1500.0, (1.0, 25.0), 50.0
# 512 bytes in a datagram of ns-2, whose header of 20 bytes stands for IP and UDP.
PAYLOAD, INTERVAL = 504, 0.25
# ns-2.35's DSDV never comes back from some moments of some runs; what takes longer than this has met one.
PATIENCE = 60
# What ns-2's protocols do where they differ from the RFC's or the paper's defaults, as far as ours can do the same; docs/ns-2.md says
# what each is.
AS_NS2 = {
    "aodv": """{ kind = "aodv", active_route_timeout = "10 s", my_route_timeout = "10 s", node_traversal_time = "30 ms",
        measured_traversal_time = true, net_diameter = 30, ttl_start = 30, timeout_buffer = 0, rreq_retries = 3,
        binary_backoff = false, discovery_holdoff = "10 s", keep_failed = false, persistent_repair = true,
        gratuitous_reply = false }""",
    "dsdv": """{ kind = "dsdv", link_layer_feedback = false, advertise_new_at_once = false, advertise_previous = false,
        trigger_on_new_number = false, advertise_new_numbers = true }""",
}


def start_of(flow):
    return 1 + 0.2 * flow


def movements(seed, seconds):
    """Random waypoints as ns-2's setdest writes them; pauses begin anywhere, so that nodes do not leave together."""
    rng = random.Random(seed)
    lines = []
    for node in range(NODES):
        place = [rng.uniform(1, SIDE - 1) for _ in "XY"]
        for axis, value in zip("XYZ", [*place, 0.0]):
            lines.append(f"$node_({node}) set {axis}_ {value:.6f}")
        time = rng.uniform(0, PAUSE)
        while time < seconds:
            target = [rng.uniform(1, SIDE - 1) for _ in "XY"]
            speed = rng.uniform(*SPEEDS)
            lines.append(f'$ns_ at {time:.6f} "$node_({node}) setdest {target[0]:.6f} {target[1]:.6f} {speed:.6f}"')
            way = sum((a - b) ** 2 for a, b in zip(place, target)) ** 0.5
            time += way / speed + PAUSE
            place = target
    return "\n".join(lines) + "\n"


def scenario(routing, seconds, traffic, arp):
    text = [
        f'title = "beside ns-2"\nduration = "{seconds} s"\nseeds = 1\n',
        f'[[channel]]\nname = "air"\nphy = "dsss-2"\nrts_threshold = 0\narp = {str(arp).lower()}\n'
        f'routing = {" ".join(routing.split())}\n',
    ]
    for n in range(NODES):
        text.append(f'[[node]]\nname = "n{n}"\nmobility = {{ kind = "file", file = "movements.tcl", node = {n} }}\n')
        text.append(f'[[radio]]\nnode = "n{n}"\nchannel = "air"\n')
    for f in range(FLOWS):
        text.append(f'[[flow]]\nname = "f{f}"\nfrom = "n{f}"\nto = "n{f + FLOWS}"\nstart = "{start_of(f):.1f} s"')
        if traffic == "udp":
            rate = PAYLOAD * 8 / INTERVAL
            text.append('kind = "udp"')
            text.append(f'traffic = {{ kind = "cbr", rate = "{rate:.0f} bit/s", message_bytes = {PAYLOAD} }}\n')
        else:
            text.append('traffic = { kind = "endless", message_bytes = 1452 }\n')
    return "\n".join(text)


def timed(command, folder, **options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        list(map(str, command)), cwd=folder, stderr=subprocess.DEVNULL, text=True, check=True, **options
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def ours(binary, folder, routing, seconds, traffic, arp=False):
    (folder / "manet.toml").write_text(scenario(routing, seconds, traffic, arp))
    cpu, text = timed([binary, "run", "manet.toml", "--json", "--quiet"], folder, stdout=subprocess.PIPE)
    metrics = {name: m["mean"] for name, m in json.loads(text)["points"][0]["metrics"].items()}
    # Goodput is a flow's over the time for which it runs, which is shorter than ns-2's.
    sent = sum(int((seconds - start_of(f)) / INTERVAL) + 1 for f in range(FLOWS))
    delivered = metrics.get("packet_delivery_ratio") or 0.0
    return {
        "cpu": cpu,
        "delivered": delivered,
        "delay": metrics["delay_mean_ms"],
        "messages": metrics["control_packets"],
        "bytes": metrics["control_bytes"],
        "goodput": delivered * sent * PAYLOAD * 8 / seconds / 1e6,
    }


def theirs(folder, routing, seconds, traffic):
    script = [FOLDER / "ns2/manet.tcl", routing.upper(), "movements.tcl", NODES, FLOWS, seconds, traffic]
    try:
        cpu, _ = timed(["ns", *script], folder, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        timed(["ns", *script, "trace", "agents"], folder, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    sent, got, messages, size, useful = {}, {}, 0, 0, 0
    kind = "cbr" if traffic == "udp" else "sctp"
    with open(folder / "trace", encoding="ascii", errors="replace") as lines:
        for line in lines:
            fields = line.split()
            if fields[0] not in ("s", "r", "f") or len(fields) < 8:
                continue
            layer, packet, what = fields[3], fields[5], fields[6]
            if layer == "AGT" and what == kind:
                (sent if fields[0] == "s" else got).setdefault(packet, float(fields[1]))
            elif layer == "RTR" and fields[0] in "sf" and what.lower() in ("aodv", "message"):
                messages += 1
                size += int(fields[7])
    delays = [got[p] - sent[p] for p in got if p in sent]
    return {
        "cpu": cpu,
        "delivered": len(got) / max(len(sent), 1),
        "delay": 1e3 * statistics.mean(delays) if delays else 0.0,
        "messages": messages,
        "bytes": size,
        "goodput": len(got) * PAYLOAD * 8 / seconds / 1e6,
    }


def frames(folder, seconds, traffic):
    """Frames that ns-2 sends in a run."""
    script = [FOLDER / "ns2/manet.tcl", "AODV", "movements.tcl", NODES, FLOWS, seconds, traffic, "trace", "frames"]
    timed(["ns", *script], folder, stdout=subprocess.DEVNULL)
    with open(folder / "trace", encoding="ascii", errors="replace") as lines:
        return sum(line.startswith("s ") and " MAC " in line for line in lines)


def spread(values):
    """Mean and 95 % confidence interval of ten."""
    half = 2.262 * statistics.stdev(values) / len(values) ** 0.5 if len(values) == 10 else float("nan")
    return f"{statistics.mean(values):.3g} ± {half:.2g}"


def compare(binary, routing, seconds, seeds=10):
    """Ten runs that both bring to their end."""
    print(f"== {NODES} nodes that move, {FLOWS} flows of UDP over {routing.upper()}, {seconds} s, {seeds} movements\n")
    pairs, seed, given_up = [], 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while len(pairs) < seeds and given_up < seeds:
            seed += 1
            (folder / "movements.tcl").write_text(movements(seed, seconds))
            other = theirs(folder, routing, seconds, "udp")
            if other is None:
                given_up += 1
                continue
            # ns-2 cannot do without ARP.
            alike = ours(binary, folder, AS_NS2[routing], seconds, "udp", arp=True)
            own = ours(binary, folder, f'"{routing}"', seconds, "udp")
            pairs.append((other, alike, own))
    if given_up:
        print(f"ns-2 did not come to the end of {given_up} more runs within {PATIENCE} s")
    if len(pairs) < seeds:
        print()
        return
    print(f"{'':>18} {'ns-2':>20} {'with its constants':>20} {'with our defaults':>20}")
    for key, title in [
        ("delivered", "delivered, share"),
        ("delay", "delay, ms"),
        ("goodput", "goodput, Mbit/s"),
        ("messages", "routing messages"),
        ("bytes", "routing bytes"),
        ("cpu", "CPU, s"),
    ]:
        print(f"{title:>18}", *(f"{spread([run[key] for run in runs]):>20}" for runs in zip(*pairs)))
    ratio = statistics.median(other["cpu"] / alike["cpu"] for other, alike, _ in pairs)
    print(f"{ratio:.1f} times as fast as ns-2 with its constants (median of pairs)\n")


def speed(binary, seconds=200):
    """The same network full of SCTP."""
    print(f"== {NODES} nodes, {FLOWS} endless associations over AODV, {seconds} s\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "movements.tcl").write_text(movements(1, seconds))
        script = [FOLDER / "ns2/manet.tcl", "AODV", "movements.tcl", NODES, FLOWS, seconds, "sctp"]
        their_cpu = [timed(["ns", *script], folder, stdout=subprocess.DEVNULL)[0] for _ in range(3)]
        our_cpu = [ours(binary, folder, '"aodv"', seconds, "sctp")["cpu"] for _ in range(3)]
        theirs_sent = frames(folder, seconds, "sctp")
        timed([binary, "run", "manet.toml", "--out", "out", "--quiet"], folder, stdout=subprocess.DEVNULL)
        ours_sent = frames_of(folder / "out/radios.csv")
    for title, cpu, sent in [("ns-2", their_cpu, theirs_sent), ("whimbrel", our_cpu, ours_sent)]:
        median = statistics.median(cpu)
        print(f"{title:>9}: {median:.2f} s of CPU, {sent} frames, {sent / median / 1e3:.0f} thousand frames a CPU second")
    print()


def total(path, *columns):
    """The sum of these columns over all radios."""
    with open(path, newline="", encoding="utf-8") as file:
        return sum(float(row[column]) for row in csv.DictReader(file) for column in columns)


def frames_of(path):
    return int(total(path, "rts", "cts", "data", "ack"))


def scale(binary, seconds=60):
    """Networks of the same density: what a transmission costs, beside how many radios hear it and how many frames they take in."""
    print(f"== The same density with more nodes, an association for two nodes, AODV, {seconds} s\n")
    print(f"{'nodes':>9} {'CPU, s':>9} {'frames':>9} {'us a frame':>11} {'heard by':>9} {'taken in by':>12}")
    for nodes in (50, 200, 1000):
        side = SIDE * (nodes / NODES) ** 0.5
        text = [
            f'title = "scale"\nduration = "{seconds} s"\nseeds = 1\n',
            '[[channel]]\nname = "air"\nphy = "dsss-2"\nrts_threshold = 0\nrouting = "aodv"\n',
            f'[[node]]\nname = "n"\ncount = {nodes}',
            f'mobility = {{ kind = "random-waypoint", area = [{side:.0f}, {side:.0f}], speed = {list(SPEEDS)}, pause = "{PAUSE} s" }}\n',
            '[[radio]]\nnode = "n*"\nchannel = "air"\n',
        ]
        for f in range(nodes // 2):
            text.append(f'[[flow]]\nname = "f{f}"\nfrom = "n{f}"\nto = "n{f + nodes // 2}"\nstart = "{10 * f} ms"')
            text.append('traffic = { kind = "endless", message_bytes = 1452 }\n')
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "scale.toml").write_text("\n".join(text))
            cpu, _ = timed([binary, "run", "scale.toml", "--out", "out", "--quiet"], folder, stdout=subprocess.DEVNULL)
            radios = folder / "out/radios.csv"
            sent = frames_of(radios)
            heard = total(radios, "receiving_s") / total(radios, "transmitting_s")
            taken = total(radios, "received") / sent
        print(f"{nodes:>9} {cpu:>9.2f} {sent:>9} {cpu / sent * 1e6:>11.2f} {heard:>9.1f} {taken:>12.2f}")
    print()


def radio(binary):
    speed(binary)
    scale(binary)
    compare(binary, "aodv", 200)
    compare(binary, "dsdv", 100)
