"""Tests that train ends at a signal and resumes later. Also tests training with devices as outputs."""

import json
import os
import signal
import stat
import subprocess

import pytest

from outputs_test import NULL, device
from support import (BUILD, FAILED, HANG, SMALL_RUN, assert_refused, environment, held, interrupt, log_of, read_until,
                     run, succeed)

ENDLESS = [*SMALL_RUN, "--steps", "1000000", "--log-every", "1", "--eval-every", "100000"]


def train(home, *flags, **more):
    return run("train", home / "cats.txt", *SMALL_RUN, "--steps", "4", *flags, home=home, **more)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_save_a_checkpoint(home, number):
    out = interrupt([BUILD / "train", home / "cats.txt", *ENDLESS, "--out", home / "r"], "step 5/", number,
                    env=environment(home), stderr=subprocess.PIPE)
    assert "--resume" in out
    saved = json.loads((home / "r/checkpoints/last/trainer.json").read_text())["step"]
    assert saved >= 5 and log_of(home / "r")[-1]["step"] == saved and not (home / "r/model.gguf").exists()


def test_closed_stdout_saves_a_checkpoint(home):
    """A reader such as `tee` ends with train's process group at Ctrl-C, and so before train has saved."""
    process = held([BUILD / "train", home / "cats.txt", *ENDLESS, "--out", home / "r"], env=environment(home))
    read_until(process, "step 5/")
    process.stdout.close()
    assert process.wait(timeout=HANG) == 128 + signal.SIGPIPE
    saved = json.loads((home / "r/checkpoints/last/trainer.json").read_text())["step"]
    assert saved >= 5 and log_of(home / "r")[-1]["step"] == saved


def test_ignored_edits_are_named_on_resume(home):
    assert train(home, "--out", home / "r").returncode == 0
    (home / "r/model.gguf").unlink()
    config = home / "r/config.toml"
    config.write_text(config.read_text().replace("lr = 0.01\n", "lr = 0.5\n") + "misspelt = 3\n")
    done = train(home, "--resume", "--out", home / "r")
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert f"{config}: lr = 0.5, misspelt = 3; " in done.stderr
    assert "lr = 0.01\n" in config.read_text()


def test_other_outputs_of_a_run_may_be_devices(home):
    null = device(home / "null", NULL)
    succeed("train", home / "cats.txt", *SMALL_RUN, "--steps", "8", "--out", home / "r", "--trace", null, "--dump-batches",
            null, "--dump-grads", null, home=home)
    assert stat.S_ISCHR(null.stat().st_mode)
    assert sorted(p.name for p in home.iterdir()) == ["cats.txt", "null", "r"]


def test_logs_that_are_not_files_are_rejected(home):
    (home / "r").mkdir()
    os.mkfifo(home / "r/log.jsonl")
    assert_refused(train(home, "--out", home / "r", timeout=60), FAILED, home / "r")
    succeed("train", home / "cats.txt", *SMALL_RUN, "--steps", "4", "--out", home / "r", "--force", home=home)
