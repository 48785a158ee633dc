"""Tests full, closed and disconnected standard streams, and a model file that is truncated while in use."""

import itertools
import os
import signal
import subprocess

import pytest

from chat_model import write_chat_model
from outputs_test import FULL, device
from support import BUILD, FAILED, GOLDEN, WRONG_USAGE, environment, start


def run_with(streams, program, *args):
    """Runs a program with the given stdin, stdout and stderr; None closes a stream. Returns the exit code, and the text
    of stderr, which is empty unless stderr is a pipe."""
    closed = [number for number, stream in enumerate(streams) if stream is None]
    stdin, stdout, stderr = streams
    done = subprocess.run([BUILD / program, *map(str, args)], env=environment("/nonexistent"), stdin=stdin, stdout=stdout,
                          stderr=stderr, timeout=120, preexec_fn=lambda: [os.close(number) for number in closed])
    return done.returncode, (done.stderr or b"").decode()


@pytest.fixture
def full(tmp_path):
    with open(device(tmp_path / "full", FULL), "wb") as stream:
        yield stream


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("Some words for a model of characters\n")
    return path


def calls(golden_gguf, text):
    yield "generate", "-m", golden_gguf, "-n", 3, "--json"
    yield "generate", "-m", golden_gguf, "-n", 3
    yield "export", GOLDEN, "--out", text.parent / "out.gguf"
    yield "explain", "a", "-m", golden_gguf, "--json"
    yield "inspect", golden_gguf
    yield "perplexity", "-m", golden_gguf, "--text", text, "--token-logprobs", "--json"
    yield "serve", "-m", golden_gguf, "--port", 0
    yield "tokenize", "encode", "-t", GOLDEN, text
    yield "tokenize", "decode", "-t", GOLDEN, 1, 2, 3
    for program in ("chat", "explain", "export", "generate", "inspect", "bench", "perplexity", "serve", "tokenize"):
        yield program, "--help"
        yield program, "--version"


def test_full_stdout_fails_with_one_line(golden_gguf, text, full):
    for call in calls(golden_gguf, text):
        code, err = run_with((subprocess.DEVNULL, full, subprocess.PIPE), *call)
        assert code == FAILED and "cannot write to stdout: No space left on device\n" in err, f"{call}: {err}"
        assert err.count("\n") == 1 or call[0] == "perplexity", f"{call}: {err}"


def test_full_stderr_does_not_change_the_exit_code(golden_gguf, full):
    streams = (subprocess.DEVNULL, subprocess.DEVNULL, full)
    assert run_with(streams, "generate", "-m", golden_gguf, "-n", 3)[0] == 0
    assert run_with(streams, "generate", "--bogus")[0] == WRONG_USAGE
    assert run_with(streams, "inspect", "none")[0] == FAILED


def test_unreadable_stdin_fails_with_one_line(golden_gguf, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    for call in (("chat", "-m", golden_gguf, "--chat-template", "chatml"), ("tokenize", "encode", "-t", GOLDEN)):
        code, err = run_with((folder, subprocess.DEVNULL, subprocess.PIPE), *call)
        assert (code, err) == (FAILED, f"{call[0]}: cannot read stdin: Is a directory\n")
    os.close(folder)


def test_closed_streams_are_not_reused_by_files(golden_gguf, tmp_path):
    for number, closed in enumerate(itertools.product([False, True], repeat=3)):
        out = tmp_path / f"{number}.gguf"
        streams = [None if is_closed else subprocess.DEVNULL for is_closed in closed]
        assert run_with(streams, "export", GOLDEN, "--out", out)[0] == 0, closed
        assert out.read_bytes() == golden_gguf.read_bytes(), closed
        assert run_with(streams, "generate", "--bogus")[0] == WRONG_USAGE, closed


def test_closed_pipe_ends_generation_quietly(golden_gguf):
    process = start("generate", "-m", golden_gguf, "-n", 10**9, "--slide", "-t", 1)
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.wait(timeout=60) == -signal.SIGPIPE and process.stderr.read() == b""


def test_truncated_model_gives_one_line(tmp_path):
    model = write_chat_model(tmp_path / "chat.gguf")
    process = start("chat", "-m", model, "-n", 5)
    process.stdin.write(b"/help\n")
    process.stdin.flush()
    while b"Ctrl-D" not in process.stderr.readline():  # until the model is loaded
        assert process.poll() is None
    os.truncate(model, 0)
    _, err = process.communicate(b"hello\n", timeout=60)
    assert process.returncode == FAILED
    assert err.startswith(f"chat: {model} became shorter".encode()) and err.count(b"\n") == 1, err


def test_sigterm_ends_a_chat_during_an_answer(tmp_path):
    process = start("chat", "-m", write_chat_model(tmp_path / "chat.gguf", context=1 << 16), "--temp", 0)
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    assert process.stdout.read(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM  # ends although stdin is still open
    process.communicate()
