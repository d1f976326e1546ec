"""Figures: the gallery, their contents, and errors. Set WHIMBREL_GALLERY to keep the pictures."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy
import pytest
from conftest import ROOT, SMALL

import whimbrel
from whimbrel import plot, stats

sys.path.insert(0, str(ROOT / "crates/python"))


@pytest.fixture(scope="module")
def swept():
    sweep = {"link.radio.loss.rate": [0.0, 0.01, 0.03], "flow.bulk.sctp.scheme": ["standard", "veno"]}
    return whimbrel.run(SMALL, seeds=6, sweep=sweep, record={"series": "first", "events": "first"}, progress=False)


def test_gallery_is_drawn_and_every_figure_is_on_its_page(tmp_path):
    import gallery

    folder = Path(os.environ.get("WHIMBREL_GALLERY", tmp_path))
    gallery.main(folder)
    page = (ROOT / "docs/gallery.md").read_text()
    drawn = sorted(path.name for path in folder.glob("*.png"))
    assert len(drawn) == 10
    for name in drawn:
        assert f"(gallery/{name})" in page and (ROOT / "docs/gallery" / name).exists(), name
        pixels = matplotlib.image.imread(folder / name)
        assert pixels.shape[0] > 200 and pixels[..., :3].std() > 0.02, f"{name} is empty"


def test_sweep_draws_means_and_intervals(swept):
    ax = plot.sweep(swept, "goodput_mbps")
    expected = stats.intervals(swept, "goodput_mbps")
    for line, name in zip(ax.get_lines(), ("standard", "veno")):
        rows = expected[expected["flow.bulk.sctp.scheme"] == name]
        assert line.get_label() == name
        assert line.get_xdata().tolist() == [0.0, 0.01, 0.03] and line.get_ydata().tolist() == pytest.approx(rows["mean"].tolist())
    assert len(ax.collections) == 2 and ax.get_ylabel() == "goodput, Mbit/s" and ax.get_xlabel() == "loss.rate"
    bars = plot.sweep(swept, "timeouts", x="scheme", by="loss.rate")
    assert len(bars.patches) == 6 and [label.get_text() for label in bars.get_xticklabels()] == ["standard", "veno"]


def test_figures_leave_the_interactive_mode_as_the_backend_set_it():
    import matplotlib.pyplot

    for inside in (True, False):
        matplotlib.interactive(not inside)
        with pytest.raises(KeyError), plot.style():
            # What the backend of notebooks does when it starts.
            matplotlib.interactive(inside)
            raise KeyError
        assert matplotlib.is_interactive() == inside
    size = matplotlib.rcParams["font.size"]
    with plot.style():
        assert matplotlib.rcParams["font.size"] == 8
    assert matplotlib.rcParams["font.size"] == size


SIX = ["standard", "veno", "jsctp", "westwood", "jsctp-no-tabe", "veno-tabe"]


@pytest.mark.parametrize("draw", [plot.sweep, plot.cdf])
@pytest.mark.parametrize("count", [2, 6])
def test_legends_cover_no_data(draw, count):
    sweep = {"link.radio.loss.rate": [0.0, 0.01, 0.03, 0.1], "flow.bulk.sctp.scheme": SIX[:count]}
    results = whimbrel.run(SMALL, seeds=2, sweep=sweep, progress=False)
    ax = draw(results, "goodput_mbps")
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    figure = ax.figure.bbox
    assert figure.x0 <= box.x0 and box.x1 <= figure.x1 and box.y1 <= figure.y1, "the legend is in the figure"
    for line in ax.get_lines():
        points = line.get_transform().transform(line.get_xydata())
        between = [a + (b - a) * share for a, b in zip(points, points[1:]) for share in numpy.linspace(0, 1, 50)]
        assert not any(box.contains(x, y) for x, y in between), line.get_label()


def test_cdf_ends_at_one_for_each_line(swept):
    ax = plot.cdf(swept, "goodput_mbps", by="loss.rate")
    assert len(ax.get_lines()) == 3 and all(line.get_ydata()[-1] == 1 for line in ax.get_lines())


def test_series_and_events_are_drawn_as_recorded(swept):
    ax = plot.series(swept, "cwnd_bytes")
    (line,) = ax.get_lines()
    recorded = swept.series(run=0, name="cwnd_bytes").to_pandas()
    sender = recorded[recorded["side"] == "sender"]
    assert line.get_ydata().tolist() == pytest.approx((sender["value"] / 1000).tolist())
    assert ax.get_ylabel() == "congestion window, kB"
    ax = plot.tsn(swept)
    drawn = {scatter.get_label(): len(scatter.get_offsets()) for scatter in ax.collections}
    sent = [event for _, event in swept.iter_events(0) if event["name"] == "transport:tsn_sent"]
    assert drawn["sent"] == sum(not event["data"]["retransmission"] for event in sent)
    first = plot.tsn(swept, end=1.0).collections[0].get_offsets()
    assert first[:, 0].max() <= 1.0
    ax = plot.paths(swept, bin_s=0.5)
    assert ax.get_title(loc="left").startswith("rate sent")
    # Four seconds, all of them drawn.
    (filled,) = ax.get_children()[0:1]
    drawn_times = filled.get_paths()[0].vertices[:, 0]
    last = max(event["time"] for _, event in swept.iter_events(0)) / 1e3
    assert drawn_times.min() == 0.0 and last <= drawn_times.max() < last + 0.5


def test_same_figure_gives_the_same_bytes(swept, tmp_path):
    for ending in ("pdf", "svg", "png"):
        for number in (1, 2):
            plot.save(plot.sweep(swept, "goodput_mbps"), tmp_path / f"{number}.{ending}")
        one, two = (tmp_path / f"{number}.{ending}" for number in (1, 2))
        assert one.read_bytes() == two.read_bytes() and one.stat().st_size > 1000
    assert "goodput, Mbit/s" in (tmp_path / "1.svg").read_text(), "text stays text"


def luminance(colour: str) -> float:
    channels = numpy.array(matplotlib.colors.to_rgb(colour))
    linear = numpy.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


# Viénot, Brettel and Mollon 1999: what people without one kind of cone see, in linear RGB.
PROTAN = numpy.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]])
DEUTAN = numpy.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])


@pytest.mark.parametrize("seen", [numpy.eye(3), PROTAN, DEUTAN])
def test_first_colours_differ_for_people_with_colour_blindness(seen):
    shown = [numpy.clip(seen @ (numpy.array(matplotlib.colors.to_rgb(colour)) ** 2.2), 0, 1) ** (1 / 2.2) for colour in plot.COLOURS[:6]]
    for i, one in enumerate(shown):
        for two in shown[:i]:
            assert numpy.linalg.norm(one - two) > 0.13, "distance in sRGB"


def test_signs_of_verdicts_can_be_read():
    for fill, ink, _ in plot.VERDICTS.values():
        one, two = sorted((luminance(fill), luminance(ink)))
        assert (two + 0.05) / (one + 0.05) >= 3, f"{ink} on {fill}"


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda results: plot.sweep(results, "goodput"), ValueError, "did you mean `goodput_mbps`"),
        (lambda results: plot.sweep(results, x="los"), ValueError, "there is no axis `los`; axes are"),
        (lambda results: plot.series(results, "cwnd"), ValueError, "recorded are"),
        (lambda results: plot.series(results, run=7), LookupError, "run 7 has not recorded series"),
        (lambda results: plot.tsn(results, flow="bluk"), ValueError, "there is no flow `bluk`; known are bulk"),
        (lambda results: plot.tsn(results, start=100), ValueError, "no chunk of flow bulk between 100 and inf s"),
        (lambda results: plot.paths(results, bin_s=0), ValueError, "more than 0 seconds"),
        (lambda results: plot.verdicts([]), ValueError, "no study given"),
    ],
)
def test_wrong_arguments_have_messages(swept, draw, error, message):
    with pytest.raises((error, ValueError), match=message):
        draw(swept)
