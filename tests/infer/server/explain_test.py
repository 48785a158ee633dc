"""Tests /v1/explain: answers equal those of build/explain, and neither other requests nor the cache are affected."""

import json

import pytest

from adapters import write_adapter
from chat_model import write_chat_model
from support import GOLDEN, one_json, succeed, wait_until
from wire import Wire, get, metric, post

PROMPT = "ROMEO:\nWhat light through yonder window breaks?"


def ask(server, **fields):
    """Returns the status and the JSON of the response."""
    return post(server, "/v1/explain", fields)


def explain(server, **fields):
    status, answer = ask(server, **{"prompt": PROMPT, **fields})
    assert status == 200, answer
    return answer


def ids_of(server, text):
    return post(server, "/tokenize", {"prompt": text})[1]["tokens"]


@pytest.mark.parametrize(("fields", "flags"), [
    ({}, []),
    ({"token": "a"}, ["--token", "a"]),
    ({"ablate": ["1.2"]}, ["--ablate", "1.2"]),
    ({"mean": ["0", "1.ffn"]}, ["--mean", "0", "--mean", "1.ffn"]),
    ({"mean": ["1.heads"], "mean_over": "JULIET:"}, ["--mean", "1.heads", "--mean-over", "JULIET:"]),
    ({"ablate": ["0.1"], "mean": ["1.ffn"], "mean_over": "JULIET:", "patch": ["0.residual"], "from": "NURSE: O"},
     ["--ablate", "0.1", "--mean", "1.ffn", "--mean-over", "JULIET:", "--patch", "0.residual", "--from", "NURSE: O"]),
    ({"patch": ["1.residual@3:1"], "from": "JULIET:"}, ["--patch", "1.residual@3:1", "--from", "JULIET:"]),
], ids=str)
def test_explanations_equal_those_of_the_program(golden, fields, flags):
    expected = one_json(succeed("explain", PROMPT, "-m", GOLDEN, "-t", 1, "--json", *flags).stdout)
    got = explain(golden, **fields)
    assert got.pop("operations") == [] != expected.pop("operations")
    assert got == expected
    in_ids = {field: ids_of(golden, fields[field]) for field in ("mean_over", "from") if field in fields}
    again = explain(golden, **{**fields, **in_ids, "prompt": ids_of(golden, PROMPT)})
    assert {**again, "operations": None} == {**expected, "operations": None}


def test_other_requests_are_unchanged(server, endless):
    serve = server(endless, "-t", "1")
    body = {"prompt": "one ", "max_tokens": 2000, "seed": 3}
    alone = post(serve, "/v1/completions", body)[1]["choices"][0]["text"]
    with Wire(serve) as wire_:
        wire_.request("POST", "/v1/completions", {**body, "max_tokens": 10**5, "stream": True}).head()
        events = wire_.events()
        text = json.loads(next(events))["choices"][0]["text"]
        for _ in range(3):  # explains while the stream is unfinished
            explain(serve, prompt="hello " * 40, ablate=["0.1"])
            assert ask(serve, prompt="hello " * 40, ablate=["9"])[0] == 400
        while len(text) < len(alone):
            text += json.loads(next(events))["choices"][0]["text"]
    assert text.startswith(alone)
    wait_until(lambda: metric(serve, "folio_cache_blocks_in_use") == 0)


def test_the_prefix_cache_stays_as_it_was(server, tmp_path):
    serve = server(write_chat_model(tmp_path / "chatty.gguf"), "-t", "1")

    def cached_tokens():
        done = post(serve, "/v1/completions", {"prompt": "hello " * 40, "max_tokens": 1})[1]
        return done["usage"]["prompt_tokens_details"]["cached_tokens"]

    expected = explain(serve, prompt="hello " * 40)
    assert len(expected["tokens"]) > 64
    explain(serve, prompt="hello " * 40, ablate=["0.1"])
    assert ask(serve, prompt="hello " * 40, ablate=["9"])[0] == 400
    assert metric(serve, "folio_cache_blocks_in_use") == 0
    assert cached_tokens() == 0
    assert explain(serve, prompt="hello " * 40) == expected, "cached tokens are computed again"
    assert cached_tokens() > 0


WRONG = [
    ({"prompt": None}, "prompt", "is required"),
    ({"prompt": []}, "prompt", "empty list"),
    ({"prompt": [[1, 2]]}, "prompt", "not a token"),
    ({"prompt": 3}, "prompt", "a string"),
    ({"prompt": "a" * 257}, "prompt", "has 257 tokens, but at most 256 can be explained"),
    ({"prompt": [1] * 257}, "prompt", "has 257 tokens"),
    ({"patch": ["1"], "from": "a" * 300}, "from", "has 300 tokens"),
    ({"token": "ab"}, "token", "has 2 tokens, expected 1"),
    ({"token": 10**6}, "token", "not a token"),
    ({"token": [1]}, "token", "not a token"),
    ({"ablate": "1"}, "ablate", "a list of places"),
    ({"ablate": [1]}, "ablate", "a list of places"),
    ({"ablate": ["1"] * 257}, "ablate", "has 257 places"),
    ({"ablate": ["x"]}, None, '"x" is not a place'),
    ({"ablate": ["9.1"]}, None, "layer 9 does not exist"),
    ({"ablate": ["1@2:3"]}, None, "only a patch has positions"),
    ({"mean": ["1"], "mean_over": 3}, "mean_over", "a string"),
    ({"ablate": ["1"], "mean_over": "a"}, "mean_over", "requires 'mean'"),
    ({"patch": ["1"]}, None, "a patch needs a source"),
    ({"mean": ["1"], "from": "a"}, "from", "requires 'patch'"),
    ({"patch": ["1@99:0"], "from": "a"}, None, "position 99 does not exist"),
    ({"ablat": ["1"]}, "ablat", "did you mean ablate"),
]


@pytest.mark.parametrize(("fields", "param", "part"), WRONG, ids=lambda x: json.dumps(x)[:40])
def test_invalid_fields_are_rejected_by_name(golden, fields, param, part):
    status, answer = ask(golden, **{"prompt": "a", **fields})
    assert status == 400 and answer["error"]["param"] == param and part in answer["error"]["message"], answer
    assert "\n" not in answer["error"]["message"]
    assert metric(golden, "folio_cache_blocks_in_use") == 0


def test_the_key_is_required_except_for_the_page(server):
    serve = server(GOLDEN, "--api-key", "sesame")
    assert ask(serve, prompt="a")[0] == 401
    status, headers, page = get(serve, "/explain")
    assert status == 200 and b'{"server":""}' in page and b"@DATA@" not in page
    nonce = headers["content-security-policy"].split("'nonce-")[1].split("'")[0].encode()
    assert page.count(b'<script nonce="' + nonce + b'">') == page.count(b'<style nonce="' + nonce + b'">') == 1


def test_adapters_are_rejected(server, tmp_path):
    serve = server(GOLDEN, "-t", "1", "--name", "golden", "--adapter", f"a={write_adapter(tmp_path / 'a', GOLDEN, 1)}")
    for name, expected in (("golden", 200), ("a", 400), ("other", 404)):
        status, answer = ask(serve, prompt="a", model=name)
        assert status == expected and (status == 200 or answer["error"]["param"] == "model")
