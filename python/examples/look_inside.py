"""Draws four pictures of a model trained by build/train, as a notebook would.

    python python/examples/look_inside.py [RUN] [--out FOLDER] [--prompt TEXT]

The pictures are the loss of the run; the attention of each head; the logit lens, which shows the model's prediction
after each layer; and a batch of completions. They are SVG, so that only NumPy is needed. Comments show the one or two
lines of matplotlib that draw the same.
"""

import argparse
import html
import re
from pathlib import Path

import numpy as np

import folio


def svg(path, width, height, *elements):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
            f'font-size="12"><rect width="100%" height="100%" fill="white"/>')
    path.write_text(head + "".join(elements) + "</svg>\n", encoding="utf-8")
    print(path)


def label(x, y, text, anchor="middle", color="#333", size=12):
    text = re.sub(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)  # XML allows no others
    return (f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}" font-size="{size}" '
            f'xml:space="preserve">{html.escape(text)}</text>')


def shown(text):
    return text.replace("\n", "⏎").replace(" ", "␣") or "∅"


def draw_loss(run, path):
    # With matplotlib: plt.plot(*run.curve("loss")); plt.plot(*run.curve("val_loss"))
    width, height, left, top = 640, 360, 50, 20
    curves = [("loss", "#9bc", run.curve("loss"))]
    if "val_loss" in run.log:
        curves.append(("val_loss", "#c33", run.curve("val_loss")))
    last = max(steps[-1] for _, _, (steps, _) in curves)
    low = min(values.min() for _, _, (_, values) in curves)
    high = max(values.max() for _, _, (_, values) in curves)
    x = lambda step: left + step / last * (width - left - 20)
    y = lambda loss: height - 40 - (loss - low) / max(high - low, 1e-9) * (height - top - 60)
    parts = [label(width / 2, height - 8, "step"), label(8, 14, "nats per token", "start")]
    for loss in np.linspace(low, high, 5):
        parts.append(label(left - 6, y(loss) + 4, f"{loss:.2f}", "end"))
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#eee"/>')
    for step in np.linspace(0, last, 6):
        parts.append(label(x(step), height - 24, f"{step:.0f}"))
    for i, (name, color, (steps, values)) in enumerate(curves):
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in zip(steps, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts.append(label(width - 24, top + 14 + 16 * i, f"{name} {values[-1]:.3f}", "end", color))
    svg(path, width, height, *parts)


def draw_attention(explanation, path):
    # With matplotlib: plt.imshow(explanation["attention"][layer, head])
    weights = explanation["attention"]
    layers, heads, n_tokens, _ = weights.shape
    cell, pad = 7, 26
    side = cell * n_tokens
    parts = []
    for layer, head in np.ndindex(layers, heads):
        left, top = pad + head * (side + pad), pad + layer * (side + pad)
        parts.append(label(left, top - 6, f"layer {layer}, head {head}", "start"))
        parts.append(f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" stroke="#ccc"/>')
        for row, column in zip(*np.nonzero(weights[layer, head] > 0.01)):
            parts.append(f'<rect x="{left + cell * column}" y="{top + cell * row}" width="{cell}" height="{cell}" '
                         f'fill="#136" fill-opacity="{weights[layer, head, row, column]:.2f}"/>')
    svg(path, pad + heads * (side + pad), pad + layers * (side + pad), *parts)


def draw_logit_lens(explanation, path):
    # With matplotlib: plt.imshow(explanation["lens.probabilities"][..., 0])
    tokens, chances = explanation["lens.tokens"][..., 0], explanation["lens.probabilities"][..., 0]  # top token
    levels, n_tokens = tokens.shape
    cell, row, left, top = 34, 26, 120, 40
    parts = [label(left - 8, top - 14, "after", "end")]
    for column, token in enumerate(explanation.json["tokens"]):
        parts.append(label(left + cell * (column + 0.5), top - 14, shown(token["text"]), color="#136"))
    for level in range(levels):
        name = "the embedding" if level == 0 else f"layer {level - 1}"
        parts.append(label(left - 8, top + row * level + 17, name, "end"))
        for column in range(n_tokens):
            x, y = left + cell * column, top + row * level
            parts.append(f'<rect x="{x}" y="{y}" width="{cell - 1}" height="{row - 1}" fill="#e92" '
                         f'fill-opacity="{chances[level, column]:.2f}" stroke="#eee"/>')
            word = explanation.json["vocabulary"][str(tokens[level, column])]
            parts.append(label(x + cell / 2, y + 17, shown(word)))
    svg(path, left + cell * n_tokens + 10, top + row * levels + 10, *parts)


def draw_texts(model, prompts, path):
    texts = model.generate(prompts, max_tokens=120, seed=1)  # all prompts in one batch
    parts, y = [], 10
    for prompt, text in zip(prompts, texts):
        lines = (prompt + text).split("\n")
        for i, line in enumerate(lines):
            y += 17
            parts.append(label(14, y, line, "start", "#136" if i == 0 else "#333", 13))
        y += 12
    svg(path, 640, y + 10, *parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", nargs="?", help="the folder of a run (default: the newest in runs/)")
    parser.add_argument("--out", default="look_inside", help="where the pictures go")
    parser.add_argument("--prompt", default="ROMEO:\nWhat light through yonder")
    options = parser.parse_args()
    known = [folio.Run(options.run)] if options.run else folio.runs()
    if not known:
        parser.error("there is no run in runs/; make one with build/train tinyshakespeare, or name its folder")
    run, out = known[-1], Path(options.out)
    if "loss" not in run.log:
        parser.error(f"{run.path}: its log has no lines yet; wait for a step of build/train, or name another run")
    out.mkdir(parents=True, exist_ok=True)
    print(run, run.config.get("preset", ""), f"loss {run.log['loss'][-1]:.3f}")
    draw_loss(run, out / "loss.svg")
    with run.model() as model:
        print(model)
        explanation = model.explain(options.prompt)
        draw_attention(explanation, out / "attention.svg")
        draw_logit_lens(explanation, out / "logit_lens.svg")
        draw_texts(model, [options.prompt, "JULIET:\n", "KING RICHARD III:\n", "First Citizen:\n"], out / "texts.svg")


if __name__ == "__main__":
    main()
