"""Parts written in Python: prototypes.

A part is a class with the methods of one of the protocols below; :func:`whimbrel.run` creates an object of it for each path (a path policy:
for each association). What a class does not define behaves as the standard does. Times are whole nanoseconds since the start of the run, so
that a part in Rust with the same rule gives the same results, bit for bit. :class:`StandardWindow` is the standard's window, to be changed.

    >>> class Flat:
    ...     def judge(self, window, loss):
    ...         return "transmission" if loss.srtt_ns and loss.srtt_ns < 1.2 * loss.min_rtt_ns else "congestion"
    >>> whimbrel.run("examples/lossy-link.toml", discriminator=Flat)

Python is called for each acknowledgement, which makes a run about ten times as long. A part that proves itself belongs in Rust
(``docs/tutorials/add-a-discriminator.md``).
"""

from __future__ import annotations

from typing import Literal, Optional, Protocol, Tuple, Union

from ._core import Ack, Loss, Mark, Path, Paths, PolicyEvent, Window

__all__ = [
    "Ack",
    "Discriminator",
    "Loss",
    "Mark",
    "Path",
    "PathPolicy",
    "Paths",
    "PolicyEvent",
    "StandardWindow",
    "Verdict",
    "Window",
    "WindowControl",
    "WindowUpdate",
]

Verdict = Literal["congestion", "transmission", "unsure"]
"""What a loss meant."""

WindowUpdate = Union[None, float, Tuple[float, float]]
"""The new window in bytes: cwnd, ``(cwnd, ssthresh)``, or ``None`` for no change."""


class Discriminator(Protocol):
    """Was a loss caused by congestion? Optional methods: ``on_ack(window, ack)`` for each acknowledgement, before the losses that it
    reveals; ``on_mark(mark)``."""

    def judge(self, window: Window, loss: Loss) -> Verdict:
        """Returns the verdict on a loss."""
        ...


class WindowControl(Protocol):
    """How much may be in flight? Optional methods: ``on_transmission_loss(window, loss)``, ``on_mark(window, mark)``, ``on_timeout(window,
    loss, verdict)`` and ``on_idle(window)``; the standard's by default."""

    def on_ack(self, window: Window, ack: Ack) -> WindowUpdate:
        """Returns the window after an acknowledgement."""
        ...

    def on_congestion(self, window: Window, loss: Loss) -> WindowUpdate:
        """Returns the window after a loss that counts as congestion and was detected by a gap; once per window of data."""
        ...


class PathPolicy(Protocol):
    """Which path carries new data? All methods are optional; others are ``on_replaced(path)``, ``fitness(paths, path, counted)``, which
    returns "active", "potentially-failed" or "inactive", and ``primary(paths)``."""

    def on_event(self, paths: Paths, path: int, event: PolicyEvent) -> None:
        """Handles an event on a path."""
        ...

    def sending(self, paths: Paths, standard: int) -> Optional[int]:
        """Returns the path for new data, or ``None`` for the standard's choice, ``standard``. A path that is not usable is ignored."""
        ...


class StandardWindow:
    """The window of the standard (RFC 9260 §7.2), with the results of the one in Rust."""

    def __init__(self) -> None:
        self.partial = 0

    def on_ack(self, window: Window, ack: Ack) -> WindowUpdate:
        """Slow start or congestion avoidance."""
        growth = 0
        if window.in_slow_start:
            if ack.cumulative_advanced and ack.flight_before >= window.cwnd and not ack.in_recovery:
                growth = min(ack.acked, window.unit)
        else:
            self.partial += ack.acked
            if self.partial >= window.cwnd:
                if ack.flight_before >= window.cwnd:
                    self.partial -= window.cwnd
                    growth = window.unit
                else:
                    self.partial = window.cwnd
            if ack.all_acked:
                self.partial = 0
        return window.cwnd + growth, window.ssthresh

    def on_congestion(self, window: Window, loss: Loss) -> WindowUpdate:
        """Halves the window."""
        self.partial = 0
        half = max(window.cwnd // 2, window.floor)
        return half, half

    def on_timeout(self, window: Window, loss: Loss, verdict: Verdict) -> WindowUpdate:
        """Starts again with one packet."""
        self.partial = 0
        return window.unit, max(window.cwnd // 2, window.floor)

    def on_idle(self, window: Window) -> WindowUpdate:
        """Halves the window of a path that was idle."""
        self.partial = 0
        return min(max(window.cwnd // 2, window.floor), window.cwnd), window.ssthresh
