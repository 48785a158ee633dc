"""Compares a run's event files, read by TensorBoard, with log.jsonl: the same values, each step once."""

import json
import signal

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from exactness import command
from support import BUILD, HANG, SMALL_RUN, environment, held, log_of, succeed

TAGS = {"loss/train": "loss", "loss/validation": "val_loss", "lr": "lr", "grad_norm": "grad_norm",
        "tokens_per_s": "tokens_per_s", "peak_share": "peak_share"}


def events_of(directory):
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    events.Reload()
    return events


def assert_the_logs_numbers(directory):
    events, log = events_of(directory), log_of(directory)
    for tag, key in TAGS.items():
        entries = [entry for entry in log if key in entry]
        scalars = events.Scalars(tag)
        assert [scalar.step for scalar in scalars] == [entry["step"] for entry in entries], tag
        assert [np.float32(scalar.value) for scalar in scalars] == [np.float32(entry[key]) for entry in entries], tag
    return events


def test_tensorboard_shows_the_logs_values(home):
    succeed("train", home / "cats.txt", *SMALL_RUN, "--steps", "25", "--eval-every", "10", "--log-every", "5", "--out",
            home / "r", home=home)
    events = assert_the_logs_numbers(home / "r")
    assert set(events.Tags()["scalars"]) == set(TAGS)
    times = [scalar.wall_time for scalar in events.Scalars("lr")]
    assert times == sorted(times) and times[0] > 1.7e9


def test_random_batches_have_their_own_tag(home):
    succeed("train", home / "cats.txt", *SMALL_RUN, "--steps", "4", "--eval-every", "2", "--eval-batches", "1", "--out",
            home / "r", home=home)
    scalars = events_of(home / "r").Scalars("loss/train_evaluation")
    assert [np.float32(entry["train_loss"]) for entry in log_of(home / "r") if "train_loss" in entry] == \
        [np.float32(scalar.value) for scalar in scalars]


def go_on(home, lines, end):
    """Starts or resumes the run, and ends it with the signal `end` once it has printed `lines` steps."""
    flags = [*SMALL_RUN, "--steps", "100000", "--log-every", "1", "--eval-every", "10", "--checkpoint-every", "100000"]
    process = held([BUILD / "train", *command(home, home / "r", flags)], env=environment(home))
    for line in process.stdout:
        lines -= line.startswith("step ")
        if lines == 0:
            process.send_signal(end)
    process.wait(timeout=HANG)


def test_resumed_run_has_no_duplicate_steps(home):
    """Interrupts a run, resumes it, kills it, truncates its last event, and resumes it again, which repeats steps."""
    go_on(home, 15, signal.SIGINT)
    go_on(home, 25, signal.SIGKILL)
    log = log_of(home / "r")
    saved = json.loads((home / "r/checkpoints/last/trainer.json").read_text())["step"]
    assert log[-1]["step"] > saved >= 15
    killed = home / "r/events.out.tfevents.000001"
    killed.write_bytes(killed.read_bytes()[:-7])
    go_on(home, 35, signal.SIGINT)
    assert_the_logs_numbers(home / "r")
    assert len(list((home / "r").glob("events.out.tfevents.*"))) == 3
