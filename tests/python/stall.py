"""Blocks the engine's steps, and waits for conditions, so that no test depends on timing."""

import contextlib
import os
import sys
import time

from folio import _engine

HANG = 600  # seconds, the limit before a test counts as hung


def until(condition):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < HANG, "hangs"
        os.sched_yield()


@contextlib.contextmanager
def stalled(model):
    """Blocks the engine's thread between two steps: it waits to write to a full descriptor."""
    notifier = _engine.Notifier()
    os.set_blocking(notifier.fileno(), True)
    os.write(notifier.fileno(), (2**64 - 2).to_bytes(8, sys.byteorder))
    stream = model._submit(False, {"prompt": [0], "max_tokens": 2}, pieces=True, notifier=notifier)
    assert stream.wait()  # delivered before the notifier is signalled
    try:
        yield
    finally:
        os.read(notifier.fileno(), 8)
        stream.cancel()
