"""Progress of runs: a function, or a bar."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Optional, Union

__all__ = ["Progress", "bar"]

Progress = Union[None, bool, Callable[[float, int, int], Any]]
"""``True``: a bar; ``None``: a bar if the output is a terminal or a notebook; ``False``: nothing; or a function of the fraction of all
simulated time, the finished runs and all runs."""


def bar(progress: Progress, *, what: str = "runs") -> tuple[Optional[Callable[[float, int, int], Any]], Callable[[], None]]:
    """Returns the function for a progress argument, and one that ends it."""
    if callable(progress) and not isinstance(progress, bool):
        return progress, lambda: None
    if progress is None:
        progress = in_notebook() or sys.stderr.isatty()
    if not progress:
        return None, lambda: None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        line = Line(what)
        return line.update, line.close
    shown = tqdm(total=1.0, bar_format="{l_bar}{bar}| {postfix} [{elapsed}<{remaining}]", leave=False)

    def update(fraction: float, done: int, total: int) -> None:
        shown.n = min(fraction, 1.0)
        shown.set_postfix_str(f"{done} of {total} {what}", refresh=False)
        shown.refresh()

    return update, shown.close


class Line:
    """A line of a terminal with the progress; for installations without tqdm."""

    def __init__(self, what: str) -> None:
        self.what, self.start = what, time.monotonic()

    def update(self, fraction: float, done: int, total: int) -> None:
        elapsed = time.monotonic() - self.start
        left = f", {elapsed / fraction - elapsed:.0f} s left" if 0 < fraction < 1 else ""
        sys.stderr.write(f"\r\x1b[K{fraction:4.0%} {done} of {total} {self.what}{left}")
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def in_notebook() -> bool:
    """Returns whether this process runs the cells of a notebook."""
    shell = sys.modules.get("IPython")
    current = shell.get_ipython() if shell is not None else None
    return current is not None and "IPKernelApp" in getattr(current, "config", {})
