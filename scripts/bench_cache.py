#!/usr/bin/env python3
"""Measures decode time per token against context length for each cache type, as a table and a picture.

Usage: scripts/bench_cache.py MODEL TEXT [--contexts 500 1000 2000 4000 7400] [--types f32 f16 q8_0] [--rounds 3]
       [--tokens 33] [--threads 2] [--svg FILE] [--keep FILE] [--json]

Each run of build/generate uses the beginning of TEXT as a prompt and decodes greedily. Types alternate within a round.
A line is fitted to the medians of each type. Its slope is the time per position; the bytes per position divided by the
slope are the read bandwidth of the cache. With --keep, repeating the command continues an interrupted measurement."""
import pathlib
import statistics

from compare import BUILD, alternate, json_of, parser, report, run
from picture import Panel, plot


def measure(text, cache_type, positions, a):
    """Returns (mean number of cached positions, milliseconds per output token after the first one)."""
    result = json_of(BUILD / "generate", "-m", a.model, "--json", "--temp", 0, "-n", a.tokens, "-t", a.threads,
                     "--cache-type", cache_type, "-p", text[:int(positions * a.bytes_a_token)])
    made = len(result["tokens"])
    if made < a.tokens:
        raise SystemExit(f"the answer ended after {made} tokens at {positions} positions: use another TEXT")
    return len(result["prompt_tokens"]) + made / 2, 1000 / result["decode_tokens_per_s"]


def bytes_of_position(model, cache_type):
    """Returns the cache's bytes per position, all layers together, from the configuration that inspect prints."""
    lines = run(BUILD / "inspect", model).out.splitlines()
    config = dict(line.split()[:2] for line in lines if len(line.split()) == 2)
    layers, heads, width = (int(config[name]) for name in ("n_layers", "n_kv_heads", "head_dim"))
    return 2 * layers * heads * {"f32": 4 * width, "f16": 2 * width, "q8_0": width + 2 * -(-width // 32)}[cache_type]


def main():
    p = parser(__doc__, rounds=3)
    p.add_argument("model")
    p.add_argument("text", type=pathlib.Path)
    p.add_argument("--contexts", type=int, nargs="+", default=[500, 1000, 2000, 4000, 7400])
    p.add_argument("--types", nargs="+", choices=["f32", "f16", "q8_0"], default=["f32", "f16", "q8_0"])
    p.add_argument("--tokens", type=int, default=33)
    p.add_argument("--svg", type=pathlib.Path)
    a = p.parse_args()
    if len(a.contexts) < 2:
        p.error("--contexts needs at least two lengths, since a line is fitted to their times")
    text = a.text.read_text()
    encoded = json_of(BUILD / "generate", "-m", a.model, "--json", "-n", 1, "--temp", 0, "-p", text[:2000])
    a.bytes_a_token = 2000 / len(encoded["prompt_tokens"])
    names = [(type_, n) for n in a.contexts for type_ in a.types]
    results = alternate(names, lambda name, _: measure(text, *name, a), a)
    lines, rows = {}, []
    for type_ in a.types:
        runs = [results[type_, n] for n in a.contexts if (type_, n) in results]
        points = [(statistics.median(x for x, _ in of), [ms for _, ms in of]) for of in runs]
        lines[type_] = points
        slope, intercept = statistics.linear_regression(*zip(*((x, statistics.median(ys)) for x, ys in points)))
        size = bytes_of_position(a.model, type_)
        times = ", ".join(f"{statistics.median(ys):.2f} ms at {x:,.0f}" for x, ys in points)
        rows.append([type_, times, f"{intercept:.2f}", f"{1e6 * slope:.0f}", f"{size:,}", f"{size / slope / 1e6:.1f}"])
    report(a, results, ["cache", "a token", "at no positions, ms", "a position, ns", "its bytes", "GB/s"], rows)
    if a.svg:
        panel = Panel("milliseconds", [(f"s{i}", points) for i, points in enumerate(lines.values())])
        a.svg.write_text(plot([panel], a.types, "Decoding time of a token over its context, by type of cache",
                              f"{pathlib.Path(a.model).stem}, {a.threads} threads; medians of {a.rounds} rounds, with "
                              "bars from minimum to maximum", "positions before the token", 540, 250))


if __name__ == "__main__":
    main()
