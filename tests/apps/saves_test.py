"""Tests that a training run resumes correctly after a kill or an error at any system call that changes a file.

strace injects the kill or the error. `make long` tests each call; otherwise every fourth is tested.
tests/train/run/save_faults_test.cpp does the same for a single save without strace, at every call, with ENOSPC and EIO.
"""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from exactness import assert_same, command, finish, flags_of, make_home, named_checkpoint, outcome
from support import BUILD, FAILED, LONG, environment

STEPS = 2
CHANGES = ("open", "openat", "creat", "write", "fsync", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "symlink",
           "symlinkat", "unlink", "unlinkat", "rmdir", "ftruncate", "pwrite64", "link", "linkat")
REMOVALS = ("unlink", "unlinkat", "rmdir")
MESSAGES = {"ENOSPC": "No space left on device", "EIO": "Input/output error"}


def strace(options, log, home, directory, flags):
    arguments = ["strace", "-f", "-y", "-s", "0", "-o", str(log), *options, str(BUILD / "train"),
                 *command(home, directory, flags)]
    return subprocess.run(arguments, env=environment(home), capture_output=True, text=True, timeout=120)


def works():
    """Returns True if strace is installed and permitted. Otherwise, ctest reports these tests as skipped."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-f", "-o", os.devnull, "-e", "trace=write", "true"],
                          capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not works(), reason="strace cannot trace here")


class Call:
    """A system call: the `number`th with this name in the program's main thread."""

    def __init__(self, name, number, arguments, directory):
        self.name, self.number = name, number
        # Removes what differs between runs: the path, the process id, and the lengths of data that contain them.
        arguments = re.sub(r", \"\"\.\.\., \d+", "", arguments.replace(str(directory), "RUN"))
        self.what = re.sub(r"\.tmp-\d+", ".tmp-PID", arguments)

    def __str__(self):
        return f"{self.name} {self.number}: {self.what}"


def changes_in(log, directory):
    """Returns the calls in a log of strace that change a file of the run, in order."""
    counts, calls = {}, []
    main = None
    for line in log.read_text().splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if match is None:
            continue
        main = main or match[1]
        if match[1] != main:
            assert str(directory) not in line, f"another thread writes: {line}"
            continue
        counts[match[2]] = counts.get(match[2], 0) + 1
        reads = match[2] in ("open", "openat") and "O_CREAT" not in line
        if str(directory) in line and match[2] in CHANGES and not reads:
            arguments = match[3].rsplit(" = ", 1)[0].rstrip()
            calls.append(Call(match[2], counts[match[2]], arguments, directory))
    return calls


class Disturbed:
    """Makes runs that fail at one of the system calls in `calls`, and checks that they give the right result when
    resumed."""

    def __init__(self, home):
        self.home, self.flags = home, flags_of(STEPS, eval_every=1)
        finish(home, home / "whole", self.flags)
        self.expected = outcome(home / "whole")
        log = home / "trace"
        done = strace(["-e", "trace=file,desc"], log, home, home / "traced", self.flags)
        assert done.returncode == 0, done.stderr
        assert_same(outcome(home / "traced"), self.expected, "traced")
        self.calls = changes_in(log, home / "traced")
        self.finished = set()

    def strike(self, call, how):
        """Runs train under strace, which injects `how`, such as "signal=KILL", at the system call `call`. Returns the
        process and the run directory."""
        directory = self.home / f"{call.name}-{call.number}-{how.partition('=')[2]}"
        log = directory.with_suffix(".trace")
        done = strace(["-e", f"trace={call.name}", "-e", f"inject={call.name}:{how}:when={call.number}"], log,
                      self.home, directory, self.flags)
        text = log.read_text()
        struck = [line for line in text.splitlines() if "(INJECTED)" in line]
        if how == "signal=KILL":
            assert "+++ killed by SIGKILL +++" in text, f"{call}: {done.stderr}"
            struck = [line for line in text.splitlines() if re.match(r"\d+ +\w+\(", line)][-1:]
        assert len(struck) == 1, f"{call}: {struck}"
        arguments = struck[0].split("(", 1)[1].rsplit(" = ", 1)[0].rstrip()
        assert Call(call.name, 0, arguments, directory).what == call.what, f"{call}, but struck {struck}"
        return done, directory

    def finish(self, call, directory):
        """Resumes the run and compares its result, unless a run with the same files has been resumed before."""
        state = frozenset(self.state_of(directory).items())
        if state not in self.finished:
            finish(self.home, directory, self.flags)
            assert_same(outcome(directory), self.expected, str(call))
            self.finished.add(state)
        shutil.rmtree(directory, ignore_errors=True)

    @staticmethod
    def state_of(directory):
        state = {}
        for path in directory.rglob("*"):
            name = re.sub(r"\.tmp-\d+", ".tmp-PID", path.relative_to(directory).as_posix())
            content = path.readlink() if path.is_symlink() else None if path.is_dir() else path.read_bytes()
            if name == "log.jsonl":
                content = re.sub(rb'"(tokens_per_s|peak_share)":[^,}]*', b"", content)
            state[name] = b"a process" if name == ".lock" else b"times" if name.startswith("events.") else content
        return state


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Disturbed(make_home(tmp_path_factory.mktemp("saves")))


