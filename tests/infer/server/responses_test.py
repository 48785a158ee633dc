"""Tests `/v1/responses` with OpenAI's Python client: parsing, the order of events, and that a response has the output
of /v1/chat/completions for the same conversation."""

import json

import openai
import pydantic
import pytest

from api_test import client_of
from chat_model import published_templates, write_chat_model
from forms_test import CALLS, ENDS, VOCABULARY

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": WEATHER, "strict": True}


class Person(pydantic.BaseModel):
    name: str
    kind: str


@pytest.fixture(scope="module")
def client(server, tmp_path_factory):
    path = write_chat_model(tmp_path_factory.mktemp("responses") / "m.gguf", published_templates.QWEN3, context=8192,
                            pieces=[*VOCABULARY, ("<think>", 0.0, 4), ("</think>", 0.0, 4)])
    return client_of(server(path, "-t", "1", "--name", "m"))


def create(client, **fields):
    extra = {"seed": 1, "logit_bias": ENDS, **fields.pop("extra_body", {})}
    return client.responses.create(model="m", extra_body=extra, **{"input": "he is", "max_output_tokens": 400, **fields})


def chat(client, messages, **fields):
    return client.chat.completions.create(model="m", messages=messages, **{"seed": 1, "logit_bias": ENDS, "max_tokens": 400, **fields})


def test_responses_match_chat_completions(client):
    made = create(client, instructions="us", max_output_tokens=9)
    said = chat(client, [{"role": "system", "content": "us"}, {"role": "user", "content": "he is"}], max_tokens=9)
    assert made.output_text == said.choices[0].message.content != ""
    assert (made.status, made.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert made.output[0].status == "incomplete" and made.store is False and made.error is None
    usage = made.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (
        said.usage.prompt_tokens, said.usage.completion_tokens, said.usage.total_tokens)
    again = create(client, input=[{"role": "developer", "content": [{"type": "input_text", "text": "us"}]},
                                  {"type": "message", "role": "user", "content": "he is"}], max_output_tokens=9)
    assert again.output_text == made.output_text and again.id != made.id
    one = create(client, instructions="us\n\nhe", max_output_tokens=9)  # as one system message
    two = create(client, instructions="us", max_output_tokens=9, input=[{"role": "developer", "content": "he"},
                                                                        {"role": "user", "content": "he is"}])
    assert (two.usage.input_tokens, two.output_text) == (one.usage.input_tokens, one.output_text)


def test_pydantic_models_are_parsed(client):
    fields = {"model": "m", "input": "he", "text_format": Person, "extra_body": {"seed": 2, "logit_bias": ENDS}}
    parsed = client.responses.parse(**fields)
    assert isinstance(parsed.output_parsed, Person) and parsed.status == "completed"
    with client.responses.stream(**fields) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_parsed == parsed.output_parsed and kinds[-1] == "response.completed"
    made = create(client, text={"format": {"type": "json_object"}}, max_output_tokens=4000,
                  extra_body={"logit_bias": {token: 12 for token in ENDS}})
    assert made.status == "completed" and isinstance(json.loads(made.output_text), dict)


def events_of(client, **fields):
    events = list(create(client, stream=True, **fields))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events


def without_repeats(kinds):
    return [kind for i, kind in enumerate(kinds) if kind != kinds[i - 1] or i == 0]


def same(response):
    """Returns a response as JSON, without the fields that differ each time."""
    text = response.model_dump_json(exclude={"created_at": True, "usage": {"input_tokens_details"}})
    return json.loads(text.replace(response.id.removeprefix("resp_"), "ID")) | {"output": [
        {**item.model_dump(), "id": None, "call_id": None} for item in response.output]}


def test_events_of_a_text_response(client):
    whole = create(client, max_output_tokens=30, include=["message.output_text.logprobs"], top_logprobs=2)
    events = events_of(client, max_output_tokens=30, include=["message.output_text.logprobs"], top_logprobs=2)
    assert without_repeats([event.type for event in events]) == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.done", "response.content_part.done",
        "response.output_item.done", "response.incomplete"]
    assert events[0].response.status == "in_progress" and events[0].response.output == []
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in deltas) == whole.output_text == events[-4].text
    [part] = whole.output[0].content
    assert [entry.token for event in deltas for entry in event.logprobs] == [entry.token for entry in part.logprobs]
    assert len(part.logprobs) == whole.usage.output_tokens and all(len(entry.top_logprobs) == 2 for entry in part.logprobs)
    assert same(events[-1].response) == same(whole)
    assert {event.item_id for event in deltas} == {events[2].item.id} == {events[-1].response.output[0].id}


