"""Tests folio/service.py: requests made in the process get the same replies as requests to build/serve, whether they
block or are awaited. Deleting a reply ends its request, and closing the model ends all requests."""

import asyncio
import gc
import json
from concurrent.futures import ThreadPoolExecutor

import folio
import pytest
from folio.service import Service
from stall import stalled


@pytest.fixture(scope="module")
def served(golden_gguf):
    with folio.Model(golden_gguf, threads=1) as model:
        yield Service(model, allowed_hosts=["models.example"])


def body(prompt="ROMEO:", **options):
    return json.dumps({"prompt": prompt, "temperature": 0.8, "top_p": 0.95, **options}).encode()


def ask(service, *args, **more):
    return service.request("POST", "/v1/completions", *args, **more)


def texts_of(events):
    *events, done = events.removesuffix(b"\n\n").split(b"\n\n")
    assert done == b"data: [DONE]"
    return "".join(json.loads(event[6:])["choices"][0]["text"] for event in events)


def test_texts_match_the_model(served):
    whole = json.loads(ask(served, body=body(max_tokens=50, seed=3)).read())
    assert whole["choices"][0]["text"] == served.model.generate("ROMEO:", max_tokens=50, seed=3)
    stream = ask(served, body=body(max_tokens=50, seed=3, stream=True))
    assert stream.status == 200
    assert ("Content-Type", "text/event-stream") in stream.headers
    assert texts_of(b"".join(stream)) == whole["choices"][0]["text"]


def test_tasks_get_the_same_texts(served):
    async def one(i):
        reply = ask(served, body=body(max_tokens=30, seed=i, stream=True))
        assert await reply.start() == 200
        return texts_of(b"".join([piece async for piece in reply]))

    async def all_of_them():
        return await asyncio.gather(*(one(i) for i in range(64)))

    for _ in range(2):  # asyncio.run() makes a new event loop each time
        assert asyncio.run(all_of_them()) == [served.model.generate("ROMEO:", max_tokens=30, seed=i) for i in range(64)]


def test_replies_can_be_awaited_only_in_the_loop_of_their_request(served):
    with stalled(served.model), pytest.raises(folio.Error, match="not sent in this event loop"):
        asyncio.run(ask(served, body=body()).start())


def test_errors_match_the_server(served):
    reply = ask(served, body=body(nonsense=1))
    assert reply.status == 400
    assert json.loads(reply.read())["error"]["message"] == "unknown field: nonsense"
    assert ask(served, {"host": "evil.example", "content-type": "application/json"}, body()).status == 403
    assert ask(served, {"host": "models.example", "content-type": "application/json"}, body()).status == 200
    assert ask(served, {"host": "localhost"}, body()).status == 415
    assert served.request("GET", "/v1/nothing").status == 404
    head = served.request("HEAD", "/v1/models")
    assert head.status == 200 and head.read() == b""


@pytest.mark.parametrize("options", [dict(allowed_hosts=["a.example:80"]), dict(allowed_origins=["*"])])
def test_values_that_no_request_can_match_are_errors(golden_gguf, options):
    with folio.Model(golden_gguf, threads=1) as model:
        with pytest.raises(folio.Error, match="expected"):
            Service(model, **options)
        service = Service(model, allowed_hosts=["::1"], allowed_origins=["file://", "https://a.example:8443"])
        assert service.request("GET", "/health", {"host": "[::1]:80"}).status == 200


def test_callers_seed_is_the_default(served):
    given = json.loads(ask(served, body=body(), seed=77).read())
    named = json.loads(ask(served, body=body(seed=77), seed=5).read())
    assert given["seed"] == named["seed"] == 77
    assert given["choices"] == named["choices"]


def test_dropped_reply_ends_its_request(served):
    reply = ask(served, body=body(max_tokens=200, n=100, stream=True))
    assert reply.status == 200
    del reply
    gc.collect()
    ask(served, body=body(max_tokens=1)).read()  # when this returns, the service has ended earlier requests
    served.model.generate("a", max_tokens=1)     # when this returns, the engine has ended them, too
    assert served.model.statistics["running"] == served.model.statistics["waiting"] == 0


def test_closing_the_model_ends_running_requests(golden_gguf):
    model = folio.Model(golden_gguf, threads=1)
    service = Service(model)
    with pytest.raises(folio.Error, match="already has a Service"):
        Service(model)
    replies = [ask(service, body=body(max_tokens=200, n=50, stream=i % 2 == 0)) for i in range(8)]
    assert replies[0].status == 200
    with ThreadPoolExecutor(len(replies)) as readers:
        for reply in replies:
            readers.submit(reply.read)
        model.close()
    with pytest.raises(folio.Error, match="closed"):
        ask(service, body=body())


def test_complete_needs_no_key(golden_gguf):
    with folio.Model(golden_gguf, threads=1) as model:
        assert ask(Service(model, api_key="secret"), body=body()).status == 401
        assert model.complete("ROMEO:", max_tokens=3)["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(("options", "part"), [({"messages": "b"}, "twice"), ({"stream": True}, "stream")])
def test_complete_refuses_what_it_would_ignore(served, options, part):
    with pytest.raises(TypeError, match=part):
        served.model.complete("a", **options)


def test_complete_fails_if_the_model_is_closed_meanwhile(golden_gguf, monkeypatch):
    def request(*args):
        reply = own_request(*args)
        model.generate("a", max_tokens=1)  # when this returns, the request runs
        model.close()
        return reply

    model = folio.Model(golden_gguf, threads=1)
    own_request = Service(model).request
    monkeypatch.setattr(model._service, "request", request)
    with pytest.raises(folio.Error, match="closed"):
        model.complete("ROMEO:", max_tokens=200, n=50)
