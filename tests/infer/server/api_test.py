"""Tests the API with OpenAI's Python client: every output equals that of `generate`."""

import json
import re
import textwrap
import urllib.request

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from chat_model import write_chat_model
from support import GOLDEN, HANG, ROOT, generate, one_json, succeed
from wire import get, metric, post

PROMPT = "ROMEO:\nWhat"
# For each field of the API, the flag of `generate` and a value that affects the output.
FIELDS = {
    "temperature": ("--temperature", 0.7),
    "top_p": ("--top-p", 0.8),
    "top_k": ("--top-k", 5),
    "min_p": ("--min-p", 0.1),
    "repetition_penalty": ("--repeat-penalty", 1.5),
    "presence_penalty": ("--presence-penalty", 1.5),
    "frequency_penalty": ("--frequency-penalty", 0.7),
    "logit_bias": ("--logit-bias", {"1": 4.0}),
}
EXTRA = {"top_k", "min_p", "repetition_penalty"}  # OpenAI's API lacks them, so its client sends them as extra_body


@pytest.fixture(scope="module")
def chatty(server, tmp_path_factory):
    return server(write_chat_model(tmp_path_factory.mktemp("chat") / "chatty.gguf"), "-t", "1")


def client_of(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=HANG)


def alone(prompt, seed, n=24, **fields):
    """Returns the output of `generate`. Fields that are not given have OpenAI's defaults."""
    flags = {"--temperature": 1, "--top-p": 1, "--repeat-last-n": 100000}
    for name, value in fields.items():
        flags[FIELDS[name][0]] = "=".join(map(str, *value.items())) if name == "logit_bias" else value
    return generate(GOLDEN, "-p", prompt, "-n", n, "-s", seed, "-t", "1", *(x for f in flags.items() for x in f))["text"]


def completion(client, prompt, seed, n=24, **fields):
    extra = {name: fields.pop(name) for name in EXTRA & fields.keys()}
    return client.completions.create(model="golden", prompt=prompt, seed=seed, max_tokens=n, extra_body=extra, **fields)


def streamed(chunks):
    """Returns two dicts, the outputs and the finish reasons of a stream. Their keys are the indices of choices."""
    texts, reasons = {}, {}
    for chunk in chunks:
        for choice in chunk.choices:
            text = choice.delta.content if hasattr(choice, "delta") else choice.text
            texts[choice.index] = texts.get(choice.index, "") + (text or "")
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
    return texts, reasons


@pytest.mark.parametrize("name", [None, *FIELDS])
def test_completions_match_generate(golden, name):
    fields = {} if name is None else {name: FIELDS[name][1]}
    expected = alone(PROMPT, 5, **fields)
    whole = completion(client_of(golden), PROMPT, 5, **fields)
    assert whole.choices[0].text == expected
    assert (whole.choices[0].finish_reason, whole.seed) == ("length", 5)
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (len(PROMPT), 24)
    texts, reasons = streamed(completion(client_of(golden), PROMPT, 5, stream=True, **fields))
    assert (texts, reasons) == ({0: expected}, {0: "length"})
    if name is not None:
        assert expected != alone(PROMPT, 5)


def test_choices_use_hashes_of_the_seed(golden):
    def splitmix64(x):
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    seeds = [7] + [splitmix64(splitmix64(7) ^ i) for i in range(1, 4)]
    expected = [alone(PROMPT, seed) for seed in seeds]
    done = client_of(golden).completions.create(model="golden", prompt=PROMPT, seed=7, max_tokens=24, n=4)
    assert [c.text for c in done.choices] == expected
    texts, _ = streamed(client_of(golden).completions.create(model="golden", prompt=PROMPT, seed=7, max_tokens=24, n=4,
                                                             stream=True))
    assert [texts[i] for i in range(4)] == expected


def test_beams_match_generate(golden):
    fields = {"use_beam_search": True, "best_of": 4, "length_penalty": 2.0, "early_stopping": "never"}
    flags = ["--beams", 4, "--beams-out", 3, "--length-penalty", 2, "--early-stopping=never", "-n", 20, "-t", 1]
    done = client_of(golden).completions.create(model="golden", prompt=[PROMPT, "aaaa"], max_tokens=20, n=3,
                                                temperature=0, stop="o", extra_body=fields)
    expected = [beam for prompt in (PROMPT, "aaaa")
                for beam in generate(GOLDEN, "-p", prompt, "--stop", "o", *flags)["beams"]]
    assert [c.text for c in done.choices] == [beam["text"] for beam in expected]
    assert [c.finish_reason for c in done.choices] == [beam["finish_reason"] for beam in expected]
    assert [c.model_extra["score"] for c in done.choices] == [beam["score"] for beam in expected]
    assert done.usage.completion_tokens == sum(len(beam["tokens"]) for beam in expected)


