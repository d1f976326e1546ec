"""Transports over the same emulated links: `bench/run compare [all] [SCENARIO ...]` (`all`: every scheme of ours), and the ends of a TCP connection for it.

Each transport sends the same number of bytes from one node to another; goodput is that number over the time from the start of the
connection until the sender knows that everything has arrived. Delay is that of packets from the sender's device to the receiver's:
propagation and queues. In the scenario `shared` a TCP connection with CUBIC sends from 2 s before on; the share is that of the
transport in what both transfer meanwhile. A transport that cannot run here is reported as not run.

With `all`, the tables in docs/comparison.md, the figure docs/comparison.svg and bench/compare/results.json are replaced.
"""

import concurrent.futures
import json
import os
import queue
import re
import shlex
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ["lossy", "bursty", "two-radios", "trace", "shared"]
PAGE, FIGURE = ROOT / "docs/comparison.md", ROOT / "docs/comparison.svg"
RESULTS = ROOT / "bench/compare/results.json"
SHARED = "shared"
# What each transport sends. With 4 MB over two radios, chance would decide whether the transfer ends before the cut; beside another
# connection it needs time to find its share.
BYTES = int(os.environ.get("COMPARE_BYTES", 4_000_000))
LENGTHS = {"two-radios": 8_000_000, SHARED: 20_000_000}
# Emulations at a time.
PARALLEL = 4
# Our schemes, unless `all` is asked for: the standard, and those meant for sockets.
SCHEMES = ["standard", "cubic", "bbr", "veno-tabe", "multipath"]
# Seeds of the losses. All transports have the same.
SEEDS = [1, 2, 3]
# A row counts only if 99 % of the packets left within this time.
LATE = "1 ms"
# A transport that needs longer has its goodput reported as below that of this time.
SECONDS = 60
MPTCP = getattr(socket, "IPPROTO_MPTCP", 262)
CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
TSCTP = "/usr/lib/usrsctp/tsctp"
# Bytes of a message of usrsctp: both lengths of a transfer are multiples of it.
MESSAGE = 1250


def serve(port, protocol):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen()
    connection, _ = listener.accept()
    received = 0
    while part := connection.recv(1 << 16):
        received += len(part)
    connection.sendall(received.to_bytes(8, "big"))


def connect(address, port, control, protocol=0):
    """A connection with this congestion control, as soon as the server listens, and the time at which it was begun."""
    while True:
        start = time.monotonic()
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        try:
            connection.connect((address, port))
            return connection, start
        except ConnectionRefusedError:
            connection.close()
            time.sleep(0.02)


def send_on(connection):
    """Sends over a connection until it ends, in a thread."""

    def forever():
        block = bytes(1 << 16)
        try:
            while True:
                connection.sendall(block)
        except OSError:
            pass

    threading.Thread(target=forever, daemon=True).start()


def send(address, port, control, protocol):
    block = bytes(1 << 16)
    connection, start = connect(address, port, control, protocol)
    left = BYTES
    while left:
        left -= connection.send(block[:left])
    connection.shutdown(socket.SHUT_WR)
    if int.from_bytes(connection.recv(8), "big") != BYTES:
        sys.exit("the server received another number of bytes")
    print(f"{BYTES} bytes in {time.monotonic() - start} s", flush=True)


def sink(port):
    """Receives from one connection until it ends."""
    listener = socket.create_server(("0.0.0.0", port))
    connection, _ = listener.accept()
    while connection.recv(1 << 16):
        pass


def acknowledged(connection):
    """Bytes of a TCP connection that were acknowledged: tcpi_bytes_acked of the kernel's struct tcp_info."""
    return struct.unpack_from("=Q", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 120)[0]


def beside(address, port, command):
    """Runs the client of a transport beside a TCP connection with CUBIC, and prints the share of the transport."""
    connection, _ = connect(address, port, "cubic")
    send_on(connection)
    time.sleep(2)
    before, start = acknowledged(connection), time.monotonic()
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True)
    other, took = acknowledged(connection) - before, time.monotonic() - start
    print(done.stdout, end="")
    found = re.search(r" in ([\d.]+) s", done.stdout)
    if found:
        own = BYTES / float(found[1])
        print(f"share {own / (own + other / took)}", flush=True)
    connection.close()
    sys.exit(done.returncode)


