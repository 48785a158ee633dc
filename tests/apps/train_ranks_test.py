"""Tests train on several ranks: for any mesh, losses and files equal those of one process. Also tests invalid flags."""

import hashlib
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file

from exactness import make_home
from ranks import train_on_ranks, training
from support import BUILD, INTERRUPTED, LONG, WRONG_USAGE, assert_refused, log_of, run, succeed, wait_until

# Heads, hidden_dim, layers and positions can be divided among the ranks of every mesh in MESHES.
RUN = ["--dim", "16", "--layers", "4", "--heads", "4", "--kv-heads", "2", "--hidden-dim", "32", "--context", "32",
       "--window", "16", "--warmup-steps", "2", "--lr", "1e-2", "--threads", "1", "--log-every", "1", "--sample", "20"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return make_home(tmp_path_factory.mktemp("ranks"))


def numbers(directory):
    return [(entry["loss"], entry["grad_norm"]) for entry in log_of(directory)]


def weights_digest(directory):
    return hashlib.sha256((directory / "checkpoints/last/model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module", params=["adamw", "muon"])
def alone(request, shared):
    """Trains in one process, with whole batches and with accumulated half batches. Returns (flags, folder of the first
    run, folder of the second run, file with the first run's gradients)."""
    flags = [*RUN, "--steps", "6", "--eval-every", "3", "--optimizer", request.param]
    whole, halves = shared / f"whole-{request.param}", shared / f"halves-{request.param}"
    succeed("train", shared / "cats.txt", *flags, "--batch-size", "8", "--out", whole, "--dump-grads",
            shared / f"{request.param}.safetensors", home=shared)
    succeed("train", shared / "cats.txt", *flags, "--batch-size", "4", "--accumulation", "2", "--out", halves,
            home=shared)
    return flags, whole, halves, shared / f"{request.param}.safetensors"


def test_two_data_parallel_ranks_match_half_batches_exactly(shared, alone):
    flags, _, halves, _ = alone
    for transport in ("shared", "gloo"):
        out = shared / f"{halves.name}-data-{transport}"
        train_on_ranks(2, shared, shared / "cats.txt", *flags, "--batch-size", "8", "--out", out,
                       FOLIO_RANK_TRANSPORT=transport)
        assert numbers(out) == numbers(halves) and weights_digest(out) == weights_digest(halves), transport
        assert (out / "model.gguf").exists() and (out / "loss.svg").exists()


# The meshes tested per optimizer. tests/train/parallel/meshes_test.cpp compares gradients on all meshes of eight ranks.
MESHES = {"adamw": {"pipeline2-chunks2-tensor2": ["--pipeline-parallel", "2", "--pipeline-chunks", "2", "--tensor-parallel",
                                                  "2", "--accumulation", "2", "--batch-size", "4"],
                    "zero1": ["--zero", "1", "--tensor-parallel", "2", "--batch-size", "8"]},
          "muon": {"data2-tensor2": ["--tensor-parallel", "2", "--batch-size", "8"],
                   "zero3": ["--zero", "3", "--batch-size", "8"]}}


@pytest.mark.parametrize("nth", [0, 1])
def test_meshes_match_one_process(shared, alone, nth):
    flags, whole, _, gradients = alone
    name, mesh = list(MESHES[whole.name.removeprefix("whole-")].items())[nth]
    out = shared / f"{whole.name}-{name}"
    dumped = shared / f"{out.name}.safetensors"
    train_on_ranks(4, shared, shared / "cats.txt", *flags, *mesh, "--out", out, "--dump-grads", dumped)
    theirs, ours = load_file(gradients), load_file(dumped)
    assert theirs.keys() == ours.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-5, atol=1e-5 * theirs[name].abs().max().item())
    assert [loss for loss, _ in numbers(out)] == pytest.approx([loss for loss, _ in numbers(whole)], rel=1e-4)
    assert [entry["val_loss"] for entry in log_of(out) if "val_loss" in entry] == pytest.approx(
        [entry["val_loss"] for entry in log_of(whole) if "val_loss" in entry], rel=1e-3)
    # The optimizer's state must have the names and shapes of a single process's, so that one process can load it.
    saved, known = (load_file(d / "checkpoints/last/optimizer.safetensors") for d in (out, whole))
    saved.pop("__pad__", None), known.pop("__pad__", None)
    assert {name: t.shape for name, t in saved.items()} == {name: t.shape for name, t in known.items()}


def stop_after(lines, directory, ranks):
    """Sends SIGINT to the last rank once the log has `lines` more lines, and asserts that all ranks stop and save."""
    log = directory / "log.jsonl"

    def logged():
        return log.read_text().count("\n") if log.exists() else 0

    lines += logged()
    wait_until(lambda: logged() >= lines, lambda: all(p.poll() is None for p in ranks.processes))
    ranks.processes[-1].send_signal(signal.SIGINT)
    assert set(ranks.wait()) == {INTERRUPTED}, [ranks.err(rank) for rank in range(len(ranks.processes))]
    assert "interrupted at step" in ranks.out(0) and ranks.err(0) == ""


def test_resume_with_another_number_of_ranks(home):
    flags = [home / "cats.txt", *RUN, "--batch-size", "8", "--optimizer", "muon", "--steps", "100000"]
    out = home / "run"
    stages = [(2, ["--zero", "1"]), (4, ["--tensor-parallel", "2"]), (1, []), (2, ["--pipeline-parallel", "2"])]
    if not LONG:
        stages = stages[:3]
    for n, mesh in stages:
        arguments = [home / "cats.txt", "--resume"] if out.exists() else flags
        with training(n, home, *arguments, "--out", out, *mesh) as ranks:
            stop_after(3, out, ranks)
    steps = [entry["step"] for entry in log_of(out)]
    assert steps == list(range(1, len(steps) + 1))
    with training(1, home, *flags, "--out", home / "whole") as ranks:
        stop_after(len(steps), home / "whole", ranks)
    mine, whole = ([loss for loss, _ in numbers(d)][:3 * len(stages)] for d in (out, home / "whole"))
    assert mine == pytest.approx(whole, rel=1e-3)


def test_blocks_of_zero_3_compute_gradients_in_16_bits(home):
    flags = [*RUN, "--batch-size", "8", "--zero", "3", "--dtype", "bf16", "--steps", "1", "--out", home / "run"]
    train_on_ranks(2, home, home / "cats.txt", *flags, "--dump-grads", home / "gradients")
    for name, gradient in load_file(home / "gradients").items():
        if "_proj" in name:  # a sum of two ranks' 16-bit numbers rarely uses the lowest bits of 32
            assert (gradient.view(torch.int32) & 0xff == 0).float().mean() > 0.9, name
    (home / "run/model.gguf").unlink()  # as if killed before the export
    with training(2, home, home / "cats.txt", "--resume", "--zero", "3", "--threads", "2", "--out", home / "run") as ranks:
        ranks.succeed()
        assert "threads 1 -> 2" in ranks.err(0) and ranks.err(1) == ""


def test_differing_ranks_are_rejected_by_all(home):
    common = [home / "cats.txt", *RUN, "--batch-size", "8"]
    (home / "dogs.txt").write_text((home / "cats.txt").read_text().replace("cat", "cow"))
    other = home / "train"
    shutil.copy(BUILD / "train", other)
    with open(other, "ab") as file:
        file.write(b"another build")
    for what, more in {
            "in flags: steps = 5, not steps = 4": {"args_of": {0: ["--steps", 4], 1: ["--steps", 5]}},
            "in the command line: dump_grads = true": {"args_of": {1: ["--dump-grads", home / "g.safetensors"]}},
            "in the command line: trace = true": {"args_of": {1: ["--trace", home / "t.json"]}},
            "in the command line: profile = true": {"args_of": {1: ["--profile"]}},
            "in program: ": {"program_of": {1: other}},
    }.items():
        with training(2, home, *common, **more) as ranks:
            assert ranks.wait() == [WRONG_USAGE, WRONG_USAGE], [ranks.err(0), ranks.err(1)]
            for rank in range(2):
                assert ranks.err(rank).startswith("train: rank 1 differs from rank 0 " + what), ranks.err(rank)
                assert ranks.err(rank).count("\n") == 1
    with training(2, home, args_of={0: [home / "cats.txt", *RUN, "--batch-size", "8"],
                                 1: [home / "dogs.txt", *RUN, "--batch-size", "8"]}) as ranks:
        assert ranks.wait() == [WRONG_USAGE, WRONG_USAGE]
        for rank in range(2):
            assert "rank 1 differs from rank 0 in data: text of" in ranks.err(rank), ranks.err(rank)
    assert not (home / "runs").exists()  # nothing was written


def test_mismatched_mesh_names_both_sizes(home):
    common = [home / "cats.txt", *RUN, "--batch-size", "8"]
    assert_refused(run("train", *common, "--tensor-parallel", "2", home=home), WRONG_USAGE, "tensor 2", "2 ranks",
                   "one process", "torchrun")
    every = [f"--{axis}-parallel={2**16}" for axis in ("tensor", "pipeline", "context", "expert")]
    assert_refused(run("train", *common, *every, home=home), WRONG_USAGE, "this is one process")
    assert_refused(run("train", *common, "--zero", "2", home=home), WRONG_USAGE, "--zero 2", "only one")
    assert_refused(run("train", *common, "--pipeline-chunks", "2", home=home), WRONG_USAGE, "--pipeline-chunks 2")
    assert_refused(run("train", *common, home=home, RANK="0", WORLD_SIZE="2"), WRONG_USAGE, "MASTER_PORT is not set")
    assert_refused(run("train", *common, home=home, RANK="2", WORLD_SIZE="2"), WRONG_USAGE, "RANK=2", "from 0 to 1")
    assert_refused(run("train", *common, home=home, RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="0"), WRONG_USAGE,
                   "LOCAL_WORLD_SIZE=0", "from 1 to 1")
    with training(2, home, *common, "--tensor-parallel", "3") as ranks:
        assert ranks.wait() == [WRONG_USAGE, WRONG_USAGE], (ranks.err(0), ranks.err(1))
        assert "tensor 3" in ranks.err(0) and "2 were started" in ranks.err(0) and ranks.err(0).count("\n") == 1, ranks.err(0)
