"""Tests the HTTP server with slow, hostile and disconnected clients, and its limits, connections and signals."""

import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from support import BUILD, GOLDEN, HANG, SANITIZED, assert_refused, generate, pause, run, wait_until
from wire import Wire, get, metric

ORIGIN = "https://example.org"
LONG = {"prompt": "R", "max_tokens": 255}
ENDLESS = {"prompt": "he", "max_tokens": 1_000_000, "temperature": 0}  # needs the model `endless`


def error_of(body):
    error = json.loads(body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error["message"]


def test_a_folder_is_named_as_a_whole(start, tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "Model-1.5B")
    serve = start(model=f"{tmp_path}/Model-1.5B/")
    assert json.loads(get(serve, "/v1/models")[2])["data"][0]["id"] == "Model-1.5B"


def test_address_and_model_name_are_printed(start):
    serve = start("--name", "my model")  # Serve reads the printed address
    assert json.loads(get(serve, "/v1/models")[2])["data"][0]["id"] == "my model"
    props = json.loads(get(serve, "/props")[2])
    assert props["model_alias"] == "my model" and props["machine"].startswith("1 threads, ")
    assert props["default_generation_settings"]["n_ctx"] == 256
    serve.process.terminate()
    assert serve.process.stdout.read() == "model: my model\n"


@pytest.mark.parametrize(("request_line", "status", "part"), [
    (("GET", "/nothing"), 404, "/nothing"),
    (("GET", "/v1/completions"), 405, "POST"),
    (("DELETE", "/health"), 405, "GET"),
    (("POST", "/health", {}), 405, "GET"),
    (("POST", "/v1/completions", b"{"), 400, "JSON"),
    (("POST", "/v1/completions", b"[]"), 400, "object"),
], ids=lambda x: str(x)[:50])
def test_invalid_requests_are_rejected(golden, request_line, status, part):
    with Wire(golden) as wire:
        got, _, body = wire.request(*request_line).answer()
        assert got == status and part in error_of(body)
        assert wire.request().answer()[0] == 200  # the connection can still be used


def test_body_must_be_json(golden):
    with Wire(golden) as wire:
        for media_type, status in (("text/plain", 415), (None, 415), ("application/x-www-form-urlencoded", 415),
                                   ("application/json; charset=utf-8", 200), ("Application/JSON ;x", 200)):
            got, _, body = wire.request("POST", "/tokenize", {"prompt": "a"}, Content_Type=media_type).answer()
            assert got == status and (got == 200 or "Content-Type: application/json" in error_of(body))


# request_reader_test.cpp tests many more malformed requests.
@pytest.mark.parametrize("text", ["nonsense\r\n\r\n",
                                  "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n"
                                  "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_malformed_http_is_rejected(golden, text):
    with Wire(golden) as wire:
        wire.send(text)
        status, headers, body = wire.answer()
        assert status in (400, 403) and headers["connection"] == "close" and error_of(body)
        assert wire.ended()


def test_large_headers_and_bodies(golden):
    with Wire(golden) as wire:
        wire.request(X="x" * 20_000)
        assert wire.answer()[0] == 431 and wire.ended()
    with Wire(golden) as wire:  # rejected by its length, before the body is sent
        wire.send(f"POST /v1/completions HTTP/1.1\r\nHost: {wire.host}\r\nContent-Length: {10**12}\r\n\r\n")
        status, _, body = wire.answer()
        assert status == 413 and "4194304 bytes" in error_of(body)


def test_headers_are_checked_before_the_body_is_read(start):
    server = start("--api-key", "secret")
    key = "Bearer secret"
    for method, path, status, fields in (
            ("POST", "/v1/completions", 401, {}), ("POST", "/v1/completions", 403, {"Host": "evil.test"}),
            ("POST", "/nothing", 404, {"Authorization": key}), ("PUT", "/v1/completions", 405, {"Authorization": key}),
            ("GET", "/health", 200, {})):
        for framing in ({"Content-Length": 4_000_000}, {"Content-Length": 2, "Expect": "100-continue"},
                        {"Transfer-Encoding": "chunked"}):
            with Wire(server) as wire:
                wire.request(method, path, **framing, **fields)
                got, headers, _ = wire.answer()
                assert (got, headers["connection"]) == (status, "close") and wire.ended(), (status, framing)
        with Wire(server) as wire:  # a short body is skipped, and the connection stays open
            wire.request(method, path, Content_Length=18_000, **fields)
            assert wire.answer()[0] == status
            wire.send(b"GET / HTTP/1.1\r\n\r\n" * 1000)
            assert wire.request("GET", "/v1/models", Authorization=key).answer()[0] == 200


def test_total_body_memory_is_limited(start):
    server = start("--body-memory", "4M")
    with Wire(server) as first, Wire(server) as second:
        for wire, n in ((first, 2_200_000), (second, 600_000)):  # neither body is sent completely
            wire.request("POST", "/tokenize", Content_Type="application/json", Content_Length=4_000_000)
            try:
                wire.send(b"x" * n)
            except OSError:
                pass
        (refused, *_), _, _ = select.select([first.socket, second.socket], [], [], 60)
        status, headers, body = next(wire for wire in (first, second) if wire.socket is refused).answer()
        assert status == 503 and "--body-memory" in error_of(body) and int(headers["retry-after"]) > 0

    def is_read():  # true once the server has noticed the disconnections
        with Wire(server) as wire:
            return wire.request("POST", "/tokenize", {"prompt": "a", "x": "x" * 4_000_000}).answer()[0] == 400

    wait_until(is_read)


def test_http_versions_and_connections(golden):
    with Wire(golden) as wire:  # HTTP/1.0 has no chunks, so the stream ends with the connection
        status, headers, body = wire.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 4, "stream": True},
                                             version="1.0").answer()
        assert status == 200 and headers["content-type"] == "text/event-stream"
        assert "transfer-encoding" not in headers and body.endswith(b"data: [DONE]\n\n")
    with Wire(golden) as wire:
        status, headers, body = wire.request("HEAD", "/health").head() + (b"",)
        assert status == 200 and int(headers["content-length"]) > 0
        assert wire.request().answer()[0] == 200  # the response to HEAD had no body
    with Wire(golden) as wire:  # pipelined requests are answered in order
        for n in (3, 1, 2):
            wire.complete(max_tokens=n)
        assert [json.loads(wire.answer()[2])["usage"]["completion_tokens"] for _ in range(3)] == [3, 1, 2]
    with Wire(golden) as wire:
        body = json.dumps({"prompt": "a"})
        wire.send(f"POST /tokenize HTTP/1.1\r\nHost: {wire.host}\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n")
        assert wire.head()[0] == 100
        wire.send(body)
        assert wire.answer()[0] == 200
    with Wire(golden) as wire:
        wire.request(Connection="close")
        assert wire.answer()[0] == 200 and wire.ended()


def test_other_hosts_are_rejected(start):
    server = start("--allowed-host", "folio.test")
    for host, status in ((f"127.0.0.1:{server.port}", 200), ("localhost", 200), ("folio.test:80", 200),
                         ("folio.test", 200), ("evil.test", 403), ("folio.test.evil.test", 403), ("", 400),
                         (None, 400), ("127.0.0.1.evil.test", 403), ("[::1]:8080", 403)):
        assert get(server, "/v1/models", Host=host)[0] == status, host
        assert get(server, "/", Host=host)[0] == status, host


def test_api_key(start):
    server = start("--api-key", "secret")
    for given, status in ((None, 401), ("Bearer secret", 200), ("Bearer secre", 401), ("Bearer secrets", 401),
                          ("secret", 401), ("Bearer ", 401), ("bearer secret", 200), ("Basic secret", 401)):
        assert get(server, "/v1/models", Authorization=given)[0] == status, given
    for path in ("/", "/health"):
        assert get(server, path)[0] == 200
    for path in ("/metrics", "/engine", "/openapi.json"):
        status, headers, body = get(server, path)
        assert (status, headers["www-authenticate"]) == (401, "Bearer") and error_of(body)
    with Wire(server) as wire:
        assert wire.complete(max_tokens=2).answer()[0] == 401


def test_cross_origin_requests(start):
    server = start("--allowed-origin", ORIGIN)
    allowed = "access-control-allow-origin"
    with Wire(server) as wire:
        status, headers, _ = wire.request("OPTIONS", "/v1/completions", Origin=ORIGIN).answer()
        assert (status, headers[allowed]) == (204, ORIGIN) and headers["access-control-allow-headers"].startswith("*, Authorization")
        assert wire.request(Origin=ORIGIN).answer()[1][allowed] == ORIGIN
        for origin in ("https://evil.test", "null", ORIGIN + ".evil.test", None):
            for method, path in (("OPTIONS", "/v1/completions"), ("GET", "/health")):
                assert allowed not in wire.request(method, path, Origin=origin).answer()[1]


def test_content_security_policy(golden):
    status, headers, body = get(golden, "/")
    policy = headers["content-security-policy"]
    nonce = policy.split("script-src 'nonce-")[1].split("'")[0]
    assert status == 200 and policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert body.count(f'<script nonce="{nonce}">'.encode()) == body.count(b"<script") == 1
    assert body.count(f'<style nonce="{nonce}">'.encode()) == body.count(b"<style") == 1
    assert nonce not in get(golden, "/")[1]["content-security-policy"]  # each response has a new nonce


def test_disconnecting_ends_the_request(start, endless):
    server = start("--max-sequences", "1", model=endless)
    with Wire(server) as first, Wire(server) as waits:
        first.complete(**ENDLESS)
        wait_until(lambda: metric(server, "folio_requests_running") == 1)
        waits.complete(**ENDLESS)
        wait_until(lambda: metric(server, "folio_requests_waiting") == 1)
        waits.socket.close()
        wait_until(lambda: metric(server, "folio_requests_waiting") == 0)
        assert metric(server, "folio_requests_running") == 1
        first.socket.close()
        wait_until(lambda: metric(server, "folio_requests_running") == 0)
    assert metric(server, "folio_cache_blocks_in_use") == 0


def test_slow_client_pauses_only_its_requests(start):
    server = start("--max-sequences", "2")
    with Wire(server, receive_buffer=4096) as deaf:
        deaf.complete(**LONG, n=60, logprobs=20, stream=True)
        wait_until(lambda: metric(server, "folio_requests_paused") == 60)
        expected = generate(GOLDEN, "-p", "ROMEO:", "-n", 20, "-s", 1, "--temperature", 1, "--top-p", 1)["text"]
        for _ in range(5):
            with Wire(server) as wire:
                assert json.loads(wire.complete(max_tokens=20).answer()[2])["choices"][0]["text"] == expected
        assert metric(server, "folio_requests_running") + metric(server, "folio_requests_waiting") == 0
        assert metric(server, "folio_requests_paused") == 60
        assert metric(server, "folio_cache_blocks_in_use") == 0
        assert metric(server, "folio_generation_tokens_total") < 255 * 60
        deaf.socket.close()
        wait_until(lambda: metric(server, "folio_requests_paused") == 0)
        assert '/v1/completions",status="499"} 1' in get(server, "/metrics")[2].decode()


def test_stalled_clients_are_disconnected(start):
    """The answer, 61 MB of text, is produced only as fast as its client reads."""
    server = start("--write-timeout", "1")
    before = metric(server, "process_resident_memory_bytes")
    with Wire(server, receive_buffer=4096) as stalled:
        stalled.complete(**LONG, n=128, logprobs=20)
        wait_until(lambda: '/v1/completions",status="499"} 1' in get(server, "/metrics")[2].decode())
    [peak] = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert SANITIZED or "tsan" in str(BUILD) or 1024 * int(peak) - before < 40e6


@pytest.mark.parametrize("fields", [{"n": 16}, {"n": 12, "echo": True, "prompt": "R" * 200, "max_tokens": 40}])
def test_late_reader_gets_everything(golden, fields):
    fields = {**LONG, "logprobs": 20, **fields}
    with Wire(golden, timeout=120) as whole, Wire(golden, timeout=120, receive_buffer=4096) as late:
        late.complete(**fields, stream=True)
        body = json.loads(whole.complete(**fields).answer()[2])
        seen = {}
        *events, done = late.head() and late.events()
        assert done == "[DONE]"
        for event in events:
            choice = json.loads(event)["choices"][0]
            text, lists = seen.setdefault(choice["index"], ("", {}))
            for name, values in (choice["logprobs"] or {}).items():
                lists.setdefault(name, []).extend(values)
            seen[choice["index"]] = (text + choice["text"], lists)
        assert [seen[c["index"]] for c in body["choices"]] == [(c["text"], c["logprobs"]) for c in body["choices"]]


def test_full_queue(start, endless):
    server = start("--max-queue", "10", "--max-sequences", "1", model=endless)
    with Wire(server) as first, Wire(server) as second:
        first.complete(**ENDLESS, n=10)
        wait_until(lambda: metric(server, "folio_requests_running") + metric(server, "folio_requests_waiting") == 10)
        status, headers, body = second.complete(n=1).answer()
        assert status == 429 and int(headers["retry-after"]) > 0 and "10" in error_of(body)
        for too_many in ({"n": 11}, {"prompt": ["R"] * 11}, {"prompt": ["R"] * 4, "n": 3}):  # never fit into the queue
            status, headers, body = second.complete(**too_many).answer()
            assert status == 400 and "retry-after" not in headers and "--max-queue" in error_of(body)


def test_engine_reports_its_speed(start, endless):
    """Between two reports are at least 0.2 s, so a rate is at most the new tokens / 0.2 s."""
    server = start(model=endless)
    with Wire(server) as watch, Wire(server) as wire:
        watch.request("GET", "/engine").head()
        wire.complete(**ENDLESS)
        busy = itertools.islice((note for note in map(json.loads, watch.events()) if note["running"]), 5)
        for before, after in itertools.pairwise(busy):
            new = after["running"][0]["tokens"] - before["running"][0]["tokens"]
            assert 0 <= 0.2 * after["tokens_per_s"] < new + 2, (before, after)


def test_engine_speed_leaves_out_pauses(start):
    """The first token after a pause needs one step, so its rate is 1 / the step's time."""
    with Wire(server := start()) as watch, Wire(server) as wire:
        watch.request("GET", "/engine").head()
        notes = (note for note in map(json.loads, watch.events()) if note["steps"])
        for _ in range(2):
            wire.complete(max_tokens=1).answer()
            note = next(notes)
            [step] = note["steps"]
            assert note["tokens_per_s"] * step["ms"] == pytest.approx(1000, rel=0.01), note


def test_request_timeout(start, endless):
    server = start("--request-timeout", "1", model=endless)
    with Wire(server) as wire:
        status, _, body = wire.complete(**ENDLESS).answer()
        assert status == 503 and "1 s" in error_of(body)


def test_request_larger_than_the_cache(start):
    server = start("--cache-tokens", "64")
    with Wire(server) as wire:
        status, _, body = wire.complete(**LONG).answer()
        assert status == 400 and "block" in error_of(body)
        assert wire.complete(max_tokens=4).answer()[0] == 200


def test_shutdown_waits_for_running_requests(start):
    server = start("--grace", "600")
    with Wire(server) as wire:
        wire.complete(**LONG, n=4, stream=True).head()
        pause(server.process)  # so that it gets both signals before the output ends
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)
        events = list(wire.events())
        assert events[-1] == "[DONE]"
        assert server.process.wait(HANG) == 0


