"""Figures of results, ready for a paper: one call each.

Every function draws into ``ax``, or into a new figure as wide as a column of a paper, and returns the axes. :func:`save` writes PDF, SVG
or PNG. Colours are those of Okabe and Ito, which people with any form of colour blindness can distinguish; lines differ in marker and
dash as well, so that figures work in grey.
"""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence, Union

import numpy

from . import stats
from ._frames import check_metric, label_of, metric_frame, short
from ._results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._run import StudyReport

__all__ = ["COLOURS", "cdf", "paths", "save", "series", "style", "sweep", "topology", "tsn", "verdicts"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ((), (4, 1.5), (1, 1), (6, 1.5, 1, 1.5), (3, 1, 1, 1, 1, 1), (8, 2), (2, 2), (5, 1))

_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "figure.dpi": 150,
    # Text stays text: searchable, and editable in vector programs.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "whimbrel",
}


@contextmanager
def style() -> Iterator[None]:
    """The style of the figures, for figures of your own: ``with whimbrel.plot.style(): ...``."""
    import matplotlib

    interactive = matplotlib.is_interactive()
    try:
        with matplotlib.rc_context(_STYLE):
            try:
                yield
            finally:
                # The first figure starts the backend, and that of notebooks switches to interactive mode. It shows no later figure without.
                interactive = matplotlib.is_interactive()
    finally:
        matplotlib.interactive(interactive)


@contextmanager
def axes(ax: Optional["Axes"], height: float = 2.3, width: float = 3.5) -> Iterator["Axes"]:
    """The given axes, or those of a new figure, in the style."""
    from matplotlib.figure import Figure

    with style():
        if ax is None:
            figure = new_figure(width, height)
            ax = figure.subplots() if isinstance(figure, Figure) else figure
        yield ax


def new_figure(width: float, height: float) -> Any:
    """Returns a figure. In a notebook it is shown by the cell that made it."""
    import matplotlib.pyplot

    return matplotlib.pyplot.figure(figsize=(width, height), layout="constrained")


def save(ax: Any, path: Union[str, "os.PathLike[str]"], *, dpi: float = 300) -> None:
    """Writes the figure of these axes as PDF, SVG or PNG (with this resolution), by the path's ending, and closes it. The same figure gives
    the same bytes."""
    import matplotlib.pyplot

    figure = numpy.asarray(ax, dtype=object).ravel()[0].figure
    ending = os.fspath(path).rsplit(".", 1)[-1].lower()
    metadata: dict[str, Any] = {"pdf": {"CreationDate": None, "Producer": None, "Creator": None}, "svg": {"Date": None}}.get(ending, {})
    with style():
        figure.savefig(path, metadata=metadata, dpi=dpi)
    matplotlib.pyplot.close(figure)


def looks() -> Iterator[dict[str, Any]]:
    """Yields colour, marker and dash of one line after the other."""
    for colour, marker, dash in zip(cycle(COLOURS), cycle(MARKERS), cycle(DASHES)):
        yield {"color": colour, "marker": marker, "dashes": dash}


def legend(ax: "Axes", **options: Any) -> None:
    """Adds a legend: where it covers no data, otherwise above the axes."""
    shown = ax.legend(loc="best", **options)
    figure = ax.figure.canvas.figure
    figure.draw_without_rendering()
    if not covered(ax, shown.get_window_extent()):
        return
    for columns in (3, 2, 1):
        shown = ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.3, columnspacing=1, **options)
        figure.draw_without_rendering()
        if shown.get_window_extent().x1 <= figure.bbox.x1:
            return


def covered(ax: "Axes", box: Any) -> bool:
    """Whether there is data of the axes in a box of the screen."""
    outlines = [(line.get_path(), line.get_transform(), False) for line in ax.get_lines()]
    outlines += [(patch.get_path(), patch.get_transform(), True) for patch in ax.patches]
    for collection in ax.collections:
        places = collection.get_offset_transform().transform(collection.get_offsets())
        if len(places) > 1 and any(box.contains(x, y) for x, y in places):
            return True
        if len(places) <= 1:
            outlines += [(path, collection.get_transform(), True) for path in collection.get_paths()]
    return any(bool(path.transformed(transform).intersects_bbox(box, filled=filled)) for path, transform, filled in outlines)


