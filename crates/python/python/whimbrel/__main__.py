"""``python -m whimbrel``: sweeps on clusters from the shell."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Optional, Sequence

from . import __version__
from ._errors import RunError, WhimbrelError

if TYPE_CHECKING:
    from ._scenario import Scenario

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
CODES = """\
exit codes: 0 done; 1 runs failed, or the scheduler was lost; 2 wrong use, nothing was run; 130 interrupted (Ctrl-C), finished runs
are kept"""


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    main = argparse.ArgumentParser(prog="python -m whimbrel", description="Sweeps on a Dask cluster.")
    main.add_argument("--version", action="version", version=f"whimbrel {__version__}")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    sweep = commands.add_parser(
        "sweep",
        help="run a scenario on a cluster, with the results of `whimbrel run`",
        description="Run every point of a scenario with every seed on a Dask cluster. The results are those of `whimbrel run --out`.",
        epilog=CODES,
    )
    common(sweep)
    sweep.add_argument("--out", required=True, metavar="DIR", help="the folder of results")
    sweep.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://10.0.0.1:8786. Default: processes of this machine")
    sweep.add_argument("--workers", type=int, metavar="N", help="processes of this machine. Default: the number of processors")
    sweep.add_argument("--replace", action="store_true", help="replace the results in that folder")
    sweep.add_argument("--resume", action="store_true", help="continue an interrupted or killed sweep in that folder")
    sweep.add_argument("--batch", type=float, default=1.0, metavar="SECONDS", help="duration of a task; short runs are sent in batches. Default: 1")
    sweep.add_argument("--patience", type=float, default=30.0, metavar="SECONDS", help="time that a lost scheduler has to come back. Default: 30")
    sweep.add_argument("--precision", type=float, metavar="SHARE", help="end the runs of a point when half the 95 %% interval of --metric is at most this share of the mean; --seeds is the maximum")
    sweep.add_argument("--metric", default="goodput_mbps", metavar="NAME", help="the metric of --precision. Default: goodput_mbps")
    sweep.add_argument("--quiet", "-q", action="store_true", help="print only errors")
    plan = commands.add_parser("plan", help="estimate a large sweep from a measured sample", description="Run a sample of a scenario and extrapolate.")
    common(plan)
    plan.add_argument("--runs", type=int, metavar="N", help="number of runs. Default: those of the scenario")
    plan.add_argument("--cores", type=int, default=1000, metavar="N", help="number of cores. Default: 1000")
    return main


def common(command: argparse.ArgumentParser) -> None:
    """Adds the options that all commands have."""
    command.add_argument("file", metavar="FILE", help="the scenario file")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a field, as of `whimbrel run`")
    command.add_argument("--seeds", type=int, metavar="N", help="runs of each point")
    command.add_argument("--seed", type=int, metavar="N", help="the first seed")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs a command and returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        return run_plan(options) if options.command == "plan" else run_sweep(options)
    except KeyboardInterrupt:
        print("interrupted; finished runs are kept, --resume continues", file=sys.stderr)
        return INTERRUPTED
    except (WhimbrelError, ValueError, ImportError) as error:
        message = str(error).replace("replace=True", "--replace").replace("resume=True (--resume)", "--resume").replace("resume=True", "--resume")
        for line in message.split("\n"):
            print(line if line.startswith("  ") else f"error: {line}", file=sys.stderr)
        return FAILED if isinstance(error, RunError) else WRONG_USE


def scenario_of(options: argparse.Namespace) -> Scenario:
    """Loads the scenario with its changes, as the command does."""
    from pathlib import Path

    from . import _core
    from ._scenario import arguments

    changes = [*options.set, *arguments({}, seeds=options.seeds, seed=options.seed)]
    return _core.Scenario.from_file(Path(options.file), changes)


def run_sweep(options: argparse.Namespace) -> int:
    """``sweep``."""
    from .cluster import Precision, sweep

    scenario = scenario_of(options)
    precision = Precision(options.metric, options.precision) if options.precision is not None else None
    report = sweep(
        scenario,
        out=options.out,
        scheduler=options.scheduler,
        workers=options.workers,
        replace=options.replace,
        resume=options.resume,
        precision=precision,
        batch_s=options.batch,
        patience_s=options.patience,
        progress=False if options.quiet else None,
    )
    for failure in report.failures[:5]:
        print(f"error: run {failure['run']} failed with seed {failure['seed']}: {failure['message']}", file=sys.stderr)
    if len(report.failures) > 5:
        print(f"error: {len(report.failures) - 5} more runs failed; see failures.jsonl", file=sys.stderr)
    if not options.quiet:
        print(report.results.text(), end="")
        earlier = f" ({report.runs - report.new} of them earlier)" if report.runs > report.new else ""
        print(f"{report.runs} runs{earlier}; results are in {report.folder}", file=sys.stderr)
    return FAILED if report.failures else 0


def run_plan(options: argparse.Namespace) -> int:
    """``plan``."""
    from .cluster import plan

    print(plan(scenario_of(options), runs=options.runs, cores=options.cores))
    return 0


if __name__ == "__main__":
    sys.exit(main())
