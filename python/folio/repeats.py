"""Continues an interrupted stream by repeating its request.

The repeated output is the same, but can be split into other events, so characters and log-probabilities are counted.
"""

from __future__ import annotations

import collections
import json
from typing import Any, Iterator

DONE = b"data: [DONE]\n\n"


class Rest:
    """Skips the part of a repeated stream that was already sent: rest(piece) returns the new part of a piece.

    `sent` contains the events sent so far; their ID and creation time replace those of the repeated stream. A piece
    consists of whole events.
    """

    def __init__(self, sent: bytes) -> None:
        self._head: dict[str, Any] = {}
        # For each choice index: how many characters of each text, logprobs entries, first events (with a role) and ends
        # were sent.
        self._has: dict[int, collections.Counter[Any]] = {}
        self._has_usage = False
        for event in _events(sent):
            self._head = self._head or {key: event[key] for key in ("id", "created") if key in event}
            self._has_usage = self._has_usage or event.get("choices") == []
            for choice in event.get("choices", ()):
                has = self._has.setdefault(choice["index"], collections.Counter())
                for name, holder, key in _texts(choice):
                    has[name] += len(holder[key])
                has["entries"] += _n_entries(choice)
                has["beginnings"] += _is_beginning(choice)
                has["ends"] += choice["finish_reason"] is not None

    def __call__(self, piece: bytes) -> bytes:
        rest = b""
        for event in _events(piece):
            if "choices" in event:
                event.update(self._head)
                had_choices = len(event["choices"])
                event["choices"] = [choice for choice in event["choices"] if self._cut(choice)]
                if not event["choices"] and (had_choices or self._has_usage):
                    continue
            rest += b"data: " + json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
        return rest + DONE if piece.endswith(DONE) else rest

    def _cut(self, choice: dict[str, Any]) -> bool:
        """Removes from a choice the part that was already sent. Returns True if anything is left."""
        has = self._has.get(choice["index"])
        if has is None:
            return True
        if _is_beginning(choice):
            return not has["beginnings"]
        for name, holder, key in _texts(choice):
            n = min(len(holder[key]), has[name])
            has[name] -= n
            holder[key] = holder[key][n:]
        for call in choice.get("delta", {}).get("tool_calls", ()):
            if call["function"].get("name") == "":  # the call's first update was sent, with its own ID
                del call["id"], call["type"], call["function"]["name"]
        n = min(_n_entries(choice), has["entries"])
        has["entries"] -= n
        if n:
            lists = choice["logprobs"]
            choice["logprobs"] = {key: value[n:] if isinstance(value, list) else value for key, value in lists.items()}
        left = _n_entries(choice)
        if not left:
            choice["logprobs"] = None
        has_text = any(holder[key] for _, holder, key in _texts(choice))
        return bool(has_text or left or (choice["finish_reason"] is not None and not has["ends"]))


def _events(piece: bytes) -> Iterator[dict[str, Any]]:
    for event in piece.split(b"\n\n"):
        if event.startswith(b"data: {"):
            yield json.loads(event[6:])


def _is_beginning(choice: dict[str, Any]) -> bool:
    return "role" in choice.get("delta", ())


def _texts(choice: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any], str]]:
    """Yields (name, holder, key) for each text holder[key] of a choice. Pieces of one text have the same name."""
    delta = choice.get("delta", {})
    for holder, keys in (choice, ("text",)), (delta, ("reasoning_content", "reasoning", "content")):
        for key in keys:
            if key in holder:
                yield key, holder, key
    for call in delta.get("tool_calls", ()):
        for key in ("name", "arguments"):
            if key in call["function"]:
                yield (call["index"], key), call["function"], key


def _n_entries(choice: dict[str, Any]) -> int:
    return len((choice.get("logprobs") or {}).get("content", ()))
