"""Ctrl-C that is not lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Optional

__all__ = ["noted_interrupts"]


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], None]]:
    """Gives a function that raises ``KeyboardInterrupt`` if Ctrl-C has come.

    Python ignores the exception if Ctrl-C comes while a finaliser runs, such as that of a future of Dask.
    """
    came = False

    def note(number: int, frame: Optional[FrameType]) -> None:
        nonlocal came
        came = True
        signal.default_int_handler(number, frame)

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    # Others' handlers are left alone; only the main thread may set one.
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