def test_function_calls_and_outputs(client):
    fields = {"tools": [TOOL], "extra_body": {"logit_bias": CALLS}}
    whole = create(client, **fields, tool_choice="required")
    events = events_of(client, **fields, tool_choice="required")
    kinds = without_repeats([event.type for event in events])
    assert kinds[:2] + kinds[-1:] == ["response.created", "response.in_progress", "response.completed"]
    assert kinds[2:6] == ["response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done"]
    assert same(events[-1].response) == same(whole)
    for event in events:
        if event.type == "response.function_call_arguments.done":
            assert json.loads(event.arguments).keys() == {"city"} and event.name == "get_weather"
    calls = [item for item in whole.output if item.type == "function_call"]
    assert calls and calls == whole.output
    asked = {"role": "user", "content": "he is"}
    outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "42"} for call in calls]
    made = create(client, input=[asked, *(call.model_dump() for call in calls), *outputs], max_output_tokens=5)
    messages = [asked, {"role": "assistant", "tool_calls": [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls]},
        *({"role": "tool", "tool_call_id": call.call_id, "content": "42"} for call in calls)]
    said = chat(client, messages, max_tokens=5)
    assert made.usage.input_tokens == said.usage.prompt_tokens and made.output_text == said.choices[0].message.content
    named = create(client, **fields, tool_choice={"type": "function", "name": "get_weather"})
    assert [item.name for item in named.output] == ["get_weather"]


def test_reasoning_is_a_separate_item(client):
    """Structured output constrains only the message, not the reasoning before it."""
    more = {"guided_regex": "us", "logit_bias": {len(VOCABULARY): 9.0, len(VOCABULARY) + 1: 9.0}}
    fields = {"extra_body": more, "include": ["message.output_text.logprobs"]}
    whole = create(client, **fields)
    events = events_of(client, **fields)
    reasoning, message = whole.output
    assert (reasoning.type, reasoning.summary) == ("reasoning", []) and message.content[0].text == whole.output_text == "us"
    thought = reasoning.content[0].text
    assert without_repeats([event.type for event in events])[2:7] == [
        "response.output_item.added", "response.content_part.added", "response.reasoning_text.delta",
        "response.reasoning_text.done", "response.content_part.done"]
    assert same(events[-1].response) == same(whole)
    assert whole.usage.output_tokens_details.reasoning_tokens > 0
    assert "".join(entry.token for entry in message.content[0].logprobs).strip() == "us"
    # The only tokens that the form allows end the output, so none is left.
    ends = [i for i, (text, *_) in enumerate(VOCABULARY) if text.startswith("u") or text == "<0x75>"]
    dead = create(client, extra_body=more | {"stop_token_ids": ends})
    assert (dead.status, dead.incomplete_details.reason) == ("incomplete", "form")
    # Reasoning that is sent back becomes the chat's reasoning_content, in the message of the answer that follows it.
    asked = {"role": "user", "content": "he is"}
    back = create(client, input=[asked, *(item.model_dump() for item in whole.output), asked], max_output_tokens=1)
    said = chat(client, [asked, {"role": "assistant", "content": "us", "reasoning_content": thought}, asked], max_tokens=1)
    assert back.usage.input_tokens == said.usage.prompt_tokens


@pytest.mark.parametrize(("fields", "param", "part"), [
    ({"previous_response_id": "resp_1"}, "previous_response_id", "nothing is stored"),
    ({"conversation": "conv_1"}, "conversation", "nothing is stored"),
    ({"store": True}, "store", "nothing is stored"),
    ({"background": True}, "background", "false"),
    ({"truncation": "auto"}, "truncation", "disabled"),
    ({"input": []}, "input", "list of items"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input", "item_reference"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input", "input_image"),
    ({"input": [{"role": "nobody", "content": "x"}]}, "input", "role"),
    ({"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "["}]}, "input", "arguments"),
    ({"input": "he us " * 5000}, "input", "context"),
    ({"tools": [{"type": "web_search"}]}, "tools", "functions"),
    ({"tool_choice": {"type": "function", "name": "f"}, "tools": [TOOL]}, "tool_choice", "not in 'tools'"),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"not": {}}}}}, "text.format", "'not'"),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"properties": {"response_format": {"type": "x"}}}}}},
     "text.format", "#/properties/response_format"),
    ({"text": {"format": {"type": "xml"}}}, "text.format", "json_object"),
    ({"include": ["file_search_call.results"]}, "include", "file_search_call"),
    ({"max_output_tokens": 0}, "max_output_tokens", "[1,"),
    ({"extra_body": {"n": 2}}, "n", "unknown"),
], ids=lambda x: json.dumps(x)[:40])
def test_invalid_fields_are_rejected_by_name(client, fields, param, part):
    with pytest.raises(openai.BadRequestError) as error:
        create(client, **fields)
    body = error.value.body
    assert part in body["message"] and body["param"].startswith(param), body
    assert "messages" not in body["message"] and "'response_format" not in body["message"], body
