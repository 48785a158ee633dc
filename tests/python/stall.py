"""Helpers that make tests independent of timing, which block the engine's steps or wait for a condition, and the memory
that the process uses."""

import contextlib
import os
import sys
import time

from folio import _engine

HANG = 600  # timeout in seconds, so that a hanging test fails


def until(condition):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < HANG, "hangs"
        os.sched_yield()


def resident():
    """Returns the process's resident memory in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def stalled(model):
    """Blocks the engine's thread between two steps during the `with` block: the thread writes to a full eventfd."""
    notifier = _engine.Notifier()
    os.set_blocking(notifier.fileno(), True)
    os.write(notifier.fileno(), (2**64 - 2).to_bytes(8, sys.byteorder))
    stream = model._submit(False, {"prompt": [0], "max_tokens": 2}, pieces=True, notifier=notifier)
    assert stream.wait()  # the first token arrives before the engine signals the notifier and blocks
    try:
        yield
    finally:
        os.read(notifier.fileno(), 8)
        stream.cancel()
