#!/usr/bin/env python3
"""Draws the middle step of a trace from train --trace, and reports how much communication overlaps with computation.

Usage: build/venv/bin/python scripts/draw_trace.py TRACE.json [OUT.svg]

Prints for each rank the milliseconds of a step, of computation on the main thread, of communication with other ranks,
and of their overlap. Computation is the time in operations of LibTorch or Folio, except while the thread waits for
other ranks."""
import argparse
import json
import pathlib
from collections import defaultdict

import numpy as np

from picture import document, rectangle, text


def lanes_of(path):
    """Returns {rank: (computing, waiting, communicating, updates)}: three lists of [begin, end] intervals, and a list
    of the end times of weight updates. Times are in microseconds."""
    lanes = defaultdict(lambda: ([], [], [], []))
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] != "X":
            continue
        computing, waiting, communicating, updates = lanes[event["pid"]]
        name, interval = event["name"], [event["ts"], event["ts"] + event["dur"]]
        if name == "folio::wait":
            waiting.append(interval)
        elif name == "folio::update":
            updates.append(interval[1])
        elif name.startswith("gloo:"):
            communicating.append(interval)
        elif name.startswith(("aten::", "folio::")):
            computing.append(interval)
    return dict(sorted(lanes.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("svg", type=pathlib.Path, nargs="?")
    options = parser.parse_args()
    lanes = lanes_of(options.trace)
    # The window is the second of three steps: it begins when the earliest rank ends update 1 and ends when the latest
    # rank ends update 2.
    ends = [sorted(updates) for *_, updates in lanes.values()]
    begin, end = min(of[0] for of in ends), max(of[1] for of in ends)

    def covered(intervals):
        """Returns a boolean array: for each microsecond of the window, whether any interval covers it."""
        marks = np.zeros(round(end - begin), bool)
        for first, last in intervals:
            marks[max(round(first - begin), 0):max(round(last - begin), 0)] = True
        return marks

    body = text(16, 50, "computes", classes="f0") + text(90, 50, "sends or receives", classes="f1")
    for row, (rank, (computes, waits, under_way, _)) in enumerate(lanes.items()):
        own, waiting, sending = covered([ends[row][:2]]), covered(waits), covered(under_way)
        computing = covered(computes) & ~waiting
        ms = lambda marks: f"{(marks & own).sum() / 1e3:.1f}"
        print(f"rank {rank}: a step of {ms(own)} ms, computes {ms(computing)}, waits {ms(waiting)}, sends or receives "
              f"{ms(sending)}, of it while it computes {ms(computing & sending)}")
        for lane, marks in enumerate((computing, sending)):
            pixels = [part.any() for part in np.array_split(marks, 800)]
            for a, b in np.flatnonzero(np.diff(pixels, prepend=False, append=False)).reshape(-1, 2):
                body += rectangle(f"f{lane}", 70 + a, 70 + 60 * row + 22 * lane, b - a, 18)
        body += text(16, 94 + 60 * row, f"rank {rank}")
    if options.svg:
        title = f"One step, {(end - begin) / 1e3:.0f} ms"
        options.svg.write_text(document(890, 80 + 60 * len(lanes), title, body), encoding="utf-8")


if __name__ == "__main__":
    main()