def word(value: Any) -> str:
    """Returns a swept value as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def sweep(
    results: Results,
    metric: str = "goodput_mbps",
    *,
    x: Optional[str] = None,
    by: Optional[str] = None,
    flow: Optional[str] = None,
    level: float = 0.95,
    method: str = "t",
    log: bool = False,
    ax: Optional["Axes"] = None,
) -> "Axes":
    """Draws a metric over an axis of the sweep: a line for each value of another axis, with the band of its confidence interval.

    ``x`` is by default the first axis of numbers, ``by`` the first other one. Values that are no numbers become bars. ``log``: a
    logarithmic x axis. Further axes must have a single value: run the scenario with overrides.
    """
    scenario = results.scenario
    if not scenario.axes:
        raise ValueError("the scenario has no sweep: there is nothing to draw over")
    check_metric(metric)
    numbers = [name for name in scenario.axes if all(isinstance(point[name], (int, float)) for point in scenario.points)]
    along = stats.axis_of(results, x) if x is not None else (numbers or scenario.axes)[0]
    others = [name for name in scenario.axes if name != along]
    lines = stats.axis_of(results, by) if by is not None else others[0] if others else None
    frame = stats.intervals(results, metric, flow=flow, level=level, method=method)
    for name in others:
        if name != lines and frame[name].nunique() > 1:
            raise ValueError(f"{name} has {frame[name].nunique()} values: draw one of them, with an override of whimbrel.run")
    groups: list[tuple[Any, Any]] = [(None, frame)] if lines is None else list(frame.groupby(lines, sort=False))
    with axes(ax) as drawn:
        if along in numbers:
            for (name, group), look in zip(groups, looks()):
                group = group.sort_values(along)
                dashes = look.pop("dashes")
                (line,) = drawn.plot(group[along], group["mean"], label=None if name is None else word(name), **look)
                if dashes:
                    line.set_dashes(dashes)
                drawn.fill_between(group[along], group["low"], group["high"], color=look["color"], alpha=0.2, linewidth=0)
            if log:
                drawn.set_xscale("log")
            else:
                drawn.locator_params(axis="x", nbins=6)
        else:
            bars(drawn, groups, along)
        drawn.set_xlabel(label_of(along))
        drawn.set_ylabel(label_of(metric))
        drawn.set_ylim(bottom=0 if (frame["mean"] >= 0).all() else None)
        if lines is not None:
            legend(drawn, title=short(lines), title_fontsize=7)
        return drawn


def bars(ax: "Axes", groups: Sequence[tuple[Any, Any]], along: str) -> None:
    """Draws bars with intervals, a colour for each group."""
    names = list(dict.fromkeys(value for _, group in groups for value in group[along]))
    width = 0.8 / len(groups)
    for place, ((name, group), colour) in enumerate(zip(groups, cycle(COLOURS))):
        at = [names.index(value) + (place - (len(groups) - 1) / 2) * width for value in group[along]]
        errors = numpy.nan_to_num(numpy.array([group["mean"] - group["low"], group["high"] - group["mean"]], dtype=float))
        hatch = ("", "//", "..", "\\\\", "xx")[place % 5]
        label = None if name is None else word(name)
        ax.bar(at, group["mean"], width * 0.92, yerr=errors, color=colour, label=label, hatch=hatch, edgecolor="white", linewidth=0, error_kw={"lw": 0.8})
    ax.set_xticks(range(len(names)), [word(value) for value in names])
    if sum(len(word(value)) for value in names) > 40:
        ax.tick_params(axis="x", rotation=35)
        for tick in ax.get_xticklabels():
            tick.set_horizontalalignment("right")
    ax.grid(False, axis="x")


UNITS = {
    "cwnd_bytes": ("congestion window, kB", 1e-3),
    "ssthresh_bytes": ("ssthresh, kB", 1e-3),
    "flight_bytes": ("bytes in flight, kB", 1e-3),
    "srtt_ms": ("smoothed round-trip time, ms", 1),
    "rto_ms": ("RTO, ms", 1),
    "goodput_mbps": ("goodput, Mbit/s", 1),
    "delivery_mbps": ("delivery rate, Mbit/s", 1),
    "queue_packets": ("queue, packets", 1),
    "queue_bytes": ("queue, kB", 1e-3),
}


def series(
    results: Results,
    name: str = "cwnd_bytes",
    *,
    run: int = 0,
    flow: Optional[str] = None,
    ax: Optional["Axes"] = None,
) -> "Axes":
    """Draws a recorded time series of a run: a line for each path, flow or link. The run must have recorded series."""
    table = results.series(run=run, name=name)
    frame = table.to_pandas()
    if flow is not None:
        frame = frame[frame["flow"] == flow]
    frame = stats.senders(frame, name)
    if not len(frame):
        known = sorted(set(results.series(run=run)["name"].to_pylist()))
        raise ValueError(f"run {run} has no series `{name}`" + (f" of flow `{flow}`" if flow else "") + f"; recorded are {', '.join(known)}")
    keys = [key for key in ("flow", "path_name", "link", "node") if frame[key].nunique(dropna=True) > 1]
    if "link" not in keys and "node" in keys and frame["link"].isna().all():
        keys.remove("node")
    label, scale = UNITS.get(name, (name, 1))
    with axes(ax) as drawn:
        for (key, group), look in zip(frame.groupby(keys, sort=False, dropna=False) if keys else [((), frame)], looks()):
            shown = ", ".join(str(part) for part in (key if isinstance(key, tuple) else (key,)) if part == part and part is not None)
            drawn.step(group["t_ns"] / 1e9, group["value"] * scale, where="post", color=look["color"], label=shown or None)
            if look["dashes"]:
                drawn.lines[-1].set_dashes(look["dashes"])
        drawn.set_xlabel("time, s")
        drawn.set_ylabel(label)
        drawn.set_ylim(bottom=0)
        if keys:
            legend(drawn)
        return drawn


def cdf(results: Results, metric: str, *, by: Optional[str] = None, flow: Optional[str] = None, ax: Optional["Axes"] = None) -> "Axes":
    """Draws the cumulative distribution of a metric over the runs: a line for each value of an axis, by default the last."""
    frame = metric_frame(results, metric, flow).dropna(subset=[metric])
    if not len(frame):
        raise ValueError(f"no run has a value of {metric}")
    names = results.scenario.axes
    lines = stats.axis_of(results, by) if by is not None else names[-1] if names else None
    with axes(ax) as drawn:
        for (name, group), look in zip(frame.groupby(lines, sort=False) if lines else [(None, frame)], looks()):
            drawn.ecdf(group[metric], color=look["color"], label=None if name is None else word(name))
            if look["dashes"]:
                drawn.lines[-1].set_dashes(look["dashes"])
        drawn.set_xlabel(label_of(metric))
        drawn.set_ylabel("fraction of runs")
        drawn.set_ylim(0, 1)
        if lines:
            legend(drawn, title=short(lines), title_fontsize=7)
        return drawn


def flow_of(results: Results, flow: Optional[str]) -> str:
    """Returns the name of the flow: the given one, or the first of SCTP."""
    flows: list[dict[str, Any]] = results.scenario.resolved["flow"]
    known: list[str] = [entry["name"] for entry in flows if entry.get("kind", "sctp") == "sctp"]
    if flow is None:
        return known[0] if known else str(flows[0]["name"])
    if flow not in [entry["name"] for entry in flows]:
        raise ValueError(f"there is no flow `{flow}`; known are {', '.join(entry['name'] for entry in flows)}")
    return flow


def tsn(
    results: Results,
    *,
    run: int = 0,
    flow: Optional[str] = None,
    start: float = 0.0,
    end: float = math.inf,
    ax: Optional["Axes"] = None,
) -> "Axes":
    """Draws when each chunk was sent, retransmitted, acknowledged and dropped: TSNs over time, from ``start`` to ``end`` in seconds. The
    run must have recorded events."""
    chosen = flow_of(results, flow)
    points: dict[str, list[tuple[float, int]]] = {"sent": [], "retransmitted": [], "acknowledged": [], "dropped": []}
    kinds = {"transport:tsn_sent": "sent", "transport:tsn_acked": "acknowledged", "network:packet_dropped": "dropped"}
    first: Optional[int] = None
    for _, event in results.iter_events(run):
        kind = kinds.get(event["name"])
        data = event["data"]
        if kind is None or event["flow"] != chosen or "tsn" not in data or not data.get("forward", True):
            continue
        first = data["tsn"] if first is None else first
        # TSNs wrap at 2**32.
        place = (data["tsn"] - first + 2**31) % 2**32 - 2**31
        time = event["time"] / 1e3
        if start <= time <= end:
            points["retransmitted" if kind == "sent" and data["retransmission"] else kind].append((time, place))
    if not any(points.values()):
        raise ValueError(f"run {run} recorded no chunk of flow {chosen} between {start:g} and {end:g} s")
    looks_of: dict[str, dict[str, Any]] = {
        "sent": {"color": COLOURS[0], "marker": ".", "s": 5, "linewidths": 0},
        "acknowledged": {"color": COLOURS[2], "marker": "_", "s": 8, "linewidths": 0.5},
        "retransmitted": {"color": COLOURS[4], "marker": "^", "s": 14, "linewidths": 0},
        "dropped": {"color": COLOURS[1], "marker": "x", "s": 18, "linewidths": 0.9},
    }
    with axes(ax) as drawn:
        for kind, look in looks_of.items():
            if points[kind]:
                times, places = zip(*points[kind])
                drawn.scatter(times, places, label=kind, rasterized=len(times) > 5000, zorder=2, **look)
        drawn.set_xlabel("time, s")
        drawn.set_ylabel("TSN, from the first")
        legend(drawn, markerscale=1.4)
        return drawn


def paths(results: Results, *, run: int = 0, flow: Optional[str] = None, bin_s: float = 0.25, ax: Optional["Axes"] = None) -> "Axes":
    """Draws what each path of a flow carried over time, as its rate in rows, with losses and timeouts marked. The run must have recorded
    events."""
    if not bin_s > 0:
        raise ValueError(f"bin_s: {bin_s} given, allowed is more than 0 seconds")
    chosen = flow_of(results, flow)
    sender = next(entry["from"] for entry in results.scenario.resolved["flow"] if entry["name"] == chosen)
    sent: dict[int, list[tuple[float, int]]] = {}
    marks: dict[str, list[tuple[float, int]]] = {"chunk lost": [], "timeout": []}
    last = 0.0
    for _, event in results.iter_events(run):
        data, time = event["data"], event["time"] / 1e3
        last = max(last, time)
        if event["flow"] != chosen or event["node"] != sender or data.get("path") is None:
            continue
        if event["name"] == "transport:packet_sent":
            sent.setdefault(data["path"], []).append((time, data["length"]))
        elif event["name"] == "recovery:tsn_lost":
            marks["chunk lost"].append((time, data["path"]))
        elif event["name"] == "recovery:timer_expired" and data.get("timer") == "t3_rtx":
            marks["timeout"].append((time, data["path"]))
    if not sent:
        raise ValueError(f"run {run} recorded no packet of flow {chosen}")
    rows = sorted(sent)
    edges = numpy.arange(0, last + bin_s, bin_s) if last > bin_s else numpy.array([0, bin_s])
    rates = {}
    for path in rows:
        times, lengths = zip(*sent[path])
        rates[path] = numpy.histogram(times, edges, weights=lengths)[0] * 8 / bin_s / 1e6
    most = max(rate.max() for rate in rates.values()) or 1.0
    names = path_names(results, run, chosen)
    with axes(ax, height=0.8 + 0.6 * len(rows)) as drawn:
        for row, (path, colour) in enumerate(zip(rows, cycle(COLOURS))):
            base = len(rows) - 1 - row
            # A step begins at each edge; the last one ends at the last edge.
            heights = base + 0.85 * numpy.append(rates[path], rates[path][-1]) / most
            drawn.fill_between(edges, base, heights, step="post", color=colour, alpha=0.75, linewidth=0)
        for (kind, found), (marker, colour) in zip(marks.items(), (("|", COLOURS[6]), ("x", COLOURS[1]))):
            shown = [(time, len(rows) - 1 - rows.index(path) - 0.06) for time, path in found if path in rows]
            if shown:
                times, places = zip(*shown)
                drawn.scatter(times, places, marker=marker, s=16, color=colour, linewidths=0.8, label=kind, zorder=3)
        drawn.set_yticks(range(len(rows)), [names.get(path, f"path {path}") for path in reversed(rows)])
        # The legend has a row of its own.
        drawn.set_ylim(-0.2, len(rows) + (0.4 if any(marks.values()) else 0))
        drawn.grid(False, axis="y")
        drawn.set_xlabel("time, s")
        drawn.set_title(f"rate sent; full height: {most:.3g} Mbit/s", loc="left")
        if any(marks.values()):
            drawn.legend(loc="upper right", ncols=2)
        return drawn


def path_names(results: Results, run: int, flow: str) -> dict[int, str]:
    """Returns the names of paths, if series were recorded as well."""
    try:
        table = results.series(run=run, name="cwnd_bytes")
    except LookupError:
        return {}
    columns = zip(*(table[name].to_pylist() for name in ("flow", "side", "path", "path_name")))
    return {path: name for of, side, path, name in columns if of == flow and side == "sender"}


def topology(scenario: Any, *, seed: int = 1, ax: Optional["Axes"] = None, **overrides: Any) -> "Axes":
    """Draws nodes, links with rate, delay and loss, radios, and flows of a scenario at its first point. Nodes with positions are drawn
    there, others by a spring layout with this seed."""
    from ._scenario import load

    loaded = scenario.scenario if isinstance(scenario, Results) else load(scenario, **overrides)
    resolved = loaded.resolved
    nodes = [node["name"] for node in resolved["node"]]
    links = resolved.get("link", [])
    place = positions(resolved, nodes, seed)
    radios = {radio["node"] for radio in resolved.get("radio", [])}
    small = len(nodes) > 12
    chain = chain_of(nodes, links)
    with axes(ax, height=1.5 if chain and len(nodes) > 2 else 2.4, width=3.5 if len(nodes) <= 4 else 7.0) as drawn:
        drawn.set_axis_off()
        pairs: dict[frozenset[str], int] = {}
        counts = {frozenset(link["between"]): 0 for link in links}
        for link in links:
            counts[frozenset(link["between"])] += 1
        for number, link in enumerate(links):
            ends = frozenset(link["between"])
            (x1, y1), (x2, y2) = (place[node] for node in link["between"])
            bend = (pairs.get(ends, 0) - (counts[ends] - 1) / 2) * 0.35
            pairs[ends] = pairs.get(ends, 0) + 1
            # A curve through a point beside the middle.
            middle = ((x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1))
            steps = numpy.linspace(0, 1, 30)[:, None]
            control = 2 * numpy.array(middle) - (numpy.array([x1, y1]) + numpy.array([x2, y2])) / 2
            curve = (1 - steps) ** 2 * [x1, y1] + 2 * steps * (1 - steps) * control + steps**2 * [x2, y2]
            drawn.plot(*curve.T, color="#777777", linewidth=1, zorder=1)
            if not small:
                # Beside the line; those of a chain above it in two rows, so that they have room.
                offset, side = ((0, (16, 32)[number % 2]), "bottom") if chain else ((0, 3), "bottom") if bend >= 0 else ((0, -3), "top")
                drawn.annotate(
                    link_text(link), middle, xytext=offset, textcoords="offset points", ha="center", va=side, fontsize=5.5, color="#444444", zorder=2
                )
        for flow, colour in zip(resolved["flow"], cycle(COLOURS)):
            if flow["from"] in place and flow["to"] in place:
                arrow = {"arrowstyle": "->", "color": colour, "lw": 1, "connectionstyle": "arc3,rad=0.12" if chain else "arc3,rad=0.2", "shrinkA": 9, "shrinkB": 9, "alpha": 0.8}
                drawn.annotate("", place[flow["to"]], place[flow["from"]], arrowprops=arrow, zorder=3)
        for node in nodes:
            shape = "s" if node in radios else "o"
            drawn.scatter(*place[node], s=40 if small else 160, marker=shape, color="white", edgecolors=COLOURS[6], linewidths=1, zorder=4)
            drawn.annotate(node, place[node], xytext=(0, 8 if small else 11), textcoords="offset points", ha="center", fontsize=5 if small else 7, zorder=5)
        drawn.margins(0.12 if chain else 0.18, 1.2 if chain and len(nodes) > 2 else 0.3)
        if resolved.get("radio"):
            drawn.set_aspect("equal", adjustable="datalim")
        return drawn


def positions(resolved: Mapping[str, Any], nodes: Sequence[str], seed: int) -> dict[str, tuple[float, float]]:
    """Returns a place for each node: its position, a line for a chain, or a spring layout (Fruchterman and Reingold 1991)."""
    known = {}
    for node in resolved["node"]:
        spot = node.get("position") or (node.get("mobility") or {}).get("position")
        if isinstance(spot, (list, tuple)) and len(spot) >= 2:
            known[node["name"]] = (float(spot[0]), float(spot[1]))
    if len(known) == len(nodes):
        return known
    index = {node: number for number, node in enumerate(nodes)}
    edges = {tuple(sorted((index[a], index[b]))) for a, b in (link["between"] for link in resolved.get("link", []))}
    chain = chain_of(nodes, resolved.get("link", []))
    if chain:
        return {node: (2.0 * number, 0.0) for number, node in enumerate(chain)}
    random = numpy.random.default_rng(seed)
    angle = numpy.linspace(0, 2 * numpy.pi, len(nodes), endpoint=False)
    spots = numpy.column_stack([numpy.cos(angle), numpy.sin(angle)]) + random.normal(0, 0.01, (len(nodes), 2))
    ideal = 1.0
    for heat in numpy.linspace(0.3, 0.01, 300):
        apart = spots[:, None] - spots[None]
        distance = numpy.maximum(numpy.linalg.norm(apart, axis=2), 0.01)
        force = (apart / distance[..., None] ** 2 * ideal**2).sum(axis=1)
        for a, b in edges:
            pull = (spots[a] - spots[b]) * numpy.linalg.norm(spots[a] - spots[b]) / ideal
            force[a] -= pull
            force[b] += pull
        size = numpy.maximum(numpy.linalg.norm(force, axis=1, keepdims=True), 1e-9)
        spots += force / size * numpy.minimum(size, heat)
    # The longest extent becomes horizontal.
    spots -= spots.mean(axis=0)
    _, _, turn = numpy.linalg.svd(spots)
    spots = spots @ turn.T
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, spots)}


def chain_of(nodes: Sequence[str], links: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the nodes in their order along a chain, or nothing if the links form another shape."""
    neighbours: dict[str, list[str]] = {node: [] for node in nodes}
    for one, two in {tuple(sorted(link["between"])) for link in links}:
        neighbours[one].append(two)
        neighbours[two].append(one)
    ends = [node for node in nodes if len(neighbours[node]) == 1]
    if len(ends) != 2 or any(len(found) > 2 for found in neighbours.values()):
        return []
    chain = [ends[0]]
    while len(chain) < len(nodes):
        following = [node for node in neighbours[chain[-1]] if node not in chain]
        if not following:
            return []
        chain.append(following[0])
    return chain


