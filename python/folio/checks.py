"""Checks arguments before they are passed to C++. Each error is one line that names the argument."""

from __future__ import annotations

import itertools
import os
from typing import Any

from . import _engine

CACHE_TYPES = {"f32": 0, "f16": 1, "q8_0": 2}
DRAFT_SOURCES = {"auto": 0, "ngram": 1, "model": 2, "mtp": 3}
MAX_CONTEXT = 1 << 24
# Minimum and maximum of each number that Model() accepts.
RANGES = {
    "threads": (1, 1024),
    "context": (2, MAX_CONTEXT),
    "cache_tokens": (1, 10**9),
    "max_sequences": (1, 4096),
    "max_batch_tokens": (1, 1 << 16),
    "speculate": (0, 64),
}


def index(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} has to be an integer, not {type(value).__name__}")
    return value.__index__()


def whole(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Returns `value` as an integer. Raises ValueError if it is not in [low, high], by default RANGES[name]."""
    if low is None or high is None:
        low, high = RANGES[name]
    number = index(name, value)
    if not low <= number <= high:
        raise ValueError(f"{name} is {number}, but has to be in [{low}, {high}]")
    return number


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} has to be a text, not {type(value).__name__}")
    return value


def path_text(name: str, value: Any) -> str:
    try:
        path = text(name, os.fspath(value))
    except TypeError:
        raise TypeError(f"{name} has to be a str or an os.PathLike of str, not {type(value).__name__}") from None
    if "\0" in path:
        raise ValueError(f"{name} has a null character")
    return path


def seconds(timeout: Any) -> float:
    if not float(timeout) > 0:
        raise ValueError(f"timeout is {timeout}, but has to be more than 0")
    return float(timeout)


def scale(value: Any) -> float:
    if not abs(float(value)) <= 1000:
        raise ValueError(f"adapter_scale is {value}, but has to be in [-1000, 1000]")
    return float(value)


def gpu(device: Any) -> dict[str, int]:
    kind, _, number = text("device", device).partition(":")
    if device == "cpu":
        return {}
    if kind == "cuda" and (device == "cuda" or (number.isascii() and number.isdecimal() and len(number) < 10)):
        return {"gpu": int(number or 0)}
    raise ValueError(f"device is {device!r}, but has to be cpu, cuda or cuda:N")


def cache(cache_type: Any) -> dict[str, int]:
    if cache_type is None:
        return {}
    if cache_type not in CACHE_TYPES:
        raise ValueError(f"cache_type is {cache_type!r}, but has to be one of {', '.join(CACHE_TYPES)}")
    return {"cache_type": CACHE_TYPES[cache_type]}


def draft_source(draft: Any) -> int:
    if draft not in DRAFT_SOURCES:
        raise ValueError(f"draft is {draft!r}, but has to be one of {', '.join(DRAFT_SOURCES)}")
    return DRAFT_SOURCES[draft]


def token_id(value: Any) -> int:
    token = index("a token", value)
    if not 0 <= token < 2**31:
        raise _engine.Error(f"there is no token {token}: ids are in [0, {2**31 - 1}]")
    return token


def token_ids(ids: Any) -> list[int]:
    given = list(itertools.islice(ids.tolist() if hasattr(ids, "tolist") else ids, MAX_CONTEXT + 1))
    if len(given) > MAX_CONTEXT:
        raise ValueError(f"the sequence has more than {MAX_CONTEXT} tokens, which no context has")
    return [token_id(one) for one in given]