def test_shutdown_rejects_new_requests(start, endless):
    server = start("--grace", "600", model=endless)
    with Wire(server) as wire, Wire(server) as late:
        wire.complete(**ENDLESS)
        wait_until(lambda: metric(server, "folio_requests_running") == 1)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: late.complete(max_tokens=1).answer()[0] == 503)
        assert select.select([wire.socket], [], [], 0.5)[0] == [], "the running request continues"
        server.process.send_signal(signal.SIGTERM)  # a second signal ends running requests immediately
        status, _, body = wire.answer()
        assert status == 503 and "the server is shutting down" in error_of(body)
        assert server.process.wait(HANG) == 0


def test_shutdown_does_not_wait_for_idle_connections(start):
    server = start("--grace", "0")
    with Wire(server) as wire:
        wire.send("nonsense\r\n\r\n")
        assert wire.answer()[0] == 400
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANG) == 0


def test_head_requests_end_at_once(start):
    server = start()
    for path in ("/engine", "/", "/health", "/metrics", "/openapi.json", "/v1/models"):
        for _ in range(65 if path == "/engine" else 1):
            with Wire(server) as wire:
                wire.request("HEAD", path, Connection="close")
                assert wire.head()[0] == 200 and wire.ended() and wire.buffer == b""
    with Wire(server) as wire:
        assert wire.request("GET", "/engine").head()[0] == 200


