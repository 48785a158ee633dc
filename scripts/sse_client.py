"""A client for many concurrent streamed completions with minimal CPU use: records data with arrival times, and parses
it at the end. Needs only the standard library."""
import asyncio
import bisect
import gc
import itertools
import json
import os
import re
import time
from dataclasses import dataclass, field

EVENT = re.compile(rb"^data: (\{.*\})\r?$", re.MULTILINE)


@dataclass
class Request:
    prompt: list  # token ids; a string is also allowed
    max_tokens: int
    at: float = 0.0  # scheduled time of sending, in seconds after run() begins to send


@dataclass
class Answer:
    start: float  # scheduled time, or sending time if `at_once` limits concurrency; all times: time.perf_counter()
    times: list = field(default_factory=list)  # arrival time of each token
    tokens: int = 0  # number of tokens that the server reports
    text: str = ""


def post(body):
    """Returns the bytes of a completion request with "Connection: close": the server disconnects after its response."""
    data = json.dumps(body).encode()
    return (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n").encode() + data


class Connection(asyncio.Protocol):
    """Sends one request and records the received data with arrival times."""

    def __init__(self, payload, closed):
        self.payload, self.closed, self.pieces = payload, closed, []

    def connection_made(self, transport):
        transport.write(self.payload)

    def data_received(self, data):
        self.pieces.append((time.perf_counter(), data))

    def connection_lost(self, error):
        self.closed.set_exception(error) if error else self.closed.set_result(None)


def without_chunks(data):
    """Returns (body of a chunked response, offset of each chunk in the body, offset of each chunk in `data`)."""
    body, of_body, of_data, at = b"", [], [], data.index(b"\r\n\r\n") + 4
    while (line := data.find(b"\r\n", at)) >= 0:  # ends early if the connection broke
        size = int(data[at:line].split(b";")[0], 16)
        of_body.append(len(body))
        of_data.append(line + 2)
        body += data[line + 2:line + 2 + size]
        at = line + 2 + size + 2
    return body, of_body, of_data


def read(pieces, start):
    """Returns the Answer in a response, given as (arrival time, bytes) pieces. A token's time is when the end of its
    event arrived. Raises RuntimeError if the status is not 200."""
    data = b"".join(piece for _, piece in pieces)
    if not data.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the server says: {data[:500]!r}")
    ends = list(itertools.accumulate(len(piece) for _, piece in pieces))
    body, of_body, of_data = without_chunks(data)
    answer = Answer(start)
    for event in EVENT.finditer(body):
        reply = json.loads(event[1])
        if usage := reply.get("usage"):
            answer.tokens = usage["completion_tokens"]
        for choice in reply.get("choices", []):
            if choice.get("text"):
                answer.text += choice["text"]
                part = bisect.bisect_right(of_body, event.end() - 1) - 1
                place = event.end() - 1 - of_body[part] + of_data[part]
                answer.times.append(pieces[bisect.bisect_right(ends, place)][0])
    return answer


async def stream_all(port, requests, payloads, at_once):
    """Sends payloads[i] at the time scheduled in requests[i]; if `at_once` is given, at most that many at a time.
    Returns (start, pieces) for each: `start` is the scheduled time, or the sending time if `at_once` is given; `pieces`
    has a tuple (arrival time, bytes) for each received part of the response."""
    loop = asyncio.get_running_loop()
    turns = asyncio.Semaphore(at_once or len(requests))
    begun = time.perf_counter()

    async def one(request, payload):
        await asyncio.sleep(begun + request.at - time.perf_counter())
        async with turns:
            start, closed = time.perf_counter() if at_once else begun + request.at, loop.create_future()
            _, connection = await loop.create_connection(lambda: Connection(payload, closed), "127.0.0.1", port)
            await closed
        return start, connection.pieces

    return await asyncio.gather(*map(one, requests, payloads))


@dataclass
class Load:
    answers: list
    seconds: float  # from the first request to the last byte
    client_share: float  # fraction of all cores' time that this process used

    @property
    def tokens_per_s(self):
        return sum(a.tokens for a in self.answers) / self.seconds

    def first_token(self):
        return [a.times[0] - a.start for a in self.answers]

    def between_tokens(self):
        return [b - a for answer in self.answers for a, b in itertools.pairwise(answer.times)]


async def run(server, requests, no_end, at_once=None, **fields):
    """Streams greedy completions of the requests, each at its scheduled time, or at most `at_once` at a time. `no_end`
    tokens are suppressed, so that each completion has exactly the requested length. `fields` are added to the body of
    each request. Returns a Load."""
    bias = {str(token): -100 for token in no_end}
    payloads = [post({"prompt": r.prompt, "max_tokens": r.max_tokens, "temperature": 0, "stream": True,
                      "stream_options": {"include_usage": True}, "logit_bias": bias, **fields}) for r in requests]
    gc.collect()
    gc.disable()
    try:
        before = time.process_time()
        start = time.perf_counter()
        streams = await stream_all(server.port, requests, payloads, at_once)
        seconds = time.perf_counter() - start
        share = (time.process_time() - before) / seconds / os.cpu_count()
    finally:
        gc.enable()
    answers = [read(pieces, start) for start, pieces in streams]
    for answer, request in zip(answers, requests):
        if answer.tokens != request.max_tokens or not answer.times:
            raise RuntimeError(f"{server.name}: {answer.tokens} tokens in {len(answer.times)} events, but "
                               f"{request.max_tokens} were asked for")
    return Load(answers, seconds, share)