def test_prompts_may_be_texts_ids_or_lists(golden):
    client = client_of(golden)
    ids = {text: post(golden, "/tokenize", {"prompt": text})[1]["tokens"] for text in ("MENENIUS:", "The ")}
    expected = [alone(text, 3) for text in ids]
    for prompts in (list(ids), list(ids.values())):
        assert [c.text for c in completion(client, prompts, 3).choices] == expected
    assert completion(client, ids["The "], 3).choices[0].text == expected[1]
    long = [1] * (client.models.retrieve("golden").context_length - 2)  # has space for two tokens, the other for more
    assert completion(client, [long, ids["The "]], 3).choices[1].text == expected[1]
    assert post(golden, "/detokenize", {"tokens": ids["The "]})[1] == {"prompt": "The "}


def test_speculation_does_not_change_completions(server, golden):
    expected = [c.text for c in completion(client_of(golden), [PROMPT, "aaaa"], 5, n=60).choices]
    # The second server's draft model is the golden model itself, so all of its draft tokens are accepted.
    for flags in (("--speculate", "4"), ("--speculate", "4", "--draft-model", GOLDEN)):
        guessing = server(GOLDEN, "-t", "1", "--name", "golden", *flags)
        assert [c.text for c in completion(client_of(guessing), [PROMPT, "aaaa"], 5, n=60).choices] == expected
    assert metric(guessing, "folio_drafts_right_total") == metric(guessing, "folio_drafts_total") > 0


def test_top_k_minus_one_disables_it(golden):
    texts = {completion(client_of(golden), PROMPT, 5, top_k=k).choices[0].text for k in (0, -1)}
    assert texts == {alone(PROMPT, 5)} == {alone(PROMPT, 5, top_k=-1)} != {alone(PROMPT, 5, top_k=2)}


def test_models_are_listed_by_name(server, golden, chatty):
    client = client_of(golden)
    assert client.models.retrieve("golden") == client.models.list().data[0]
    odd = server(GOLDEN, "-t", "1", "--name", "a/b c%2")
    assert client_of(odd).models.retrieve("a/b c%2") == client_of(odd).models.list().data[0]
    for path, status in (("a%2Fb%20c%252", 200), ("a%2fb%20c%2", 200), ("a%2Fb%20c%", 404), ("a%2Fb%20c%2G", 404)):
        assert get(odd, f"/v1/models/{path}")[0] == status, "invalid escapes are kept"
    for name in ("other", "golden/", "%", ""):
        with pytest.raises(openai.NotFoundError if name else ValueError):
            client.models.retrieve(name)
    # A request for an unknown model must not add its name to the labels of the metrics.
    text = urllib.request.urlopen(golden.url + "/metrics").read().decode()
    assert "/v1/models/{model}" in text and "/v1/models/other" not in text


def test_random_seed_is_returned(golden):
    client = client_of(golden)
    first, second = (client.completions.create(model="golden", prompt=PROMPT, max_tokens=24) for _ in range(2))
    assert first.seed != second.seed
    assert first.choices[0].text == alone(PROMPT, first.seed)
    assert client.completions.create(model="golden", prompt=PROMPT, max_tokens=1, seed=-1).seed == -1


MESSAGES = [{"role": "system", "content": "he is"}, {"role": "user", "content": "hello"}]


