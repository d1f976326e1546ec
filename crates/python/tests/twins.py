"""Parts of `whimbrel-control` written again in Python: the same results, bit for bit."""

from __future__ import annotations


class Rounds:
    """Round-trip times, counted by acknowledgements."""

    def __init__(self):
        self.end = 0

    def on_ack(self, ack):
        over = ack.newest >= self.end
        if over:
            self.end = max(ack.next, ack.newest + 1)
        return over


class Veno:
    """The discriminator `veno`: a loss is congestion if at least three packets are queued (Fu and Liew 2003, II.A)."""

    def __init__(self):
        self.rounds, self.base, self.current, self.last = Rounds(), None, None, None

    def on_ack(self, window, ack):
        over = self.rounds.on_ack(ack)
        if ack.rtt_ns:
            self.base = ack.rtt_ns if self.base is None else min(self.base, ack.rtt_ns)
            self.current = ack.rtt_ns if self.current is None else min(self.current, ack.rtt_ns)
        if over:
            self.last = self.last if self.current is None else self.current
            self.current = None

    def judge(self, window, loss):
        rtt = self.current if self.last is None else self.last
        if self.base is None or rtt is None:
            return "unsure"
        waiting = window.cwnd / window.unit * (1.0 - self.base / rtt)
        units = window.cwnd / window.unit
        return "transmission" if waiting < 3.0 and waiting < 1.0 * units else "congestion"


class CycleCount:
    """The path policy `cycle-count` with `cycle` and `threshold` (Pan et al. 2010, 4.1.1)."""

    def __init__(self, cycle, threshold, returns):
        self.cycle, self.limit, self.returns = cycle, threshold * cycle, returns
        self.cost, self.delivered, self.failed = {}, {}, set()
        self.chosen = False

    def on_event(self, paths, path, event):
        if event.kind == "timeout" and path not in self.failed:
            self.cost[path] = self.cost.get(path, 0) + (1 << min(event.consecutive, 62))
            if self.cost[path] >= self.limit:
                self.on_replaced(path)
                self.failed.add(path)
        elif event.kind == "delivered":
            self.failed.discard(path)
            self.delivered[path] = self.delivered.get(path, 0) + event.packets
            if self.delivered[path] >= self.cycle:
                self.on_replaced(path)
        elif event.kind == "answered":
            self.failed.discard(path)
        elif event.kind == "chosen":
            self.chosen = True

    def on_replaced(self, path):
        self.cost.pop(path, None)
        self.delivered.pop(path, None)
        self.failed.discard(path)

    def fitness(self, paths, path, counted):
        return "inactive" if path in self.failed else counted

    def sending(self, paths, standard):
        chosen, self.chosen = self.chosen, False
        if self.returns or chosen:
            return standard
        return paths.current if paths.paths[paths.current].usable else standard