def timed(command):
    """The time of a program that ends when everything has arrived."""
    start = time.monotonic()
    code = subprocess.run(command, stdout=sys.stderr).returncode
    print(f"{BYTES} bytes in {time.monotonic() - start} s", flush=True)
    sys.exit(code)


class Transport:
    """The commands of both ends in the shell. `{to}` is the server's first address, `{tos}` and `{froms}` are all addresses."""

    def __init__(self, name, server, client, missing=None):
        self.name, self.server, self.client, self.missing = name, server, client, missing


def tcp(control, known):
    name = f"TCP, {control}"
    script = f"{sys.executable} {__file__}"
    missing = None if control in known else f"the kernel has no {control}"
    return Transport(name, f"{script} serve 5001", f"{script} send {{to}} 5001 {control}", missing)


def mptcp(control):
    missing = None
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP).close()
        if shutil.which("ip") is None:
            missing = "ip is missing (Debian package iproute2)"
    except OSError as error:
        missing = f"the kernel has no MPTCP: {error}"
    script = f"{sys.executable} {__file__}"
    # The client opens a connection from each of its other addresses to each of the server's other addresses.
    limits = "ip mptcp limits set subflow 4 add_addr_accepted 4; "
    announce = "for a in {tos_rest}; do ip mptcp endpoint add $a signal; done; "
    # Without a device, the route of the address decides.
    open_more = "for a in {froms_rest}; do ip mptcp endpoint add $a subflow fullmesh; done; "
    server = f"{limits}{announce}{script} serve 5001 {MPTCP}"
    return Transport(f"MPTCP, {control}", server, f"{limits}{open_more}{script} send {{to}} 5001 {control} {MPTCP}", missing)


def ours(binary, scheme):
    server = f"{binary} recv --once --listen {{tos}} inbox"
    client = f"sleep 0.3; {binary} send file --to {{tos}} --local {{froms}} --scheme {scheme}"
    missing = "it needs a simulated network, which reports why it lost a packet" if scheme == "oracle" else None
    return Transport(f"Whimbrel, {scheme}", server, client, missing)


def quinn(program, control):
    missing = None if program.exists() else "bench/quinn is not built (cargo build --release in bench/quinn)"
    return Transport(f"quinn, {control}", f"{program} server {{to}}:5001", f"sleep 0.3; {program} client {{to}}:5001 {{bytes}} {control}", missing)


def usrsctp():
    missing = None if Path(TSCTP).exists() else f"{TSCTP} is missing (Debian package libusrsctp-examples)"
    buffers = "-S 4000000 -R 4000000"
    client = f"sleep 0.3; {sys.executable} {__file__} timed {TSCTP} -U 9899 {buffers} -l {MESSAGE} -n $(({{bytes}} / {MESSAGE})) {{to}}"
    return Transport("usrsctp (tsctp)", f"{TSCTP} -U 9899 {buffers}", client, missing)


def emulate(binary, scenario, seed, transport, addresses, name):
    """What the ends printed and the report of the emulation, or the reason why there is none."""
    froms, tos = addresses
    length = LENGTHS.get(scenario.stem, BYTES)
    fill = {
        "to": tos[0], "tos": ",".join(tos), "froms": ",".join(froms), "bytes": length,
        "tos_rest": " ".join(tos[1:]), "froms_rest": " ".join(froms[1:]),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/file", "wb") as file:
            file.truncate(length)
        server, client = (command.format(**fill) for command in (transport.server, transport.client))
        runs = ["--run", f"server: {server}"]
        if scenario.stem == SHARED:
            script = f"{sys.executable} {__file__}"
            runs += ["--run", f"server: {script} sink 5002"]
            client = f"{script} beside {tos[0]} 5002 {shlex.quote(client)}"
        done = subprocess.run(
            [binary, "emulate", scenario, "--json", "--quiet", "--seed", str(seed), "--duration", f"{SECONDS} s", "--name", name, "--late", LATE,
             *runs, "--at", "client", "--", "sh", "-c", client],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "COMPARE_BYTES": str(length)},
        )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"too_slow": None}
    # A program may have the exit code of a machine that is too slow.
    if done.returncode != 0 and not report["too_slow"]:
        return f"failed: {' '.join((done.stderr or done.stdout).split())[-200:]}"
    if report["too_slow"]:
        return f"the machine was too slow: {report['too_slow']}"
    return done.stdout, report


