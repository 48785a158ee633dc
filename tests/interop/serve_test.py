"""Compares llama-server and Folio's server on the same requests: the replies' fields, outputs and errors.

SmolLM2 is served in F32 with F32 caches. Greedy outputs of 32 tokens may differ only where llama.cpp's best two log
probabilities are closer than NEAR_TIE. Sampled outputs aren't compared: the random numbers differ."""

import contextlib
import json
import sys
import urllib.request

import pytest

from engines import NEAR_TIE, ROOT, SMOLLM2, folio

sys.path.append(str(ROOT / "scripts"))
from servers import Server  # noqa: E402

PROMPTS = ["The capital of France is", "Once upon a time, there was a", "def fibonacci(n):",
           "La tour Eiffel est située à", "Shopping list: 1. milk 2.", "To be, or not to be"]
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0, "max_tokens": 32}
COMPLETION = ("/v1/completions", {"prompt": "The capital of France is", **GREEDY})
CHAT_COMPLETION = ("/v1/chat/completions", {"messages": CHAT, **GREEDY})
USAGE = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Yields [Folio's server, llama.cpp's server]."""
    path = tmp_path_factory.mktemp("serve") / "f32.gguf"
    folio("export", SMOLLM2, "--out", path, "--type", "f32")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Server(name, path, context=512, threads=1, cache_type="f32"))
               for name in ("folio", "llama-server")]


def both(servers, path, body=None):
    replies = [server.call(path, body) for server in servers]
    assert [status for status, _ in replies] == [200, 200], replies
    return [reply for _, reply in replies]


def events(server, path, body):
    """Streams a reply and returns the JSON of its events, except the last, which must be [DONE]."""
    request = urllib.request.Request(server.url + path, json.dumps(body | USAGE).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        lines = [line for line in reply.read().decode().split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def fields(value, path=""):
    """Returns the set of a reply's non-null fields with their types, such as "choices[].index: number"."""
    if isinstance(value, dict):
        return set().union(*(fields(v, f"{path}.{k}".lstrip(".")) for k, v in value.items()))
    if isinstance(value, list):
        return set().union(*(fields(v, path + "[]") for v in value))
    kind = {bool: "flag", int: "number", float: "number", str: "text"}
    return set() if value is None else {f"{path}: {kind[type(value)]}"}


def assert_has_their_fields(ours, theirs, only_theirs):
    missing = fields(theirs) - fields(ours)
    assert {f for f in missing if not f.startswith(tuple(only_theirs))} == set(), fields(ours) - fields(theirs)
    assert all(any(f.startswith(only) for f in missing) for only in only_theirs), "we have one of only_theirs by now"


# Fields that only llama-server's replies have: timings, and the build of llama.cpp (system_fingerprint).
THEIRS = ["timings.", "system_fingerprint: "]


@pytest.mark.parametrize("path, body", [
    COMPLETION, CHAT_COMPLETION,
    ("/v1/completions", COMPLETION[1] | {"logprobs": 2}),
    ("/v1/completions", COMPLETION[1] | {"prompt": [[504, 3575], [504]]}),
    ("/v1/chat/completions", CHAT_COMPLETION[1] | {"logprobs": True, "top_logprobs": 2})])
def test_answers_have_llama_servers_fields(servers, path, body):
    ours, theirs = both(servers, path, body)
    assert_has_their_fields(ours, theirs, THEIRS)


def whole(choice):
    return choice["text"] if "text" in choice else choice["message"]["content"]


def streamed(stream):
    parts = [choice for event in stream for choice in event["choices"]]
    return "".join(part["text"] if "text" in part else part["delta"].get("content") or "" for part in parts)


@pytest.mark.parametrize("path, body", [COMPLETION, CHAT_COMPLETION])
def test_streams_have_llama_servers_fields(servers, path, body):
    ours, theirs = (events(server, path, body) for server in servers)
    assert_has_their_fields(ours, theirs, ["[]." + field for field in THEIRS])
    assert streamed(ours) == streamed(theirs) == whole(both(servers, path, body)[0]["choices"][0])


