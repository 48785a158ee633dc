"""Tests folio.fast_llm, FastLLM's interface: tokens and outputs equal those of folio.Model, and misuse gives errors."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import support

import folio
from folio import fast_llm as llm
from stall import stalled

PROMPTS = ["ROMEO:", "JULIET:\nWhat", "First Citizen:", "K"]


@pytest.fixture(scope="module")
def adapter(model):
    return llm.model(model)


def fetched(adapter, handle):
    return list(iter(lambda: adapter.fetch_response(handle), -1))


def options_of(i):
    """Returns the options of the i-th request as two dicts, one with FastLLM's names and one with folio.Model's."""
    theirs = dict(output_token_limit=1 + i * 13 % 60, top_k=5 + i, top_p=0.9 if i % 4 else 1.0,
                  temperature=1.3 if i % 5 == 2 else 1.0, repeat_penalty=1.2 if i % 3 else 1.0,
                  last_n=0 if i % 6 == 1 else 32, seed=i)
    ours = dict(max_tokens=theirs["output_token_limit"], repetition_penalty=theirs["repeat_penalty"],
                repeat_last_n=theirs["last_n"] or 2**31 - 1,
                **{key: theirs[key] for key in ("top_k", "top_p", "temperature", "seed")})
    return theirs, ours


def test_handles_give_the_models_tokens(model, adapter):
    handles = [adapter.launch_response(PROMPTS[i % 4], **options_of(i)[0]) for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda handle: model.tokenizer.decode(fetched(adapter, handle)), handles))
    assert len(set(handles)) == 64
    assert texts == [model.generate(PROMPTS[i % 4], **options_of(i)[1]) for i in range(64)]


def test_defaults_match_fastllm(model, adapter):
    greedy = model.generate("ROMEO:", temperature=0, max_tokens=model.about["context"])
    assert adapter.response("ROMEO:") == greedy
    assert adapter.response("ROMEO:", config=llm.GenerationConfig(top_k=0, output_token_limit=9)) == greedy[:9]
    assert adapter.response("ROMEO:", max_length=9, do_sample=False, top_k=50) == greedy[:9]  # a token is a character
    space = adapter.encode(" ")[0]
    assert adapter.response("ROMEO:", stop_token_ids=[space]) == greedy.split(" ")[0]
    handle = adapter.launch_response(adapter.encode("ROMEO:"), stop_token_ids={space})
    assert fetched(adapter, handle) == adapter.encode(greedy.split(" ")[0])


def test_the_models_min_p_is_not_used(adapter, tmp_path):
    shutil.copytree(support.GOLDEN, tmp_path / "model")
    (tmp_path / "model" / "generation_config.json").write_text('{"min_p": 1.0}')  # folio.Model would be greedy
    with folio.Model(tmp_path / "model", threads=1) as model:
        options = dict(top_k=50, output_token_limit=20, seed=1)
        assert llm.model(model).response("ROMEO:", **options) == adapter.response("ROMEO:", **options)


def test_streaming_and_batches(model, adapter):
    _, ours = options_of(3)
    config = llm.GenerationConfig(**options_of(3)[0])
    expected = model.generate(PROMPTS, **ours)
    assert "".join(adapter.stream_response("ROMEO:", config=config)) == expected[0]
    whole = list(adapter.stream_response("ROMEO:", config=config, one_by_one=False))
    assert whole[-1] == expected[0] and all(b.startswith(a) for a, b in zip(whole, whole[1:]))
    calls = []
    assert adapter.response_batch(PROMPTS, lambda *call: calls.append(call), config) == expected
    assert [index for index, _ in calls] == [*range(len(calls) - 1), -1] and calls[-1][1] == expected
    assert ["".join(texts) for texts in zip(*(contents for _, contents in calls[:-1]))] == expected
    assert adapter.response_batch(PROMPTS, config=config) == expected and adapter.response_batch([]) == []


def test_unknown_handles_are_errors(adapter):
    handle = adapter.launch_response("ROMEO:")
    adapter.fetch_response(handle)
    adapter.abort_handle(handle)
    adapter.abort_handle(handle)
    assert adapter.fetch_response(handle) == -1
    for unknown in (-1, 10**9):
        for call in (adapter.fetch_response, adapter.abort_handle):
            with pytest.raises(folio.Error, match=f"^unknown handle {unknown}: launch_response has returned"):
                call(unknown)


def test_abort_wakes_waiting_threads(model, adapter):
    def tokens():
        return model.statistics["tokens"]

    handles = [adapter.launch_response("ROMEO:") for _ in range(3)]
    for handle in handles:
        assert adapter.fetch_response(handle) >= 0
    with stalled(model):
        handles += [adapter.launch_response("ROMEO:") for _ in range(3)]
        threads = [threading.Thread(target=fetched, args=(adapter, handle)) for handle in handles]
        for thread in threads:
            thread.start()
        for handle in handles:
            adapter.abort_handle(handle)
        before = tokens()
    for thread in threads:
        thread.join()
    adapter.response("Hello", output_token_limit=1)
    assert tokens() - before <= 2  # response() and stalled() generate one token each
    assert model.statistics["running"] == 0


def test_closing_the_model_ends_its_requests(golden_gguf):
    adapter = llm.model(golden_gguf, threads=1)
    handle = adapter.launch_response("ROMEO:")
    adapter.release_memory()
    assert adapter.fetch_response(handle) == -1
    with pytest.raises(folio.Error, match="closed"):
        adapter.launch_response("ROMEO:")


def test_invalid_requests_are_rejected(adapter):
    for call in (adapter.launch_response, adapter.response, lambda prompt: adapter.response_batch([prompt])):
        with pytest.raises(folio.Error, match="300 tokens"):
            result = call("a" * 300)
            if isinstance(result, int):
                adapter.fetch_response(result)
    with pytest.raises(TypeError, match="top_q"):
        adapter.response("K", top_q=1)
    with pytest.raises(TypeError, match="one_by_one"):  # only for stream_response()
        adapter.response("K", one_by_one=False)
    with pytest.raises(TypeError, match="max_length and output_token_limit are the same option"):
        adapter.response("K", max_length=1, output_token_limit=2)
    with pytest.raises(ValueError, match="temperature"):
        adapter.response("K", temperature=-1)
    with pytest.raises(ValueError, match="top_p"):
        adapter.launch_response("K", top_p=2)
    with pytest.raises(ValueError, match="repeat_penalty is 0, but has to be in"):
        adapter.response_batch(["K"], repeat_penalty=0)


def test_messages_are_concatenated_without_a_template(model, adapter):
    assert adapter.response("\nJULIET:", [("ROMEO:", " ay")], output_token_limit=9) == model.generate(
        "ROMEO: ay\nJULIET:", max_tokens=9, temperature=0)
    adapter.warmup()


def test_answers_match_chat(chats):
    chat = llm.model(chats)
    history = [("What is 2 + 2?", "4.")]
    messages = [dict(role="user", content="What is 2 + 2?"), dict(role="assistant", content="4."),
                dict(role="user", content="And one more?")]
    answer = chats.chat(messages, temperature=0, max_tokens=20)
    assert chat.response("And one more?", history, output_token_limit=20) == answer
    text = chat.make_input(chat.make_history("", 0, *history[0]), 1, "And one more?")
    assert chat.encode(text) == chats.tokenizer.apply_chat_template(messages)
    assert chat.response_batch([text], output_token_limit=20) == [answer]
