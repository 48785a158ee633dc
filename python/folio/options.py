"""Options of generation, as in the server (docs/server.md), with shorter names for structured outputs."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, TypedDict, Union

from .checks import as_json


class Options(TypedDict, total=False):
    """Keyword arguments of Model.generate(), stream() and chat(), for type checkers."""

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
    parse_special: bool
    add_special_tokens: bool
    stop: Union[str, Sequence[str]]
    stop_token_ids: Sequence[int]
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


# Options of structured outputs, with the server's name for each.
FORMS = {"json_schema": "json_schema", "regex": "guided_regex", "grammar": "grammar", "choice": "guided_choice"}


def server_body(options: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Returns a request's options as JSON text, under the server's names, and a dict from each changed name to the
    caller's name. Raises TypeError or ValueError as as_json() does."""
    body = dict(options)
    given = {name: form for name in FORMS if (form := body.pop(name, None)) is not None}
    if hasattr(given.get("json_schema"), "model_json_schema"):
        given["json_schema"] = given["json_schema"].model_json_schema()
    if hasattr(given.get("json_schema"), "keys"):  # as text, in which numbers aren't rounded to doubles
        given["json_schema"] = as_json(given["json_schema"], "json_schema")
    names = {FORMS[name]: name for name in given}
    for server_name, name in names.items():
        if body.get(server_name) is not None:
            raise ValueError(f"{name!r} and {server_name!r} are the same option; remove one of them")
    if body.pop("free_whitespace", None):
        if "json_schema" not in given or "structured_outputs" in body:
            raise ValueError("free_whitespace is for a json_schema")
        given["structured_outputs"] = {"json": given.pop("json_schema"), "disable_any_whitespace": False}
        names |= {name: "json_schema" for name in ("structured_outputs", "structured_outputs.json")}
    try:
        return as_json({**body, **{FORMS.get(name, name): form for name, form in given.items()}}), names
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):  # raised by an object in `options`
            raise
        raise type(error)(renamed(str(error), names)) from None


def renamed(message: str, names: Mapping[str, str]) -> str:
    """Replaces the server's option names in `message` by the caller's. `names` comes from server_body()."""
    for server_name, name in names.items():
        message = message.replace(f"'{server_name}'", f"'{name}'")
    return message
