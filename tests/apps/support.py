"""Helpers for tests of the programs: their paths, how to run them, the golden model."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FOLIO_BUILD_DIR", ROOT / "build"))
LONG = "FOLIO_LONG" in os.environ  # set by `make long`: tests that otherwise use a sample of their cases run in full
SANITIZED = "sanitize" in str(BUILD)
GOLDEN = ROOT / "tests" / "golden" / "shakespeare_48"
SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"  # fetched by make smollm2
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
HANG = 120  # timeout in seconds, which only ends a test that would hang


def wait_until(condition, alive=lambda: True, every=0.01):
    """Calls condition() every `every` seconds until it is true, and returns its value. Fails the test after HANG
    seconds, or earlier if alive() becomes false."""
    end = time.monotonic() + HANG
    while True:
        may_come = alive()
        if found := condition():
            return found
        assert may_come, "it cannot happen any more"
        assert time.monotonic() < end, "it did not happen"
        time.sleep(every)


def start(program, *args, home="/nonexistent", **more):
    """Starts a program of the build directory with pipes as its standard streams."""
    return subprocess.Popen([BUILD / program, *map(str, args)], env=environment(home), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def held(command, **more):
    """Starts a program whose stdout is a pipe that holds only one line, so that the program blocks until the test has
    read the previous line."""
    ours, its = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
    fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen(list(map(str, command)), stdout=its, text=True, **more)
    os.close(its)
    process.stdout = open(ours, encoding="utf-8")
    return process


def read_until(process, begin):
    """Returns a program's lines up to and including the first that starts with `begin`. Fails if there is none."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(begin):
            return lines
    raise AssertionError(f"no line begins with {begin!r}: {lines}")


def interrupt(command, begin, number=signal.SIGINT, **more):
    """Starts a program, sends it a signal once it has printed a line that starts with `begin`, and returns its further
    output. Asserts the exit code of that signal."""
    process = held(command, **more)
    read_until(process, begin)
    process.send_signal(number)
    out, errors = process.communicate(timeout=HANG)
    assert process.returncode == 128 + number and not errors, errors
    return out


def pause(process):
    """Stops a process with SIGSTOP, and returns when all of its threads are stopped. SIGCONT continues the process."""
    process.send_signal(signal.SIGSTOP)
    states = lambda: {stat.read_text().rsplit(") ", 1)[1][0] for stat in Path(f"/proc/{process.pid}/task").glob("*/stat")}
    wait_until(lambda: states() == {"T"}, lambda: process.poll() is None)


def environment(home, **more):
    # "passive" prevents threads from spinning while they wait, which would slow down tests that run at the same time.
    return {**os.environ, "FOLIO_HOME": str(home), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **more}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(program, *args, home="/nonexistent", timeout=HANG, errors="strict", **more):
    """Runs a program of the build directory, and fails the test if a signal ends it. stdout must be valid UTF-8, unless
    `errors` is "replace". Tests pass "replace" for random models, which may generate any bytes."""
    done = subprocess.run([str(BUILD / program), *map(str, args)], capture_output=True, timeout=timeout,
                          env=environment(home, **more), stdin=subprocess.DEVNULL)
    done.stdout, done.stderr = done.stdout.decode("utf-8", errors), done.stderr.decode("utf-8")
    assert done.returncode >= 0, f"{program} {args} died of signal {-done.returncode}: {done.stderr}"
    return done


def succeed(program, *args, **more):
    done = run(program, *args, **more)
    assert done.returncode == 0, f"{program} {args}: {done.stderr}"
    return done


def one_json(text):
    """Returns the one JSON object that a program printed."""
    assert text.endswith("\n") and text.count("\n") == 1, text
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


def generate(model, *args, **more):
    return one_json(succeed("generate", "--json", "-m", model, *args, **more).stdout)


def perplexity(model, text, *flags):
    return one_json(succeed("perplexity", "--json", "-m", model, "--text", text, *flags).stdout)


def logits_of(model, ids, **more):
    """Returns the engine's logits after each token, as lists."""
    return json.loads(succeed("tests/logits_tool", model, *ids, **more).stdout)


def export(model, out, *flags):
    succeed("export", model, "--out", out, *flags)
    return out


def log_of(directory):
    return [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]


def assert_refused(done, code, *parts):
    """Asserts the exit code, that stdout is empty, and that stderr is one line that contains all of `parts`."""
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}{done.stdout}"
    assert done.stderr.endswith("\n") and done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == "", done.stdout
    for part in parts:
        assert str(part) in done.stderr, f"{part!r} is not in: {done.stderr}"
    for word in ("terminate", "Assertion", "what():", "Exception raised from", "frame #"):
        assert word not in done.stderr, done.stderr


TEXT = "".join(f"The {a} {b} sat on the {c}.\n" for a in ("old", "red", "sly") for b in ("cat", "fox", "hen", "dog")
               for c in ("mat", "hill", "wall", "bed"))
ACCENTED = "".join(f"Où est le café n° {i} ? C'est là, à côté du 中文 书店 😀. Ça va, naïve œuvre 🚀!\n"
                   for i in range(40))
# Flags of a training run that takes a second (SMALL_RUN), and of a run that memorizes its text (LEARNING_RUN).
SMALL_RUN = ["--dim", "16", "--layers", "1", "--heads", "2", "--hidden-dim", "16", "--context", "32", "--window", "16",
             "--batch-size", "4", "--warmup-steps", "2", "--lr", "1e-2", "--threads", "1"]
LEARNING_RUN = ["--dim", "32", "--layers", "2", "--heads", "4", "--kv-heads", "2", "--hidden-dim", "64", "--context",
                "256", "--window", "64", "--batch-size", "8", "--steps", "300", "--lr", "1e-2", "--warmup-steps", "20",
                "--threads", "1"]
