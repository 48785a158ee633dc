"""Runs that are killed with SIGKILL or run out of disk space resume as if uninterrupted."""

import json
import os
import random
import re
import resource
import signal
import subprocess

import pytest

from exactness import assert_same, command, finish, flags_of, log_of, make_home, named_checkpoint, outcome
from support import (BUILD, FAILED, LONG, SMALL_RUN, WRONG_USAGE, assert_refused, environment, held, read_until, run, succeed,
                     wait_until)

SEED = int(os.environ.get("FOLIO_KILL_SEED", random.SystemRandom().randrange(2**32)))


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def start(home, directory, flags, **more):
    return subprocess.Popen([BUILD / "train", *command(home, directory, flags)], env=environment(home),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def kill_at_random(home, directory, flags, dice):
    """Starts or goes on with the run, and kills it: one in four as it starts, the others after a random number of steps,
    half of them once the next save has begun. Returns whether it was killed, and not at its end before that."""
    process = start(home, directory, flags)
    runs = lambda: process.poll() is None
    saves = lambda: any((directory / "checkpoints").glob(".*tmp*"))
    if dice.random() < 0.25:
        file = directory / dice.choice([".lock", "config.toml", "log.jsonl", "checkpoints/last"])
        wait_until(lambda: file.exists() or not runs())
    else:
        for _, line in zip(range(dice.randrange(1, 40)), process.stdout):
            assert line
        if dice.random() < 0.5:
            wait_until(lambda: saves() or not runs(), every=0)
    process.kill()
    _, errors = process.communicate()
    assert errors == "" and process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode != 0


def is_finished(directory):
    """A run that is killed after its last file is written counts as finished."""
    return (directory / "model.gguf").exists()


@pytest.mark.parametrize("dtype, kills", [("f32", 30 if LONG else 10), ("bf16", 6 if LONG else 2)])
def test_kills_at_random_moments(home, dtype, kills):
    flags = flags_of(steps=40, threads=2, dtype=dtype)
    finish(home, home / "whole", flags)
    expected = outcome(home / "whole")
    assert len(expected["log"]) == 40
    dice = random.Random(SEED)
    done = chain = 0
    while done < kills:  # a run that comes to its end is followed by another
        directory = home / f"killed-{chain}"
        while done < kills and not is_finished(directory):
            done += kill_at_random(home, directory, flags, dice)
        finish(home, directory, flags)
        assert_same(outcome(directory), expected, f"FOLIO_KILL_SEED={SEED}, {dtype}, run {chain}, {done} kills")
        chain += 1


def test_a_file_that_may_not_grow_is_a_failure_with_one_line(home):
    """The kernel refuses a write in the middle of a line of the log: past RLIMIT_FSIZE it fails with EFBIG."""
    flags = flags_of(steps=400)
    flags[flags.index("--checkpoint-every") + 1] = flags[flags.index("--eval-every") + 1] = "50"
    finish(home, home / "whole", flags)
    limit = 40_000
    largest = max(path.stat().st_size for path in (home / "whole").rglob("*.safetensors"))
    assert largest < limit < (home / "whole/log.jsonl").stat().st_size
    process = start(home, home / "limited", flags,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == FAILED and errors.count("\n") == 1, errors
    assert f"{home}/limited/log.jsonl: File too large" in errors
    assert not (home / "limited/log.jsonl").read_text().endswith("\n"), "the last line is torn"
    step = named_checkpoint(errors)
    assert step % 50 == 0 and (home / f"limited/checkpoints/step-{step:06}/model.safetensors").exists()
    finish(home, home / "limited", flags)
    assert_same(outcome(home / "limited"), outcome(home / "whole"), "after EFBIG")


def test_no_room_for_the_first_checkpoint(home):
    process = start(home, home / "r", flags_of(steps=3),
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000)))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == FAILED and errors.count("\n") == 1, errors
    assert "step-000000" in errors and "File too large" in errors and named_checkpoint(errors) is None
    assert list((home / "r/checkpoints").iterdir()) == []


# ---- One process at a time ----

def test_two_runs_on_one_directory_are_refused(home):
    flags = flags_of(steps=100000)
    process = held([BUILD / "train", *command(home, home / "r", flags)], env=environment(home))
    read_until(process, "step 5/")
    for more in (["--resume"], flags, [*flags, "--force"]):
        refused = run("train", home / "cats.txt", "--out", home / "r", *more, home=home)
        assert_refused(refused, FAILED, home / "r", f"process {process.pid}", "--out")
    assert process.poll() is None and (home / "r/checkpoints/last/trainer.json").exists()
    process.kill()
    process.communicate()
    # The process's end released the lock, though its file remains.
    assert (home / "r/.lock").read_text() == str(process.pid)
    begun = log_of(home / "r")
    succeed("train", home / "cats.txt", "--out", home / "r", *flags_of(steps=2), "--force", home=home)
    assert len(begun) >= 5 and len(log_of(home / "r")) == 2 and not (home / "r/.lock").exists()


# ---- What a killed run leaves ----

def unfinished(home, directory, flags):
    finish(home, directory, flags)
    (directory / "model.gguf").unlink()
    return directory


