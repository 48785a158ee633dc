"""Tests structured output and tool calls with OpenAI's Python client: parsing, streaming and messages sent back.

The models have random weights, so only schemas and grammars determine their outputs. logit_bias makes quotation marks,
brackets and calls likely, so that strings and calls end."""

import datetime
import enum
import json
import re
import uuid
from typing import Literal, Optional

import jsonschema
import openai
import pydantic
import pytest

from api_test import client_of
from chat_model import PIECES, published_templates, write_chat_model
from support import SANITIZED

MARKS = ["[TOOL_CALLS]", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"]
VOCABULARY = [*PIECES, *((mark, 0.0, 3) for mark in MARKS), ("<tool_call>", -90.0, 1)]
ID = {text: i for i, (text, _, _) in enumerate(VOCABULARY)}
ENDS = {ID[f"<0x{ord(c):02X}>"]: 6.0 for c in '"]},'}
CALLS = ENDS | {ID[mark]: 7.0 for mark in ("<tool_call>", "[TOOL_CALLS]")}
MANY = CALLS | {ID[text]: 30.0 for text in ("<tool_call>", "[TOOL_CALLS]", "<0x0A>", "<0x2C>")}  # favors more calls
ASK = [{"role": "user", "content": "he is the user"}]
TEMPLATES = {"words": published_templates.SMOLLM2, "Qwen 2.5": published_templates.QWEN25,
             "Mistral v3": published_templates.MISTRAL_V3}


@pytest.fixture(scope="module")
def models(server, tmp_path_factory):
    """Returns models(name), which returns the server of a model with the chat template `name`."""
    folder = tmp_path_factory.mktemp("forms")

    def serve(name):
        path = folder / f"{name}.gguf"
        if not path.exists():
            write_chat_model(path, TEMPLATES[name], context=8192, pieces=VOCABULARY)
        return server(path, "-t", "1", "--name", "m")

    return serve


@pytest.fixture(params=TEMPLATES)
def any_model(models, request):
    return Asking(models(request.param))


@pytest.fixture
def model(models):
    return Asking(models("words"))


class Asking:
    """A server's OpenAI client with the fields that all requests of this file share."""

    def __init__(self, server):
        self.client = client_of(server)
        self.chat = self.client.chat.completions

    def __call__(self, **fields):
        """Returns the response, after checking that a streamed response has the same choices."""
        fields = {"model": "m", "messages": ASK, "seed": 1, "max_tokens": 2000, **fields}
        whole = self.chat.create(**fields)
        assert_is(self.chat.create(**fields, stream=True), whole.choices)
        return whole

    def text(self, **fields):
        [choice] = self(**fields).choices
        assert choice.finish_reason == "stop", choice
        return choice.message.content

    def refused(self, **fields):
        with pytest.raises(openai.BadRequestError) as error:
            self.chat.create(model="m", messages=ASK, **fields)
        return error.value.body


def test_expensive_forms_are_rejected_with_their_location(model):
    """The schema and the regular expression would take seconds to minutes to compile."""
    schema = {"properties": {f"p{i}": {"title": str(i), "enum": ["a"], "pattern": "^(a|b)*a(a|b){9}$"} for i in range(480)}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    error = model.refused(response_format=form)
    assert error["code"] == "too_much_work" and error["param"] in error["message"]
    assert re.fullmatch(r"response_format\.json_schema\.schema\.properties\.p\d+(\.pattern)?", error["param"])
    assert model.refused(extra_body={"guided_regex": "[" + r"\pL" * 21_000 + "]"})["param"] == "guided_regex"


def assert_is(stream, choices):
    """Checks that the deltas of a stream add up to `choices`."""
    texts, calls, reasons = ([""] * len(choices), [[] for _ in choices], [None] * len(choices))
    for chunk in stream:
        for choice in chunk.choices:
            i, delta = choice.index, choice.delta
            assert reasons[i] is None, "nothing comes after the end"
            texts[i] += delta.content or ""
            for call in delta.tool_calls or []:
                if call.index == len(calls[i]):  # a new call; its id and name are sent once
                    assert call.type == "function" and re.fullmatch("[a-zA-Z0-9]{9}", call.id)
                    calls[i].append([call.function.name, ""])
                else:
                    assert call.index == len(calls[i]) - 1 and call.id is call.function.name is None
                calls[i][-1][1] += call.function.arguments
            reasons[i] = choice.finish_reason
    for i, choice in enumerate(choices):
        message = choice.message
        assert texts[i] == (message.content or "")
        assert calls[i] == [[c.function.name, c.function.arguments] for c in message.tool_calls or []]
        assert reasons[i] == choice.finish_reason


# ---- OpenAI's helpers for structured output ----

class Color(enum.Enum):
    red = "red"
    blue = "dark blue"


class Address(pydantic.BaseModel):
    street: str = pydantic.Field(max_length=20)
    number: int


class Person(pydantic.BaseModel):
    """A person."""

    name: str = pydantic.Field(description="as on the door")
    age: int = pydantic.Field(ge=0, le=130)
    score: float
    color: Color
    home: Address
    others: list[Address] = pydantic.Field(max_length=3)
    nickname: Optional[str]
    kind: Literal["a", 7, None]
    born: datetime.date
    id: uuid.UUID
    code: str = pydantic.Field(pattern=r"^[A-Z]{2}-\d+$")


class Tree(pydantic.BaseModel):
    value: bool
    children: list["Tree"]


class Add(pydantic.BaseModel):
    """A sum or a difference."""

    op: Literal["+", "-"]
    left: "Term"
    right: "Term"


class Term(pydantic.BaseModel):
    term: int | Add


@pytest.mark.parametrize(("form", "bias"), [(Person, ENDS), (Tree, ENDS | {ID["<0x7B>"]: 5.0}), (Term, ENDS)])
def test_pydantic_models_are_parsed(model, form, bias):
    fields = {"model": "m", "messages": ASK, "max_tokens": 4000, "logit_bias": bias}
    parsed = []
    for seed in range(6):
        [choice] = model.chat.parse(**fields, seed=seed, response_format=form).choices
        assert choice.finish_reason == "stop" and isinstance(choice.message.parsed, form)
        parsed.append(choice.message.parsed)
        with model.chat.stream(**fields, seed=seed, response_format=form) as stream:
            events = list(stream)
        final = stream.get_final_completion().choices[0]
        assert final.message.content == choice.message.content and final.message.parsed == choice.message.parsed
        assert [e.parsed for e in events if e.type == "content.done"] == [choice.message.parsed]
    assert len({repr(p) for p in parsed}) > 2


def test_truncated_answers_have_finish_reason_length(model):
    for n in (1, 5, 17):
        with pytest.raises(openai.LengthFinishReasonError):
            model.chat.parse(model="m", messages=ASK, max_tokens=n, seed=1, response_format=Person)
        assert model(max_tokens=n, response_format={"type": "json_object"}, logit_bias={ID["<0x7D>"]: -100}) \
            .choices[0].finish_reason == "length"


# ---- other servers' fields for structured output ----

SCHEMA = {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "string", "maxLength": 5}},
          "required": ["z", "a"], "additionalProperties": False}
