"""Runs ./train as several ranks: by hand, with the four variables that torchrun sets, or by torchrun itself."""

import subprocess
import sys
from pathlib import Path

from support import BUILD, HANG, environment, free_port

TORCHRUN = Path(sys.executable).with_name("torchrun")


class Ranks:
    """n processes that train one model; what each says is in FOLDER/RANK.out and .err."""

    def __init__(self, n, home, *args, args_of=None, program=None, program_of=None, name="ranks", **more):
        self.folder = home / name
        self.folder.mkdir(exist_ok=True)
        port = free_port()
        self.processes = []
        for rank in range(n):
            env = environment(home, RANK=str(rank), WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                              **more)
            command = [(program_of or {}).get(rank, program or BUILD / "train"), *map(str, args),
                       *map(str, (args_of or {}).get(rank, []))]
            with open(self.folder / f"{rank}.out", "wb") as out, open(self.folder / f"{rank}.err", "wb") as err:
                self.processes.append(subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                                       env=env))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def wait(self, timeout=HANG):
        return [process.wait(timeout=timeout) for process in self.processes]

    def out(self, rank):
        return (self.folder / f"{rank}.out").read_text()

    def err(self, rank):
        return (self.folder / f"{rank}.err").read_text()

    def succeed(self):
        assert self.wait() == [0] * len(self.processes), [self.err(rank) for rank in range(len(self.processes))]
        return self


def train_on_ranks(n, home, *args, **more):
    """Trains to the end. Only rank 0 says something, and that not on stderr."""
    with Ranks(n, home, *args, **more) as ranks:
        ranks.succeed()
        for rank in range(n):
            assert ranks.err(rank) == "", ranks.err(rank)
            assert (ranks.out(rank) == "") == (rank > 0)
        return ranks.out(0)


def torchrun(n, home, *args, flags=(), **more):
    """The command of the documentation. Returns the finished process."""
    command = [TORCHRUN, "--no-python", "--nproc-per-node", str(n), "--master-port", str(free_port()), *flags,
               BUILD / "train", *map(str, args)]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=2 * HANG,
                          env=environment(home, **more))
