"""Tests the failover of folio.ray_serve, without Ray. tests/interop/ray_test.py tests it with Ray."""

import asyncio
import json
import sys
from unittest import mock

import pytest

from folio.repeats import DONE

HEAD = 200, [("Content-Type", "text/event-stream")]
FULL = [(503, [("Content-Type", "application/json")]), b'{"error":{}}\n']


class Died(Exception):
    pass


@pytest.fixture
def ray_serve(monkeypatch):
    for name in ("ray", "ray.exceptions", "ray.serve", "ray.serve.config", "ray.serve.exceptions", "ray.serve.metrics",
                 "ray.serve.request_router", "starlette", "starlette.requests", "starlette.responses"):
        monkeypatch.setitem(sys.modules, name, mock.MagicMock())
    sys.modules["ray.exceptions"].RayActorError = Died
    from folio import ray_serve

    return ray_serve


def body(ray_serve, *attempts):
    """Returns the body that a client receives if attempt i to reach a replica gives the items attempts[i]. At None, the
    replica dies."""
    left = list(attempts)

    async def remote(*request):
        for item in left.pop(0):
            if item is None:
                raise Died
            yield item

    async def read():
        replicas = mock.MagicMock()
        replicas.options().answer.remote = remote
        return b"".join([piece async for _, _, piece in ray_serve.Ingress(replicas).answer("", "POST")])

    return asyncio.run(read())


def event(text, end=None):
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": end}
    return b"data: " + json.dumps({"id": "a", "choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


@pytest.mark.parametrize("field", ["messages", "input"])
def test_turns_of_a_conversation_have_the_same_beginning(ray_serve, field):
    items = [{"role": role, "content": role} for role in ("system", "user", "assistant", "user")]
    first, second = (ray_serve.beginning_of(json.dumps({field: items[:n]}).encode()) for n in (2, 4))
    assert first == second and "user" in first


def test_fewer_replicas_at_most_than_at_least_are_rejected(ray_serve, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ray_serve", "model.gguf", "--replicas", "4", "--max-replicas", "2"])
    with pytest.raises(SystemExit):
        ray_serve.main()
    assert "--max-replicas is 2, but --replicas is 4" in capsys.readouterr().err


def test_full_replica_is_skipped_within_a_stream(ray_serve):
    whole = [HEAD, event("Hello"), event(" you", "stop") + DONE]
    got = body(ray_serve, [HEAD, event("Hel"), None], FULL, whole)
    assert got == event("Hel") + event("lo") + event(" you", "stop") + DONE


def test_pieces_may_end_anywhere(ray_serve):
    json_head = 200, [("Content-Type", "application/json")]
    assert body(ray_serve, [json_head, b'{"a":', None], [json_head, b'{"a":', b"1}\n"]) == b'{"a":1}\n'
    long = event("Hello")
    got = body(ray_serve, [HEAD, event("Hel") + long[:9], None], [HEAD, long[:20], long[20:], event(" you", "stop") + DONE])
    assert got == event("Hel") + event("lo") + event(" you", "stop") + DONE


def test_broken_stream_of_responses_ends_with_an_error(ray_serve):
    begin, end = (b"event: response.%b\ndata: {}\n\n" % kind for kind in (b"created", b"completed"))
    assert body(ray_serve, [HEAD, begin, None]).startswith(begin + b'data: {"error": ')
    assert body(ray_serve, [HEAD, begin, end, None]) == begin + end
