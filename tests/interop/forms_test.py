"""Compares structured output and tool calls of llama-server and Folio with SmolLM2: greedy outputs of a grammar are equal,
and replies have the same fields except those listed here. Both use Qwen 2.5's template, because SmolLM2's has no
tools."""

import contextlib
import json
import re
import sys

import jsonschema
import pytest

from engines import ROOT, folio
from serve_test import SMOLLM2, THEIRS, events, fields

sys.path += [str(ROOT / "scripts"), str(ROOT / "tests" / "data" / "chat")]
from published_templates import QWEN25  # noqa: E402
from servers import Server  # noqa: E402

CITY = {"type": "object", "required": ["city", "unit"], "additionalProperties": False,
        "properties": {"city": {"type": "string", "maxLength": 16}, "unit": {"enum": ["C", "F"]}}}
SUM = {"type": "object", "required": ["a", "b"], "additionalProperties": False,
       "properties": {name: {"type": "integer", "minimum": -99, "maximum": 99} for name in "ab"}}
TOOLS = [{"type": "function", "function": {"name": name, "description": says, "parameters": parameters}}
         for name, says, parameters in (("get_weather", "the weather of a city", CITY), ("add", "a sum", SUM))]
ASK = [{"role": "user", "content": "Where do you live?"}]
# Pairs of a grammar and an equivalent regular expression.
GRAMMARS = [
    ('root ::= "a" [0-9]{2} "."', r"a[0-9]{2}\."),
    ('root ::= item{2,3} "end"\nitem ::= "- " [a-z ]{3,20} "\\n"', r"(- [a-z ]{3,20}\n){2,3}end"),
    ('root ::= ("yes" | "no" | "may" "be"?) [.!]', r"(yes|no|may(be)?)[.!]"),
    ('root ::= word (", " word){1,4} "."\nword ::= [A-Z] [a-z]{2,9}', r"[A-Z][a-z]{2,9}(, [A-Z][a-z]{2,9}){1,4}\."),
    ('root ::= [^\\n"]{5,60} "\\n"', r'[^\n"]{5,60}\n'),
]
CHAT = "/v1/chat/completions"


def asked_before(n, city, unit, sky):
    call = {"id": f"abcdefgh{n}", "type": "function",
            "function": {"name": "get_weather", "arguments": json.dumps({"city": city, "unit": unit})}}
    return [{"role": "user", "content": f"What is the weather in {city}, in {unit}?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": json.dumps({"sky": sky})},
            {"role": "assistant", "content": f"The sky is {sky}."}]


# A chat with earlier tool calls as examples. Without examples, SmolLM2, which isn't trained for tools, would reply with
# text instead of a call, which llama-server does not prevent.
CALLING = [*asked_before(1, "Rome", "C", "clear"), *asked_before(2, "Bern", "F", "grey"), *asked_before(3, "Oslo", "C", "dark"),
           {"role": "user", "content": "What is the weather in Paris, in C?"}]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Yields [Folio's server, llama.cpp's server]. Both have F32 weights and caches, so that outputs are equal."""
    folder = tmp_path_factory.mktemp("forms")
    folio("export", SMOLLM2, "--out", folder / "f32.gguf", "--type", "f32")
    template = folder / "template.jinja"
    template.write_text(QWEN25, encoding="utf-8")
    more = {"folio": ["--chat-template", template], "llama-server": ["--jinja", "--chat-template-file", template]}
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Server(name, folder / "f32.gguf", context=2048, threads=1, cache_type="f32", more=flags))
               for name, flags in more.items()]


def both(servers, **body):
    replies = [server.call(CHAT, {"messages": ASK, "max_tokens": 300, **body}) for server in servers]
    assert [status for status, _ in replies] == [200, 200], replies
    return [reply for _, reply in replies]


def texts(servers, **body):
    """Returns the texts that both servers generate. Each must end before max_tokens."""
    choices = [reply["choices"][0] for reply in both(servers, **body)]
    assert [choice["finish_reason"] for choice in choices] == ["stop", "stop"], choices
    return [choice["message"]["content"] for choice in choices]


def assert_calls(calls):
    """Checks that `calls` call functions of TOOLS, with OpenAI's fields and arguments that jsonschema accepts."""
    assert calls
    for call in calls:
        assert call["type"] == "function" and call["id"]
        schema = {"get_weather": CITY, "add": SUM}[call["function"]["name"]]
        jsonschema.validate(json.loads(call["function"]["arguments"]), schema)


