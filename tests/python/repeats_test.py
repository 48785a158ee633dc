"""Tests folio/repeats.py, which continues a broken stream by repeating its request: wherever the stream broke, and
however the repeated stream is split into events, the client receives everything exactly once."""

import json
import random

import pytest

from folio.repeats import DONE, Rest

TEXTS = ["Ab — ünïcödé 🦙 and more of it", "zweitens", ""]


def events_of(chat, probabilities, seed):
    """Returns the lines of a streamed reply with three choices: of a chat if `chat`, else of a completion, with
    logprobs if `probabilities`. The seed determines how texts are split."""
    chance = random.Random(seed)
    head = {"id": f"cmpl-{seed}", "created": seed, "seed": 7}
    events = [{**head, "choices": [{"index": i, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
              for i in range(3) if chat]
    left = {i: [(c, {"token": c, "logprob": -1.5}) for c in text] for i, text in enumerate(TEXTS)}
    while left:
        i = chance.choice(list(left))
        n = min(chance.randint(1, 5), len(left[i]))
        some, left[i] = left[i][:n], left[i][n:]
        text = "".join(c for c, _ in some)
        choice = {"index": i, "logprobs": None, "finish_reason": None}
        choice |= {"delta": {"content": text} if text else {}} if chat else {"text": text}
        if probabilities and some:
            choice["logprobs"] = {"content": [entry for _, entry in some]}
            if not chat:
                choice["logprobs"] |= {"tokens": list(text), "token_logprobs": [-1.5] * n}
        if not left[i]:
            del left[i]
            choice["finish_reason"] = "stop"
        events.append({**head, "choices": [choice]})
    events.append({**head, "choices": [], "usage": {"total_tokens": 3}})
    lines = [b"data: " + json.dumps(e, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n" for e in events]
    return [*lines, DONE]


def what_a_client_has(stream):
    has = {"heads": set(), "texts": {}, "entries": {}, "tokens": {}, "beginnings": [], "ends": [], "usage": 0}
    for event in stream.split(b"\n\n"):
        if not event or event == b"data: [DONE]":
            continue
        event = json.loads(event[6:])
        has["heads"].add((event["id"], event["created"]))
        has["usage"] += event["choices"] == []
        for choice in event["choices"]:
            i = choice["index"]
            delta = choice.get("delta", {})
            if "role" in delta:
                has["beginnings"].append(i)
                continue
            has["texts"][i] = has["texts"].get(i, "") + choice.get("text", delta.get("content", ""))
            for key, name in (("entries", "content"), ("tokens", "tokens")):
                has[key].setdefault(i, []).extend((choice["logprobs"] or {}).get(name, []))
            if choice["finish_reason"]:
                has["ends"].append(i)
    has["beginnings"].sort()
    has["ends"].sort()
    return has


@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_resumed_stream_is_complete_without_duplicates(chat, probabilities):
    first = events_of(chat, probabilities, 1)
    whole = what_a_client_has(b"".join(first))
    assert whole["texts"] == dict(enumerate(TEXTS)) and whole["ends"] == [0, 1, 2] and whole["usage"] == 1
    for at in range(1, len(first)):
        sent = b"".join(first[:at])
        for seed in (1, 2, 3):
            rest = Rest(sent)
            again = [rest(piece) for piece in events_of(chat, probabilities, seed)]
            assert b"".join(again).endswith(DONE)
            assert what_a_client_has(sent + b"".join(again)) == whole


def test_stream_may_be_interrupted_twice():
    first, second, third = (events_of(True, True, seed) for seed in (1, 2, 3))
    whole = what_a_client_has(b"".join(first))
    for at in range(1, len(first), 3):
        for later in range(1, len(second), 3):
            sent = b"".join(first[:at])
            rest = Rest(sent)
            sent += b"".join(rest(piece) for piece in second[:later])
            rest = Rest(sent)
            assert what_a_client_has(sent + b"".join(rest(piece) for piece in third)) == whole


def call_events(n):
    """Returns the events of an answer with reasoning, content and two calls, in pieces of n characters."""
    def pieces(text):
        return [text[i:i + n] for i in range(0, len(text), n)]

    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece, "reasoning": piece} for piece in pieces("Let me think. ")]
    deltas += [{"content": piece} for piece in pieces("Two calls:")]
    for i, name in enumerate("fg"):
        call = {"id": "call_" + name, "type": "function", "function": {"name": name, "arguments": ""}}
        calls = [call, *({"function": {"arguments": piece}} for piece in pieces('{"x": 12}'))]
        deltas += [{"tool_calls": [{"index": i, **call}]} for call in calls]
    choices = [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None} for delta in deltas]
    choices[-1]["finish_reason"] = "tool_calls"
    return [b"data: " + json.dumps({"id": "a", "choices": [choice]}).encode() + b"\n\n" for choice in choices]


def merge(whole, delta):
    """Adds a delta to `whole`: appends texts, and merges list elements of equal index."""
    for key, value in delta.items():
        if isinstance(value, str):
            whole[key] = whole.get(key, "") + value
        elif isinstance(value, dict):
            merge(whole.setdefault(key, {}), value)
        elif isinstance(value, list):
            for one in value:
                merge(whole.setdefault((key, one["index"]), {}), one)
    return whole


def test_reasoning_and_calls_are_continued():
    def merged(stream):
        whole = {}
        for line in stream.split(b"\n\n")[:-1]:
            merge(whole, json.loads(line[6:]))
        return whole["choices", 0]

    first = call_events(3)
    expected = merged(b"".join(first))
    assert expected["delta"]["tool_calls", 1]["function"] == {"name": "g", "arguments": '{"x": 12}'}
    for at in range(1, len(first)):
        sent = b"".join(first[:at])
        for n in (1, 3, 100):
            assert merged(sent + b"".join(map(Rest(sent), call_events(n)))) == expected, (at, n)


def test_errors_are_passed_on():
    error = b'data: {"error":{"message":"the server is shutting down"}}\n\n'
    assert Rest(events_of(True, False, 1)[0])(error) == error
