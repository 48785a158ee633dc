"""Runs many clients for a long time: every output equals that of `generate`. Some clients read slowly, late or not at
all, request more than they read, or disconnect.

FOLIO_SOAK=100000 sets the number of requests for `make soak`. The default is 1,000, or 300 under sanitizers."""

import asyncio
import concurrent.futures
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
    loop = asyncio.new_event_loop()
    clients = SlowClients(port, n)
    loop.run_until_complete(clients.__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(clients.__aexit__())
    loop.close()


def compare_choices(fields, first, texts, others):
    """Checks that choice 0 is `first` and that all choices equal those of the first request with equal `fields`."""
    assert texts[0] == first and len(texts) == GREEDY["n"], fields
    assert others.setdefault(json.dumps(fields), texts) == texts, fields


def ask(wire, server, told, others, draw):
    """Sends a request and compares its output with `told`. Returns the connection for the next request, and the number
    of compared responses: 0 after a disconnection."""
    prompt, seed, text, beams = draw.choice(told)
    n = draw.randint(1, len(text))
    fields = {"prompt": prompt, "seed": seed, "max_tokens": n}
    kind = draw.random()
    if kind < 0.1:  # disconnects immediately, perhaps while the request is queued
        wire.complete(**fields, stream=draw.random() < 0.5).socket.close()
        return Wire(server), 0
    if kind < 0.2:  # disconnects in the middle of the output
        events = wire.complete(**fields, stream=True) and wire.head() and wire.events()
        began = "".join(json.loads(next(events))["choices"][0]["text"] for _ in range(min(n, 3)))
        assert text.startswith(began)
        wire.socket.close()
        return Wire(server), 0
    if kind < 0.22:  # reads slowly
        slow = Wire(server, receive_buffer=4096).complete(**fields, **GREEDY)
        assert slow.head()[0] == 200
        compare_choices(fields, text[:n], texts_of(slow, 4096), others)
        slow.socket.close()
        return wire, 1
    if kind < 0.3:
        status, _, body = wire.complete(prompt=prompt, **BEAMS).answer()
        got = [(choice["text"], choice["score"]) for choice in json.loads(body)["choices"]]
        assert (status, got) == (200, beams), f"beams of {prompt!r}"
        return wire, 1
    if kind < 0.6:
        status, _ = wire.complete(**fields, stream=True).head()
        got = texts_of(wire)[0]
    else:
        status, _, body = wire.complete(**fields).answer()
        got = json.loads(body)["choices"][0]["text"]
    assert (status, got) == (200, text[:n]), f"prompt {prompt!r}, seed {seed}, {n} tokens"
    return wire, 1


def client(server, told, requests, others, seed):
    """Sends a request for each element of the iterator `requests`, and disconnects during some of them. Returns the
    number of compared responses."""
    draw = random.Random(seed)
    wire = Wire(server)
    n_compared = 0
    for _ in requests:
        wire, n = ask(wire, server, told, others, draw)
        n_compared += n
    wire.socket.close()
    return n_compared


def ask_many(server, told, n, first_seed):
    """Sends `n` requests from CLIENTS clients, while six other connections read long outputs late or never. Checks
    outputs against `told`, which stories() returned. Returns the number of checked responses."""
    requests = iter(range(n))  # shared by the clients
    others = {}  # {fields of a request: outputs of the first such request}
    late = []
    for prompt, seed, text, _ in told[:6]:
        fields = {"prompt": prompt, "seed": seed, "max_tokens": len(text)}
        late.append((fields, text, Wire(server, timeout=120, receive_buffer=4096).complete(**fields, **GREEDY)))
    with slow_clients(server.port, 9), concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        done = pool.map(lambda i: client(server, told, requests, others, first_seed + i), range(CLIENTS))
    n_compared = sum(done)  # raises the first error
    for i, (fields, text, wire) in enumerate(late):
        if i % 2 == 0:
            assert wire.head()[0] == 200
            compare_choices(fields, text, texts_of(wire), others)
            n_compared += 1
        wire.socket.close()
    return n_compared


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