def of_a_save(calls):
    """Returns the calls of one save, which are those between the log lines of steps 1 and 2."""
    lines = [i for i, call in enumerate(calls) if call.name == "write" and "RUN/log.jsonl>" in call.what]
    return calls[lines[0]:lines[1]]


def around(calls):
    """Returns the calls before the first save, its first call, and the calls after the last save."""
    first = next(i for i, call in enumerate(calls) if "/checkpoints" in call.what)
    last = max(i for i, call in enumerate(calls) if "/checkpoints" in call.what)
    return calls[:first + 1] + calls[last + 1:]


def test_recorded_calls_are_those_of_a_save(runs):
    save = of_a_save(runs.calls)
    names = [call.name for call in save]
    assert names.count("write") >= 7 and names.count("fsync") >= 10
    text = "\n".join(call.what for call in save)
    for part in ("model.safetensors", "optimizer.safetensors", "trainer.json", "tokenizer.json", "checkpoints/last",
                 "checkpoints/.step-000001.tmp\"", "loss.svg"):
        assert part in text
    text = "\n".join(call.what for call in around(runs.calls))
    for part in (".lock", "config.toml", "model.gguf"):
        assert part in text


def chosen(runs, first):
    calls = of_a_save(runs.calls) + around(runs.calls)
    return calls if LONG else calls[first::4]


def in_pairs(action, items):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda item: action(*item), items))


def test_a_kill_at_each_call_loses_nothing(runs):
    def kill(call):
        done, directory = runs.strike(call, "signal=KILL")
        assert done.stderr == "", f"{call}: {done.stderr}"
        runs.finish(call, directory)

    in_pairs(kill, [(call,) for call in chosen(runs, 0)])


def test_each_failed_call_is_reported_and_loses_nothing(runs):
    def refuse(call, error):
        done, directory = runs.strike(call, f"error={error}")
        may_pass = call.name in REMOVALS or ".lock>" in call.what  # errors of cleaning up and of the lock are ignored
        if not (may_pass and done.returncode == 0):
            assert done.returncode == FAILED and done.stderr.count("\n") == 1, f"{call}: {done.stderr}"
            assert MESSAGES[error] in done.stderr and str(directory) in done.stderr, f"{call}: {done.stderr}"
            assert ".tmp-" not in done.stderr, f"{call}: {done.stderr}"
        last = directory / "checkpoints/last"
        if done.returncode == FAILED and "cannot lock" not in done.stderr and str(directory) + ":" not in done.stderr:
            named = named_checkpoint(done.stderr)
            assert named == (int(last.readlink().name[5:]) if last.is_symlink() else None), done.stderr
        assert not list(directory.rglob(".step-*")) or call.name in REMOVALS, f"{call}: the disk stays full"
        runs.finish(call, directory)

    in_pairs(refuse, [(call, ("ENOSPC", "EIO")[i % 2]) for i, call in enumerate(chosen(runs, 2))])
