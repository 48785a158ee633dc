"""The options of a text, for type checkers. Ranges and meanings are the server's: docs/server.md."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, TypedDict, Union


class Options(TypedDict, total=False):
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    repeat_last_n: int
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[str, float]
    seed: int
    stop: Union[str, Sequence[str]]
    n: int
    best_of: int
    use_beam_search: bool
    length_penalty: float
    early_stopping: Union[bool, str]
    json_schema: Union[str, Mapping[str, Any], type]
    free_whitespace: bool
    regex: str
    grammar: str
    choice: Sequence[str]
