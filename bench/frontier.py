"""The figure of `bench/run cells --plot FILE`: what schemes trade against each other, as SVG."""

import html
import math

WIDTH, HEIGHT, MARGIN = 400, 300, 64
COLOURS = ["#4477aa", "#ee6677", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#555555", "#994f00", "#006cd1", "#40b0a6"]


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>\n'


def panel(left, title, across, upwards, points):
    """`points`: names, colours, and values from 0 to `across[1]` and `upwards[1]`. `across` and `upwards`: what the axis shows, its greatest value, its bar."""
    place = lambda value, axis: min(max(value / axis[1], 0.0), 1.0)
    x = lambda value: left + MARGIN + place(value, across) * WIDTH
    y = lambda value: MARGIN + HEIGHT - place(value, upwards) * HEIGHT
    drawn = f'<rect x="{left + MARGIN}" y="{MARGIN}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>\n'
    drawn += text(left + MARGIN + WIDTH / 2, MARGIN - 16, title, more=' font-weight="bold"')
    drawn += text(left + MARGIN + WIDTH / 2, MARGIN + HEIGHT + 38, across[0])
    drawn += text(left + 14, MARGIN + HEIGHT / 2, upwards[0], more=f' transform="rotate(-90 {left + 14} {MARGIN + HEIGHT / 2})"')
    for step in range(5):
        drawn += text(x(across[1] * step / 4), MARGIN + HEIGHT + 18, f"{across[1] * step / 4:g}")
        drawn += text(left + MARGIN - 6, y(upwards[1] * step / 4) + 4, f"{upwards[1] * step / 4:g}", "end")
    if across[2]:
        drawn += f'<path d="M{x(across[2]):.1f} {MARGIN}v{HEIGHT}" stroke="#bbb" stroke-dasharray="4 4"/>\n'
    if upwards[2]:
        drawn += f'<path d="M{left + MARGIN} {y(upwards[2]):.1f}h{WIDTH}" stroke="#bbb" stroke-dasharray="4 4"/>\n'
    taken = []
    for name, colour, value, height in points:
        if math.isnan(value + height):
            # No cell has losses.
            continue
        at = (x(value), y(height))
        drawn += f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="5" fill="{colour}"/>\n'
        right = at[0] < left + MARGIN + WIDTH * 0.65
        label = at[1] + 4
        while any(abs(label - other) < 13 and right == side for other, side in taken):
            label += 13
        taken.append((label, right))
        drawn += text(at[0] + (9 if right else -9), label, name, "start" if right else "end", f' fill="{colour}"')
    return drawn


def draw(file, rows):
    """`rows`: for each scheme its name, the shares (0 to 1) of cells that pass alone, in share and in excess harm, and the queue alone in round-trip times."""
    coloured = [(row[0], COLOURS[place % len(COLOURS)], *row[1:]) for place, row in enumerate(rows)]
    longest = 0.4 * max(1, math.ceil(max(row[4] for row in rows) / 0.4))
    width, height = 2 * (WIDTH + MARGIN + 40), HEIGHT + 2 * MARGIN
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
    svg += f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
    svg += panel(
        0,
        "Beside a CUBIC flow",
        ("cells with random losses in which it keeps its share, per cent", 100, 90),
        ("cells without excess harm, per cent", 100, 90),
        [(name, colour, 100 * share, 100 * fair) for name, colour, _, share, fair, _ in coloured],
    )
    svg += panel(
        width / 2,
        "Alone",
        ("cells with at least 0.95 of the oracle's goodput, per cent", 100, 90),
        ("95th percentile of the queue, round-trip times", longest, None),
        [(name, colour, 100 * alone, queue) for name, colour, alone, _, _, queue in coloured],
    )
    file.write_text(svg + "</svg>\n")