@pytest.mark.parametrize(("grammar", "regex"), GRAMMARS)
def test_greedy_outputs_of_a_grammar_are_the_same(servers, grammar, regex):
    ours, theirs = texts(servers, grammar=grammar, temperature=0)
    assert ours == theirs and re.fullmatch(regex, ours), (ours, theirs)
    assert texts([servers[0]] * 2, guided_regex=regex, temperature=0) == [theirs] * 2


def test_tool_choice_none_prevents_calls(servers):
    for reply in both(servers, messages=CALLING, tools=TOOLS, tool_choice="none", max_tokens=20):
        assert "tool_calls" not in reply["choices"][0]["message"] and reply["choices"][0]["message"]["content"]


def test_answers_with_calls_have_llama_servers_fields(servers):
    ours, theirs = both(servers, messages=CALLING, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, temperature=0)
    missing = {f for f in fields(theirs) - fields(ours) if not f.startswith(tuple(THEIRS))}
    # If there is no text, llama-server sends "", and Folio sends null, like OpenAI.
    assert missing == {"choices[].message.content: text"}
    assert theirs["choices"][0]["message"]["content"] == "" and ours["choices"][0]["message"]["content"] is None
    assert ours["choices"][0]["finish_reason"] == theirs["choices"][0]["finish_reason"] == "tool_calls"


def test_streams_of_calls_have_llama_servers_fields(servers):
    body = {"messages": CALLING, "max_tokens": 300, "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False,
            "temperature": 0}
    streams = [events(server, CHAT, body) for server in servers]
    missing = fields(streams[1]) - fields(streams[0])
    assert {f for f in missing if not f.startswith(tuple("[]." + field for field in THEIRS))} == set()
    for stream in streams:
        calls = {}
        for call in (call for event in stream for choice in event["choices"]
                     for call in choice["delta"].get("tool_calls") or []):
            if call["index"] not in calls:  # only the first chunk of a call has id, type and name
                assert call["id"] and call["type"] == "function" and call["function"]["name"]
                calls[call["index"]] = {**call, "function": {**call["function"], "arguments": ""}}
            else:
                assert "name" not in call["function"]
            calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
        assert_calls(calls.values())
        assert [c["finish_reason"] for event in stream for c in event["choices"] if c["finish_reason"]] == ["tool_calls"]


def test_tool_results_are_read_by_both(servers):
    """Both servers render the same prompt, so the numbers of tokens and the greedy outputs are equal."""
    messages = CALLING[:3]
    ours, theirs = both(servers, messages=messages, temperature=0, max_tokens=24)
    assert ours["usage"]["prompt_tokens"] == theirs["usage"]["prompt_tokens"]
    assert ours["choices"][0]["message"]["content"] == theirs["choices"][0]["message"]["content"]
    ours, theirs = both(servers, messages=messages, temperature=0, max_tokens=24, tools=TOOLS, tool_choice="auto")
    assert ours["usage"]["prompt_tokens"] == theirs["usage"]["prompt_tokens"]
    # With the tool choice "none", Folio's prompt omits the tools.
    ours, theirs = both(servers, messages=messages, temperature=0, max_tokens=24, tools=TOOLS, tool_choice="none")
    assert ours["usage"]["prompt_tokens"] < theirs["usage"]["prompt_tokens"]