@pytest.mark.parametrize("temperature", [0, 1])
def test_chat_completions_match_chat(chatty, temperature):
    expected = one_json(succeed("chat", "-m", chatty.args[2], "--system", "he is", "-p", "hello", "-s", 3, "-n", 16,
                                "--temperature", temperature, "--top-p", 1, "-t", 1, "--json").stdout)
    fields = {"model": "chatty", "messages": MESSAGES, "seed": 3, "temperature": temperature}
    create = client_of(chatty).chat.completions.create
    done = create(**fields, max_completion_tokens=16)
    assert done.choices[0].message.content == expected["text"]
    assert done.choices[0].finish_reason == expected["finish_reason"]
    assert done.usage.prompt_tokens == len(expected["prompt_tokens"])
    chunks = list(create(**fields, max_tokens=16, stream=True, logprobs=True, top_logprobs=2,
                         stream_options={"include_usage": True}))
    assert streamed(chunks)[0] == {0: expected["text"]}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == len(expected["tokens"])
    entries = [e for c in chunks if c.choices and c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert [e.id for e in entries] == expected["tokens"]
    assert all(len(e.top_logprobs) == 2 and e.top_logprobs[0].logprob >= e.top_logprobs[1].logprob for e in entries)
    if temperature == 0:  # otherwise some tokens are invalid UTF-8
        assert bytes(b for e in entries for b in e.bytes).decode() == expected["text"]
    assert post(chatty, "/tokenize", {"messages": MESSAGES})[1]["tokens"] == expected["prompt_tokens"]


def test_cached_prompts_are_not_recomputed(chatty):
    client = client_of(chatty)
    messages = [{"role": "user", "content": "hello " * 30}]
    create = lambda: client.chat.completions.create(model="chatty", messages=messages, seed=1, max_tokens=8, n=2)  # noqa: E731
    total = metric(chatty, "folio_cached_tokens_total")
    first, second = create(), create()
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert second.usage.prompt_tokens_details.cached_tokens == second.usage.prompt_tokens // 32 * 32
    assert first.choices[0].message.content == second.choices[0].message.content
    assert metric(chatty, "folio_cached_tokens_total") == total + second.usage.prompt_tokens_details.cached_tokens


# Fields that clients send to OpenAI or vLLM, and that the server accepts but ignores. LangChain's VLLMOpenAI sends those
# of beam search even without beam search.
UNUSED = {"use_beam_search": False, "best_of": 1, "length_penalty": 1.0, "early_stopping": False,
          "metadata": {"a": "b"}, "service_tier": "auto", "store": False, "prompt_cache_key": "k", "verbosity": "low",
          "safety_identifier": "s", "prompt_cache_retention": "24h", "user": "u", "nobody_knows_this": None, "audio": None,
          "function_call": None, "chat_template_kwargs": None, "top_k": None, "response_format": {"type": "text"}}


@pytest.mark.parametrize(("path", "fields"), [
    ("/v1/completions", {"prompt": "a"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi", "x": None}]})])
def test_fields_of_other_servers_are_ignored(chatty, path, fields):
    fields |= {"seed": 1, "max_tokens": 5}
    status, plain = post(chatty, path, fields)
    assert status == 200 and post(chatty, path, fields | UNUSED)[1]["choices"] == plain["choices"]
    for name, value in {**UNUSED, "store": True, "metadata": "text"}.items():
        wrong = True if name == "store" else 3
        if value is not None:
            status, answer = post(chatty, path, fields | {name: wrong})
            assert status == 400 and answer["error"]["param"] == name, answer


def test_chat_without_a_template_explains_why(golden):
    with pytest.raises(openai.BadRequestError, match="no chat template.*/v1/completions"):
        client_of(golden).chat.completions.create(model="golden", messages=[{"role": "user", "content": "hi"}])
    assert post(golden, "/tokenize", {"messages": [{"role": "user", "content": "hi"}]})[0] == 400


def test_documented_client_code_runs(golden, capsys):
    for page in ("README.md", "docs/server.md"):
        [lines] = re.findall(r"(?:^    .*\n)*^    .*base_url.*\n(?:^    .*\n)*", (ROOT / page).read_text(), re.M)
        exec(textwrap.dedent(lines).replace("http://127.0.0.1:8080", golden.url), {})  # this server's port
        assert len(capsys.readouterr().out) > 10


@pytest.mark.parametrize(("path", "unknown", "nearest"), [
    ("completions", "max_new_tokens", "max_tokens"), ("completions", "maxTokens", "max_tokens"),
    ("completions", "promt", "prompt"), ("chat/completions", "top-k", "top_k"), ("chat/completions", "mesages", "messages"),
    ("chat/completions", "sede", "seed"), ("chat/completions", "repeat_penalty", "repetition_penalty"),
    ("completions", "nonsense", None), ("completions", "x" * 100_000, None)], ids=lambda x: str(x)[:20])
def test_unknown_fields_suggest_the_nearest(golden, path, unknown, nearest):
    status, answer = post(golden, f"/v1/{path}", {unknown: 1})
    found = re.search(r"\(did you mean (\w+)\?\)", answer["error"]["message"])
    assert status == 400 and (found and found[1]) == nearest, answer
    assert answer["error"]["code"] == "unknown_parameter"


WRONG = [
    ({"temperature": 100.5}, "temperature", "[0, 100]"),
    ({"temperature": "hot"}, "temperature", "number"),
    ({"top_k": 1.5}, "top_k", "integer"),
    ({"logit_bias": {"x": 1}}, "logit_bias", "vocabulary"),
    ({"logit_bias": {"1": 101}}, "logit_bias", "[-100, 100]"),
    ({"logit_bias": {"99999": 1}}, "logit_bias", "99999"),
    ({"logit_bias": {"-0": 1}}, "logit_bias", "token 0 as -0"),
    ({"n": 0}, "n", "[1, 128]"),
    ({"max_tokens": 0}, "max_tokens", "[1,"),
    ({"max_tokens": 2**70}, "max_tokens", ""),
    ({"stop": 3}, "stop", "string"),
    ({"stop": [""]}, "stop", "empty"),
    ({"stop": ["x"] * 17}, "stop", "16"),
    ({"stop_token_ids": 3}, "stop_token_ids", "list"),
    ({"stop_token_ids": [66]}, "stop_token_ids", "66"),
    ({"stop_token_ids": [0] * 1025}, "stop_token_ids", "1024"),
    ({"stream": 1}, "stream", "true or false"),
    ({"stream_options": {}}, "stream_options", "stream"),
    ({"stream": True, "stream_options": {"x": 1}}, "x", "unknown"),
    ({"logprobs": 21}, "logprobs", "[0, 20]"),
    ({"suffix": "x"}, "suffix", "not supported"),
    ({"best_of": 2}, "best_of", "only supported as 1"),
    ({"model": "gpt-4"}, "model", "golden"),
    ({"prompt": 3}, "prompt", "string"),
    ({"prompt": []}, "prompt", "list"),
    ({"prompt": [1, -1]}, "prompt", "-1"),
    ({"prompt": [1, 10**6]}, "prompt", "vocabulary"),
    ({"prompt": ["a", 1]}, "prompt", "string"),
    ({"prompt": ["a"] * 129}, "prompt", "128"),
    ({"prompt": "Zürich"}, "prompt", "ü"),
    ({"prompt": "a" * 5000}, "prompt", "5000"),
    ({"nonsense": 1, "more": 2}, "more", "more, nonsense"),
    ({"length_penalty": 2}, "length_penalty", "use_beam_search"),
    ({"early_stopping": True}, "early_stopping", "use_beam_search"),
    ({"use_beam_search": True, "stream": True}, "stream", "use_beam_search"),
    ({"use_beam_search": True, "logprobs": 1}, "logprobs", "use_beam_search"),
    ({"use_beam_search": True, "temperature": 0.5}, "temperature", "use_beam_search"),
    ({"use_beam_search": True, "top_k": 3}, "top_k", "use_beam_search"),
    ({"use_beam_search": True, "logit_bias": {}}, "logit_bias", "use_beam_search"),
    ({"use_beam_search": True, "n": 65}, "n", "[1, 64]"),
    ({"use_beam_search": True, "n": 3, "best_of": 2}, "best_of", "[3, 64]"),
    ({"use_beam_search": True, "early_stopping": "soon"}, "early_stopping", "never"),
]


@pytest.mark.parametrize(("fields", "param", "part"), WRONG, ids=lambda x: json.dumps(x)[:40])
def test_invalid_fields_are_rejected_by_name(golden, fields, param, part):
    status, answer = post(golden, "/v1/completions", {"prompt": "a", "max_tokens": 2, **fields})
    error = answer["error"]
    assert status == (404 if param == "model" else 400)
    assert error["param"] == param and part in error["message"], error
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(("fields", "part"), [
    ({"messages": []}, "list"),
    ({"messages": [{"role": "function", "content": "x"}]}, "role"),
    ({"tools": [{}]}, "tools"),
    ({"response_format": {"type": "xml"}}, "response_format"),
    ({"top_logprobs": 3}, "logprobs"),
    ({"chat_template_kwargs": [1]}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"add_generation_prompt": False}}, "add_generation_prompt"),
    ({"reasoning_effort": 3}, "reasoning_effort"),
    ({"include_reasoning": "no"}, "include_reasoning"),
    ({"messages": [{"role": "assistant", "content": "a", "reasoning": 3}]}, "reasoning"),
], ids=lambda x: json.dumps(x)[:40])
def test_invalid_chats_are_rejected(chatty, fields, part):
    status, answer = post(chatty, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], **fields})
    assert status == 400 and part in answer["error"]["message"], answer


def test_metrics_follow_the_prometheus_format(golden):
    def read():
        with urllib.request.urlopen(f"{golden.url}/metrics", timeout=HANG) as reply:
            families = list(text_string_to_metric_families(reply.read().decode()))
        return {(s.name, *sorted(s.labels.items())): s.value for f in families for s in f.samples}

    before = read()
    completion(client_of(golden), PROMPT, 9, n=10)
    after = read()
    grown = {key: after[key] - before.get(key, 0) for key in after if "bucket" not in key[0]}
    assert grown[("folio_generation_tokens_total",)] == 10
    assert grown[("folio_prompt_tokens_total",)] == len(PROMPT)
    assert grown[("folio_time_to_first_token_seconds_count",)] == 1
    assert grown[("folio_time_between_tokens_seconds_count",)] == 9
    assert grown[("folio_http_requests_total", ("path", "/v1/completions"), ("status", "200"))] == 1
    assert after[("folio_requests_running",)] == after[("folio_cache_blocks_in_use",)] == 0
    assert after[("folio_step_seconds_total",)] > after[("folio_plan_seconds_total",)] > 0
