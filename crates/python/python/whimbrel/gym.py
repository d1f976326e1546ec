"""A Gymnasium environment: observe what a sender measures, act on its congestion window.

A policy of any library can be compared with the schemes of papers on the same scenarios and seeds. The simulation waits for each action,
so the results do not depend on the speed of the policy.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Optional

import gymnasium
import numpy

from ._errors import RunError
from ._run import run
from ._scenario import ScenarioLike, load
from .prototypes import StandardWindow

__all__ = ["CongestionEnv"]


class Ended(Exception):
    """Ends a run whose episode is over."""


class CongestionEnv(gymnasium.Env):
    """An episode is a run of a scenario without a sweep; a step is an interval of ``step_s`` seconds.

    The policy controls the window of one path: the first one of the flow that is acknowledged. Other paths of this flow have the window of
    the standard, other flows their own schemes. ``flow``: the flow's name, by default the first one of SCTP or TCP.

    The observation is a vector: cwnd in packets, bytes in flight in packets, smoothed and shortest round-trip time in seconds, packets
    acknowledged per second, packets lost in the step. The action is the factor of the window, 0.5 to 2. The reward is the delivery rate in
    Mbit/s minus ``delay_weight`` times the queueing delay in seconds minus ``loss_weight`` times the fraction of lost packets.
    ``info["results"]`` after the last step are the results of the run. ``reset(seed=N)`` chooses the seed of the run.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        scenario: ScenarioLike,
        *,
        flow: Optional[str] = None,
        step_s: float = 0.1,
        delay_weight: float = 10.0,
        loss_weight: float = 10.0,
        **overrides: Any,
    ) -> None:
        self.scenario = load(scenario, **overrides)
        if len(self.scenario.points) > 1:
            raise ValueError(f"the scenario has {len(self.scenario.points)} points: an episode is a run of one")
        if not step_s > 0:
            raise ValueError(f"step_s: {step_s} given, allowed is more than 0 seconds")
        self.flow, self.step_ns = chosen(self.scenario, flow), int(step_s * 1e9)
        self.delay_weight, self.loss_weight = delay_weight, loss_weight
        self.observation_space = gymnasium.spaces.Box(0.0, numpy.inf, (6,), numpy.float64)
        self.action_space = gymnasium.spaces.Box(0.5, 2.0, (1,), numpy.float64)
        self.thread: Optional[threading.Thread] = None
        self.episode: Optional[Episode] = None
        self.over: Optional[tuple[numpy.ndarray, dict[str, Any]]] = None
        """The last report of a run that ended before its first step."""

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[numpy.ndarray, dict[str, Any]]:
        """Starts a run. If it ends before its first step, the first :meth:`step` returns its results."""
        super().reset(seed=seed)
        self.close()
        self.episode = Episode(self.step_ns)
        first = self.scenario.seed if seed is None else seed
        self.thread = threading.Thread(target=self.episode.simulate, args=(self.scenario, self.flow, first), daemon=True)
        self.thread.start()
        observation, report = self.receive()
        if "results" in report:
            self.over = observation, report
        return observation, {}

    def step(self, action: Any) -> tuple[numpy.ndarray, float, bool, bool, dict[str, Any]]:
        """Multiplies the window by the action and runs until the next step."""
        if self.episode is None:
            raise RuntimeError("the episode is over: call reset()")
        factor = float(numpy.clip(numpy.asarray(action, dtype=float).ravel()[0], 0.5, 2.0))
        if self.over is None:
            self.episode.actions.put(factor)
            observation, report = self.receive()
        else:
            observation, report = self.over
        if "results" in report:
            self.episode = self.over = None
            return observation, 0.0, True, False, report
        loss = report["lost"] / max(report["lost"] + report["packets"], 1)
        reward = report["mbps"] - self.delay_weight * report["queueing_s"] - self.loss_weight * loss
        return observation, float(reward), False, False, report

    def receive(self) -> tuple[numpy.ndarray, dict[str, Any]]:
        """Returns the next report of the run. Raises the exception that ended it."""
        assert self.episode is not None
        observation, report = self.episode.reports.get()
        error = report.get("error")
        if error is not None:
            self.episode = None
            if isinstance(error, Exception):
                raise error
            # A panic of the simulator.
            raise RunError(f"the run failed: {error}") from error
        return observation, report

    def close(self) -> None:
        """Ends the run."""
        if self.thread is not None and self.thread.is_alive() and self.episode is not None:
            self.episode.actions.put(None)
            self.thread.join()
        self.thread = self.episode = self.over = None


