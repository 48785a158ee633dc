"""Tests reasoning models: reasoning is separated from the answer as their templates define, streamed or not, and can be
sent back in a conversation. The models have random weights. logit_bias makes <think> and </think> likely."""

import re

import openai
import pytest
from transformers.utils.chat_template_utils import render_jinja_template

import api_test
from chat_model import published_templates, write_chat_model
from forms_test import ENDS, TOOLS, VOCABULARY, assert_valid
from support import SANITIZED

TEMPLATES = {"Qwen 3": published_templates.QWEN3, "SmolLM3": published_templates.SMOLLM3,
             "DeepSeek-R1": published_templates.DEEPSEEK_R1}
BEGIN, END = len(VOCABULARY), len(VOCABULARY) + 1
NEWLINE = next(i for i, (text, _, _) in enumerate(VOCABULARY) if text == "<0x0A>")
SILENT = [i for i, (_, _, kind) in enumerate(VOCABULARY) if kind == 3]  # control tokens, which have no text
MARKS = {BEGIN: 8.0, END: 8.0, NEWLINE: 6.0}
SEEDS = 8 if SANITIZED else 12
ASK = [{"role": "user", "content": "he is the user"}]


@pytest.fixture(scope="module")
def client_of(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reasoning")

    def client(name, kind=4):
        """Returns a client. `kind` is the GGUF token type of <think> and </think>: 4 (user-defined) or 3 (control)."""
        path = folder / f"{name} {kind}.gguf"
        if not path.exists():
            write_chat_model(path, TEMPLATES.get(name, published_templates.SMOLLM2), context=8192,
                             pieces=[*VOCABULARY, ("<think>", 0.0, kind), ("</think>", 0.0, kind)])
        return api_test.client_of(server(path, "-t", "1", "--name", "m"))

    return client


def answer(client, **fields):
    """Returns reasoning and content, after checking that a streamed response has the same."""
    fields = {"model": "m", "messages": ASK, "max_tokens": 60, "logit_bias": MARKS, **fields}
    [choice] = client.chat.completions.create(**fields).choices
    message = choice.message.model_dump()
    reasoning = message.get("reasoning_content")
    assert message.get("reasoning") == reasoning != ""
    deltas = [chunk.choices[0].delta.model_dump() for chunk in client.chat.completions.create(**fields, stream=True)]
    assert "".join(d.get("reasoning_content") or "" for d in deltas) == (reasoning or "")
    assert "".join(d.get("reasoning") or "" for d in deltas) == (reasoning or "")
    assert "".join(d["content"] or "" for d in deltas) == (message["content"] or "")
    return reasoning, message["content"]


def split(text, begun):
    """Returns (reasoning, content) of an answer, as Qwen 3's template separates them; a missing one is None. `begun` is
    true if the prompt already ends with <think>."""
    if not begun and not text.lstrip().startswith("<think>"):
        return None, text
    text = text if begun else text.lstrip().removeprefix("<think>")
    if "</think>" not in text:
        return text.lstrip("\n"), None
    reasoning, content = text.split("</think>", 1)
    return reasoning.lstrip("\n").rstrip("\n") or None, content.lstrip("\n")


@pytest.mark.parametrize("name", TEMPLATES)
def test_reasoning_ends_at_the_marker(client_of, name):
    client = client_of(name)
    prompt = client.with_options(base_url=str(client.base_url).removesuffix("v1/")).post(
        "/tokenize", body={"messages": ASK}, cast_to=object)["tokens"]
    kinds = set()
    for seed in range(SEEDS):
        raw = client.completions.create(model="m", prompt=prompt, seed=seed, max_tokens=60, logit_bias=MARKS).choices[0].text
        reasoning, content = split(raw, begun=name == "DeepSeek-R1")
        assert answer(client, seed=seed) == (reasoning, content if content or not reasoning else None), raw
        assert answer(client_of(name, kind=3), seed=seed) == answer(client, seed=seed)
        assert answer(client, seed=seed, extra_body={"include_reasoning": False})[0] is None
        [hidden] = client.chat.completions.create(model="m", messages=ASK, seed=seed, max_tokens=60, logit_bias=MARKS,
                                                  logprobs=True, extra_body={"include_reasoning": False}).choices
        text = b"".join(bytes(token.bytes) for token in hidden.logprobs.content if token.id not in SILENT)
        assert text.decode(errors="replace").lstrip("\n") == (content or "").lstrip("\n"), raw
        kinds.add((reasoning is not None, bool(content)))
    assert (True, True) in kinds, kinds


def test_reasoning_tokens_of_all_choices_are_counted(client_of):
    ask = client_of("DeepSeek-R1").chat.completions.create  # the prompt begins the reasoning
    for bias, is_all in (({END: -100}, True), (MARKS, False)):
        usage = ask(model="m", messages=ASK, n=4, seed=1, max_tokens=60, logit_bias=bias).usage
        n = usage.completion_tokens_details.reasoning_tokens
        assert 0 < n <= usage.completion_tokens and (n == usage.completion_tokens) == is_all, usage


def test_reasoning_tokens_of_beams_are_counted(server, tmp_path):
    pieces = [("</think>" if text == "t" else text, *rest) for text, *rest in VOCABULARY]  # "t" is frequent
    path = write_chat_model(tmp_path / "m.gguf", TEMPLATES["DeepSeek-R1"], context=8192, pieces=pieces)
    made = api_test.client_of(server(path, "-t", "1", "--name", "m")).chat.completions.create(
        model="m", messages=ASK, n=4, max_tokens=60, extra_body={"use_beam_search": True})
    assert any(choice.message.content for choice in made.choices)
    assert 0 < made.usage.completion_tokens_details.reasoning_tokens < made.usage.completion_tokens


def test_templates_without_thinking_have_no_reasoning(server, tmp_path):
    path = write_chat_model(tmp_path / "m.gguf", context=8192, pieces=VOCABULARY)
    client = api_test.client_of(server(path, "-t", "1", "--name", "m"))
    text = "<think>us</think>he"
    assert answer(client, logit_bias={}, extra_body={"guided_choice": [text]}) == (None, text)


def test_text_offsets_count_markers_that_are_control_tokens(client_of):
    [choice] = client_of("Qwen 3", kind=3).completions.create(
        model="m", prompt="he", max_tokens=60, logprobs=0, logit_bias={BEGIN: 100, END: 100},
        extra_body={"guided_regex": "<think>us</think>he"}).choices
    assert choice.text == "<think>us</think>he"
    assert choice.logprobs.text_offset[choice.logprobs.tokens.index("</think>")] == len("<think>us")


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("name", ["Qwen 3", "SmolLM3"])
def test_calls_follow_the_reasoning(client_of, name, choice):
    seen = 0
    for seed in range(SEEDS // 2):
        [made] = client_of(name).chat.completions.create(
            model="m", messages=ASK, tools=TOOLS, tool_choice=choice, seed=seed, max_tokens=3000,
            logit_bias=ENDS | MARKS | {BEGIN - 1: 7.0}).choices  # makes <tool_call> likely
        calls = made.message.tool_calls or []
        assert_valid(calls if made.finish_reason == "tool_calls" else calls[:-1])
        assert choice == "auto" or (made.finish_reason == "tool_calls" and not made.message.content)
        seen += bool(calls and made.message.model_dump().get("reasoning"))
    assert seen or choice == "auto"


@pytest.mark.parametrize("variables", [{}, {"enable_thinking": False}, {"enable_thinking": True}], ids=str)
@pytest.mark.parametrize("name", TEMPLATES)
def test_chat_template_kwargs(client_of, name, variables):
    """The number of prompt tokens must equal that of the prompt that transformers renders."""
    client = client_of(name)
    [text], _ = render_jinja_template(conversations=[ASK], chat_template=TEMPLATES[name], add_generation_prompt=True,
                                      **({"bos_token": "<s>"} | variables))
    parts = re.split(r"(<s>|<think>|</think>|<\|im_start\|>|<\|im_end\|>)", text)  # odd indices: markers of one token
    expected = len(parts) // 2 + sum(
        client.completions.create(model="m", prompt=part, max_tokens=1).usage.prompt_tokens for part in parts[::2] if part)
    said = client.chat.completions.create(model="m", messages=ASK, max_tokens=1, extra_body={"chat_template_kwargs": variables})
    assert said.usage.prompt_tokens == expected
    if variables == {"enable_thinking": False}:
        none = client.chat.completions.create(model="m", messages=ASK, max_tokens=1, reasoning_effort="none")
        assert none.usage.prompt_tokens == expected


def test_documents_reach_the_template_in_their_order(server, tmp_path):
    path = write_chat_model(tmp_path / "m.gguf", "{{ messages[0].content }}{{ documents[0] | list | first }}")
    client = api_test.client_of(server(path, "-t", "1", "--name", "m"))
    said = client.chat.completions.create(model="m", messages=ASK, max_tokens=1, extra_body={
        "chat_template_kwargs": {"documents": [{"title": "b", "a": "c"}]}})
    text = client.completions.create(model="m", prompt=ASK[0]["content"] + "title", max_tokens=1)
    assert said.usage.prompt_tokens == text.usage.prompt_tokens


def test_reasoning_is_accepted_under_both_names(client_of):
    client = client_of("Qwen 3")
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    back = {"role": "tool", "tool_call_id": "a", "content": "us"}

    def n_prompt(**more):
        return client.chat.completions.create(model="m", messages=[*ASK, said | more, back], max_tokens=1).usage.prompt_tokens

    plain = n_prompt()
    assert n_prompt(reasoning_content="he is") == n_prompt(reasoning="he is") > plain
    assert n_prompt(reasoning_content="he is", reasoning="he is") == n_prompt(reasoning="he is")
    assert n_prompt(reasoning_content=None, reasoning="") == plain
    with pytest.raises(openai.BadRequestError, match="reasoning"):
        client.chat.completions.create(model="m", messages=[ASK[0] | {"reasoning": "he"}], max_tokens=1)
    with pytest.raises(openai.BadRequestError, match="messages"):
        client.chat.completions.create(model="m", messages=ASK, extra_body={"chat_template_kwargs": {"messages": []}})
