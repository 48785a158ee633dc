"""Tests folio.ray_serve under load with OpenAI's client while replicas are killed: no stream breaks, and each output
equals that of folio.Model, although replicas use different instruction sets. scripts/bootstrap.sh installs Ray and the
client in build/venv-ray."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from folio import Model

sys.path.append(str(Path(__file__).resolve().parents[1] / "apps"))
from support import BUILD, SMOLLM2, free_port  # noqa: E402

STREAMS = int(os.environ.get("FOLIO_RAY_STREAMS", 500))
AT_ONCE = 16
HANG = 300  # timeout in seconds, so that a hanging test fails
SETTINGS = {"temperature": 0.8, "top_p": 0.95}
PROMPTS = ["The capital of France is", "Once upon a time, there was a", "def fibonacci(n):", "La tour Eiffel est située à",
           "Shopping list: 1. milk 2.", "To be, or not to be", "🦙🦙🦙", "東京は"]


class App:
    """A running folio.ray_serve application (ray_app.py), and an OpenAI client for it."""

    def __init__(self, folder, *flags, isa=""):
        self.folder = folder
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / "log"
        replicas = folder / "replicas"
        replicas.mkdir()
        self.replicas = replicas
        env = os.environ | {"FOLIO_TEST_REPLICAS": str(replicas), "FOLIO_TEST_ISA": isa, "RAY_USAGE_STATS_ENABLED": "0",
                            "RAY_AUTH_MODE": "disabled", "RAY_DEDUP_LOGS": "0", "RAY_ADDRESS": "local",
                            # Longer timeouts, since the machine may be busy.
                            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60"}
        env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *env.get("PYTHONPATH", "").split(os.pathsep)])
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("ray_app.py"), SMOLLM2, "--port", str(port), *flags],
            stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True, env=env)
        for line in self.process.stdout:
            if line.startswith("http://"):
                break
        else:
            raise AssertionError(self.log.read_text())
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=HANG)

    def pids(self):
        """Returns {rank: process id} of the replicas. For a rank that was restarted, returns the latest process."""
        return {int(file.name): int(file.read_text() or 0) for file in self.replicas.iterdir()}

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(HANG)
        finally:
            self.process.kill()


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    has_both = "avx512_vnni" in Path("/proc/cpuinfo").read_text()
    if not has_both:
        print("this processor has one instruction set for both replicas")
    running = App(tmp_path_factory.mktemp("ray"), "--replicas", "2", isa="avx2 avx512vnni" if has_both else "")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def server():
    process = subprocess.Popen([BUILD / "serve", "-m", SMOLLM2, "--port", "0", "--threads", "1"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    yield process.stdout.readline().strip()
    process.kill()
    process.wait()


def alive_process(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def call(url, path, data=None, method=None, **headers):
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **headers}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=HANG) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


@pytest.mark.parametrize("request_", [
    ("/v1/completions", b'{"prompt": "a", "nonsense": 1, "top_n": 2}'),
    ("/v1/completions", b'{"prompt": "a", "stream": true, "n": 4000}'),
    ("/v1/completions", b'{"prompt": '),
    ("/v1/chat/completions", b'{"messages": []}'),
    ("/v1/completions", None),
    ("/v1/nothing", None),
    ("/v1/models", None),
    ("/tokenize", b'{"prompt": "Once upon a time"}'),
    ("/health", None),
])
def test_rejections_match_serve(app, server, request_):
    assert call(app.url, *request_) == call(server, *request_)


def test_header_checks_match_serve(app, server):
    for headers in ({"Host": "evil.example"}, {"Content-Type": "text/plain"}):
        theirs = call(server, "/v1/completions", b'{"prompt": "a"}', **headers)
        assert call(app.url, "/v1/completions", b'{"prompt": "a"}', **headers) == theirs
        assert theirs[0] in (403, 415)
    assert call(app.url, "/v1/completions", b"a" * 5_000_000)[0] == 413
    assert call(app.url, "/v1/models", method="HEAD")[::2] == (200, b"")


def test_requests_with_a_common_prefix_hit_the_cache(app):
    for i in range(12):
        prompt = f"Chapter {i * 7919}. " + "It was a dark and stormy night. " * 8
        cached = []
        for end in ("The", "But", "And"):
            answer = app.client.completions.create(model=SMOLLM2.stem, prompt=prompt + end, max_tokens=1)
            cached.append(answer.usage.prompt_tokens_details.cached_tokens)
        assert cached[0] < 32 <= min(cached[1:]), cached  # requests with this prefix reached the same replica


def test_disconnecting_ends_generation(app):
    def running():  # returns the number of requests on one replica: /metrics and empty prompts reach the same one
        lines = call(app.url, "/metrics")[2].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(("folio_requests_running", "folio_requests_waiting")))

    chunks = app.client.completions.create(model=SMOLLM2.stem, prompt="", max_tokens=2000, n=8, stream=True)
    next(iter(chunks))
    assert running() > 0
    chunks.close()
    until = time.monotonic() + HANG
    while running() > 0:
        assert time.monotonic() < until
        time.sleep(0.2)


def request_of(i):
    chance = random.Random(i)
    chat = chance.random() < 0.3
    body = {"max_tokens": chance.randint(16, 64), "n": 2 if chance.random() < 0.1 else 1, **SETTINGS}
    prompt = chance.choice(PROMPTS)
    body |= {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
    if chance.random() < 0.8:
        body["seed"] = i
    if chance.random() < 0.2:
        body["logprobs"] = True if chat else 1
    return body


def entries_of(logprobs):
    """Returns [(token id, log probability)] of a reply's logprobs, which may be None."""
    content = (logprobs if isinstance(logprobs, dict) else logprobs.model_dump() if logprobs else {}).get("content") or []
    return [(entry["id"], entry["logprob"]) for entry in content]


