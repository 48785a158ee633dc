"""Steps that wait for the test, and conditions that the test waits for: no test depends on time."""

import contextlib
import os
import sys
import time

from folio import _engine

HANG = 600  # seconds, after which something hangs


def until(condition):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < HANG, "hangs"
        os.sched_yield()


@contextlib.contextmanager
def stalled(model):
    """Holds the engine's thread between two steps: it cannot write to a descriptor that is full."""
    notifier = _engine.Notifier()
    os.set_blocking(notifier.fileno(), True)
    os.write(notifier.fileno(), (2**64 - 2).to_bytes(8, sys.byteorder))
    stream = model._submit(False, {"prompt": [0], "max_tokens": 2}, pieces=True, notifier=notifier)
    assert stream.wait()  # handed over before the notifier is told
    try:
        yield
    finally:
        os.read(notifier.fileno(), 8)
        stream.cancel()
