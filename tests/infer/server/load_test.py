"""Runs many clients for a long time: every output equals that of `generate`. Some clients read slowly, late or not at
all, request more than they read, or disconnect.

FOLIO_SOAK=100000 sets the number of requests for `make soak`. The default is 1,000, or 300 under sanitizers."""

import asyncio
import contextlib
import json
import os
import random
import sys
import threading
from pathlib import Path

from support import GOLDEN, SANITIZED, generate, wait_until
from wire import Wire, metric

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))
from slow_clients import SlowClients  # noqa: E402

REQUESTS = int(os.environ.get("FOLIO_SOAK", 300 if SANITIZED else 1000))
CLIENTS = 24
CONTEXT = 256
GREEDY = {"n": 8, "logprobs": 20, "stream": True}  # about 5 MB of output
BEAMS = {"use_beam_search": True, "best_of": 3, "n": 2, "max_tokens": 12}
# With few KV blocks and small batches, prompts are split, sequences preempted and cached prefixes evicted. The timeouts
# are long enough for clients that read late.
FLAGS = ("-t", "1", "--max-sequences", "12", "--max-batch-tokens", "40", "--cache-tokens", "1024",
         "--write-timeout", "100000", "--request-timeout", "100000")


def stories(n):
    """Returns n tuples (prompt, seed, output of `generate`, two best beams). Some prompts have a common prefix."""
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJ\n,.:'"
    preambles = ["", "".join(draw.choices(letters, k=70)), "".join(draw.choices(letters, k=130))]
    told = []
    for seed in range(n):
        prompt = draw.choice(preambles) + "".join(draw.choices(letters, k=draw.randint(1, 60)))
        text = generate(GOLDEN, "-p", prompt, "-s", seed, "-n", CONTEXT - len(prompt), "--temperature", 1, "--top-p", 1,
                        "-t", 1)["text"]
        beams = generate(GOLDEN, "-p", prompt, "--beams", 3, "--beams-out", 2, "-n", 12, "-t", 1)["beams"]
        told.append((prompt, seed, text, [(beam["text"], beam["score"]) for beam in beams]))
    return told


def texts_of(wire, n=65536):
    """Returns the output of each choice of a stream, which is read `n` bytes at a time."""
    texts = {}
    for event in wire.events(n):
        if event != "[DONE]":
            choice = json.loads(event)["choices"][0]
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    return texts


@contextlib.contextmanager
def slow_clients(port, n):
    """Keeps `n` clients connected in the `with` block. They send nothing, send slowly, or don't read."""
    ready, done = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def stay():
        async with SlowClients(port, n):
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(stay()))
    thread.start()
    assert ready.wait(120)
    yield
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


class Client(threading.Thread):
    """A thread that sends requests one after another, and disconnects during some of them."""

    def __init__(self, server, told, number, counts):
        super().__init__()
        self.server, self.told, self.counts = server, told, counts
        self.draw = random.Random(number)
        self.error = None

    def run(self):
        try:
            wire = Wire(self.server)
            while self.counts.next():
                wire = self.ask(wire)
            wire.socket.close()
        except BaseException as error:  # raised again in the main thread
            self.error = error

    def ask(self, wire):
        prompt, seed, text, beams = self.draw.choice(self.told)
        n = self.draw.randint(1, len(text))
        fields = {"prompt": prompt, "seed": seed, "max_tokens": n}
        kind = self.draw.random()
        if kind < 0.1:  # disconnects immediately, perhaps while the request is queued
            wire.complete(**fields, stream=self.draw.random() < 0.5).socket.close()
            return Wire(self.server)
        if kind < 0.2:  # disconnects in the middle of the output
            events = wire.complete(**fields, stream=True) and wire.head() and wire.events()
            began = "".join(json.loads(next(events))["choices"][0]["text"] for _ in range(min(n, 3)))
            assert text.startswith(began)
            wire.socket.close()
            return Wire(self.server)
        if kind < 0.22:  # reads slowly
            slow = Wire(self.server, receive_buffer=4096).complete(**fields, **GREEDY)
            assert slow.head()[0] == 200
            self.counts.compare(fields, text[:n], texts_of(slow, 4096))
            slow.socket.close()
            return wire
        if kind < 0.3:
            status, _, body = wire.complete(prompt=prompt, **BEAMS).answer()
            got = [(choice["text"], choice["score"]) for choice in json.loads(body)["choices"]]
            assert (status, got) == (200, beams), f"beams of {prompt!r}"
            self.counts.compared()
            return wire
        if kind < 0.6:
            status, _ = wire.complete(**fields, stream=True).head()
            got = "".join(json.loads(event)["choices"][0]["text"] for event in wire.events() if event != "[DONE]")
        else:
            status, _, body = wire.complete(**fields).answer()
            got = json.loads(body)["choices"][0]["text"]
        assert (status, got) == (200, text[:n]), f"prompt {prompt!r}, seed {seed}, {n} tokens"
        self.counts.compared()
        return wire


