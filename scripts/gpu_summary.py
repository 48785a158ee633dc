"""Formats the table of scripts/gpu_check: each measurement with its bar (the required value) and its goal."""
import json

TYPES = ("q4_1", "f32", "f16", "bf16", "q8_0", "q4_0")  # types in which the model is measured
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


def read_rows(path):
    """Returns the rows of a JSONL file, except incomplete lines of an interrupted run."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


class Summary:
    def __init__(self, rows):
        self.rows, self.lines, self.missed = rows, [], 0

    def all(self, **wanted):
        return [row for row in self.rows if all(row.get(key) == value for key, value in wanted.items())]

    def last(self, key, **wanted):
        found = [row[key] for row in self.all(**wanted) if row.get(key) is not None]
        return found[-1] if found else None

    def add(self, what, bar, goal, measured, unit, at_least=True):
        """Adds a row to the table. `measured` must be at least `bar`, or at most `bar` if `at_least` is false. If `bar`
        is None, any value is enough. A `measured` of None counts as missed."""
        held = measured is not None and (bar is None or (measured >= bar if at_least else measured <= bar))
        self.missed += 0 if held else 1
        sign = "≥" if at_least else "≤"

        def figure(x):
            return "" if x is None else f"{x:.0f} %" if unit == "%" and x >= 10 else f"{x:.3g} {unit}".rstrip()

        self.lines.append(f"| {what} | {sign + ' ' + figure(bar) if bar is not None else ''} | {figure(goal)} | "
                          f"{figure(measured) if measured is not None else 'not measured'} | {'yes' if held else 'no'} |")

    def percent(self, key, **wanted):
        share = self.last(key, **wanted)
        return None if share is None else 100 * share

    def text(self):
        device = self.last("name", part="device") or "no device"
        return "\n".join([f"On {device}, whose copy reads and writes {self.last('copy_gb_per_s', part='device') or 0:.0f} GB/s.", "",
                          "| | bar | goal | measured | held |", "|---|--:|--:|--:|---|", *self.lines, ""])


def ratio(a, b):
    return None if a is None or b is None else a / b


def add_correctness(s):
    names = ["kernel tests", "engine tests"]
    names += [f"compute-sanitizer {tool}" for tool in (*SANITIZERS, "memcheck, a model")]
    for name in names:
        passed = s.last("passed", part="check", name=name)
        s.add(f"{name}: passed", 1, None, None if passed is None else int(passed), "")
    s.add("draws compared with the host's, all equal but at borders", 100000, None, s.last("draws", part="draws"), "")
    for kind in TYPES:
        for cache in ("f16", "f32"):
            passed = s.last("passed", part="model", type=kind, cache=cache)
            s.add(f"model in {kind}, cache {cache}: within the bound", 1, None, None if passed is None else int(passed), "")
            s.add(f"model in {kind}, cache {cache}: another token", 1, None, s.last("other_percent", part="model", type=kind, cache=cache),
                  "%", at_least=False)


def add_decode(s):
    for shape, name, bars in (("8b", "8 B", {"f16": (85, 92), "q8_0": (75, 88), "q4_0": (60, 75)}),
                              ("1.1b", "1.1 B", {"f16": (55, 75), "q8_0": (40, 60), "q4_0": (25, 45)})):
        for kind, (bar, goal) in bars.items():
            at = dict(part="decode", shape=shape, type=kind, batch=1, context=1024)
            s.add(f"decode {name} {kind}, share of a copy's bandwidth", bar, goal, s.percent("share_of_copy", **at, fast=False), "%")
            price = ratio(s.last("us", **at, fast=False), s.last("us", **at, fast=True))
            s.add("its time over that with --fast", None, None, price, "×")
    ours = s.last("tokens_per_s", part="decode", shape="1.1b", type="f16", batch=1, context=128, fast=False)
    peers = {row["peer"]: row["tokens_per_s"] for row in s.all(part="peer decode")}
    static = [speed for peer, speed in peers.items() if "static" in peer]
    s.add("decode 1.1 B f16 over transformers", 3, None, ratio(ours, peers.get("generate")), "×")
    s.add("the same, static cache and reduce-overhead", 1.3, None, ratio(ours, max(static, default=None)), "×")
    together = [s.last("tokens_per_s", part="decode", shape="8b", type="f16", batch=n, context=512, fast=False) for n in (64, 1)]
    s.add("64 sequences of 512 over one, 8 B f16", 30, None, ratio(*together), "×")
    at = dict(part="decode", shape="8b", type="f16", batch=64, context=512)
    s.add("its time over that with --fast", None, None, ratio(s.last("us", **at, fast=False), s.last("us", **at, fast=True)), "×")


def add_attention(s):
    ours = s.last("us", part="attention", kernel="attention: prompt", context=8192, form="fast")
    peers = [row["us"] for row in s.all(part="peer attention", context=8192)]
    s.add("attention for a prompt of 8,192 against LibTorch's", 0.5, 1.0, ratio(min(peers, default=None), ours), "×")


def add_prompt(s):
    for kind, bar, goal in (("f16", 50, 85), ("q8_0", None, None), ("q4_0", None, None)):
        at = dict(part="prompt", shape="8b", type=kind, rows=2048)
        us, peer_us = s.last("us", **at, fast=False), s.last("us", part="peer products", shape="8b", rows=2048)
        share = ratio(peer_us, us)
        s.add(f"prompt of 2,048, 8 B {kind}, share of cuBLAS on its products in f16", bar, goal, share and 100 * share, "%")
        s.add("its time over that with --fast", None, None, ratio(us, s.last("us", **at, fast=True)), "×")


def add_train(s):
    s.add("training on both devices: losses apart", 0.02, None, s.last("apart", part="train"), "", at_least=False)


SUMMARIES = {"correctness": add_correctness, "decode": add_decode, "attention": add_attention, "prompt": add_prompt, "train": add_train}
