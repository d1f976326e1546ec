"""What the tests share: the project's folders, a small scenario, the `whimbrel` command."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

SMALL = """\
title = "small"
duration = "4 s"
seeds = 3

[[node]]
name = "a"
[[node]]
name = "b"

[[link]]
name = "radio"
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", packets = 30 }
loss = { kind = "bernoulli", rate = 0.01 }

[[flow]]
name = "bulk"
from = "a"
to = "b"

[sweep]
flow.bulk.sctp.scheme = ["standard", "veno"]
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario of six short runs."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def command() -> Path:
    """The `whimbrel` command of the same build."""
    path = Path(os.environ.get("WHIMBREL_COMMAND", ROOT / "target/debug/whimbrel"))
    if not path.exists():
        pytest.fail(f"{path} is missing: run cargo build -p whimbrel-cli, or name another command in WHIMBREL_COMMAND")
    return path


def run_command(command: Path, *words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the `whimbrel` command."""
    return subprocess.run([str(command), *map(str, words)], capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


def contents(folder: Path) -> dict[str, str]:
    """The files of a folder of results by their digests. Parts of a sweep are no results."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "partitions" not in path.parts)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
