"""Adaptive stopping: more seeds for a point until the interval of a metric is narrow enough.

The seeds of a point are done in stages, and a point is judged when a whole stage is complete. So the number of seeds does not depend on
which worker is faster, and a resumed sweep does the same runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence

from .._frames import check_metric

__all__ = ["Precision", "half_width"]


@dataclass(frozen=True)
class Precision:
    """Ends the runs of a point when half the width of the interval of a metric is at most ``relative`` times the mean.

    Looking several times makes the interval's coverage somewhat lower than its level (Law, "Simulation Modeling and Analysis", 9.4.1);
    a larger ``least`` makes this effect small.
    """

    metric: str
    relative: float = 0.05
    level: float = 0.95
    least: int = 5
    """Seeds of the first stage. The metric must have a value in at least this number of runs of a point."""
    growth: float = 1.5
    """Each stage has this multiple of the seeds before."""

    def __post_init__(self) -> None:
        _, _, definition, _ = check_metric(self.metric)
        if "measured only in studies" in definition:
            raise ValueError(f"{self.metric} is measured only in studies: the runs of a sweep have no value of it")
        for name, value, allowed, fine in (
            ("relative", self.relative, "more than 0", self.relative > 0),
            ("level", self.level, "more than 0 and less than 1", 0 < self.level < 1),
            ("least", self.least, "2 or more", self.least >= 2),
            ("growth", self.growth, "more than 1", self.growth > 1),
        ):
            if not fine:
                raise ValueError(f"{name}: {value} given, allowed is {allowed}")

    def stages(self, most: int) -> list[int]:
        """Returns the numbers of seeds after each stage."""
        stages = [min(self.least, most)]
        while stages[-1] < most:
            stages.append(min(most, max(stages[-1] + 1, math.ceil(stages[-1] * self.growth))))
        return stages

    def is_reached(self, values: Sequence[Optional[float]]) -> bool:
        """Returns whether these values suffice. A metric without values never does."""
        known = [value for value in values if value is not None and not math.isnan(value)]
        half = half_width(known, self.level) if len(known) >= self.least else None
        return half is not None and half <= self.relative * abs(sum(known) / len(known))


def half_width(values: Sequence[float], level: float) -> Optional[float]:
    """Returns half the width of the t interval of the mean, or none for fewer than two values."""
    if len(values) < 2:
        return None
    from ..stats import mean_interval

    interval = mean_interval(values, level=level)
    return interval.high - interval.mean