def test_shutdown_cuts_off_after_the_grace_period(start, endless):
    server = start("--grace", "0", model=endless)
    with Wire(server) as wire:
        wire.complete(**ENDLESS, stream=True).head()
        server.process.send_signal(signal.SIGINT)
        *_, last = wire.events()
        assert "the server is shutting down" in json.loads(last)["error"]["message"]
        assert server.process.wait(HANG) == 0


def test_full_disk_for_the_log(start):
    with open("/dev/full", "w") as full:
        server = start(stderr=full)
    with Wire(server) as wire:
        for _ in range(3):
            assert wire.complete(max_tokens=2).answer()[0] == 200


def test_unwritable_stderr_keeps_the_exit_code():
    with open("/dev/full", "w") as full:
        for flags, code in ((("--nonsense",), 2), (("-m", "/nonexistent"), 1)):
            assert subprocess.run([BUILD / "serve", *flags], stderr=full, timeout=60).returncode == code


def test_texts_are_logged_only_on_request(start, tmp_path):
    for flags, logged in (((), False), (("--log-texts",), True)):
        with open(tmp_path / "log", "w") as log:
            server = start(*flags, stderr=log)
        with Wire(server) as wire:
            answer = json.loads(wire.complete(prompt="MENENIUS", max_tokens=30).answer()[2])["choices"][0]["text"]
            wire.complete(prompt="MENENIUS", max_tokens=30, stream=True).head()
            assert list(wire.events())[-1] == "[DONE]"
            wire.complete(prompt="MENENIUS", max_tokens=-1).answer()
        wait_until(lambda: "POST /v1/completions 400" in (tmp_path / "log").read_text())
        server.stop()
        log = (tmp_path / "log").read_text()
        assert "POST /v1/completions 200" in log and "POST /v1/completions 400" in log
        assert ("MENENIUS" in log) == logged and log.count(f"answer: {json.dumps(answer)}") == (2 if logged else 0)


