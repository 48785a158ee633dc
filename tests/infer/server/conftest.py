import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "apps"))  # for support.py, which runs programs

from chat_model import write_chat_model  # noqa: E402
from support import BUILD, GOLDEN, HANG, environment  # noqa: E402


class Serve:
    """A running `serve` process, which can be stopped and restarted at the same address."""

    def __init__(self, model, *flags, **more):
        self.args = [BUILD / "serve", "-m", model, *flags]
        self.more = more  # arguments for Popen
        self.port = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen([*map(str, self.args), "--port", str(self.port)], stdout=subprocess.PIPE,
                                        text=True, env=environment("/nonexistent"), **self.more)
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://"), f"serve did not start: exit code {self.process.wait(HANG)}"
        self.port = int(self.url.rsplit(":", 1)[1].rstrip("/"))

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def server():
    """Returns server(model, *flags), which returns a running `serve`. Calls with equal arguments share a server."""
    running = {}

    def serve(model, *flags):
        key = (str(model), *flags)
        if key not in running:
            running[key] = Serve(model, *flags)
        return running[key]

    yield serve
    for one in running.values():
        one.stop()


@pytest.fixture
def start():
    """Returns start(*flags), which starts a server for one test only."""
    started = []

    def serve(*flags, model=GOLDEN, **more):
        started.append(Serve(model, "-t", "1", *flags, **more))
        return started[-1]

    yield serve
    for one in started:
        one.stop()


@pytest.fixture(scope="session")
def golden(server):
    return server(GOLDEN, "-t", "1", "--name", "golden")


@pytest.fixture(scope="session")
def endless(tmp_path_factory):
    """Writes a model with a context so long that no test reaches its end."""
    return write_chat_model(tmp_path_factory.mktemp("endless") / "endless.gguf", context=1 << 20)