def assert_same_greedy_answer(servers, path, body):
    """Asserts that outputs, log probabilities and token counts are equal, or that outputs first differ at a token whose
    best two log probabilities are nearly equal. llama-server may count the end token, too. Returns the number of equal
    tokens."""
    ask = {"logprobs": 2} if path == "/v1/completions" else {"logprobs": True, "top_logprobs": 2}
    ours, theirs = both(servers, path, body | ask)
    [a], [b] = ours["choices"], theirs["choices"]
    tokens = [c["logprobs"]["content"] for c in (a, b)]
    for at, (x, y) in enumerate(zip(*tokens)):
        if x["id"] != y["id"]:
            best, second = y["top_logprobs"][:2]
            gap = best["logprob"] - second["logprob"]
            assert gap < NEAR_TIE, f"they part at token {at}: {x['token']!r} and {y['token']!r}, gap {gap:.2e}"
            return at
        assert abs(x["logprob"] - y["logprob"]) < NEAR_TIE, (at, x["token"])
    assert whole(a) == whole(b)
    assert a["finish_reason"] == b["finish_reason"]
    ended = theirs["usage"]["completion_tokens"] - ours["usage"]["completion_tokens"]
    assert ours["usage"]["prompt_tokens"] == theirs["usage"]["prompt_tokens"]
    assert ended == 0 or (ended == 1 and a["finish_reason"] == "stop")
    return len(tokens[0])


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_outputs_match_llama_server(servers, prompt):
    assert assert_same_greedy_answer(servers, "/v1/completions", {"prompt": prompt, **GREEDY}) >= 16


@pytest.mark.parametrize("messages", [
    CHAT, CHAT[1:],
    [*CHAT, {"role": "assistant", "content": "Paris."}, {"role": "user", "content": "A poem about naïve 中文 😀!"}]])
def test_greedy_chats_match_llama_server(servers, messages):
    assert assert_same_greedy_answer(servers, "/v1/chat/completions", {"messages": messages, **GREEDY}) > 4


@pytest.mark.parametrize("options", [
    {"logit_bias": {"7042": -100}}, {"logit_bias": {"504": 5}}, {"stop": "."}, {"stop": ["xyz", "\n"]},
    {"max_tokens": 1}], ids=str)
def test_options_match_llama_server(servers, options):
    body = {"prompt": "The capital of France is", **GREEDY, **options}
    ours, theirs = both(servers, "/v1/completions", body)
    [a], [b] = ours["choices"], theirs["choices"]
    assert (a["text"], a["finish_reason"]) == (b["text"], b["finish_reason"])


def test_prompts_of_token_ids_and_several_prompts(servers):
    body = {"prompt": [[504, 3575], [504, 3575, 282, 4649]], **GREEDY}
    ours, theirs = both(servers, "/v1/completions", body)
    assert [c["text"] for c in ours["choices"]] == [c["text"] for c in theirs["choices"]]
    assert [c["index"] for c in ours["choices"]] == [c["index"] for c in theirs["choices"]] == [0, 1]


def test_repeated_prompts_are_cached(servers):
    body = {"prompt": "All the world's a stage, and all the men and women merely players. " * 8, "max_tokens": 1}
    both(servers, "/v1/completions", body)
    for reply in both(servers, "/v1/completions", body):
        usage = reply["usage"]
        assert 0.8 * usage["prompt_tokens"] < usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]


@pytest.mark.parametrize("text", ["hello", "  naïve 中文 😀\n\n", "<|im_start|>user"])
def test_tokens_match_llama_server(servers, text):
    assert servers[0].tokenize(text) == servers[1].tokenize(text)


# Status codes for invalid requests: (Folio, llama-server). Folio rejects some that llama-server accepts.
@pytest.mark.parametrize("path, body, status", [
    ("/v1/completions", {"prompt": 5}, (400, 400)),
    ("/v1/completions", {"prompt": "a " * 2000, "max_tokens": 1}, (400, 400)),
    ("/v1/chat/completions", {"messages": [], "max_tokens": 1}, (400, 200)),
    ("/nothing", None, (404, 404))])
def test_errors_have_llama_servers_status_and_fields(servers, path, body, status):
    replies = [server.call(path, body) for server in servers]
    assert tuple(s for s, _ in replies) == status
    for code, reply in replies:
        if code != 200:
            assert reply["error"]["message"] and reply["error"]["type"].endswith("_error")