def test_port_in_use(golden):
    assert_refused(run("serve", "-m", GOLDEN, "--port", golden.port), 1, golden.port, "--port")
    assert_refused(run("serve", "-m", GOLDEN, "--host", "nowhere.invalid"), 1, "nowhere.invalid", "--host")
    assert_refused(run("serve", "-m", GOLDEN, "--host", "192.0.2.1"), 1, "192.0.2.1")


@pytest.mark.parametrize("flags", [("--port", "70000"), ("--api-key", ""), ("--api-key", "key\r"), ("--max-sequences", "0"),
                                   ("--grace", "-1"), ("--context", "100000"), ("--max-batch-tokens", "nan"),
                                   *((flag, "") for flag in ("--host", "--name", "--allowed-host", "--allowed-origin",
                                                             "--port", "--tokenizer", "--chat-template")),
                                   ("--allowed-host", "a.test:80"), ("--allowed-host", "http://a.test"),
                                   ("--allowed-origin", "*"), ("--allowed-origin", "https://a.test/"),
                                   ("--body-memory", "-1"), ("--body-memory", "1M")])
def test_wrong_usage(flags):
    assert_refused(run("serve", "-m", GOLDEN, *flags), 2, flags[0])


def test_many_connections(start):
    """The server raises its limit of open file descriptors, and an idle connection needs little memory."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3000:
        pytest.skip(f"this process may have {hard} descriptors only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        server = start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)))
        before = metric(server, "process_resident_memory_bytes")
        wires = [Wire(server) for _ in range(1000)]
        for i, wire in enumerate(wires):
            wire.send("POST /v1/completions HTT" if i % 2 else "")
        wait_until(lambda: metric(server, "process_open_fds") > 1000)
        with Wire(server) as wire:
            assert wire.complete(max_tokens=5).answer()[0] == 200
        assert metric(server, "process_resident_memory_bytes") - before < 64e6
        assert len(os.listdir(f"/proc/{server.process.pid}/task")) <= 3 + ("tsan" in str(BUILD))  # ThreadSanitizer adds one
        for wire in wires:
            wire.socket.close()
        wait_until(lambda: metric(server, "process_open_fds") < 50)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