def test_leftovers_are_swept_at_the_start(home):
    directory = unfinished(home, home / "r", flags_of(steps=3))
    expected = outcome(directory)
    ours = [".config.toml.tmp-123", ".log.jsonl.tmp-4", ".model.gguf.tmp-56789", "checkpoints/.last.tmp",
            "checkpoints/.best.tmp", "checkpoints/.step-000007.tmp/.model.safetensors.tmp-12",
            "checkpoints/step-000001/model.safetensors"]
    theirs = ["notes.txt", ".notes.txt.tmp-123", "checkpoints/step-000003-copy/model.safetensors", "checkpoints/mine"]
    for name in [*ours, *theirs]:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text("half")
    finish(home, directory, [])
    left = outcome(directory)
    for name in theirs:
        assert left.pop(name) == b"half"
    assert left.pop("model.gguf")
    assert_same(left, expected, "swept")


def test_minutes_are_remembered(home):
    flags = [*SMALL_RUN, "--eval-every", "100000", "--log-every", "100000", "--minutes", "0.02"]
    process = held([BUILD / "train", *command(home, home / "r", flags)], env=environment(home))
    before = "".join(read_until(process, "0.02 minutes are"))
    process.kill()
    process.communicate()
    done = succeed("train", home / "cats.txt", "--resume", "--out", home / "r", home=home)
    steps = int(re.findall(r"0.02 minutes are (\d+) steps", before + done.stdout)[-1])
    assert log_of(home / "r")[-1]["step"] == steps != 2500
    assert f"steps = {steps}\n" in (home / "r/config.toml").read_text()


def test_the_number_of_threads_is_remembered_and_another_is_said(home):
    directory = unfinished(home, home / "r", flags_of(steps=3, threads=2))
    resume = ["train", home / "cats.txt", "--resume", "--out", directory]
    assert succeed(*resume, home=home).stderr == ""
    (directory / "model.gguf").unlink()
    done = succeed(*resume, "--threads", "1", home=home)
    assert done.stderr.count("\n") == 1 and "threads 2 -> 1" in done.stderr


def test_another_libtorch_is_said(home):
    directory = unfinished(home, home / "r", flags_of(steps=3))
    state = directory / "checkpoints/last/trainer.json"
    versions = json.loads(state.read_text())["environment"]
    state.write_text(state.read_text().replace(versions["libtorch"], "1.2.3"))
    done = succeed("train", home / "cats.txt", "--resume", "--out", directory, home=home)
    assert f'libtorch "1.2.3" -> "{versions["libtorch"]}"' in done.stderr and "bits" in done.stderr


# ---- What --resume refuses, with the difference ----

def test_refusals_show_the_difference(home):
    directory = unfinished(home, home / "r", flags_of(steps=3))
    text = (home / "cats.txt").read_text()
    before = outcome(directory)

    def refuse(*parts, flags=()):
        done = run("train", home / "cats.txt", "--resume", "--out", directory, *flags, home=home)
        assert_refused(done, FAILED, directory, "--force", *parts)

    refuse("lr 0.01 -> 0.02", "dropout 0.1 -> 0.3", flags=["--lr", "0.02", "--dropout", "0.3"])
    refuse("n_layers 1 -> 2", flags=["--layers", "2"])
    refuse("minutes 0 -> 5", flags=["--minutes", "5"])
    (home / "cats.txt").write_text(text.replace("cat", "tac", 1))
    refuse("another text", f"({len(text)} bytes, digest", "cats.txt")
    (home / "cats.txt").write_text(text.replace("x", "é"))
    refuse("another vocabulary", 'without "x"', 'with "é"')
    (home / "cats.txt").write_text(text)
    both = run("train", home / "cats.txt", "--resume", "--force", "--out", directory, home=home)
    assert_refused(both, WRONG_USAGE, "--resume", "--force")
    assert_same(outcome(directory), before, "after refusals")
    finish(home, directory, [])


def test_force_that_is_refused_later_removes_nothing(home):
    finish(home, home / "r", flags_of(steps=2))
    before = outcome(home / "r")
    (home / "cats.txt").write_text("ab")
    refused = run("train", home / "cats.txt", "--out", home / "r", *flags_of(steps=2), "--force", home=home)
    assert refused.returncode == FAILED and refused.stderr.count("\n") == 1
    assert_same(outcome(home / "r"), before, "after --force")


# ---- The files, as others read them ----

def test_every_tensor_of_a_checkpoint_begins_at_a_multiple_of_64_bytes(home):
    finish(home, home / "r", flags_of(steps=2))
    for name in ("model.safetensors", "optimizer.safetensors"):
        data = (home / "r/checkpoints/last" / name).read_bytes()
        header_size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + header_size])
        tensors = {key: entry for key, entry in header.items() if key != "__metadata__" and "__pad__" not in key}
        assert len(tensors) > 10
        for key, entry in tensors.items():
            assert (8 + header_size + entry["data_offsets"][0]) % 64 == 0, f"{name}: {key}"
    assert any(key.startswith("exp_avg_sq.") for key in tensors) and "random_state.cpu" in tensors
