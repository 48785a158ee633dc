#!/usr/bin/env python3
"""Draws the middle step of a trace from train --trace, and reports how much communication overlaps with computation.

Usage: scripts/draw_trace.py TRACE.json [OUT.svg]

Prints for each rank the milliseconds of a step, of computation on the main thread, of communication with other ranks,
and of their overlap. Computation means that a LibTorch or Folio operation runs and the thread does not wait for
other ranks."""
import json
import sys
from collections import defaultdict


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
    """Returns {rank: (computing, waiting, communicating, ends of updates)}, as intervals in microseconds."""
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
    # The second of three steps, from the first end of update 1 to the last end of update 2 on any rank.
    window = [[min(updates[0] for *_, updates in lanes.values()), max(updates[1] for *_, updates in lanes.values())]]
    (begin, end), = window
    bars = []
    for row, (rank, (computes, waits, under_way, updates)) in enumerate(lanes.items()):
        own = [[updates[0], updates[1]]]
        computing, sending = common(computes, own), common(under_way, own)
        print(f"rank {rank}: a step of {length(own):.1f} ms, computes {length(computing):.1f}, waits "
              f"{length(common(waits, own)):.1f}, sends or receives {length(sending):.1f}, of it while it computes "
              f"{length(common(computing, sending)):.1f}")
        for lane, (intervals, color) in enumerate([(computes, "#4477aa"), (under_way, "#cc6677")]):
            y = 40 + 60 * row + 22 * lane
            for a, b in union(common(intervals, window), gap=(end - begin) / 1600):  # joins bars that nearly touch
                x, width = 70 + 800 * (a - begin) / (end - begin), max(800 * (b - a) / (end - begin), 0.1)
                bars.append(f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="18" fill="{color}"/>')
        bars.append(f'<text x="8" y="{40 + 60 * row + 24}">rank {rank}</text>')
    if len(sys.argv) > 2:
        height = 50 + 60 * len(lanes)
        text = (f'<text x="70" y="22">one step, {(end - begin) / 1e3:.0f} ms: <tspan fill="#4477aa">computes</tspan>, '
                f'<tspan fill="#cc6677">sends or receives</tspan></text>')
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 890 {height}" font-family="sans-serif" '
                       f'font-size="14"><rect width="890" height="{height}" fill="white"/>{text}{"".join(bars)}</svg>\n')


if __name__ == "__main__":
    main()
