"""Compares the pipeline schedules 1F1B and interleaved 1F1B with torch.distributed.pipelining, action by action."""

import subprocess
from types import SimpleNamespace

import pytest
from torch.distributed.pipelining import schedules

from support import BUILD


def ours(ranks, chunks, microbatches):
    done = subprocess.run([BUILD / "tests" / "schedule_tool", *map(str, (ranks, chunks, microbatches))],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def stage(ranks, chunks):
    """Returns a stand-in for a PipelineStage, with the attributes that a schedule reads when it is constructed."""
    return SimpleNamespace(group_size=ranks, group_rank=0, num_stages=ranks * chunks, stage_index=0, is_first=True,
                           is_last=False, stage_index_to_group_rank=None)


def actions(order):
    letters = {schedules.FORWARD: "F", schedules.FULL_BACKWARD: "B"}
    return [f"{letters[a.computation_type]}{a.stage_index}.{a.microbatch_index}" for a in order
            if a is not None and a.computation_type in letters]


@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_interleaved_schedule_matches_pytorch(ranks, chunks):
    compared = 0
    for microbatches in range(1, 4 * ranks + 1):
        if microbatches % max(1, microbatches // ranks):
            continue  # PyTorch doesn't support this number of microbatches
        theirs = schedules.ScheduleInterleaved1F1B([stage(ranks, chunks)] * chunks, microbatches).pipeline_order
        assert ours(ranks, chunks, microbatches) == [actions(theirs[rank]) for rank in range(ranks)], microbatches
        compared += 1
    assert compared > 2 * ranks


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_1f1b_matches_pytorch(ranks):
    for microbatches in (ranks, ranks + 1, 3 * ranks):
        theirs = schedules.Schedule1F1B(stage(ranks, 1), microbatches).pipeline_order
        # Omits the last rank, for which PyTorch's list begins with microbatch 1 instead of 0. PyTorch only displays
        # this list.
        for rank, line in list(enumerate(ours(ranks, 1, microbatches)))[:-1]:
            assert line == actions(theirs[rank]), (microbatches, rank)