def stream(client, body, begun=lambda: None):
    """Streams a request and calls begun() at each chunk. Returns the seed, and a list [text, logprobs, finish reason]
    for each choice."""
    create = client.chat.completions.create if "messages" in body else client.completions.create
    choices = [["", [], None] for _ in range(body["n"])]
    heads, usages = set(), []
    for chunk in create(model=SMOLLM2.stem, stream=True, stream_options={"include_usage": True}, **body):
        begun()
        heads.add((chunk.id, chunk.created, chunk.seed))
        if chunk.usage:
            usages.append(chunk.usage)
        for choice in chunk.choices:
            mine = choices[choice.index]
            mine[0] += (choice.delta.content or "") if "messages" in body else choice.text
            mine[1] += entries_of(choice.logprobs)
            if choice.finish_reason:
                assert mine[2] is None, "it ends twice"
                mine[2] = choice.finish_reason
    assert len(heads) == len(usages) == 1, (heads, usages)
    return heads.pop()[2], choices


def alone(model, body, seed):
    """Returns the choices that folio.Model generates for the request without Ray, each as [text, logprobs, finish
    reason]. Without logprobs, the finish reason is None."""
    options = body | {"seed": seed}
    if options.pop("logprobs", None):
        whole = model.complete(options.pop("prompt", None), **options, logprobs=body["logprobs"])
        return [[choice["message"]["content"] if "messages" in body else choice["text"], entries_of(choice["logprobs"]),
                 choice["finish_reason"]] for choice in whole["choices"]]
    texts = (model.chat(options.pop("messages"), **options) if "messages" in body else
             model.generate(options.pop("prompt"), **options))
    return [[text, [], None] for text in (texts if body["n"] > 1 else [texts])]


def test_streams_survive_killed_replicas(app):
    requests, got = [], []
    over = threading.Event()
    killed = []
    in_the_middle = set()
    ended = []

    def kill_in_turn():
        rank = least = 0
        while not over.wait(0.1):
            pids = app.pids()
            if len(ended) < least or len(in_the_middle) < AT_ONCE // 2 or not all(map(alive_process, pids.values())):
                continue
            os.kill(pids[rank], signal.SIGKILL)
            killed.append(rank)
            rank = 1 - rank
            least = len(ended) + random.randint(10, 40)

    def ask(i):
        try:
            return stream(app.client, requests[i], lambda: in_the_middle.add(i))
        finally:
            in_the_middle.discard(i)
            ended.append(i)

    began = time.monotonic()
    killer = threading.Thread(target=kill_in_turn)
    killer.start()
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while not {0, 1} <= set(killed):
                requests.extend(request_of(i) for i in range(len(requests), len(requests) + STREAMS))
                got.extend(pool.map(ask, range(len(got), len(requests))))
    finally:
        over.set()
        killer.join()
    took = time.monotonic() - began
    with Model(SMOLLM2, threads=os.cpu_count()) as model, ThreadPoolExecutor(AT_ONCE) as pool:
        expected = list(pool.map(lambda i: alone(model, requests[i], got[i][0]), range(len(requests))))
    for i, request in enumerate(requests):
        for choice in () if "logprobs" in request else got[i][1]:
            assert choice[2] in ("length", "stop")
            choice[2] = None  # generate() returns no finish reason
    wrong = [i for i in range(len(requests)) if got[i][1] != expected[i]]
    assert not wrong, [(requests[i], got[i], expected[i]) for i in wrong[:3]]
    assert all(got[i][0] == request["seed"] for i, request in enumerate(requests) if "seed" in request)
    repeats = [int(n) for n in re.findall(r"of which (\d+) pieces were sent", app.log.read_text())]
    print(f"{len(requests)} streams in {took:.0f} s, {len(killed)} replicas were killed, {len(repeats)} requests repeated, "
          f"{sum(n > 0 for n in repeats)} of them in the middle")
    assert sum(n > 0 for n in repeats) >= len(killed)


def test_full_replica_starts_a_second(tmp_path, app):
    app.stop()  # running two apps at once would be too slow
    running = App(tmp_path, "--replicas", "1", "--max-replicas", "2", "--max-sequences", "4")
    try:
        with ThreadPoolExecutor(12) as pool:
            until = time.monotonic() + HANG

            def ask(i):
                while len(running.pids()) < 2 and time.monotonic() < until:
                    stream(running.client, request_of(i) | {"max_tokens": 64})

            list(pool.map(ask, range(12)))
        assert len(running.pids()) == 2
    finally:
        running.stop()
