"""Tests outputs and inputs that are links, pipes, devices or missing paths, and which files remain after a signal.

The tests create their own devices like /dev/null, so that a bug can't replace those of the machine.
"""

import itertools
import json
import os
import resource
import signal
import socket
import stat
import struct
import subprocess

import pytest

from support import (BUILD, FAILED, GOLDEN, INTERRUPTED, SMALL_RUN, TEXT, WRONG_USAGE, assert_refused, environment, run,
                     start, succeed, wait_until)

NULL, ZERO, FULL = 3, 5, 7  # minor device numbers of /dev/null, /dev/zero and /dev/full


def device(path, minor):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        os.close(os.open(path, os.O_RDWR))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    return path


# ---- Errors about output files ----

def test_unwritable_outputs_give_one_line(tmp_path):
    def refuse(name, *parts, flags=()):
        assert_refused(run("export", GOLDEN, "--out", tmp_path / name, *flags), FAILED, tmp_path / name, *parts)

    full = device(tmp_path / "full", FULL)
    refuse("full", "No space left")
    refuse("n" * 300, "File name too long")
    refuse("full", "already exists", flags=["--format", "hf"])
    refuse("full", "full.tokenizer.bin", flags=["--format", "llama2c"])
    assert list(tmp_path.iterdir()) == [full] and stat.S_ISCHR(full.stat().st_mode)


def test_file_size_limit_gives_one_line(tmp_path):
    done = subprocess.run([BUILD / "export", GOLDEN, "--out", tmp_path / "out"], env=environment("/nonexistent"),
                          capture_output=True, text=True, timeout=120,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000)))
    assert_refused(done, FAILED, tmp_path / "out", "File too large")
    assert list(tmp_path.iterdir()) == []


def test_tokenizer_files_are_replaced_only_with_force(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat and the hat and the mat\n" * 20)
    train = ["tokenize", "train", "--special", "<end>", text, text, "--vocab-size", 260]
    config = tmp_path / "tokenizer_config.json"
    config.write_text("mine")
    assert_refused(run(*train, "-o", tmp_path / "t.json"), FAILED, config, "--force")
    assert config.read_text() == "mine" and not (tmp_path / "t.json").exists()
    os.mkfifo(tmp_path / "pipe")
    assert_refused(run(*train, "-o", tmp_path / "pipe", "--force"), FAILED, tmp_path / "pipe", "not a regular file")
    succeed(*train, "-o", tmp_path / "t.json", "--force")
    assert "PreTrainedTokenizerFast" in config.read_text()
    assert [token["content"] for token in json.loads((tmp_path / "t.json").read_text())["added_tokens"]] == ["<end>"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pipe", "t.json", "text.txt", "tokenizer_config.json"]


# ---- Errors about input files ----

def calls(golden_gguf, path, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    yield "tokenize", "train", path, "-o", tmp_path / "out"
    yield "generate", "-m", path
    yield "generate", "-m", golden_gguf, "--prompts", path
    yield "generate", "-m", golden_gguf, "--grammar", path
    yield "generate", "-m", golden_gguf, "--lora", path
    yield "chat", "-m", golden_gguf, "--chat-template", path, "-p", "x"
    yield "perplexity", "-m", path, "--text", text
    yield "perplexity", "-m", golden_gguf, "--text", path
    yield "explain", "x", "-m", path
    yield "inspect", path
    yield "export", path, "--out", tmp_path / "out"
    yield "export", GOLDEN, "--out", tmp_path / "out", "--merge", path
    yield "bench", "-m", path
    yield "serve", "-m", path, "--port", 0
    yield "tokenize", "encode", "-t", path, text
    yield "tokenize", "encode", "-t", GOLDEN, path
    yield "tokenize", "stats", "-t", GOLDEN, path
    if (BUILD / "train").exists():
        yield "train", path, *SMALL_RUN
        for flag in ("--init", "--eval", "--out", "--config", "--tokenizer"):
            yield "train", text, *SMALL_RUN, flag, path
        yield "verify", path, path


@pytest.mark.parametrize("kind", ["pipe", "pipe.gz", "zero", "zero.jsonl", "socket", "loop", "nowhere", "n" * 300])
def test_non_files_give_one_line_without_waiting(golden_gguf, tmp_path, kind):
    path = tmp_path / kind
    if kind.startswith("pipe"):
        os.mkfifo(path)
    elif kind.startswith("zero"):
        device(path, ZERO)
    elif kind == "loop":
        path.symlink_to("loop")
    elif kind == "nowhere":
        path.symlink_to("none")
    with socket.socket(socket.AF_UNIX) as s:
        if kind == "socket":
            s.bind(os.path.relpath(path))
        # All commands open files with the same functions, so six commands suffice for most kinds of paths.
        for call in itertools.islice(calls(golden_gguf, path, tmp_path), None if kind in ("pipe", "zero") else 6):
            done = run(*call, timeout=60)
            assert_refused(done, WRONG_USAGE if done.returncode == WRONG_USAGE else FAILED, str(path)[:60])
            assert "filesystem error" not in done.stderr and not (tmp_path / "out").exists(), done.stderr


# ---- Signals ----

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_generation_with_their_exit_code(golden_gguf, number):
    process = start("generate", "-m", golden_gguf, "-n", 10**9, "--slide", "-t", 1)
    assert process.stdout.read(1)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and out.endswith(b"\n") and b"finish_reason interrupted" in err


def test_nohup_is_respected(golden_gguf):
    process = start("generate", "-m", golden_gguf, "-n", 10**9, "--slide", "-t", 1,
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert process.stdout.read(1)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED


@pytest.fixture(scope="module")
def large_model(tmp_path_factory):
    """Writes a llama2.c model of half a billion zeros as a sparse file. Its export is slow enough to be interrupted."""
    dim, hidden, layers, vocab, context, heads = 4096, 16384, 2, 66, 64, 32
    path = tmp_path_factory.mktemp("large") / "large.bin"
    per_layer = 2 * dim + 4 * dim * dim + 3 * dim * hidden
    floats = vocab * dim + layers * per_layer + dim + context * dim // heads
    path.write_bytes(struct.pack("<7i", dim, hidden, layers, heads, heads, vocab, context))
    os.truncate(path, 28 + 4 * floats)
    return path


@pytest.mark.parametrize("number, flags", [(signal.SIGINT, ["--type", "q6_k"]), (signal.SIGTERM, ["--format", "hf"]), (signal.SIGXCPU, ["--type", "q6_k"]),
                                           (signal.SIGHUP, ["--format", "llama2c", "--version", "2"])])
def test_interrupted_exports_leave_no_files(large_model, tmp_path, number, flags):
    process = start("export", large_model, "--out", tmp_path / "out", "--tokenizer", GOLDEN, *flags)
    wait_until(lambda: any(tmp_path.iterdir()), lambda: process.poll() is None, every=0.001)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and out == b"" and err.count(b"\n") <= 1, err
    assert list(tmp_path.iterdir()) == []
