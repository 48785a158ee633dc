"""Tests /v1/explain: answers equal those of build/explain."""

import json

import pytest

from adapters import write_adapter
from support import GOLDEN, one_json, succeed
from wire import get, metric, post

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
    ({"mean": ["0", "1.ffn"]}, ["--mean", "0", "--mean", "1.ffn"]),
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


WRONG = [
    ({"prompt": None}, "prompt", "is required"),
    ({"prompt": []}, "prompt", "empty list"),
    ({"prompt": [[1, 2]]}, "prompt", "not a token"),
    ({"prompt": 3}, "prompt", "a string"),
    ({"prompt": "a" * 257}, "prompt", "has 257 tokens, but at most 256 can be explained"),
    ({"patch": ["1"], "from": "a" * 300}, "from", "has 300 tokens"),
    ({"token": "ab"}, "token", "has 2 tokens, expected 1"),
    ({"token": 10**6}, "token", "not a token"),
    ({"ablate": "1"}, "ablate", "a list of places"),
    ({"ablate": [1]}, "ablate", "a list of places"),
    ({"ablate": ["1"] * 257}, "ablate", "has 257 places"),
    ({"ablate": ["x"]}, None, '"x" is not a place'),
    ({"ablate": ["1@2:3"]}, None, "only a patch has positions"),
    ({"mean": ["1"], "mean_over": 3}, "mean_over", "a string"),
    ({"ablate": ["1"], "mean_over": "a"}, "mean_over", "requires 'mean'"),
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
    status, _, page = get(serve, "/explain")
    assert status == 200 and b'{"server":""}' in page and b"@DATA@" not in page


def test_adapters_are_rejected(server, tmp_path):
    serve = server(GOLDEN, "-t", "1", "--name", "golden", "--adapter", f"a={write_adapter(tmp_path / 'a', GOLDEN, 1)}")
    for name, expected in (("golden", 200), ("a", 400), ("other", 404)):
        status, answer = ask(serve, prompt="a", model=name)
        assert status == expected and (status == 200 or answer["error"]["param"] == "model")
