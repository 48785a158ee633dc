"""Many clients at once, for long: every text is the one that `generate` gives alone, whatever else goes on.

FOLIO_SOAK=100000 is the number of requests for `make soak`; else it is 2,000, and 600 under sanitizers."""

import json
import os
import random
import threading

from support import BUILD, GOLDEN, generate, wait_until
from wire import Wire, metric

REQUESTS = int(os.environ.get("FOLIO_SOAK", 600 if "sanitize" in str(BUILD) else 2000))
CLIENTS = 24
CONTEXT = 256
BEAMS = {"use_beam_search": True, "best_of": 3, "n": 2, "max_tokens": 12}
# Few blocks and few rows: prompts are cut, sequences are preempted, cached prefixes are forgotten.
FLAGS = ("-t", "1", "--max-sequences", "12", "--max-batch-tokens", "40", "--cache-tokens", "1024")


def stories(n):
    """Prompts with seeds, some with a common beginning; what `generate` says after each, up to the context; and its two
    best beams."""
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


class Client(threading.Thread):
    """Asks for texts, one after the other, and leaves some before their end."""

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
        except BaseException as error:  # noqa: BLE001: raised again by who waits
            self.error = error

    def ask(self, wire):
        prompt, seed, text, beams = self.draw.choice(self.told)
        n = self.draw.randint(1, len(text))
        fields = {"prompt": prompt, "seed": seed, "max_tokens": n}
        kind = self.draw.random()
        if kind < 0.1:  # leaves at once, while it perhaps waits
            wire.complete(**fields, stream=self.draw.random() < 0.5).socket.close()
            return Wire(self.server)
        if kind < 0.2:  # leaves in the middle
            events = wire.complete(**fields, stream=True) and wire.head() and wire.events()
            began = "".join(json.loads(next(events))["choices"][0]["text"] for _ in range(min(n, 3)))
            assert text.startswith(began)
            wire.socket.close()
            return Wire(self.server)
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

    def next(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def compared(self):
        with self.lock:
            self.n_compared += 1


def ask_many(server, told, n, first_seed):
    counts = Counts(n)
    clients = [Client(server, told, first_seed + i, counts) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for client in clients:
        if client.error is not None:
            raise client.error
    return counts.n_compared


def settled(server, descriptors):
    """Resident memory once nothing runs and no more descriptors are open than before."""
    for name, value in (("folio_requests_running", 0), ("folio_requests_waiting", 0), ("process_open_fds", descriptors)):
        wait_until(lambda: metric(server, name) == value)
    assert metric(server, "folio_cache_blocks_in_use") == 0
    return metric(server, "process_resident_memory_bytes")


def test_every_text_is_the_one_that_it_is_alone(server):
    serve = server(GOLDEN, *FLAGS)
    told = stories(48)
    n_compared = 0
    descriptors = metric(serve, "process_open_fds")
    memory = []
    for first in range(0, REQUESTS, 1000):
        n_compared += ask_many(serve, told, min(1000, REQUESTS - first), first)
        memory.append(settled(serve, descriptors))
    assert n_compared > 0.7 * REQUESTS
    assert metric(serve, "folio_preemptions_total") > 0
    assert metric(serve, "folio_cached_tokens_total") > 0
    print(f"{n_compared} texts compared; MB after each thousand: {[round(m / 1e6, 1) for m in memory]}")
    if len(memory) >= 10 and "sanitize" not in str(BUILD):  # AddressSanitizer keeps what was freed
        assert memory[9] - memory[1] < 2e6
        assert memory[-1] - memory[1] < 2e6
