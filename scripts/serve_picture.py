"""Draws the results of scripts/bench_serve.py, one panel per measure over the load, and of scripts/bench_cache.py.
Colors follow the system's light or dark mode."""
import math
import statistics
from xml.sax.saxutils import escape

LIGHT, DARK = ("#0069a8", "#c44f00", "#00805d"), ("#5ab4f0", "#ff9a52", "#3fcf9f")  # same as train/report/svg.cpp
WIDTH, HEIGHT, GAP, TOP, LEFT = 260, 200, 70, 96, 60


def style():
    rules = ".card{{fill:{};stroke:{}}}.grid{{stroke:{};fill:none}}text{{fill:{}}}.strong{{fill:{}}}".format
    colours = lambda palette: "".join(f".s{i}{{stroke:{c};fill:none;stroke-width:2}}.f{i}{{fill:{c}}}"
                                      for i, c in enumerate(palette))
    return ("text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}.title{font-size:15px;"
            "font-weight:600}.dashed{stroke-dasharray:5 4}"
            + rules("#ffffff", "#dfe3e8", "#dfe3e8", "#57606a", "#1f2328") + colours(LIGHT)
            + "@media(prefers-color-scheme:dark){" + rules("#0d1117", "#2b323b", "#2b323b", "#9aa4af", "#e6edf3")
            + colours(DARK) + "}")


def text(x, y, words, anchor="start", classes=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{classes}">{escape(words)}</text>\n'


def scale(values, log):
    """Returns ticks, and a function that maps values to 0 … 1: on a logarithmic axis if `log`, else on one from 0."""
    if log:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return [10 ** i for i in range(low, high + 1)], lambda value: (math.log10(value) - low) / (high - low)
    power = 10 ** math.floor(math.log10(max(values)))
    most = next(f * power for f in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if f * power >= max(values))
    return [most * i / 4 for i in range(5)], lambda value: value / most


def line(rounds_by_load, metric, x_of, y_of, classes):
    """Draws a line through the medians over rounds, with a bar from minimum to maximum."""
    points, bars = [], ""
    for i, rounds in enumerate(rounds_by_load.values()):
        values = [r[metric] for r in rounds]
        points.append(f"{x_of(i):.1f} {y_of(statistics.median(values)):.1f}")
        bars += f'<path class="{classes}" d="M{x_of(i):.1f} {y_of(min(values)):.1f}V{y_of(max(values)):.1f}"/>\n'
    return f'<path class="{classes}" d="M{"L".join(points)}"/>\n' + bars.replace(" dashed", "")


def panel(results, metrics, left):
    """Draws one metric on a linear axis, or two times on a logarithmic one, the second as a dashed line."""
    metrics = [metrics] if isinstance(metrics, str) else metrics
    loads = list(next(iter(results.values())))
    ticks, place = scale([r[m] for by_load in results.values() for rounds in by_load.values() for r in rounds
                          for m in metrics], log=len(metrics) > 1)
    x_of = lambda i: left + (i + 0.5) * WIDTH / len(loads)
    y_of = lambda value: TOP + HEIGHT * (1 - place(value))
    title = metrics[0].removesuffix(": median") + (": median and 99 % (dashed)" if len(metrics) > 1 else "")
    body = text(left, TOP - 14, title, classes="strong")
    for value in ticks:
        body += f'<path class="grid" d="M{left} {y_of(value):.1f}h{WIDTH}"/>\n'
        body += text(left - 8, y_of(value) + 4, f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}", "end")
    for i, load in enumerate(loads):
        body += text(x_of(i), TOP + HEIGHT + 18, load, "middle")
    for i, by_load in enumerate(results.values()):
        for metric, dash in zip(metrics, ("", " dashed")):
            body += line(by_load, metric, x_of, y_of, f"s{i}{dash}")
    return body


def picture(results, panels, title, subtitle):
    """Returns the SVG of {server: {load: [metrics of each round]}}."""
    width = LEFT + len(panels) * (WIDTH + GAP)
    height = TOP + HEIGHT + 56
    body = text(16, 26, title, classes="title strong") + text(16, 46, subtitle)
    for i, name in enumerate(results):
        x = width - 210 + 90 * i
        body += f'<path class="s{i}" d="M{x} 22h18"/>' + text(x + 24, 26, name, classes=f"f{i}")
    for i, metrics in enumerate(panels):
        body += panel(results, metrics, LEFT + i * (WIDTH + GAP))
    body += text(LEFT, height - 12, "requests a second")
    return document(width, height, title, body)


def document(width, height, title, body, more_style=""):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">\n<title>{escape(title)}</title>\n<style>{style()}{more_style}</style>\n<rect class="card" x=".5" '
            f'y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>\n{body}</svg>\n')


def picture_of_lines(lines, title, subtitle, x_label, y_label):
    """Returns the SVG of {name: points (x, values at x)}, a line per name, on axes from 0."""
    width, height, plot_width, plot_height = 640, 400, 500, 250
    x_ticks, x_place = scale([x for points in lines.values() for x, _ in points], log=False)
    y_ticks, y_place = scale([y for points in lines.values() for _, ys in points for y in ys], log=False)
    x_of = lambda value: LEFT + plot_width * x_place(value)
    y_of = lambda value: TOP + plot_height * (1 - y_place(value))
    body = text(16, 26, title, classes="title strong") + text(16, 46, subtitle) + text(LEFT, TOP - 14, y_label)
    for value in y_ticks:
        body += f'<path class="grid" d="M{LEFT} {y_of(value):.1f}h{plot_width}"/>\n'
        body += text(LEFT - 8, y_of(value) + 4, f"{value:,.4g}", "end")
    for value in x_ticks:
        body += text(x_of(value), TOP + plot_height + 18, f"{value:,.0f}", "middle")
    body += text(LEFT + plot_width, TOP + plot_height + 38, x_label, "end")
    for i, (name, points) in enumerate(lines.items()):
        medians = [(x_of(x), y_of(statistics.median(ys))) for x, ys in points]
        body += f'<path class="s{i}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in medians)}"/>\n'
        for x, ys in points:
            body += f'<path class="s{i}" d="M{x_of(x):.1f} {y_of(min(ys)):.1f}V{y_of(max(ys)):.1f}"/>\n'
        body += text(medians[-1][0] + 8, medians[-1][1] + 4, name, classes=f"f{i}")
    return document(width, height, title, body)
