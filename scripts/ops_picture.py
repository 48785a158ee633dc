#!/usr/bin/env python3
"""Draws the time of a step by operation, one bar for prefill and one for decode, from `bench --ops --json`.

Usage: build/bench -m MODEL --ops --json | scripts/ops_picture.py OUT.svg"""
import argparse
import json
import pathlib
import sys

from picture import document, rectangle, text

WIDTH, LEFT, ROW, TOP = 520, 130, 22, 84


def panel(title, times, top):
    rows = [(row["operation"], row["us_per_step"], row["bandwidth_share"]) for row in times["operations"]]
    rows = [row for row in [*rows, ("host", times["host_us_per_step"], 0.0)] if row[1] / times["us_per_step"] >= 0.002]
    body = text(16, top - 12, title, classes="strong")
    for i, (name, us, bandwidth) in enumerate(rows):
        y, share = top + ROW * i, us / times["us_per_step"]
        label = f"{100 * share:.1f}%" + (f", {100 * bandwidth:.0f}% of the bandwidth" if bandwidth > 0.2 else "")
        body += text(16, y + 14, name) + rectangle("f0", LEFT, y + 3, WIDTH * share / 0.5, ROW - 8)
        body += text(LEFT + WIDTH * share / 0.5 + 8, y + 14, label)
    return body, top + ROW * len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    answer = json.load(sys.stdin)
    title = f"A step's time by operation: {answer['threads']} threads, {answer['isa']}"
    prompt, decode = answer["prompt"], answer["decode"]
    first, end = panel(f"Prompt, {prompt['rows_per_step']:.0f} tokens: {prompt['us_per_step'] / 1e3:.1f} ms", prompt, TOP)
    second, end = panel(f"Decoding: {decode['us_per_step'] / 1e3:.2f} ms", decode, end + 40)
    out.write_text(document(LEFT + WIDTH + 60, end + 16, title, first + second))


if __name__ == "__main__":
    main()
