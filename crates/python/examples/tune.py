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
loss = { kind = "bernoulli", rate = 0.01 }
[[flow]]
name = "bulk"
from = "a"
to = "b"
[flow.sctp]
scheme = "veno"
discriminator = { kind = "veno" }
"""


def paths(count: int, seed: int = 1) -> dict[str, list]:
    """Returns a sweep over delays and loss rates: log-uniform, 5 to 100 ms and 0.1 to 3 %."""
    random = numpy.random.default_rng(seed)
    delays = [f"{delay:.1f} ms" for delay in numpy.exp(random.uniform(numpy.log(5), numpy.log(100), count))]
    rates = numpy.exp(random.uniform(numpy.log(0.001), numpy.log(0.03), count)).round(4).tolist()
    return {"link.path.delay": delays, "link.path.loss.rate": rates}


def value(beta: float, sampled: dict[str, list], scheduler: Optional[str]) -> float:
    """Returns the geometric mean of the goodput over the paths."""
    overrides = {"flow.bulk.sctp.discriminator.beta": beta, "sweep": sampled}
    if scheduler is None:
        results = whimbrel.run(NET, progress=False, **overrides)
    else:
        with tempfile.TemporaryDirectory() as folder:
            results = whimbrel.sweep(NET, out=folder, scheduler=scheduler, progress=False, **overrides).results
    return float(numpy.exp(numpy.log(results.metric("goodput_mbps")["goodput_mbps"]).mean()))


def tune(trials: int = 20, points: int = 3, scheduler: Optional[str] = None) -> optuna.Study:
    """Tunes beta, the number of queued packets from which Veno takes a loss for congestion."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampled = paths(points)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
    study.enqueue_trial({"beta": 3.0})
    study.optimize(lambda trial: value(trial.suggest_float("beta", 0.5, 30.0, log=True), sampled, scheduler), n_trials=trials)
    return study


if __name__ == "__main__":
    found = tune(int(sys.argv[1]) if len(sys.argv) > 1 else 20, scheduler=sys.argv[2] if len(sys.argv) > 2 else None)
    print(f"beta = 3 (Fu and Liew 2003): {found.trials[0].value:.3f} Mbit/s, geometric mean")
    print(f"beta = {found.best_params['beta']:.2f}: {found.best_value:.3f} Mbit/s")
