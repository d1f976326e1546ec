"""The environment for learning, the example of optimisation, and the notebooks."""

from __future__ import annotations

import re
import sys

import numpy
import pytest
from conftest import ROOT, SMALL

import whimbrel

PYTHON = ROOT / "crates/python"
ONE = {"flow.bulk.sctp.scheme": "standard", "duration": "6 s"}


def test_environment_is_one_of_gymnasium_and_repeatable():
    from gymnasium.utils.env_checker import check_env

    from whimbrel.gym import CongestionEnv

    env = CongestionEnv(SMALL, **ONE)

    def episode(seed, factor):
        observation, _ = env.reset(seed=seed)
        assert observation in env.observation_space
        rewards, over, info = [], False, {}
        while not over:
            observation, reward, over, _, info = env.step(numpy.array([factor]))
            rewards.append(reward)
        return rewards, info["results"].table["goodput_mbps"][0].as_py()

    first, second, other = episode(1, 1.05), episode(1, 1.05), episode(1, 0.9)
    assert first == second and len(first[0]) > 20
    assert other[1] < first[1], "a policy that only shrinks the window is slower"
    with pytest.raises(RuntimeError, match="reset"):
        env.step(numpy.array([1.0]))
    check_env(CongestionEnv(SMALL, **ONE), skip_render_check=True)
    env.reset(seed=2)
    env.close()
    with pytest.raises(ValueError, match="2 points"):
        CongestionEnv(SMALL)


def test_environment_reports_a_run_that_fails_or_ends_before_its_first_step(monkeypatch):
    from whimbrel import gym

    short = gym.CongestionEnv(SMALL, **ONE | {"duration": "50 ms"})
    observation, _ = short.reset()
    assert observation.tolist() == [0.0] * 6
    _, _, over, _, info = short.step(numpy.array([1.0]))
    assert over and len(info["results"]) == 1
    with pytest.raises(RuntimeError, match="reset"):
        short.step(numpy.array([1.0]))

    class Panic(BaseException):
        """A panic in Rust is not an Exception."""

    for raised, expected in ((ZeroDivisionError("of the run"), ZeroDivisionError), (Panic("of the run"), whimbrel.RunError)):
        env = gym.CongestionEnv(SMALL, **ONE)
        real = gym.Window.on_congestion

        def fail(self, window, loss, raised=raised):
            raise raised

        monkeypatch.setattr(gym.Window, "on_congestion", fail)
        env.reset()
        with pytest.raises(expected, match="of the run"):
            while True:
                env.step(numpy.array([1.0]))
        with pytest.raises(RuntimeError, match="reset"):
            env.step(numpy.array([1.0]))
        monkeypatch.setattr(gym.Window, "on_congestion", real)
        env.reset()
        env.close()

        def start(*arguments, raised=raised, **named):
            raise raised

        with monkeypatch.context() as patch:
            patch.setattr(gym, "run", start)
            with pytest.raises(expected, match="of the run"):
                env.reset()
            env.close()


def test_environment_controls_one_path_and_the_others_follow_the_standard(monkeypatch):
    from whimbrel import gym

    head, flow = SMALL.split("[sweep]")[0].split("[[flow]]")
    second = head[head.index("[[link]]") :].replace("radio", "cable")
    other = "[[flow]]\nname = 'other'\nfrom = 'a'\nto = 'b'\n"
    env = gym.CongestionEnv(head + second + "[[flow]]" + flow + other, **{"flow.bulk.sctp.scheme": "multipath", "duration": "8 s"})
    assert env.flow == "bulk"
    seen, real = {}, gym.Window.on_ack

    def on_ack(self, window, ack):
        seen.setdefault(self, []).append(window.cwnd)
        return real(self, window, ack)

    monkeypatch.setattr(gym.Window, "on_ack", on_ack)
    env.reset()
    (controlled,) = [window for window in seen if window.until is not None]
    over = False
    while not over:
        observation, _, over, _, _ = env.step(numpy.array([1.0]))
    assert len(seen) == 2, "the two paths of this flow"
    (standard,) = [window for window in seen if window is not controlled]
    assert standard.until is None, "it never asked"
    growth = numpy.diff(seen[standard])
    assert (growth > 0).any() and (growth < 0).any(), "it grows, and losses reduce it"
    assert max(seen[controlled]) == seen[controlled][0], "a factor of 1 leaves the window as it is"
    for wrong in ("bluk", ""):
        with pytest.raises(ValueError, match="flows of SCTP and TCP are bulk, other"):
            gym.CongestionEnv(env.scenario, flow=wrong)


def test_tuning_finds_a_parameter_that_is_better_on_paths_it_has_not_seen():
    sys.path.insert(0, str(PYTHON / "examples"))
    import tune

    # Each sampled path is a point: a delay with its loss rate, no product of both.
    sampled = tune.paths(5)
    points = whimbrel.load(tune.NET, sweep=sampled).points
    pairs = [(point["link.path"]["delay"], point["link.path"]["loss"]["rate"]) for point in points]
    assert len(pairs) == 5 == len({delay for delay, _ in pairs}) == len({rate for _, rate in pairs})
    assert tune.paths(5) == sampled != tune.paths(5, seed=2)
    study = tune.tune(trials=6, points=8)
    assert study.trials[0].params == {"beta": 3.0}
    published, tuned = (tune.held_out(beta, points=12) for beta in (3.0, study.best_params["beta"]))
    assert tuned > 1.01 * published > 0, (study.best_params, published, tuned)


def test_a_policy_is_evaluated_beside_schemes_on_the_same_seeds():
    sys.path.insert(0, str(PYTHON / "examples"))
    import evaluate

    found = evaluate.evaluate(evaluate.delay_target, [1, 2])
    assert list(found.index) == ["policy", *evaluate.SCHEMES]
    # A policy that ignores losses has more than the standard, which halves its window at each.
    assert found.loc["policy", "goodput_mbps"] > 1.5 * found.loc["standard", "goodput_mbps"]
    assert found.loc["policy", "packet_delay_ms"] < 25 + 2 * 1000 * evaluate.QUEUEING_S
    timid = evaluate.episode(lambda observation: 0.9, 1)
    assert timid["goodput_mbps"] < found.loc["policy", "goodput_mbps"] / 2


@pytest.mark.parametrize("name", sorted(path.stem for path in (PYTHON / "notebooks").glob("*.ipynb")))
def test_notebook_runs_from_start_to_end(name):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(PYTHON / f"notebooks/{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(PYTHON / "notebooks")}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert outputs and not any(output.output_type == "error" for output in outputs)
    for cell in code:
        images = sum("image/png" in output.get("data", {}) for output in cell.outputs)
        draws = re.search(r"\bplot\.(?!style)\w+\(|\bsubplots\(", cell.source)
        assert images == (1 if draws else 0), cell.source
    assert whimbrel.__version__
