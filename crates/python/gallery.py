"""Draws every figure of `whimbrel.plot` from runs of the project's examples: `python gallery.py FOLDER`. The tests do the same, and
`docs/gallery.md` shows the figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable

import matplotlib

matplotlib.use("Agg")

import whimbrel
from whimbrel import plot

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def figures() -> dict[str, Callable[[], Any]]:
    """Returns a function for each figure, by its name."""
    radios = whimbrel.run(EXAMPLES / "two-radios.toml", seeds=1, record={"series": "first-seed", "events": "first-seed"}, progress=False)
    losses = {"link.radio.forward.loss.rate": [0, 0.002, 0.005, 0.01, 0.02], "flow.bulk.sctp.scheme": ["standard", "veno", "westwood"]}
    lossy = whimbrel.run(EXAMPLES / "lossy-link.toml", seeds=8, duration="30 s", sweep=losses, progress=False)
    schemes = {"flow.bulk.sctp.scheme": ["standard", "cubic", "veno", "westwood", "jersey", "bbr"]}
    bars = whimbrel.run(EXAMPLES / "lossy-link.toml", seeds=8, duration="30 s", sweep=schemes, link__radio__forward__loss__rate=0.01, progress=False)
    studies = [whimbrel.study(name, studies=ROOT / "studies", quick=True, progress=False) for name in ("ye-reorder", "ye-retransmit-path", "ye-small-window")]
    return {
        "sweep": lambda: plot.sweep(lossy, "goodput_mbps", x="loss.rate"),
        "sweep-bars": lambda: plot.sweep(bars, "goodput_mbps", method="bootstrap"),
        "series": lambda: plot.series(radios, "cwnd_bytes", run=1),
        "cdf": lambda: plot.cdf(lossy, "delay_p95_ms", by="scheme"),
        "tsn": lambda: plot.tsn(radios, run=0, start=0.4, end=0.65),
        "paths": lambda: plot.paths(radios, run=1),
        "topology": lambda: plot.topology(EXAMPLES / "two-radios.toml"),
        "topology-nodes": lambda: plot.topology(EXAMPLES / "red-ecn.toml"),
        "topology-radio": lambda: plot.topology(EXAMPLES / "string.toml"),
        "verdicts": lambda: plot.verdicts(studies),
    }


def main(folder: Path) -> None:
    """Writes all figures as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in figures().items():
        plot.save(draw(), folder / f"{name}.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "gallery"))