def addresses(scenario):
    links = sum(line.startswith("[[link]]") for line in scenario.read_text().splitlines())
    first, second = (2, 1) if 'between = ["server"' in scenario.read_text() else (1, 2)
    return [f"10.{link}.0.{first}" for link in range(links)], [f"10.{link}.0.{second}" for link in range(links)]


def measure(binary, scenario, transport, seed, name):
    """Figures of one run, or the reason why there are none."""
    outcome = "not run"
    for _ in range(3):
        outcome = emulate(binary, scenario, seed, transport, addresses(scenario), name)
        if not (isinstance(outcome, str) and "too slow" in outcome):
            break
    if isinstance(outcome, str):
        return {"note": outcome}
    printed, report = outcome
    # Ours prints the rate, the others the number of bytes.
    seconds, share = re.search(r" in ([\d.]+) s", printed), re.search(r"^share ([\d.]+)", printed, re.MULTILINE)
    length = LENGTHS.get(scenario.stem, BYTES)
    delay = report["flows"][0]["delay_ms"]
    figures = {"goodput_mbps": length * 8 / 1e6 / (float(seconds[1]) if seconds else SECONDS), "p50_ms": delay["p50"], "p99_ms": delay["p99"]}
    if share:
        figures["share"] = float(share[1])
    if not seconds:
        figures["note"] = f"not complete after {SECONDS} s"
    return figures


def column(runs, name):
    return [run[name] for run in runs if name in run]


def row(transport, runs, is_shared):
    goodputs = column(runs, "goodput_mbps")
    notes = sorted({run["note"] for run in runs if "note" in run})
    if not goodputs:
        return f"| {transport} | not run: {notes[0] if notes else 'no figures'} | | |" + (" |" if is_shared else "")
    median = lambda name, digits: f"{statistics.median(column(runs, name) or [0]):.{digits}f}"
    spread = lambda values: f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
    complete = [run["goodput_mbps"] for run in runs if "goodput_mbps" in run and "note" not in run]
    goodput = spread(goodputs) if complete else f"below {max(goodputs):.2f}:"
    note = f" {'; '.join(notes)}" if notes else ""
    shares = column(runs, "share")
    share = f" {spread(shares) if shares else '-'} |" if is_shared else ""
    return f"| {transport} | {goodput}{note} |{share} {median('p50_ms', 1)} | {median('p99_ms', 1)} |"


def transports(binary, program, every, links):
    schemes = subprocess.run([binary, "schemes"], check=True, stdout=subprocess.PIPE, text=True).stdout
    known = CONTROLS.read_text().split() if CONTROLS.exists() else []
    # Each begins a line; what it does is indented.
    names = re.findall(r"^([\w-]+) ", schemes, re.MULTILINE)
    yield from (ours(binary, name) for name in names if every or name in SCHEMES)
    yield from (tcp(control, known) for control in known or ["cubic"])
    # With a single path it is TCP.
    yield from (mptcp(control) for control in known or ["cubic"] if links > 1)
    yield from (quinn(program, control) for control in ("cubic", "new-reno", "bbr"))
    yield usrsctp()


def compare(binary, program, wanted):
    every = "all" in wanted
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [name for name in wanted if name != "all"] or SCENARIOS:
        scenario = ROOT / f"bench/compare/{name}.toml"
        title = re.search(r'^title = "(.*)"', scenario.read_text(), re.MULTILINE)[1]
        print(f"## {title}\n\n" + "\n".join(heads(name)), flush=True)
        # Nothing is random where nothing but a queue loses packets, but programs are not repeatable.
        seeds = SEEDS[:2] if name == SHARED else SEEDS
        known = list(transports(binary, program, every, len(addresses(scenario)[0])))
        results[name] = {"title": title, "transports": {}}
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            free = queue.SimpleQueue()
            for number in range(PARALLEL):
                free.put(f"compare-{number}")

            def one(transport, seed):
                if transport.missing:
                    return {"note": transport.missing}
                name = free.get()
                try:
                    return measure(binary, scenario, transport, seed, name)
                finally:
                    free.put(name)

            waiting = [(transport, [pool.submit(one, transport, seed) for seed in seeds]) for transport in known]
            for transport, futures in waiting:
                runs = [future.result() for future in futures]
                results[name]["transports"][transport.name] = runs
                print(row(transport.name, runs, name == SHARED), flush=True)
        print()
        if every:
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            into_page(name, results[name])
    if every:
        draw(results)


