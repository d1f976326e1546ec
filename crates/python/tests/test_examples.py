"""The environment for learning, the example of optimisation, and the notebooks."""

from __future__ import annotations

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


def test_tuning_is_no_worse_than_the_published_parameter():
    sys.path.insert(0, str(PYTHON / "examples"))
    import tune

    study = tune.tune(trials=4, points=2)
    assert study.trials[0].params == {"beta": 3.0} and study.best_value >= study.trials[0].value > 0


@pytest.mark.parametrize("name", sorted(path.stem for path in (PYTHON / "notebooks").glob("*.ipynb")))
def test_notebook_runs_from_start_to_end(name):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(PYTHON / f"notebooks/{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(PYTHON / "notebooks")}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs and not any(output.output_type == "error" for output in outputs)
    assert whimbrel.__version__
