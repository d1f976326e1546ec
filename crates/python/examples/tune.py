"""Tunes the parameters of a scheme over a distribution of paths, with Optuna: `python tune.py [TRIALS] [SCHEDULER]`.

A trial is a sweep over sampled paths, the same for all trials. With the address of a Dask scheduler trials run on its workers.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Optional

import numpy
import optuna

import whimbrel

NET = """
duration = "20 s"
seeds = 2
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "path"
between = ["a", "b"]
rate = "5 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", packets = 50 }
[[flow]]
name = "bulk"
from = "a"
to = "b"
[flow.sctp]
scheme = "veno"
discriminator = { kind = "veno" }
"""
PUBLISHED = 3.0
"""Beta of Fu and Liew 2003."""


def paths(count: int, seed: int = 1) -> dict[str, list]:
    """Returns a sweep over paths, each with a sampled delay and a sampled loss rate: log-uniform, 5 to 100 ms and 0.1 to 3 %."""
    random = numpy.random.default_rng(seed)
    delays = numpy.exp(random.uniform(numpy.log(5), numpy.log(100), count))
    rates = numpy.exp(random.uniform(numpy.log(0.001), numpy.log(0.03), count))
    link = whimbrel.load(NET).resolved["link"][0]
    # The value of the axis is the whole link, so that the two numbers stay together; two axes would be a product.
    sampled = [{"delay": f"{delay:.3f} ms", "loss": {"kind": "bernoulli", "rate": float(rate)}} for delay, rate in zip(delays, rates)]
    return {"link.path": [{**link, **path} for path in sampled]}


def value(beta: float, sampled: dict[str, list], scheduler: Optional[str] = None) -> float:
    """Returns the geometric mean of the goodput over the paths."""
    overrides = {"flow.bulk.sctp.discriminator.beta": beta, "sweep": sampled}
    if scheduler is None:
        results = whimbrel.run(NET, progress=False, **overrides)
    else:
        with tempfile.TemporaryDirectory() as folder:
            results = whimbrel.sweep(NET, out=folder, scheduler=scheduler, progress=False, **overrides).results
    return float(numpy.exp(numpy.log(results.metric("goodput_mbps")["goodput_mbps"]).mean()))


def tune(trials: int = 20, points: int = 10, scheduler: Optional[str] = None) -> optuna.Study:
    """Tunes beta, the number of queued packets from which Veno takes a loss for congestion."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampled = paths(points)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
    study.enqueue_trial({"beta": PUBLISHED})
    study.optimize(lambda trial: value(trial.suggest_float("beta", 0.5, 30.0, log=True), sampled, scheduler), n_trials=trials)
    return study


def held_out(beta: float, points: int = 20, scheduler: Optional[str] = None) -> float:
    """Returns the value on paths that the tuning has not seen: the best of many trials looks better than it is on its own paths."""
    return value(beta, paths(points, seed=2), scheduler)


if __name__ == "__main__":
    scheduler = sys.argv[2] if len(sys.argv) > 2 else None
    found = tune(int(sys.argv[1]) if len(sys.argv) > 1 else 20, scheduler=scheduler)
    print("goodput, geometric mean over paths, Mbit/s: tuned on, held out")
    for beta, tuned_on in ((PUBLISHED, found.trials[0].value), (found.best_params["beta"], found.best_value)):
        print(f"  beta = {beta:5.2f}: {tuned_on:.3f}, {held_out(beta, scheduler=scheduler):.3f}")