def heads(scenario):
    share = " share |" if scenario == SHARED else ""
    header = f"| transport | goodput, Mbit/s |{share} packet delay p50, ms | p99, ms |"
    return [header, re.sub("[^|]+", "---", header)]


def into_page(scenario, result):
    """Replaces the table below the heading of a scenario."""
    title, text = result["title"], PAGE.read_text()
    rows = [row(name, runs, scenario == SHARED) for name, runs in result["transports"].items()]
    pattern = re.compile(rf"(^## {re.escape(title)}\n\n)(?:\|.*\n)*", re.MULTILINE)
    if not pattern.search(text):
        sys.exit(f"{PAGE} has no heading for {title}")
    PAGE.write_text(pattern.sub(lambda found: found[1] + "\n".join(heads(scenario) + rows) + "\n", text))


# The panels of the figure: a scenario and what it shows.
PANELS = [
    ("lossy", "goodput_mbps", "random losses:\ngoodput, Mbit/s"),
    ("bursty", "goodput_mbps", "losses in bursts:\ngoodput, Mbit/s"),
    ("two-radios", "goodput_mbps", "two radios, one cut:\ngoodput, Mbit/s"),
    ("trace", "p50_ms", "varying rate, deep queue:\npacket delay p50, ms"),
    ("shared", "share", "beside TCP CUBIC:\nshare of both"),
]
# Colours of Okabe and Ito, and markers, by the first word of a name.
LOOKS = {"Whimbrel": ("#0072B2", "o"), "TCP": ("#D55E00", "s"), "MPTCP": ("#E69F00", "D"), "quinn": ("#009E73", "^"), "usrsctp": ("#000000", "v")}


def draw(results):
    try:
        import matplotlib
    except ImportError:
        print(f"{FIGURE} is not drawn: matplotlib is missing (pip install matplotlib)")
        return
    matplotlib.use("svg")
    # The same figure for the same results, with text as text.
    matplotlib.rcParams.update({"svg.hashsalt": "compare", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"})
    import matplotlib.pyplot as plt

    panels = [panel for panel in PANELS if panel[0] in results]
    drawn = [name for scenario, metric, _ in panels for name, runs in results[scenario]["transports"].items() if column(runs, metric)]
    names = list(dict.fromkeys(drawn))
    figure, axes = plt.subplots(1, len(panels), figsize=(2 + 2.1 * len(panels), 1 + 0.21 * len(names)), sharey=True, squeeze=False)
    for axis, (scenario, metric, label) in zip(axes[0], panels):
        for place, name in enumerate(names):
            values = column(results[scenario]["transports"].get(name, []), metric)
            if values:
                colour, marker = LOOKS[re.split("[ ,]", name)[0]]
                axis.plot([min(values), max(values)], [place, place], color=colour, linewidth=1)
                axis.plot([statistics.median(values)], [place], marker=marker, color=colour, markersize=5)
        axis.set_xlabel(label)
        axis.set_xlim(left=0)
        axis.grid(axis="x", color="#d9dee3", linewidth=0.6)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
        if metric == "share":
            axis.axvline(0.5, color="#59636e", linewidth=0.8, linestyle="--")
    axes[0][0].set_yticks(range(len(names)), names)
    axes[0][0].set_ylim(len(names) - 0.5, -0.5)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})
    print(f"the figure is in {FIGURE}")


def main():
    match sys.argv[1:]:
        case ["serve", port, *protocol]:
            serve(int(port), int(protocol[0]) if protocol else 0)
        case ["send", address, port, control, *protocol]:
            send(address, int(port), control, int(protocol[0]) if protocol else 0)
        case ["sink", port]:
            sink(int(port))
        case ["beside", address, port, command]:
            beside(address, int(port), command)
        case ["timed", *command]:
            timed(command)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
