"""Parts written in Python, for prototypes.

A part is a class with the methods of one of the protocols below; :func:`whimbrel.run` creates an object of it for each path (a path policy:
for each association). What a class does not define behaves as the standard does. Times are whole nanoseconds since the start of the run, so
that a part in Rust with the same rule gives the same results, bit for bit.

    >>> class Flat:
    ...     def judge(self, window, loss):
    ...         return "transmission" if loss.srtt_ns and loss.srtt_ns < 1.2 * loss.min_rtt_ns else "congestion"
    >>> whimbrel.run("examples/lossy-link.toml", discriminator=Flat)

Python is called for each acknowledgement, which makes a run about ten times as long. A part that proves itself belongs in Rust
(``docs/tutorials/add-a-discriminator.md``).
"""

from __future__ import annotations

from typing import Literal, Optional, Protocol, Tuple, Union

from ._core import Ack, Loss, Mark, Path, Paths, Sign, Window

__all__ = [
    "Ack",
    "Discriminator",
    "Loss",
    "Mark",
    "Path",
    "PathPolicy",
    "Paths",
    "Sign",
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

    def on_sign(self, paths: Paths, path: int, sign: Sign) -> None:
        """Handles an event on a path."""
        ...

    def sending(self, paths: Paths, standard: int) -> Optional[int]:
        """Returns the path for new data; ``standard`` is the standard's choice. A path that is not usable is ignored."""
        ...