def link_text(link: Mapping[str, Any]) -> str:
    """Returns name, rate, delay and loss of a link."""
    text = f"{link.get('name', '')}\n{link.get('rate', 'trace')}, {link.get('delay', '')}"
    loss = link.get("loss")
    loss = (link.get("forward") or {}).get("loss") if not loss else loss
    kind = loss[0] if isinstance(loss, list) and loss else loss
    if isinstance(kind, Mapping) and kind.get("rate"):
        text += f", {kind['rate']:.2g} lost"
    elif isinstance(kind, Mapping) and kind.get("kind") not in (None, "none", "bernoulli"):
        text += f", {kind['kind']}"
    return text


VERDICTS = {
    "reproduced": ("#0072B2", "white", "✓"),
    "mostly": ("#56B4E9", "black", "✓−"),
    "direction only": ("#F0E442", "black", "↗"),
    "inconclusive": ("#DDDDDD", "black", "?"),
    "not": ("#D55E00", "white", "✗"),
    "vacuous": ("#FFFFFF", "black", "∅"),
}


def verdicts(reports: Union["StudyReport", Sequence["StudyReport"]], *, ax: Optional["Axes"] = None) -> "Axes":
    """Draws the verdicts of studies: a row for each study, a cell for each claim, with a sign and a colour."""
    from ._run import StudyReport

    studies = [reports] if isinstance(reports, StudyReport) else list(reports)
    if not studies:
        raise ValueError("no study given")
    most = max(len(study.claims) for study in studies)
    with axes(ax, height=0.8 + 0.3 * len(studies), width=max(3.5, 1.5 + 0.3 * most)) as drawn:
        seen = []
        for row, study in enumerate(studies):
            for column, claim in enumerate(study.claims):
                fill, ink, sign = VERDICTS[claim.verdict]
                seen.append(claim.verdict)
                drawn.barh(row, 0.94, left=column + 0.03, height=0.86, color=fill, edgecolor="#777777", linewidth=0.4)
                drawn.text(column + 0.5, row, sign, ha="center", va="center", color=ink, fontsize=7)
        for name, (fill, _, sign) in VERDICTS.items():
            if name in seen:
                drawn.barh(0, 0, color=fill, edgecolor="#777777", linewidth=0.4, label=f"{sign} {name}")
        drawn.set_yticks(range(len(studies)), [study.study for study in studies])
        drawn.set_xticks([column + 0.5 for column in range(most)], [str(column + 1) for column in range(most)])
        drawn.set_xlabel("claim")
        drawn.set_ylim(len(studies) - 0.5, -0.5)
        drawn.set_xlim(0, most)
        drawn.grid(False)
        drawn.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, handlelength=1, columnspacing=1, borderaxespad=0.2)
        return drawn
