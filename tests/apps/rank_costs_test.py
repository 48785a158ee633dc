"""Tests the memory and traffic of training ranks: compares measured values in train --profile's table with the values
by formula. Also tests train --trace."""

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from ranks import train_on_ranks
from support import FAILED, GOLDEN, LONG, ROOT, assert_refused, run, succeed

# Heads, positions and layers can be divided among two ranks.
SHAPE = ["--dim", "64", "--layers", "4", "--heads", "4", "--kv-heads", "2", "--hidden-dim", "96", "--context", "32",
         "--window", "32", "--batch-size", "4", "--accumulation", "2", "--warmup-steps", "2", "--threads", "1"]


def cells_of(table):
    """Returns {rank: {column: (measured value, value by formula)}} of the printed table, in MB."""
    rows = {}
    lines = table.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("rank  "))
    for line in lines[first + 1:]:
        words = line.replace("(", "").replace(")", "").split()
        if not words or not words[0].isdigit():
            break
        numbers = list(map(float, words[1:9]))
        columns = ("parameters", "gradients", "optimizer", "sent")
        rows[int(words[0])] = {name: tuple(numbers[2 * i:2 * i + 2]) for i, name in enumerate(columns)}
    return rows


EXPERTS = ["--family", "qwen3_moe", "--experts", "4", "--experts-per-token", "2", "--expert-dim", "32"]
CASES = [(2, ["--tensor-parallel", "2"]), (2, ["--pipeline-parallel", "2"]), (2, ["--zero", "2"]),
         (2, ["--optimizer", "galore", "--rank", "8"]), (2, ["--init", GOLDEN, "--lora-rank", "16"])]
if LONG:
    CASES += [(2, []), (2, ["--zero", "1"]), (2, ["--zero", "3"]), (2, ["--context-parallel", "2"]),
              (2, ["--expert-parallel", "2", *EXPERTS]), (4, ["--tensor-parallel", "2", "--zero", "3"]),
              (4, ["--tensor-parallel", "2", "--context-parallel", "2"]),
              (4, ["--pipeline-parallel", "2", "--pipeline-chunks", "2", "--zero", "1"])]


@pytest.mark.parametrize("n, flags", CASES, ids=lambda x: "_".join(map(str, x)) if isinstance(x, list) else "")
def test_memory_and_traffic_match_the_formulas(home, n, flags):
    shape = SHAPE if "--init" not in flags else SHAPE[SHAPE.index("--window"):]
    rows = cells_of(train_on_ranks(n, home, home / "cats.txt", "--profile", *shape, *flags))
    assert sorted(rows) == list(range(n))
    # Compares sums over the ranks, because the formulas for ZeRO are averages.
    for column in ("parameters", "gradients", "optimizer", "sent"):
        measured, formula = (sum(row[column][i] for row in rows.values()) for i in (0, 1))
        # Tolerances: the table is rounded, the formulas omit dozens of bytes for losses and norms, and they assume that
        # all experts are selected equally often.
        error = 0.02 * formula if "--expert-parallel" in flags and column == "sent" else 0.00075 * n
        assert measured > 0.05 and abs(measured - formula) < error, (column, rows)


@pytest.mark.parametrize("flags, per_weight", [([], 6), (["--lora-rank", "4"], 4)], ids=["full", "lora"])
def test_shares_of_the_peak_match_the_formulas(home, flags, per_weight):
    """A token takes six operations per weight of a product, or four if the weights are frozen."""
    said = succeed("train", home / "cats.txt", "--profile", "--init", GOLDEN, *flags, "--window", "64", "--batch-size", "4",
                   "--threads", "1", home=home).stdout
    peak = 1e9 * float(re.search(r"peak: (\d+) GFLOP/s", said)[1])
    layers, dim, tokens = 2, 48, 4 * 64
    weights = layers * (3 * dim * dim + 3 * dim * 96) + dim * 66
    for part, operations in (("matrix products", per_weight * tokens * weights),
                             ("attention", layers * 7 * dim * tokens * (64 + 1))):
        ms, share = map(float, re.search(rf"{part} +([\d.]+) +[\d.]+ % +(\d+) %", said).groups())
        expected = 100 * operations / (1e-3 * ms) / peak
        assert abs(share - expected) < 0.6 + 0.05 * expected, said  # the table is rounded


def test_timeline_has_compute_and_transfers_of_all_ranks(home):
    trace = home / "steps.json"
    train_on_ranks(2, home, home / "cats.txt", *SHAPE, "--steps", "8", "--out", home / "run", "--trace", trace)
    events = json.loads(trace.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {0: "rank 0", 1: "rank 1"}
    updates = {rank: [e for e in events if e["pid"] == rank and e["name"] == "folio::update"] for rank in names}
    assert [len(u) for u in updates.values()] == [3, 3]  # the trace covers three steps with one update each
    for rank in names:
        sums = [e for e in events if e["pid"] == rank and e["name"] == "gloo:all_reduce"]
        assert sums and all(e["ph"] == "X" and e["dur"] > 0 for e in sums)
        assert {e["tid"] for e in sums}.isdisjoint({e["tid"] for e in updates[rank]})  # not on the threads that update
    # The ranks' clocks agree: both begin the update of a step within one second.
    for mine, other in zip(updates[0], updates[1]):
        assert abs(mine["ts"] - other["ts"]) < 1e6
    assert not list(home.glob("steps.json.*"))

    said = subprocess.run([sys.executable, ROOT / "scripts" / "draw_trace.py", trace, home / "step.svg"], check=True,
                          capture_output=True, text=True).stdout
    for line, rank in zip(said.splitlines(), names, strict=True):
        step, computes, waits, sends, both = map(float, re.findall(r"[\d.]+", line)[1:])
        assert line.startswith(f"rank {rank}: a step of") and 0 <= both <= min(computes, sends) < step
    assert ElementTree.parse(home / "step.svg").getroot().tag.endswith("svg")


def test_timeline_of_one_process(home):
    trace = home / "steps.json"
    succeed("train", home / "cats.txt", *SHAPE, "--steps", "7", "--out", home / "run", "--trace", trace, home=home)
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(e["name"] == "folio::update" for e in events) == 3
    assert any(e["name"] == "aten::mm" for e in events)


def test_invalid_timelines_are_rejected(home):
    done = run("train", home / "cats.txt", *SHAPE, "--trace", home / "nowhere" / "steps.json", home=home)
    assert_refused(done, FAILED, "--trace", "does not exist")
    done = run("train", home / "cats.txt", *SHAPE, "--steps", "5", "--out", home / "run", "--trace", home / "steps.json",
               home=home)
    assert done.returncode == 0
    assert "note: --trace wrote nothing, because this process trained fewer than 6 steps" in done.stderr
    assert not (home / "steps.json").exists()
