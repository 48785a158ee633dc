"""Checks arguments before they are passed to C++. Each error is one line that names the argument."""

from __future__ import annotations

import itertools
import json
import math
import operator
import os
import sys
from typing import Any, NoReturn

from . import _engine

CACHE_TYPES = {"f32": 0, "f16": 1, "q8_0": 2}
DRAFT_SOURCES = {"auto": 0, "ngram": 1, "model": 2, "mtp": 3}
MAX_BEAMS = 64
MAX_CONTEXT = 1 << 24
MAX_DEPTH = 64  # maximum nesting depth of an argument
MAX_VALUES = 1 << 24  # maximum number of values in an argument
# Minimum and maximum of each integer option of Model().
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
    """Returns `value` as an int. Raises TypeError unless it is an integer, and ValueError unless it is in [low, high],
    by default RANGES[name]."""
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


def real(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} has to be a number, not {type(value).__name__}") from None


def seconds(timeout: Any) -> float:
    number = real("timeout", timeout)
    if not number > 0:
        raise ValueError(f"timeout is {timeout}, but has to be more than 0")
    return number


def scale(value: Any) -> float:
    number = real("adapter_scale", value)
    if not abs(number) <= 1000:
        raise ValueError(f"adapter_scale is {value}, but has to be in [-1000, 1000]")
    return number


def gpu(device: Any) -> dict[str, int]:
    kind, _, number = text("device", device).partition(":")
    if device == "cpu":
        return {}
    if kind == "cuda" and (device == "cuda" or (number.isascii() and number.isdecimal() and len(number) < 10)):
        return {"gpu": int(number or 0)}
    raise ValueError(f"device is {device!r}, but has to be cpu, cuda or cuda:N")


def number_of(name: str, value: Any, numbers: dict[str, int]) -> int:
    """Returns numbers[value]. Raises ValueError, with the name of the argument, if there is no such key."""
    if value not in numbers:
        raise ValueError(f"{name} is {value!r}, but has to be one of {', '.join(numbers)}")
    return numbers[value]


def cache(cache_type: Any) -> dict[str, int]:
    return {} if cache_type is None else {"cache_type": number_of("cache_type", cache_type, CACHE_TYPES)}


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


def length_of(value: Any) -> int:
    """Returns len(value), or sys.maxsize if the length exceeds it, as that of range(10**30)."""
    try:
        return len(value)
    except OverflowError:
        return sys.maxsize


def as_json(value: Any, name: str = "") -> str:
    """Converts None, booleans, numbers, strings, mappings, sequences, and NumPy arrays and scalars to JSON text.

    Raises TypeError for other objects, and ValueError for a number that is not finite, a string with a lone surrogate,
    nesting deeper than MAX_DEPTH, or more than MAX_VALUES values. Errors begin with `name` or, if it is empty, with the
    key of the outermost mapping. Integers beyond 64 bits are clamped, since no option allows them, except in an inner
    mapping: a JSON schema may have them.
    """
    n_left = MAX_VALUES

    def fail(error: type[Exception], path: tuple[Any, ...], why: str) -> NoReturn:
        root, inner = (name, path) if name or not path or isinstance(path[0], int) else (path[0], path[1:])
        at = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in inner).removeprefix(".")
        place = f"'{root or 'value'}'" + (f" at {at}" if at else "")
        raise error("".join(c if c.isprintable() else ascii(c)[1:-1] for c in place) + f" {why}")

    def refuse(one: Any, path: tuple[Any, ...]) -> NoReturn:
        fail(TypeError, path, "must consist of JSON types (numbers, strings, booleans, None, dicts and lists), not "
                              f"{type(one).__name__}")

    def too_many(path: tuple[Any, ...]) -> NoReturn:
        fail(ValueError, path, f"has more than {MAX_VALUES} values")

    def string(one: str, path: tuple[Any, ...]) -> str:
        try:
            one.encode()
        except UnicodeEncodeError as error:
            fail(ValueError, path, f"has a lone surrogate (U+{ord(one[error.start]):X}) at character {error.start}, "
                                   "which UTF-8 cannot encode; replace or remove it")
        return one

    def key(one: Any, path: tuple[Any, ...]) -> str:
        if not (one is None or isinstance(one, (str, float)) or hasattr(one, "__index__")):
            refuse(one, path)
        return string(one if isinstance(one, str) else str(one), path)

    def plain(one: Any, path: tuple[Any, ...]) -> Any:
        nonlocal n_left
        n_left -= 1
        size = getattr(one, "size", 0)
        if n_left < 0 or (isinstance(size, int) and size > n_left):
            too_many(path)
        if one is None or isinstance(one, bool):
            return one
        if isinstance(one, str):
            return string(one, path)
        if isinstance(one, float):
            return one if math.isfinite(one) else fail(ValueError, path, f"is {one}, but must be finite")
        if isinstance(one, (bytes, bytearray, type)):
            refuse(one, path)
        if hasattr(one, "tolist"):
            given = one.tolist()
            return refuse(one, path) if hasattr(given, "tolist") else plain(given, path)
        if hasattr(one, "__index__"):
            number = operator.index(one)
            if -2**63 <= number < 2**64 or any(isinstance(step, str) for step in (path if name else path[1:])):
                return number if abs(number) < 10**308 else fail(ValueError, path, "exceeds the range of a double")
            return min(max(number, -2**63), 2**64 - 1)
        if len(path) == MAX_DEPTH:  # the error names only the root, since a path of 64 levels would not help
            fail(ValueError, path[:not name], f"is nested deeper than {MAX_DEPTH} levels, or contains itself")
        if hasattr(one, "keys") and callable(getattr(one, "items", None)):
            items = list(itertools.islice(one.items(), n_left + 1))
            if len(items) > n_left:
                too_many(path)
            if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in items):
                refuse(one, path)
            return {key(k, (*path, "a key")): plain(v, (*path, str(k))) for k, v in items}
        if not (hasattr(one, "__len__") and hasattr(one, "__getitem__")):
            refuse(one, path)
        length = length_of(one)
        if length > n_left:
            too_many(path)
        elements = list(itertools.islice(one, length + 1))  # a copy, as reading an element may change `one`
        if len(elements) > length:
            fail(ValueError, path, "has more elements than its length")
        if all(type(element) is int and 0 <= element < 2**31 for element in elements):  # fast path for token IDs
            n_left -= len(elements)
            return elements
        return [plain(element, (*path, i)) for i, element in enumerate(elements)]

    return json.dumps(plain(value, ()), ensure_ascii=False)