GRAMMAR = 'root ::= "<" [a-z]{3} ("," [0-9]{1,2}){0,3} ">"'
NAMES = {
    "schema": [{"guided_json": SCHEMA}, {"guided_json": json.dumps(SCHEMA)}, {"json_schema": SCHEMA},
               {"structured_outputs": {"json": SCHEMA}}, {"structured_outputs": {"json": json.dumps(SCHEMA)}},
               {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
               {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": False, "schema": SCHEMA}}}],
    "regex": [{"guided_regex": "(ab?)+!"}, {"structured_outputs": {"regex": "(ab?)+!"}}],
    "choice": [{"guided_choice": ["yes", "yes, sir", "no"]}, {"structured_outputs": {"choice": ["yes", "yes, sir", "no"]}}],
    "grammar": [{"guided_grammar": GRAMMAR}, {"grammar": GRAMMAR}, {"structured_outputs": {"grammar": GRAMMAR}}],
    "object": [{"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}]}


def fits(kind, text):
    if kind == "schema":
        jsonschema.validate(json.loads(text), SCHEMA)
        return list(json.loads(text)) == ["z", "a"]  # keys have the schema's order
    if kind == "object":
        return isinstance(json.loads(text), dict)
    if kind == "choice":
        return text in ("yes", "yes, sir", "no")
    return re.fullmatch({"regex": "(ab?)+!", "grammar": "<[a-z]{3}(,[0-9]{1,2}){0,3}>"}[kind], text)


@pytest.mark.parametrize("kind", NAMES)
def test_all_names_of_a_form_are_equivalent(model, kind):
    bias = ENDS | {ID["<0x21>"]: 6.0}
    for seed in (1, 2, 3):
        texts = {model.text(seed=seed, logit_bias=bias, extra_body=fields) for fields in NAMES[kind]}
        assert len(texts) == 1 and fits(kind, texts.pop())


def test_whitespace_is_set_per_request(model):
    for seed in range(4):
        fields = {"seed": seed, "logit_bias": ENDS | {ID["<0x20>"]: 4.0, ID["<0x0A>"]: 4.0}}
        free = model.text(**fields, extra_body={"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": False}})
        tight = model.text(**fields, extra_body={"structured_outputs": {"json": SCHEMA}})
        assert fits("schema", free) and tight == json.dumps(json.loads(tight), separators=(",", ":"), ensure_ascii=False)
        assert re.search(r"\s", free[:-1].split('"a"')[0])


# ---- structured output combined with other request fields ----

def test_choices_stops_and_logprobs(model):
    line = {"guided_regex": "[a-z]{10}, [a-z]{10}\\."}
    done = model(n=4, extra_body=line, logprobs=True, top_logprobs=3)
    texts = [choice.message.content for choice in done.choices]
    assert len(set(texts)) == 4 and all(re.fullmatch(line["guided_regex"], text) for text in texts)
    assert texts[0] == model.text(extra_body=line)
    for choice, text in zip(done.choices, texts):
        assert b"".join(bytes(t.bytes) for t in choice.logprobs.content).decode() == text
    [choice] = model(extra_body=line, stop=[","]).choices
    assert (choice.message.content, choice.finish_reason) == (texts[0][:10], "stop")
    beams = model.chat.create(model="m", messages=ASK, n=2, max_tokens=40, extra_body=line | {"use_beam_search": True})
    assert all(re.fullmatch(line["guided_regex"], choice.message.content) for choice in beams.choices)


def test_logprobs_are_unconstrained(golden):
    completions = client_of(golden).completions
    done = completions.create(model="golden", prompt="ROMEO:", seed=1, max_tokens=30, logprobs=0, extra_body={"guided_regex": "[A-Z]{12}"})
    scored = completions.create(model="golden", prompt="ROMEO:" + done.choices[0].text, max_tokens=0, echo=True, logprobs=0)
    echoed = scored.choices[0].logprobs
    assert done.choices[0].logprobs.token_logprobs == pytest.approx(echoed.token_logprobs[6:], abs=1e-4)
    assert echoed.token_logprobs[0] is None and echoed.top_logprobs[0] is None


def test_empty_outputs_keep_the_logprobs_of_an_echo(golden):
    def complete(**fields):
        asked = {"model": "golden", "prompt": "ROMEO:", "echo": True, "logprobs": 1, "n": 2}
        return client_of(golden).completions.create(**asked, **fields).choices

    empty = complete(max_tokens=3, extra_body={"structured_outputs": {"regex": ""}})
    assert [choice.finish_reason for choice in empty] == ["stop", "stop"]
    assert len(empty[0].logprobs.tokens) == 6
    assert [choice.logprobs for choice in empty] == [choice.logprobs for choice in complete(max_tokens=0)]


# ---- tools ----

class get_weather(pydantic.BaseModel):
    """The weather of a city."""

    city: str
    unit: Literal["C", "F"]
    days: Optional[list[int]]


class Clock(pydantic.BaseModel):
    """What time it is."""


TOOLS = [openai.pydantic_function_tool(get_weather), openai.pydantic_function_tool(Clock, name="clock-2.x")]
NAMED = {"type": "function", "function": {"name": "clock-2.x"}}
PARSED = {"get_weather": get_weather, "clock-2.x": Clock}


def assert_valid(calls):
    for call in calls:
        PARSED[call.function.name].model_validate_json(call.function.arguments)
        assert re.fullmatch("[a-zA-Z0-9]{9}", call.id) and call.type == "function"
    assert len({call.id for call in calls}) == len(calls)


def test_tool_choice(any_model):
    seen = {"one": 0, "several": 0, "text": 0, "both": 0}
    for seed in range(4 if SANITIZED else 12):
        fields = {"tools": TOOLS, "seed": seed, "logit_bias": CALLS, "max_tokens": 1000}
        [choice] = any_model(**fields, tool_choice="auto").choices
        calls = choice.message.tool_calls or []
        assert_valid(calls if choice.finish_reason != "length" else calls[:-1])
        assert choice.finish_reason in (["tool_calls", "length"] if calls else ["stop", "length"])
        seen["text"] += not calls
        seen["both"] += bool(calls and choice.message.content)
        seen["one"] += len(calls) == 1
        seen["several"] += len(calls) > 1
        [choice] = any_model(**fields, tool_choice="required").choices
        assert choice.finish_reason == "tool_calls" and choice.message.content is None and choice.message.tool_calls
        assert_valid(choice.message.tool_calls)
        [choice] = any_model(**fields, tool_choice="required", parallel_tool_calls=False).choices
        assert choice.finish_reason == "tool_calls" and len(choice.message.tool_calls) == 1
        [choice] = any_model(**fields, tool_choice=NAMED).choices
        assert choice.finish_reason == "stop" and [c.function.name for c in choice.message.tool_calls] == ["clock-2.x"]
    assert seen["one"] and (seen["text"] or seen["both"]), seen


def distinct(choice):
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls]
    assert choice.finish_reason == "tool_calls" and len(set(calls)) == len(calls)
    return len(calls)


def test_number_of_calls_is_limited(server, tmp_path):
    path = write_chat_model(tmp_path / "m.gguf", TEMPLATES["Qwen 2.5"], context=8192, pieces=VOCABULARY)
    wide = tool(parameters={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
                            "additionalProperties": False})
    counts = {most: [distinct(Asking(server(path, "-t", "1", "--name", "m", *flags))(
        **wide, tool_choice="required", seed=seed, logit_bias=MANY).choices[0]) for seed in range(4)]
        for most, flags in ((2, ["--max-tool-calls", "2"]), (32, []))}
    assert max(counts[2]) == 2 and max(counts[32]) > 2 and all(a == min(2, b) for a, b in zip(counts[2], counts[32])), counts


def test_tool_choice_none_hides_the_tools(any_model):
    none, plain, told = (any_model(max_tokens=9, **fields) for fields in ({"tools": TOOLS, "tool_choice": "none"}, {}, {"tools": TOOLS}))
    assert none.choices[0].message == plain.choices[0].message
    assert none.usage.prompt_tokens == plain.usage.prompt_tokens < told.usage.prompt_tokens


def test_tool_results_are_accepted(any_model):
    messages = [*ASK]
    tokens = 0
    untold = {"tools": TOOLS, "tool_choice": "none", "max_tokens": 9}
    for turn in range(3):
        done = any_model(messages=messages, tools=TOOLS, tool_choice="required", seed=turn, logit_bias=CALLS)
        assert done.usage.prompt_tokens > tokens
        tokens = done.usage.prompt_tokens
        message = done.choices[0].message
        messages += [message, *({"role": "tool", "tool_call_id": call.id, "content": '{"sky": "clear"}'}
                                for call in message.tool_calls)]
    lengths = [any_model(messages=messages[:n], **untold).usage.prompt_tokens for n in (1, 2, len(messages))]
    assert lengths == sorted(set(lengths)) and lengths[-1] == any_model(messages=messages, max_tokens=9).usage.prompt_tokens
    # Send the messages as dicts, with the nulls that some clients send.
    sent = [m if isinstance(m, dict) else m.model_dump() for m in messages]
    assert any_model(messages=sent, **untold).usage.prompt_tokens == lengths[-1]


def test_truncated_calls_have_finish_reason_length(any_model):
    fields = {"tools": TOOLS, "tool_choice": "required", "seed": 3, "logit_bias": CALLS}
    done = any_model(**fields)
    whole = [c.function.arguments for c in done.choices[0].message.tool_calls]
    for n in range(1, done.usage.completion_tokens - 1, 12 if SANITIZED else 3):
        [choice] = any_model(**fields, max_tokens=n).choices
        calls = [c.function.arguments for c in choice.message.tool_calls or []]
        assert choice.finish_reason == "length"
        assert all(b.startswith(a) for a, b in zip(calls, whole)) and calls[:-1] == whole[:len(calls[:-1])]
    [choice] = any_model(tools=TOOLS[:1], tool_choice="required", seed=3, logit_bias=CALLS, stop=['"unit"']).choices
    assert choice.finish_reason == "stop", "no call that can be done"
    assert re.fullmatch(r'\{"city": ".*", ', choice.message.tool_calls[0].function.arguments)


@pytest.mark.parametrize("parameters", [
    {"type": ["null", "object"], "properties": {"a": {"const": 1}}, "required": ["a"]},
    {"anyOf": [{"type": "string"}, {"properties": {"a": {"const": 1}}, "required": ["a"]}]},
    {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {"const": 1}}, "required": ["a"]}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a",
     "definitions": {"a": {"properties": {"a": {"const": 1}}, "required": ["a"]}}}], ids=lambda p: next(iter(p)))
def test_arguments_are_an_object(model, parameters):
    closed = json.loads(json.dumps(parameters).replace('"required"', '"additionalProperties": false, "required"'))
    done = model(**tool(parameters=closed), tool_choice="required", parallel_tool_calls=False)
    assert done.choices[0].message.tool_calls[0].function.arguments == '{"a": 1}'


def test_call_or_answer_with_a_form(any_model):
    kinds = set()
    for seed in range(12):
        [choice] = any_model(tools=TOOLS, seed=seed, logit_bias=CALLS | {ID["<0x7B>"]: 7.0},
                             response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}).choices
        if choice.message.tool_calls:
            assert choice.message.content is None and choice.finish_reason == "tool_calls"
            assert_valid(choice.message.tool_calls)
        else:
            assert fits("schema", choice.message.content) and choice.finish_reason == "stop"
        kinds.add(choice.finish_reason)
    assert kinds == {"tool_calls", "stop"}


def test_several_choices_with_calls(any_model):
    done = any_model(n=3, tools=TOOLS, tool_choice="required", logit_bias=CALLS, logprobs=True)
    for choice in done.choices:
        assert_valid(choice.message.tool_calls)
        assert len(choice.logprobs.content) > 10


# ---- errors ----

def schema_format(schema):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}


