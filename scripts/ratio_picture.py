"""Draws the results of scripts/bench_llama_cpp.py: a panel per measure, a line per model, and on a logarithmic axis the
ratio of Folio's speed to llama.cpp's: the median over rounds, with a bar from minimum to maximum."""
import math
import statistics

from serve_picture import document, text

WIDTH, ROW, GAP, TOP, LEFT = 190, 24, 30, 92, 150


def ticks_around(ratios):
    """Returns ticks around the ratios: powers of two, or of the square root of two if there would be only a few."""
    low, high = (math.log2(f(ratios + [1.0])) for f in (min, max))
    step = 0.5 if high - low < 1.5 else 1.0
    return [2 ** (step * i) for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def panel(rows, title, left, ticks):
    """Draws one measure. `rows` has each model's ratios, or None for a model without this measure."""
    low, high = math.log2(ticks[0]), math.log2(ticks[-1])
    x_of = lambda ratio: left + WIDTH * (math.log2(ratio) - low) / max(high - low, 1e-9)
    bottom = TOP + ROW * len(rows)
    body = text(left, TOP - 14, title, classes="strong")
    for tick in ticks:
        body += f'<path class="{"one" if tick == 1 else "grid"}" d="M{x_of(tick):.1f} {TOP}V{bottom}"/>\n'
        body += text(x_of(tick), bottom + 18, f"{tick:.2g}", "middle")
    for i, ratios in enumerate(rows):
        if ratios:
            y, median = TOP + ROW * (i + 0.5), statistics.median(ratios)
            body += f'<path class="s0" d="M{x_of(min(ratios)):.1f} {y:.1f}H{x_of(max(ratios)):.1f}"/>\n'
            body += f'<circle class="f0" cx="{x_of(median):.1f}" cy="{y:.1f}" r="4"/>\n'
            on_left = x_of(median) > left + WIDTH / 2
            body += text(x_of(min(ratios)) - 8 if on_left else x_of(max(ratios)) + 8, y + 4, f"{median:.2f}",
                         "end" if on_left else "start")
    return body


def picture(groups):
    """Returns the SVG of {(model, measure): rounds}; each round has the tokens/s of "folio" and "llama.cpp"."""
    models, measures = (list(dict.fromkeys(key[i] for key in groups)) for i in (0, 1))
    ratios = {key: [r["folio"] / r["llama.cpp"] for r in rounds] for key, rounds in groups.items()}
    ticks = ticks_around([ratio for values in ratios.values() for ratio in values])
    width, height = LEFT + len(measures) * (WIDTH + GAP), TOP + ROW * len(models) + 36
    title = "Folio's tokens a second over llama.cpp's"
    body = text(16, 26, title, classes="title strong")
    body += text(16, 46, "Right of 1 Folio is faster. Medians of alternating rounds, from the least to the greatest")
    for i, model in enumerate(models):
        body += text(16, TOP + ROW * (i + 0.5) + 4, model)
    for i, measure in enumerate(measures):
        body += panel([ratios.get((model, measure)) for model in models], measure, LEFT + i * (WIDTH + GAP), ticks)
    return document(width, height, title, body, ".one{stroke:#8b949e;fill:none;stroke-width:2}")
