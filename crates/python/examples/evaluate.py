"""Evaluates a policy for the congestion window beside schemes, on the same paths and seeds: `python evaluate.py`.

The policy sees what the Gymnasium environment observes, and answers with a factor for the window. This one aims at a queueing delay; a trained
policy of any library takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy
import pandas

import whimbrel
from whimbrel.gym import CongestionEnv

NET = """
duration = "30 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "path"
between = ["a", "b"]
rate = "8 Mbit/s"
delay = "25 ms"
queue = { kind = "drop-tail", packets = 100 }
forward = { loss = { kind = "bernoulli", rate = 0.01 } }
[[flow]]
name = "bulk"
from = "a"
to = "b"
"""
SCHEMES = ("standard", "cubic", "bbr", "whimbrel")
QUEUEING_S = 0.02
"""The queueing delay that the policy aims at, in seconds."""

Policy = Callable[[numpy.ndarray], float]


def delay_target(observation: numpy.ndarray) -> float:
    """Enlarges the window while the queueing delay is below the target, and reduces it above. Losses do not count."""
    _, _, smoothed, shortest, _, _ = observation
    return 1.05 if smoothed - shortest < QUEUEING_S else 0.9


def episode(policy: Policy, seed: int) -> dict[str, float]:
    """Returns goodput and delay of one run that the policy controls."""
    env = CongestionEnv(NET, step_s=0.05)
    observation, _ = env.reset(seed=seed)
    over, info = False, {}
    while not over:
        observation, _, over, _, info = env.step(numpy.array([policy(observation)]))
    env.close()
    return row("policy", info["results"])


def row(name: str, results: whimbrel.Results) -> dict[str, float]:
    table = results.table
    return {"scheme": name, **{metric: table[metric][0].as_py() for metric in ("goodput_mbps", "packet_delay_ms", "retransmissions")}}


def evaluate(policy: Policy, seeds: Sequence[int]) -> pandas.DataFrame:
    """Returns the means of the policy and of the schemes over the seeds."""
    rows = [episode(policy, seed) for seed in seeds]
    for scheme in SCHEMES:
        rows += [row(scheme, whimbrel.run(NET, seed=seed, seeds=1, flow__bulk__sctp__scheme=scheme, progress=False)) for seed in seeds]
    return pandas.DataFrame(rows).groupby("scheme", sort=False).mean()


if __name__ == "__main__":
    print(evaluate(delay_target, range(1, 6)).round(2).to_string())
