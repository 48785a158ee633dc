"""Tests structured output of folio.Model: it equals that of build/generate, and `re` and `jsonschema` accept it."""

import asyncio
import json
import re
from typing import Literal

import folio
import jsonschema
import pydantic
import pytest
from support import generate

LINE = r"[A-Z]+: [a-z ]{4,20}[.!]"
LIST = 'root ::= item{2,3} "end."\nitem ::= "- " [a-z]{1,8} "\\n"\n'


class Item(pydantic.BaseModel, extra="forbid"):
    name: str = pydantic.Field(max_length=6)
    colors: list[Literal["red", "blue"]] = pydantic.Field(max_length=2)
    count: int = pydantic.Field(ge=0, le=130)


PERSON = {  # the keys aren't in alphabetical order: outputs must keep their order
    "type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                   "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3}}}


@pytest.mark.parametrize(("form", "flags"), [
    ({"regex": LINE}, ["--regex", LINE]),
    ({"choice": ["Romeo", "no one"]}, ["--choice", "Romeo", "--choice", "no one"]),
    ({"grammar": LIST}, ["--grammar", None])])
def test_text_matches_the_program(golden_gguf, model, form, flags, tmp_path):
    file = tmp_path / "list.gbnf"
    file.write_text(LIST, encoding="utf-8")
    flags = [flag or file for flag in flags]
    texts = []
    for seed in range(3):
        told = generate(golden_gguf, *flags, "-n", 60, "-s", seed, "-t", 1, "ROMEO:\n")
        texts.append(model.generate("ROMEO:\n", max_tokens=60, seed=seed, **form))
        assert texts[-1] == told["text"]
        assert "".join(model.stream("ROMEO:\n", max_tokens=60, seed=seed, **form)) == told["text"]
        whole = model.complete("ROMEO:\n", max_tokens=60, seed=seed, temperature=0.8, top_p=0.95, **form)["choices"][0]
        assert (whole["text"], whole["finish_reason"]) == (told["text"], told["finish_reason"])
    assert model.generate(["ROMEO:\n"] * 2, max_tokens=60, seed=1, n=2, **form)[1][0] == texts[1]

    async def awaited():
        whole = await model.agenerate("ROMEO:\n", max_tokens=60, seed=2, **form)
        return whole, "".join([piece async for piece in model.astream("ROMEO:\n", max_tokens=60, seed=2, **form)])

    assert asyncio.run(awaited()) == (texts[2], texts[2])


def test_json_matches_the_program(chat_gguf, chats, tmp_path):
    file = tmp_path / "person.json"
    file.write_text(json.dumps(PERSON), encoding="utf-8")
    for seed in range(3):
        told = generate(chat_gguf, "--json-schema", file, "-n", 100, "-s", seed, "-t", 1, "he is")["text"]
        wanted = {"max_tokens": 100, "seed": seed}
        assert list(json.loads(told)) == ["name", "age", "tags"]
        for form in (PERSON, json.dumps(PERSON)):
            assert chats.generate("he is", json_schema=form, **wanted) == told
        whole = chats.complete("he is", json_schema=PERSON, temperature=0.8, top_p=0.95, **wanted)
        assert whole["choices"][0]["text"] == told
        answer = chats.chat("he is", json_schema=PERSON, **wanted)
        assert "".join(chats.chat("he is", json_schema=PERSON, stream=True, **wanted)) == answer
        jsonschema.validate(json.loads(answer), PERSON)


def test_pydantic_class_as_a_schema(chats):
    for seed in range(10):
        text = chats.generate("he is", seed=seed, max_tokens=200, json_schema=Item)
        assert Item.model_validate_json(text) and list(json.loads(text)) == ["name", "colors", "count"]
    whole = chats.complete("he is", seed=9, max_tokens=200, temperature=0.8, top_p=0.95, json_schema=Item)
    assert whole["choices"][0]["text"] == text


def test_schemas_keep_large_integers(chats):
    for value in (2**64 + 1, -2**63 - 1, 10**25 - 1):
        for options in ({}, {"free_whitespace": True}):
            assert chats.generate("he is", max_tokens=60, json_schema={"const": value}, **options) == str(value)
    with pytest.raises(ValueError, match="^'guided_json' at a.const exceeds the range of a double"):
        chats.complete("he is", guided_json={"a": {"const": 10**309}})