class Counts:
    def __init__(self, n):
        self.lock = threading.Lock()
        self.left = n
        self.n_compared = 0
        self.others = {}  # {fields of a request: outputs of the first such request}

    def next(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def compared(self):
        with self.lock:
            self.n_compared += 1

    def compare(self, fields, first, texts):
        """Checks that choice 0 is `first` and that all choices equal those of the first request with equal `fields`."""
        assert texts[0] == first and len(texts) == GREEDY["n"], fields
        with self.lock:
            self.n_compared += 1
            assert self.others.setdefault(json.dumps(fields), texts) == texts, fields


def ask_many(server, told, n, first_seed):
    """Sends `n` requests from CLIENTS clients, while six other connections read long outputs late or never. Checks
    outputs against `told`, which stories() returned. Returns the number of checked responses."""
    counts = Counts(n)
    clients = [Client(server, told, first_seed + i, counts) for i in range(CLIENTS)]
    late = []
    for prompt, seed, text, _ in told[:6]:
        fields = {"prompt": prompt, "seed": seed, "max_tokens": len(text)}
        late.append((fields, text, Wire(server, timeout=120, receive_buffer=4096).complete(**fields, **GREEDY)))
    with slow_clients(server.port, 9):
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    for client in clients:
        if client.error is not None:
            raise client.error
    for i, (fields, text, wire) in enumerate(late):
        if i % 2 == 0:
            assert wire.head()[0] == 200
            counts.compare(fields, text, texts_of(wire))
        wire.socket.close()
    return counts.n_compared


def settled(server, descriptors):
    """Waits until no request runs and `descriptors` descriptors are open. Returns the resident memory in bytes."""
    for name, value in (("folio_requests_running", 0), ("folio_requests_waiting", 0),
                        ("folio_requests_paused", 0), ("process_open_fds", descriptors)):
        wait_until(lambda: metric(server, name) == value)
    assert metric(server, "folio_cache_blocks_in_use") == 0
    return metric(server, "process_resident_memory_bytes")


def test_outputs_do_not_depend_on_load(server):
    serve = server(GOLDEN, *FLAGS)
    told = stories(12 if SANITIZED else 24)
    n_compared = 0
    descriptors = metric(serve, "process_open_fds")
    memory = []
    start = metric(serve, "process_resident_memory_bytes")
    for first in range(0, REQUESTS, 1000):
        n_compared += ask_many(serve, told, min(1000, REQUESTS - first), first)
        memory.append(settled(serve, descriptors))
    assert n_compared > 0.7 * REQUESTS
    assert metric(serve, "folio_preemptions_total") > 0
    assert metric(serve, "folio_cached_tokens_total") > 0
    print(f"{n_compared} texts compared; MB after each thousand: {[round(m / 1e6, 1) for m in memory]}")
    if not SANITIZED:
        assert max(memory) - start < 64e6
    if len(memory) >= 20 and not SANITIZED:  # AddressSanitizer doesn't release freed memory
        assert memory[-1] - memory[1] < 2e6
        assert memory[-1] - memory[9] < 1e6  # each kind of request has run once by then
