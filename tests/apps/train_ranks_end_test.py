"""Tests how the ranks of train end: if one is killed, hangs or fails, all others end with an error that names it."""

import os
import signal
from pathlib import Path

import pytest

from ranks import TORCHRUN, train_on_ranks, training
from support import BUILD, FAILED, HANG, environment, free_port, held, log_of, read_until, wait_until
from train_ranks_test import RUN, numbers, weights_digest

ENDLESS = [*RUN, "--batch-size", "12", "--steps", "100000", "--checkpoint-every", "20"]


def await_lines(lines, directory, alive):
    log = directory / "log.jsonl"
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= lines, alive)


def assert_all_name(ranks, lost, word):
    """Checks that all ranks except `lost` fail, each with one error line that contains "rank LOST WORD"."""
    for rank, process in enumerate(ranks.processes):
        if rank == lost:
            continue
        assert process.wait(timeout=HANG) == FAILED
        line = ranks.err(rank)
        assert line.count("\n") == 1 and line.startswith("train: "), line
        assert f"rank {lost} {word}" in line, line


@pytest.mark.parametrize("n, lost, flags", [(3, 0, []), (4, 1, ["--pipeline-parallel", "2", "--accumulation", "2"])],
                         ids=["data", "pipeline"])
def test_killed_rank_ends_training_and_is_named(home, n, lost, flags):
    with training(n, home, home / "cats.txt", *ENDLESS, *flags, "--out", home / "run") as ranks:
        await_lines(25, home / "run", lambda: all(p.poll() is None for p in ranks.processes))
        ranks.processes[lost].kill()
        assert_all_name(ranks, lost, "is gone")
    assert (home / "run/checkpoints/last/model.safetensors").exists()


def test_hanging_rank_is_named(home):
    with training(2, home, home / "cats.txt", *ENDLESS, "--rank-timeout", "20", "--out", home / "run") as ranks:
        await_lines(5, home / "run", lambda: all(p.poll() is None for p in ranks.processes))
        ranks.processes[1].send_signal(signal.SIGSTOP)
        assert_all_name(ranks, 1, "is gone (last seen at step")


def test_rank_that_does_not_start_is_named(home):
    with training(3, home, home / "cats.txt", *ENDLESS, "--rank-timeout", "20", program_of={2: "/bin/true"}) as ranks:
        ranks.wait()
        for rank in range(2):
            assert "rank 2 did not connect within 20 s" in ranks.err(rank)
            assert ranks.err(rank).count("\n") == 1


def test_failure_of_one_rank_is_reported_by_all(home):
    with training(2, home, home / "cats.txt", *ENDLESS, "--out", "/dev/null/run") as ranks:
        assert ranks.wait() == [FAILED, FAILED]
        assert ranks.err(0).startswith("train: cannot create the folder /dev/null/run"), ranks.err(0)
        assert ranks.err(1).startswith("train: rank 0: cannot create the folder /dev/null/run"), ranks.err(1)


def workers_of(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/exe").resolve() == (BUILD / "train").resolve()]


@pytest.mark.parametrize("n", [1, 2])
def test_max_restarts_resumes_automatically(home, n):
    flags = [home / "cats.txt", *RUN, "--batch-size", "8", "--steps", "100", "--checkpoint-every", "20"]
    train_on_ranks(n, home, *flags, "--out", home / "undisturbed")
    command = [TORCHRUN, "--no-python", "--nproc-per-node", str(n), "--max-restarts", "2", "--master-port", free_port(),
               BUILD / "train", *flags, "--out", home / "run"]
    with open(home / "torchrun.err", "wb") as err:
        process = held(command, env=environment(home), stderr=err)  # blocks while its output is unread
        try:
            before = "".join(read_until(process, "step 25/"))
            os.kill(workers_of(process)[-1], signal.SIGKILL)
            out, _ = process.communicate(timeout=HANG)
        finally:
            if process.poll() is None:
                process.terminate()  # torchrun also ends its workers
                process.wait(timeout=HANG)
    assert process.returncode == 0, (home / "torchrun.err").read_text()
    assert (before + out).count("resumed at step") == 1
    assert [entry["step"] for entry in log_of(home / "run")] == list(range(1, 101))
    assert numbers(home / "run") == numbers(home / "undisturbed")
    assert weights_digest(home / "run") == weights_digest(home / "undisturbed")
