"""Draws measurements as SVG: line charts, ratios by model, and bar charts. Colors follow the system's light
or dark mode."""
import math
import statistics
from dataclasses import dataclass
from xml.sax.saxutils import escape

LIGHT = "#0069a8", "#c44f00", "#00805d", "#a8478a", "#8a6d00", "#5a5fd0"  # as in train/report/svg.cpp
DARK = "#5ab4f0", "#ff9a52", "#3fcf9f", "#e69ccb", "#e0c040", "#a5a8ff"
GAP, TOP, LEFT = 70, 112, 60


def style():
    rules = (".card{{fill:{0};stroke:{1}}}.grid{{stroke:{1};fill:none}}text{{fill:{2}}}.strong{{fill:{3}}}"
             ".one{{stroke:{2};fill:none;stroke-width:2}}").format
    colours = lambda palette: "".join(f".s{i}{{stroke:{c};fill:none;stroke-width:2}}.f{i}{{fill:{c}}}"
                                      for i, c in enumerate(palette))
    return ("text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}.title{font-size:15px;"
            "font-weight:600}.dashed{stroke-dasharray:5 4}"
            + rules("#ffffff", "#dfe3e8", "#57606a", "#1f2328") + colours(LIGHT)
            + "@media(prefers-color-scheme:dark){" + rules("#0d1117", "#2b323b", "#9aa4af", "#e6edf3")
            + colours(DARK) + "}")


def text(x, y, words, anchor="start", classes=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{classes}">{escape(words)}</text>\n'


def path(classes, d):
    return f'<path class="{classes}" d="{d}"/>\n'


def rectangle(classes, x, y, width, height):
    return f'<rect class="{classes}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{height}"/>\n'


def document(width, height, title, body, subtitle=""):
    """Returns an SVG document: a frame, the title and the subtitle, and below them the SVG elements in `body`."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">\n<title>{escape(title)}</title>\n<style>{style()}</style>\n<rect class="card" x=".5" '
            f'y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>\n{text(16, 26, title, classes="title strong")}'
            f'{text(16, 46, subtitle) if subtitle else ""}{body}</svg>\n')


def scale(values, log):
    """Returns the ticks of an axis, and a function that maps values to [0, 1]. The axis is logarithmic if `log`,
    otherwise linear and starting at 0."""
    if log:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return [10 ** i for i in range(low, high + 1)], lambda value: (math.log10(value) - low) / max(high - low, 1)
    power = 10 ** math.floor(math.log10(max(values)))
    most = next(f * power for f in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if f * power >= max(values))
    return [most * i / 4 for i in range(5)], lambda value: value / most


@dataclass
class Panel:
    title: str
    lines: list  # a tuple per line: (CSS classes, [(x, values at x), ...]); the class, s0 to s5, sets the color
    labels: list = ()  # all x values, for evenly spaced ticks; if empty, the x axis is numeric and starts at 0
    log: bool = False  # a logarithmic y axis

    def draw(self, left, width, height):
        """Draws each line through the medians of its values, with a bar from minimum to maximum at each x."""
        if self.labels:
            x_ticks, x_place = self.labels, lambda x: (self.labels.index(x) + 0.5) / len(self.labels)
        else:
            x_ticks, x_place = scale([x for _, points in self.lines for x, _ in points], log=False)
        y_ticks, y_place = scale([y for _, points in self.lines for _, ys in points for y in ys], self.log)
        x_of = lambda x: left + width * x_place(x)
        y_of = lambda y: TOP + height * (1 - y_place(y))
        body = text(left, TOP - 14, self.title, classes="strong")
        for y in y_ticks:
            body += path("grid", f"M{left} {y_of(y):.1f}h{width}")
            body += text(left - 8, y_of(y) + 4, f"{y:,.4g}" if y < 1e4 else f"{y:,.0f}", "end")
        for x in x_ticks:
            body += text(x_of(x), TOP + height + 18, x if self.labels else f"{x:,.0f}", "middle")
        for classes, points in self.lines:
            medians = [(x_of(x), y_of(statistics.median(ys))) for x, ys in points]
            body += path(classes, "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in medians))
            for x, ys in points:
                body += path(classes.split()[0], f"M{x_of(x):.1f} {y_of(min(ys)):.1f}V{y_of(max(ys)):.1f}")
        return body


def plot(panels, names, title, subtitle, x_label, width=260, height=200):
    """Returns an SVG of the panels side by side, with a legend. names[i] is the legend's text for lines of class
    "s{i}"."""
    body = ""
    for i, name in enumerate(names):
        body += path(f"s{i}", f"M{16 + 110 * i} 68h18") + text(40 + 110 * i, 72, name, classes=f"f{i}")
    for i, panel in enumerate(panels):
        body += panel.draw(LEFT + i * (width + GAP), width, height)
    body += text(LEFT, TOP + height + 44, x_label)
    return document(LEFT + len(panels) * (width + GAP), TOP + height + 56, title, body, subtitle)


def ratio_ticks(ratios):
    """Returns ticks that cover 1 and all ratios: powers of two, or of sqrt(2) if these span less than 2^1.5."""
    low, high = (math.log2(f(ratios + [1.0])) for f in (min, max))
    step = 0.5 if high - low < 1.5 else 1.0
    return [2 ** (step * i) for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def plot_ratios(groups, title, subtitle):
    """Returns an SVG for `groups`, {(row, column): ratios}. Each column is a panel with a logarithmic axis. In it, each
    row has a dot at the median of the ratios and a bar from minimum to maximum."""
    rows, columns = (list(dict.fromkeys(key[i] for key in groups)) for i in (0, 1))
    ticks = ratio_ticks([ratio for ratios in groups.values() for ratio in ratios])
    low, high = math.log2(ticks[0]), math.log2(ticks[-1])
    width, row_height, gap, top, left = 190, 24, 30, 92, 150
    bottom = top + row_height * len(rows)
    body = "".join(text(16, top + row_height * (i + 0.5) + 4, row) for i, row in enumerate(rows))
    for i, column in enumerate(columns):
        begin = left + i * (width + gap)
        x_of = lambda ratio: begin + width * (math.log2(ratio) - low) / max(high - low, 1e-9)
        body += text(begin, top - 14, column, classes="strong")
        for tick in ticks:
            body += path("one" if tick == 1 else "grid", f"M{x_of(tick):.1f} {top}V{bottom}")
            body += text(x_of(tick), bottom + 18, f"{tick:.2g}", "middle")
        for j, row in enumerate(rows):
            if not groups.get((row, column)):
                continue
            ratios, y = groups[row, column], top + row_height * (j + 0.5)
            median = statistics.median(ratios)
            body += path("s0", f"M{x_of(min(ratios)):.1f} {y:.1f}H{x_of(max(ratios)):.1f}")
            body += f'<circle class="f0" cx="{x_of(median):.1f}" cy="{y:.1f}" r="4"/>\n'
            on_left = x_of(median) > begin + width / 2
            body += text(x_of(min(ratios)) - 8 if on_left else x_of(max(ratios)) + 8, y + 4, f"{median:.2f}",
                         "end" if on_left else "start")
    return document(left + len(columns) * (width + gap), bottom + 36, title, body, subtitle)
