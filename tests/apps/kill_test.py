"""Tests that training runs ended by SIGKILL or a full disk resume with the results of an uninterrupted run."""

import os
import random
import re
import resource
import signal

import pytest

from exactness import assert_same, command, finish, flags_of, outcome
from support import FAILED, LONG, start, succeed, wait_until

SEED = int(os.environ.get("FOLIO_KILL_SEED", random.SystemRandom().randrange(2**32)))


def kill_at_random(home, directory, flags, dice):
    """Starts or resumes the run and kills it. A quarter of the kills are at the start. Half of the others are after a
    random number of steps, and half during the save that follows. Returns True unless the run ended before the kill."""
    process = start("train", *command(home, directory, flags), home=home, text=True)
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
    """Returns True if the run wrote its last file, even if it was killed afterwards."""
    return (directory / "model.gguf").exists()


@pytest.mark.parametrize("dtype, kills", [("f32", 30 if LONG else 6), ("bf16", 6 if LONG else 2)])
def test_kills_at_random_moments(home, dtype, kills):
    flags = flags_of(steps=40, threads=2, dtype=dtype)
    finish(home, home / "whole", flags)
    expected = outcome(home / "whole")
    assert len(expected["log"]) == 40
    dice = random.Random(SEED)
    done = chain = 0
    while done < kills:
        directory = home / f"killed-{chain}"
        while done < kills and not is_finished(directory):
            done += kill_at_random(home, directory, flags, dice)
        finish(home, directory, flags)
        assert_same(outcome(directory), expected, f"FOLIO_KILL_SEED={SEED}, {dtype}, run {chain}, {done} kills")
        chain += 1


def test_file_size_limit_fails_with_one_line(home):
    """Simulates a full disk with RLIMIT_FSIZE: a write fails with EFBIG in the middle of a line of the log."""
    flags = flags_of(steps=400)
    flags[flags.index("--checkpoint-every") + 1] = flags[flags.index("--eval-every") + 1] = "50"
    finish(home, home / "whole", flags)
    limit = 40_000
    largest = max(path.stat().st_size for path in (home / "whole").rglob("*.safetensors"))
    assert largest < limit < (home / "whole/log.jsonl").stat().st_size
    process = start("train", *command(home, home / "limited", flags), home=home, text=True,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == FAILED and errors.count("\n") == 1, errors
    assert f"{home}/limited/log.jsonl: File too large" in errors
    assert not (home / "limited/log.jsonl").read_text().endswith("\n"), "the last line is torn"
    step = int(re.search(r"the last good checkpoint is \S*/checkpoints/step-(\d+)", errors)[1])
    assert step % 50 == 0 and (home / f"limited/checkpoints/step-{step:06}/model.safetensors").exists()
    finish(home, home / "limited", flags)
    assert_same(outcome(home / "limited"), outcome(home / "whole"), "after EFBIG")


def test_thread_count_is_saved_and_changes_are_reported(home):
    finish(home, home / "r", flags_of(steps=3, threads=2))
    for flags, said in (([], ""), (["--threads", "1"], "threads 2 -> 1")):
        (home / "r/model.gguf").unlink()
        done = succeed("train", home / "cats.txt", "--resume", "--out", home / "r", *flags, home=home)
        assert done.stderr.count("\n") == len(flags) // 2 and said in done.stderr
