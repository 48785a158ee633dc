"""Formats the table of scripts/gpu_check: each measurement with its bar (the required value) and its goal."""
import json

TYPES = ("q4_1", "f32", "f16", "bf16", "q8_0", "q4_0")  # weight types for which the model must be measured
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

    def last(self, key, **wanted):
        found = [row[key] for row in self.rows
                 if row.get(key) is not None and all(row.get(k) == value for k, value in wanted.items())]
        return found[-1] if found else None

    def add(self, what, bar, goal, measured, unit, at_least=True):
        """Adds a row to the table. Increments `missed` if `measured` is None or fails the limit `bar`: a minimum if
        `at_least`, otherwise a maximum. If `bar` is None, any value passes. `goal` is only printed."""
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
    together = [s.last("tokens_per_s", part="decode", shape="8b", type="f16", batch=n, context=512, fast=False) for n in (64, 1)]
    s.add("64 sequences of 512 over one, 8 B f16", 30, None, ratio(*together), "×")
    at = dict(part="decode", shape="8b", type="f16", batch=64, context=512)
    s.add("its time over that with --fast", None, None, ratio(s.last("us", **at, fast=False), s.last("us", **at, fast=True)), "×")


def add_attention(s):
    s.add("attention for a prompt of 8,192", None, None,
          s.last("tflop_per_s", part="attention", kernel="attention: prompt", context=8192), "TFLOP/s")


def add_prompt(s):
    for kind in ("f16", "q8_0", "q4_0"):
        at = dict(part="prompt", shape="8b", type=kind, rows=2048)
        us = s.last("us", **at, fast=False)
        s.add(f"prompt of 2,048, 8 B {kind}, its time over that with --fast", None, None, ratio(us, s.last("us", **at, fast=True)), "×")


def add_train(s):
    s.add("training on both devices: losses apart", 0.02, None, s.last("apart", part="train"), "", at_least=False)


SUMMARIES = {"correctness": add_correctness, "decode": add_decode, "attention": add_attention, "prompt": add_prompt, "train": add_train}
