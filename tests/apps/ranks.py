"""Runs programs as several ranks, with torchrun's environment variables RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT."""

import subprocess
import sys
from pathlib import Path

from support import BUILD, HANG, environment, free_port

TORCHRUN = Path(sys.executable).with_name("torchrun")


class Ranks:
    """The n processes of one run. Rank R writes to FOLDER/R.out and FOLDER/R.err. `args_of` maps a rank to its
    additional arguments, and `program_of` maps a rank to the program that it runs instead of `program`. `more` are
    environment variables."""

    def __init__(self, n, folder, program, *args, home="/nonexistent", args_of=None, program_of=None, **more):
        folder.mkdir(exist_ok=True)
        port = free_port()
        self.folder, self.processes = folder, []
        for rank in range(n):
            env = environment(home, RANK=str(rank), WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                              **{"FOLIO_RANK_TIMEOUT": "60", **more})
            command = [BUILD / (program_of or {}).get(rank, program), *args, *(args_of or {}).get(rank, [])]
            with open(folder / f"{rank}.out", "wb") as out, open(folder / f"{rank}.err", "wb") as err:
                self.processes.append(subprocess.Popen(list(map(str, command)), stdout=out, stderr=err,
                                                       stdin=subprocess.DEVNULL, env=env))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def wait(self):
        """Waits for all ranks and returns their exit codes. Raises subprocess.TimeoutExpired if a rank hangs."""
        return [process.wait(HANG) for process in self.processes]

    def out(self, rank):
        return (self.folder / f"{rank}.out").read_text(encoding="utf-8")

    def err(self, rank):
        return (self.folder / f"{rank}.err").read_text(encoding="utf-8")

    def line(self, rank):
        """Returns the last line of the rank's stderr."""
        return (self.err(rank).splitlines() or [""])[-1]

    def succeed(self):
        """Returns rank 0's output. All ranks must succeed, and the others must print nothing."""
        assert self.wait() == [0] * len(self.processes), [self.err(rank) for rank in range(len(self.processes))]
        assert [self.out(rank) for rank in range(1, len(self.processes))] == [""] * (len(self.processes) - 1)
        return self.out(0)


def training(n, home, *args, **more):
    return Ranks(n, home / "ranks", "train", *args, home=home, **more)


def train_on_ranks(n, home, *args, **more):
    """Trains on n ranks to the end and returns rank 0's stdout. Asserts that all other outputs of the ranks are
    empty."""
    with training(n, home, *args, **more) as ranks:
        said = ranks.succeed()
        assert said and [ranks.err(rank) for rank in range(n)] == [""] * n
        return said
