"""Runs in full the studies that need only seconds: their counts must equal those in the committed results.json."""

import json
import os
import pathlib
import subprocess

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