def tool(**function):
    return {"tools": [{"type": "function", "function": {"name": "f", **function}}]}


WRONG = [
    (schema_format({"type": "object", "properties": {"q": {"if": {}}}}), "response_format", ["#/properties/q", "if"]),
    (schema_format(3), "response_format.json_schema.schema", ["schema"]),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", ["missing"]),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, "response_format.json_schema.schema", ["missing"]),
    ({"response_format": {"type": "json_object", "json_schema": {"schema": {}}}}, "response_format", ["json_schema"]),
    ({"response_format": {"type": "x"}}, "response_format", ["json_object"]),
    ({"response_format": 3}, "response_format", []),
    ({"guided_regex": r"a\b"}, "guided_regex", ["\\b"]),
    ({"guided_regex": 3}, "guided_regex", ["string"]),
    ({"structured_outputs": {}}, "structured_outputs", ["one of"]),
    ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs", ["one of"]),
    ({"structured_outputs": {"what": 1}}, "structured_outputs.what", ["unknown"]),
    ({"guided_regex": "a", "grammar": "b"}, "grammar", ["guided_regex"]),
    ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex", ["response_format"]),
    ({"tool_choice": "required"}, "tool_choice", ["tools"]),
    ({**tool(), "tool_choice": "some"}, "tool_choice", ["required"]),
    ({**tool(), "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice", ["g"]),
    ({**tool(), "parallel_tool_calls": 1}, "parallel_tool_calls", ["true"]),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls", ["true"]),
    ({**tool(), **schema_format({"properties": {"q": {"if": {}}}})}, "response_format", ["#/properties/q", "if"]),
    ({**tool(), "tool_choice": "required", "guided_regex": r"a\b"}, "guided_regex", ["\\b"]),
    ({"tools": tool()["tools"] * 2}, "tools", ["two functions f"]),
    (tool(name="a b"), "tools", ["a b"]),
    (tool(name=3), "tools.function.name", ["string"]),
    (tool(parameters={"properties": {"a": {"not": {}}}}), "tools", ["function f", "#/properties/a", "not"]),
    (tool(parameters={"type": "string"}), "tools", ["f", "object"]),
    (tool(parameters={"type": ["string", "null"]}), "tools", ["f", "object"]),
    ({**tool(parameters={"anyOf": [{"type": "null"}, {"type": "string"}]}), "tool_choice": "required"}, "tools",
     ["no output can match"]),
    ({**tool(parameters={"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}), "tool_choice": "required"}, "tools",
     ["no output can match"]),
    ({**tool(parameters={"type": "object", "nullable": True, "enum": [None]}), "tool_choice": "required"}, "tools",
     ["no output can match"]),
    (tool(parameters=[1]), "tools", ["schema"]),
    (tool(what=1), "tools.function.what", ["unknown"]),
    ({"tools": [{"type": "retrieval"}]}, "tools", ["function"]),
    ({"tools": {}}, "tools", ["list"]),
    ({"functions": [{"name": "f"}]}, "functions", ["not supported"]),
]


@pytest.mark.parametrize(("fields", "param", "parts"), WRONG, ids=lambda x: json.dumps(x)[:60])
def test_invalid_fields_are_rejected_by_name(model, fields, param, parts):
    error = model.refused(extra_body=fields)
    assert error["param"] == param, error
    name = param.split(".")[0]
    assert "\n" not in error["message"] and all(part in error["message"] for part in [name, *parts]), error


CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(("messages", "part"), [
    ([{"role": "assistant", "tool_calls": [CALL | {"function": {"name": "f", "arguments": "{"}}]}], "arguments"),
    ([{"role": "assistant", "tool_calls": [CALL | {"function": {"name": "f", "arguments": "[]"}}]}], "arguments"),
    ([{"role": "assistant", "tool_calls": [CALL | {"function": {"name": "f", "arguments": {}}}]}], "arguments"),
    ([{"role": "assistant", "tool_calls": [CALL | {"type": "custom"}]}], "tool_calls"),
    ([{"role": "assistant", "tool_calls": "x"}], "tool_calls"),
    ([{"role": "user", "content": "a", "tool_calls": [CALL]}], "tool_calls"),
    ([{"role": "tool", "content": "a"}], "tool_call_id"),
    ([{"role": "tool", "content": "a", "tool_call_id": 3}], "tool_call_id"),
], ids=lambda x: json.dumps(x)[:60])
def test_invalid_messages_are_rejected(model, messages, part):
    error = model.refused(extra_body={"messages": ASK + messages})
    assert error["param"] == "messages" and part in error["message"], error