def chosen(scenario: Any, flow: Optional[str]) -> str:
    """Returns the name of the flow: the given one, or the first with a congestion window."""
    flows: list[str] = [entry["name"] for entry in scenario.resolved["flow"] if entry.get("kind", "sctp") != "udp"]
    if flow is None and flows:
        return flows[0]
    if flow is None or flow not in flows:
        raise ValueError(f"flow: {flow!r} given, flows of SCTP and TCP are {', '.join(flows) or 'none'}")
    return flow


class Episode:
    """A run in a thread of its own, which waits for actions. The first window that is acknowledged is controlled."""

    def __init__(self, step_ns: int) -> None:
        self.step_ns = step_ns
        self.actions: queue.Queue[Optional[float]] = queue.Queue()
        self.reports: queue.Queue[tuple[numpy.ndarray, dict[str, Any]]] = queue.Queue()
        self.last = numpy.zeros(6)
        self.controlled: Optional[Window] = None

    def simulate(self, scenario: Any, flow: str, seed: int) -> None:
        """Runs the scenario."""

        def make() -> "Window":
            return Window(self)

        try:
            results = run(scenario, seeds=1, seed=seed, jobs=1, progress=False, window={flow: make})
            self.reports.put((self.last, {"results": results}))
        except Ended:
            pass
        except BaseException as error:  # Raised by `receive`. A panic of the simulator is not an Exception.
            self.reports.put((self.last, {"error": error}))

    def exchange(self, observation: numpy.ndarray, report: dict[str, Any]) -> float:
        """Hands out an observation and waits for the action."""
        self.last = observation
        self.reports.put((observation, report))
        factor = self.actions.get()
        if factor is None:
            raise Ended
        return factor


class Window(StandardWindow):
    """The window of a path: it asks the policy if it is the controlled one, and follows the standard otherwise."""

    def __init__(self, episode: Episode) -> None:
        super().__init__()
        self.episode = episode
        self.until: Optional[int] = None
        self.packets = self.acked = self.lost = 0

    def on_ack(self, window: Any, ack: Any) -> Any:
        if self.episode.controlled is None:
            self.episode.controlled = self
        if self.episode.controlled is not self:
            return super().on_ack(window, ack)
        self.packets += ack.packets
        self.acked += ack.acked
        step = self.episode.step_ns
        if self.until is None:
            self.until = ack.now_ns + step
        if ack.now_ns < self.until:
            return None
        seconds = (ack.now_ns - self.until + step) / 1e9
        srtt, least = ((time or 0) / 1e9 for time in (ack.srtt_ns, ack.min_rtt_ns))
        rate = self.packets / seconds
        seen = numpy.array([window.cwnd / window.unit, ack.flight / window.unit, srtt, least, rate, self.lost])
        report = {"packets": self.packets, "lost": self.lost, "mbps": self.acked * 8e-6 / seconds, "queueing_s": max(srtt - least, 0.0)}
        self.until, self.packets, self.acked, self.lost = ack.now_ns + step, 0, 0, 0
        cwnd = min(max(window.cwnd * self.episode.exchange(seen, report), window.unit), 1e9)
        # Without a threshold there is no slow start.
        return cwnd, min(cwnd, window.ssthresh)

    def on_congestion(self, window: Any, loss: Any) -> Any:
        self.lost += loss.packets
        return None if self.episode.controlled is self else super().on_congestion(window, loss)

    def on_timeout(self, window: Any, loss: Any, verdict: Any) -> Any:
        self.lost += loss.packets
        return super().on_timeout(window, loss, verdict)