def test_unconstrained_whitespace_is_the_models(chats):
    likely = {chats.tokenizer.encode("\n")[-1]: 4}
    for method in (chats.generate, lambda *a, **o: chats.complete(*a, **o)["choices"][0]["text"]):
        text = method("he is", seed=1, max_tokens=400, logit_bias=likely, json_schema=PERSON, free_whitespace=True)
        assert re.search(r"[{,:]\s", text)
        if text.endswith("}"):
            jsonschema.validate(json.loads(text), PERSON)


def test_finish_reasons(model):
    def ending(**options):
        choice = model.complete("ROMEO:", seed=1, **options)["choices"][0]
        return choice["finish_reason"], choice.get("stop_reason")

    assert ending(regex="[a-z]{3}", max_tokens=20) == ("stop", None)
    assert ending(regex="[a-z]{30}", max_tokens=20) == ("length", None)
    # `choice` allows only two outputs, so the third beam is empty.
    beams = {"max_tokens": 8, "choice": ["yes", "no"]}
    assert {text for text, _ in model.beam("ROMEO:", 3, **beams)} == {"yes", "no", ""}
    choices = model.complete("ROMEO:", use_beam_search=True, n=3, **beams)["choices"]
    assert [(choice["finish_reason"], choice.get("stop_reason")) for choice in choices] == [("stop", None)] * 2 + [("length", "form")]


@pytest.mark.parametrize(("kind", "parts", "options"), [
    (ValueError, ["'json_schema'", "#/properties/a", "not"], {"json_schema": {"properties": {"a": {"not": {}}}}}),
    (TypeError, ["'json_schema' must be a JSON schema"], {"json_schema": 3}),
    (TypeError, ["JSON types", "object"], {"json_schema": {"const": object()}}),
    (ValueError, ["'regex'"], {"regex": "(a"}),
    (ValueError, ["'grammar'", "missing"], {"grammar": "root ::= missing"}),
    (TypeError, ["'choice' must be a list of strings"], {"choice": "yes"}),
    (ValueError, ["'regex'", "'choice'", "remove one of them"], {"regex": "a", "choice": ["a"]}),
    (ValueError, ["'json_schema'", "'grammar'", "remove one of them"], {"json_schema": {}, "grammar": 'root ::= "a"'}),
    (ValueError, ["'regex'", "'guided_regex'", "remove one of them"], {"regex": "a", "guided_regex": "b"}),
    (ValueError, ["free_whitespace is for a json_schema"], {"regex": "a", "free_whitespace": True}),
    (TypeError, ["'tools' is an option of the server's alone"], {"tools": []}),
], ids=str)
def test_invalid_fields_are_rejected_by_name(chats, kind, parts, options):
    calls = [chats.generate] if "tools" in options else [chats.generate, chats.complete]
    for call in calls:
        with pytest.raises(kind) as error:
            call("he", **options)
        assert all(part in str(error.value) for part in parts) and "\n" not in str(error.value), error.value


def test_vocabularies_unable_to_write_a_form_are_rejected(model):
    for call in (model.generate, model.stream, model.complete):
        with pytest.raises(ValueError, match="'json_schema'.*0x7b"):
            call("ROMEO:", json_schema=PERSON)
    assert model.generate("ROMEO:", regex=None, json_schema=None, seed=1) == model.generate("ROMEO:", seed=1)


def test_tools_require_complete(chats):
    tool = {"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"b": {"type": "integer", "maximum": 99, "minimum": 0}, "a": {"const": 7}},
        "required": ["b", "a"], "additionalProperties": False}}}
    whole = chats.complete(messages="he is", tools=[tool], tool_choice="required", parallel_tool_calls=False,
                           max_tokens=300, seed=3)
    [call] = whole["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "add" and list(json.loads(call["function"]["arguments"])) == ["b", "a"]
    told = [{"role": "user", "content": "he is"}, whole["choices"][0]["message"],
            {"role": "tool", "tool_call_id": call["id"], "content": "12"}]
    assert chats.chat(told, max_tokens=5, seed=1)
