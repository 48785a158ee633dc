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


def test_errors_are_passed_on():
    error = b'data: {"error":{"message":"the server is shutting down"}}\n\n'
    assert Rest(events_of(True, False, 1)[0])(error) == error
