"""Runs in full the studies that need only seconds: their counts must equal those in the committed results.json. Tests the
table of scripts/ladder.py."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", ROOT / "build"))


def counts(results):
    """Returns the integers of all tables, as {title: [{column: integer}, ...]}. They don't depend on the processor."""
    return {title: [{column: cell for column, cell in row.items() if isinstance(cell, int)} for row in rows]
            for title, rows in results["tables"].items()}


@pytest.mark.parametrize("study", ["15_kv_cache", "19_flash_attention", "21_scheduling"])
def test_counts_match_the_committed_results(study, tmp_path):
    done = subprocess.run([BUILD / "experiments" / study, "--out", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    committed = json.loads((ROOT / "experiments" / study / "results.json").read_text())
    assert counts(json.loads((tmp_path / "results.json").read_text())) == counts(committed), (
        f"run build/experiments/{study} and scripts/quote.py --take runs/experiments")


def test_a_study_without_random_numbers_rejects_a_seed(tmp_path):
    done = subprocess.run([BUILD / "experiments" / "26_pipeline", "--out", tmp_path, "--seed", "2"], capture_output=True,
                          text=True)
    assert done.returncode == 2 and "--seed has no effect" in done.stderr, done.stderr


def test_ladder_ends_without_a_traceback_when_interrupted(tmp_path):
    program = tmp_path / "experiments" / "growing"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nkill -INT $PPID\n")
    program.chmod(0o755)
    ladder = [sys.executable, ROOT / "scripts" / "ladder.py", "--build", tmp_path, "--out", tmp_path / "out", "growing"]
    done = subprocess.run(ladder, capture_output=True, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert done.returncode == 130 and done.stderr == "", done.stderr


def test_ladder_shows_results_that_are_not_finite(tmp_path):
    (tmp_path / "growing").mkdir()
    (tmp_path / "growing" / "results.json").write_text(json.dumps({"results": [
        {"text": "the loss falls by", "holds": False, "measured": None, "relation": ">", "limit": 0.3}]}))
    ladder = [sys.executable, ROOT / "scripts" / "ladder.py", "--results", tmp_path, "growing"]
    done = subprocess.run(ladder, capture_output=True, text=True)
    assert done.returncode == 1 and "the loss falls by  not finite > 0.3  FAILS" in done.stdout, done.stdout
