#!/usr/bin/env python3
"""Draws the middle step of a trace from train --trace, and reports how much communication overlaps with computation.

Usage: scripts/draw_trace.py TRACE.json [OUT.svg]

Prints for each rank the milliseconds of a step, of computation on the main thread, of communication with other ranks,
and of their overlap. Computation is the time in operations of LibTorch or Folio, except while the thread waits for
other ranks."""
import json
import pathlib
import sys
from collections import defaultdict

from picture import document, rectangle, text


def union(intervals, gap=0.0):
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1] + gap:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def common(a, b):
    pairs, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            pairs.append([begin, end])
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return pairs


def without(a, b):
    edges = [end for _, end in b]
    begins = [begin for begin, _ in b]
    gaps = list(zip([float("-inf"), *edges], [*begins, float("inf")]))
    return common(a, [list(gap) for gap in gaps])


def length(intervals):
    return sum(end - begin for begin, end in intervals) / 1e3


def lanes_of(path):
    """Returns {rank: (computing, waiting, communicating, updates)}: three lists of [begin, end] intervals, and the end
    times of updates. Times are in microseconds."""
    computes, waits, under_way, updates = (defaultdict(list) for _ in range(4))
    for event in json.load(open(path))["traceEvents"]:
        if event["ph"] != "X":
            continue
        rank, name = event["pid"], event["name"]
        interval = [event["ts"], event["ts"] + event["dur"]]
        if name == "folio::wait":
            waits[rank].append(interval)
        elif name == "folio::update":
            updates[rank].append(interval[1])
        elif name.startswith("gloo:"):
            under_way[rank].append(interval)
        elif name.startswith(("aten::", "folio::")):
            computes[rank].append(interval)
    lanes = {}
    for rank in sorted(updates):
        waiting = union(waits[rank])
        lanes[rank] = (without(union(computes[rank]), waiting), waiting, union(under_way[rank]), sorted(updates[rank]))
    return lanes


def main():
    lanes = lanes_of(sys.argv[1])
    # The window is the second of three steps: it begins when the earliest rank ends update 1 and ends when the latest
    # rank ends update 2.
    window = [[min(updates[0] for *_, updates in lanes.values()), max(updates[1] for *_, updates in lanes.values())]]
    (begin, end), = window
    body = text(16, 50, "computes", classes="f0") + text(90, 50, "sends or receives", classes="f1")
    for row, (rank, (computes, waits, under_way, updates)) in enumerate(lanes.items()):
        own = [[updates[0], updates[1]]]
        computing, sending = common(computes, own), common(under_way, own)
        print(f"rank {rank}: a step of {length(own):.1f} ms, computes {length(computing):.1f}, waits "
              f"{length(common(waits, own)):.1f}, sends or receives {length(sending):.1f}, of it while it computes "
              f"{length(common(computing, sending)):.1f}")
        for lane, intervals in enumerate((computes, under_way)):
            for a, b in union(common(intervals, window), gap=(end - begin) / 1600):  # joins bars that nearly touch
                body += rectangle(f"f{lane}", 70 + 800 * (a - begin) / (end - begin), 70 + 60 * row + 22 * lane,
                                  max(800 * (b - a) / (end - begin), 0.1), 18)
        body += text(16, 94 + 60 * row, f"rank {rank}")
    if len(sys.argv) > 2:
        title = f"One step, {(end - begin) / 1e3:.0f} ms"
        pathlib.Path(sys.argv[2]).write_text(document(890, 80 + 60 * len(lanes), title, body), encoding="utf-8")


if __name__ == "__main__":
    main()
