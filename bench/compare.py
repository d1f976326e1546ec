"""Transports over the same emulated links: `bench/run compare [all] [SCENARIO ...]` (`all`: every scheme of ours), and the ends of a TCP connection for it.

Each transport sends the same number of bytes from one node to another; goodput is that number over the time from the start of the
connection until the sender knows that everything has arrived. Delay is that of packets from the sender's device to the receiver's:
propagation and queues. A transport that cannot run here is reported as not run.
"""

import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ["lossy", "bursty", "two-radios", "trace"]
BYTES = 4_000_000
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


def send(address, port, control, protocol):
    block = bytes(1 << 16)
    start = time.monotonic()
    while True:
        try:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            connection.connect((address, port))
            break
        except ConnectionRefusedError:
            connection.close()
            time.sleep(0.02)
            start = time.monotonic()
    left = BYTES
    while left:
        left -= connection.send(block[:left])
    connection.shutdown(socket.SHUT_WR)
    if int.from_bytes(connection.recv(8), "big") != BYTES:
        sys.exit("the server received another number of bytes")
    print(f"{BYTES} bytes in {time.monotonic() - start} s", flush=True)


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
    return Transport(f"Whimbrel, {scheme}", server, client)


def quinn(program, control):
    missing = None if program.exists() else "bench/quinn is not built (cargo build --release in bench/quinn)"
    return Transport(f"quinn, {control}", f"{program} server {{to}}:5001", f"sleep 0.3; {program} client {{to}}:5001 {BYTES} {control}", missing)


def usrsctp():
    missing = None if Path(TSCTP).exists() else f"{TSCTP} is missing (Debian package libusrsctp-examples)"
    length = 1400
    count = -(-BYTES // length)
    buffers = "-S 4000000 -R 4000000"
    client = f"sleep 0.3; {sys.executable} {__file__} timed {TSCTP} -U 9899 {buffers} -l {length} -n {count} {{to}}"
    return Transport("usrsctp (tsctp)", f"{TSCTP} -U 9899 {buffers}", client, missing)


def emulate(binary, scenario, seed, transport, addresses):
    """Seconds of a transfer and the report of the emulation, or the reason why there is none."""
    froms, tos = addresses
    fill = {
        "to": tos[0], "tos": ",".join(tos), "froms": ",".join(froms),
        "tos_rest": " ".join(tos[1:]), "froms_rest": " ".join(froms[1:]),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/file", "wb") as file:
            file.truncate(BYTES)
        commands = [command.format(**fill) for command in (transport.server, transport.client)]
        done = subprocess.run(
            [binary, "emulate", scenario, "--json", "--quiet", "--seed", str(seed), "--duration", f"{SECONDS} s", "--name", "compare", "--late", LATE,
             "--run", f"server: {commands[0]}", "--at", "client", "--", "sh", "-c", commands[1]],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"too_slow": None}
    # A program may have the exit code of a machine that is too slow.
    if done.returncode != 0 and not report["too_slow"]:
        return None, f"failed: {' '.join((done.stderr or done.stdout).split())[-200:]}"
    if report["too_slow"]:
        return None, f"the machine was too slow: {report['too_slow']}"
    # Ours prints the rate, the others the number of bytes.
    found = re.search(r" in ([\d.]+) s", done.stdout)
    return (float(found[1]) if found else None), report


def addresses(scenario):
    links = sum(line.startswith("[[link]]") for line in scenario.read_text().splitlines())
    first, second = (2, 1) if 'between = ["server"' in scenario.read_text() else (1, 2)
    return [f"10.{link}.0.{first}" for link in range(links)], [f"10.{link}.0.{second}" for link in range(links)]


def row(binary, scenario, transport):
    if transport.missing:
        return f"| {transport.name} | not run: {transport.missing} | | |"
    goodputs, medians, tails, notes = [], [], [], []
    for seed in SEEDS:
        for _ in range(3):
            seconds, report = emulate(binary, scenario, seed, transport, addresses(scenario))
            if not (isinstance(report, str) and "too slow" in report):
                break
        if isinstance(report, str):
            notes.append(report)
            continue
        if seconds is None:
            notes.append(f"seed {seed} not complete after {SECONDS} s")
        goodputs.append(BYTES * 8 / 1e6 / (seconds or SECONDS))
        flow = report["flows"][0]
        medians.append(flow["delay_ms"]["p50"])
        tails.append(flow["delay_ms"]["p99"])
    if not goodputs:
        return f"| {transport.name} | not run: {notes[0]} | | |"
    median = lambda values: f"{statistics.median(values):.1f}"
    spread = f"{statistics.median(goodputs):.2f} ({min(goodputs):.2f} to {max(goodputs):.2f})"
    note = f" {'; '.join(sorted(set(notes)))}" if notes else ""
    return f"| {transport.name} | {spread}{note} | {median(medians)} | {median(tails)} |"


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
    for name in [name for name in wanted if name != "all"] or SCENARIOS:
        scenario = ROOT / f"bench/compare/{name}.toml"
        title = re.search(r'^title = "(.*)"', scenario.read_text(), re.MULTILINE)[1]
        print(f"### {title}\n\n| transport | goodput, Mbit/s | packet delay p50, ms | p99, ms |\n|---|---|---|---|", flush=True)
        for transport in transports(binary, program, every, len(addresses(scenario)[0])):
            print(row(binary, scenario, transport), flush=True)
        print()


def main():
    match sys.argv[1:]:
        case ["serve", port, *protocol]:
            serve(int(port), int(protocol[0]) if protocol else 0)
        case ["send", address, port, control, *protocol]:
            send(address, int(port), control, int(protocol[0]) if protocol else 0)
        case ["timed", *command]:
            timed(command)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
