"""Compares folio.Model with Folio's programs and with transformers: outputs, logits, log probabilities and errors."""

import asyncio
import re

import numpy as np
import pytest
import support

import folio

PROMPTS = ["ROMEO:", "JULIET:\nWhat", "First Citizen:", "K"]


def told(golden_gguf, prompt, *flags):
    return support.generate(golden_gguf, *flags, prompt)["text"]


def test_text_matches_the_program(golden_gguf, model):
    for prompt in PROMPTS:
        assert model.generate(prompt, max_tokens=40, seed=3) == told(golden_gguf, prompt, "-n", 40, "-s", 3)
    assert model.generate("ROMEO:", seed=5) == told(golden_gguf, "ROMEO:", "-s", 5)
    options = dict(temperature=1.3, top_k=20, top_p=0.9, min_p=0.01, repetition_penalty=1.1, repeat_last_n=32,
                   presence_penalty=0.2, frequency_penalty=0.1, logit_bias={"3": -5, 7: 2.5}, stop=["\n\n"])
    flags = ["--temperature", 1.3, "--top-k", 20, "--top-p", 0.9, "--min-p", 0.01, "--repetition-penalty", 1.1,
             "--repeat-last-n", 32, "--presence-penalty", 0.2, "--frequency-penalty", 0.1, "--logit-bias", "3=-5",
             "--logit-bias", "7=2.5", "--stop", "\n\n"]
    text = model.generate("ROMEO:", seed=8, max_tokens=120, **options)
    assert text == told(golden_gguf, "ROMEO:", "-s", 8, "-n", 120, *flags) and text


def test_special_tokens_in_prompts_match_generate(chat_gguf, chats):
    prompt = "<|im_start|>user\nhello<|im_end|>\n"
    parsed, plain = (support.generate(chat_gguf, *flags, "-n", 8, "-s", 1, prompt)
                     for flags in ([], ["--no-parse-special"]))
    assert len(parsed["prompt_tokens"]) < len(plain["prompt_tokens"])
    for expected, options in (parsed, {}), (plain, {"parse_special": False}):
        assert chats.tokenizer.encode(prompt, prefix=True, **options) == expected["prompt_tokens"]
        assert chats.generate(prompt, max_tokens=8, seed=1, **options) == expected["text"]
        assert np.array_equal(chats.score(prompt, **options), chats.score(expected["prompt_tokens"]))
    # A special token in the content of a chat message is plain text.
    ids = chats.tokenizer.apply_chat_template([{"role": "user", "content": "<|im_start|>"}])
    assert ids.count(parsed["prompt_tokens"][0]) == ids.count(chats.tokenizer.encode("<|im_start|>")[0]) == 3


def test_defaults_come_from_generation_config_json(golden_gguf, tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "generation_config.json").write_text('{"temperature": 0.3, "top_k": 5}')
    prompt = {"seed": 3, "max_tokens": 40}
    with folio.Model(golden_gguf, threads=1, generation_config=folder) as model:
        ours = [model.generate("ROMEO:", **prompt), model.generate("ROMEO:", temperature=1.0, **prompt)]
    with folio.Model(golden_gguf, threads=1, generation_config="none") as model:
        assert ours == [model.generate("ROMEO:", temperature=0.3, top_k=5, **prompt),
                        model.generate("ROMEO:", temperature=1.0, top_k=5, **prompt)] != [model.generate("ROMEO:", **prompt)] * 2
    (folder / "generation_config.json").write_text('{"temperature": -1}')
    with pytest.raises(folio.Error, match="generation_config.json: temperature is -1"):
        folio.Model(golden_gguf, generation_config=folder)


def test_list_of_prompts_matches_single_prompts(model):
    alone = [model.generate(prompt, max_tokens=30, seed=1) for prompt in PROMPTS]
    assert model.generate(PROMPTS, max_tokens=30, seed=1) == alone
    assert model.generate(tuple(PROMPTS), max_tokens=30, seed=1) == alone
    ids = [model.tokenizer.encode(prompt) for prompt in PROMPTS]
    assert model.generate(ids, max_tokens=30, seed=1) == alone
    assert model.generate(np.array(ids[0]), max_tokens=30, seed=1) == alone[0]
    assert model.generate([np.array(one) for one in ids], max_tokens=30, seed=1) == alone
    assert model.generate(np.array([ids[0]] * 2), max_tokens=30, seed=1) == [alone[0]] * 2
    several = model.generate(PROMPTS[:2], max_tokens=30, seed=1, n=3)
    assert [each[0] for each in several] == alone[:2] and [len(each) for each in several] == [3, 3]
    assert model.generate(PROMPTS[0], max_tokens=30, seed=1, n=3) == several[0]


def test_short_prompts_in_a_batch_keep_their_context(model):
    context = model.about["context"]
    long = "ROMEO: " * context
    prompts = [long[:context - 5], "ROMEO:"]
    assert model.generate(prompts, max_tokens=20, seed=1) == [
        model.generate(prompt, max_tokens=20, seed=1) for prompt in prompts]


def test_stream_of_several_prompts_matches_generate(model):
    texts = ["", ""]
    for choice, piece in model.stream(PROMPTS[:2], max_tokens=20, seed=2):
        texts[choice] += piece
    assert texts == model.generate(PROMPTS[:2], max_tokens=20, seed=2)


def test_a_slow_task_receives_all_pieces(model):
    async def main():
        text = ""
        async for piece in model.astream("ROMEO:", max_tokens=100, seed=1):
            text += piece
            while model.statistics["running"] > 0:  # until the last piece was delivered
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
        return text

    assert asyncio.run(asyncio.wait_for(main(), 60)) == model.generate("ROMEO:", max_tokens=100, seed=1)


def test_cancelled_task_ends_its_request(model):
    async def main():
        task = asyncio.create_task(model.agenerate(["ROMEO:"] * 5000, max_tokens=200, seed=1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await model.agenerate("ROMEO:", max_tokens=1)  # when this returns, earlier requests have ended
        assert model.statistics["running"] == model.statistics["waiting"] == 0

    asyncio.run(main())


def test_beams_match_the_program(golden_gguf, model):
    found = model.beam("ROMEO:", 4, max_tokens=20, length_penalty=0.5)
    json = support.generate(golden_gguf, "--beams", 4, "--beams-out", 4, "--length-penalty", 0.5, "-n", 20, "ROMEO:")
    assert [text for text, _ in found] == [beam["text"] for beam in json["beams"]]
    assert [score for _, score in found] == pytest.approx([beam["score"] for beam in json["beams"]], abs=0)
    assert model.beam("ROMEO:", 4, n=1, max_tokens=20, length_penalty=0.5) == found[:1]
    assert model.beam(["a", "ROMEO:"], 4, n=1, max_tokens=20, length_penalty=0.5)[1] == found[:1]
    with pytest.raises(TypeError, match="best_of"):
        model.beam("ROMEO:", 4, best_of=5)
    for width, n, message in (65, None, "width is 65, but has to be in [1, 64]"), (4, 5, "n is 5, but has to be in [1, 4]"):
        with pytest.raises(ValueError, match=re.escape(message)):
            model.beam("ROMEO:", width, n)


def test_values_match_transformers(model, oracle, tokenizer):
    import torch

    text = "ROMEO: What light through yonder window breaks?\nJULIET: "
    ids = model.tokenizer.encode(text)
    assert ids == tokenizer(text)["input_ids"] and model.tokenizer.decode(ids) == text
    with torch.no_grad():
        out = oracle(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
    logits = model.logits(ids)
    assert logits.dtype == np.float32 and logits.shape == (len(ids), model.config["vocab_size"])
    assert logits.flags.owndata or logits.base is not None
    np.testing.assert_allclose(logits, out.logits[0].numpy(), atol=1e-4)
    expected = torch.log_softmax(out.logits[0].double(), -1)[range(len(ids) - 1), ids[1:]].numpy()
    np.testing.assert_allclose(model.score(text), expected, atol=1e-4)
    np.testing.assert_allclose(model.score(ids), expected, atol=1e-4)
    places = model.trace(ids)
    for layer in range(model.config["n_layers"]):
        np.testing.assert_allclose(model.attention(ids, layer), out.attentions[layer][0].numpy(), atol=1e-5)
        residual = places["embedding"] if layer == 0 else places[f"layers.{layer - 1}.ffn_residual"]
        np.testing.assert_allclose(residual, out.hidden_states[layer][0].numpy(), atol=1e-4)
    np.testing.assert_array_equal(places["logits"], logits)
    for name, place in places.items():
        assert place.dtype == np.float32 and len(place) == len(ids), name


def test_arrays_outlive_the_model(golden_gguf):
    with folio.Model(golden_gguf, threads=1) as other:
        logits = other.logits(other.tokenizer.encode("ROMEO:"))
        again = logits.copy()
        places = other.trace([1, 2, 3])
    del other
    assert np.array_equal(logits, again) and all(np.isfinite(place).all() for place in places.values())


def test_chat_matches_the_program(chat_gguf, chats):
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    answer = chats.chat(messages, temperature=0, max_tokens=12)
    assert chats.chat(messages[0]["content"], temperature=0, max_tokens=12) == answer
    assert "".join(chats.chat(messages, stream=True, temperature=0, max_tokens=12)) == answer
    json = support.one_json(support.succeed("chat", "-m", chat_gguf, "--temp", 0, "-n", 12, "--json",
                                            "--prompt", messages[0]["content"]).stdout)
    assert json["text"] == answer
    ids = chats.tokenizer.apply_chat_template(messages)
    assert ids == json["prompt_tokens"]
    assert chats.generate(ids, temperature=0, max_tokens=12) == answer


def test_chat_error_of_a_base_model_suggests_generate(model):
    for call in (model.chat, lambda m: model.complete(messages=m), lambda m: list(model.chat(m, stream=True))):
        with pytest.raises(folio.Error, match=r"no chat template: use generate\(\)"):
            call("Hello")


def test_max_tokens_of_a_chat_matches_the_server(chats):
    whole = chats.complete(messages="he is", temperature=0)
    assert whole["usage"]["total_tokens"] == chats.about["context"], "as many as fit in the context"
    assert chats.chat("he is", temperature=0) == whole["choices"][0]["message"]["content"]


WRONG = [
    (TypeError, "unknown field: max_new_tokens (did you mean max_tokens?)", dict(max_new_tokens=1)),
    (TypeError, "unknown field: regexp (did you mean regex?)", dict(regexp="a")),
    (TypeError, "'temperature' must be a number", dict(temperature="hot")),
    (TypeError, "'n' must be an integer", dict(n="2")),
    (TypeError, "'logprobs' is an option of the server's alone", dict(logprobs=3)),
    (ValueError, "'temperature' is nan, but must be finite", dict(temperature=float("nan"))),
    (ValueError, "'top_p' is 1.5, but must be in [0, 1]", dict(top_p=np.float32(1.5))),
    (ValueError, "'max_tokens' is 18446744073709551615", dict(max_tokens=10**30)),
    (ValueError, "'logit_bias' has token 4096", dict(logit_bias={4096: 1})),
    (folio.Error, "the prompt has 1400 tokens, but must have fewer than", dict(prompt="ROMEO: " * 200)),
    (folio.Error, "'prompt' has 999999, which is not a token", dict(prompt=[999999])),
    (TypeError, "a prompt is a text, token ids, or a list of these, not float", dict(prompt=1.5)),
]


@pytest.mark.parametrize("kind, message, options", WRONG, ids=[message[:40] for _, message, _ in WRONG])
def test_invalid_options_give_one_line(model, kind, message, options):
    for call in (model.generate, lambda **o: list(model.stream(**o))):
        with pytest.raises(kind) as caught:
            call(**{"prompt": "ROMEO:", **options})
        assert type(caught.value) is kind
        assert message in str(caught.value) and "\n" not in str(caught.value)


def test_unreadable_files_give_one_line(golden_gguf, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF no more")
    for kind, message, path, options in [
        (folio.Error, "no such file", tmp_path / "absent.gguf", {}),
        (folio.Error, "bad.gguf", tmp_path / "bad.gguf", {}),
        (ValueError, "threads is 0, but has to be in [1, 1024]", golden_gguf, dict(threads=0)),
        (TypeError, "threads has to be an integer", golden_gguf, dict(threads=1.5)),
        (ValueError, "device is 'gpu', but has to be cpu, cuda or cuda:N", golden_gguf, dict(device="gpu")),
        (ValueError, "cache_type is 'q4', but has to be one of f32, f16, q8_0", golden_gguf, dict(cache_type="q4")),
        (folio.Error, "--context is 4096, but the model supports at most", golden_gguf, dict(context=4096)),
        (folio.Error, "absent.gguf", golden_gguf, dict(draft_model=tmp_path / "absent.gguf")),
        (ValueError, "speculate is 0, but draft and draft_model need", golden_gguf, dict(draft="ngram", speculate=0)),
        (ValueError, "speculate is 0, but draft and draft_model need", golden_gguf, dict(draft_model="a", speculate=0)),
        (ValueError, "adapter_scale is 2, but there is no adapter", golden_gguf, dict(adapter_scale=2)),
    ]:
        with pytest.raises(kind) as caught:
            folio.Model(path, **options)
        assert message.lower() in str(caught.value).lower() and "\n" not in str(caught.value), str(caught.value)
    with pytest.raises(folio.Error, match="GPU|CUDA"):
        folio.Model(golden_gguf, device="cuda:7")
    with pytest.raises(TypeError, match="unknown_option"):
        folio.Model(golden_gguf, unknown_option=1)


def test_closed_model_error(golden_gguf):
    other = folio.Model(golden_gguf, threads=1)
    stream = other.stream("ROMEO:", max_tokens=200, seed=1)
    next(stream)
    other.close()
    other.close()
    assert other.closed and "closed" in repr(other)
    for use in (lambda: list(stream), lambda: other.generate("a"), lambda: list(other.stream("a")),
                lambda: other.logits([1]), lambda: other.tokenizer.encode("a"), lambda: other.statistics):
        with pytest.raises(folio.Error, match="the model is closed"):
            use()


def test_draft_sources(golden_gguf, model):
    for options in (dict(draft_model=golden_gguf), dict(draft="ngram", speculate=3)):
        with folio.Model(golden_gguf, threads=1, **options) as drafts:
            assert drafts.generate(PROMPTS, max_tokens=40, seed=4) == model.generate(PROMPTS, max_tokens=40, seed=4)
    with pytest.raises(folio.Error, match="no module for multi-token prediction"):
        folio.Model(golden_gguf, draft="mtp")
    with pytest.raises(folio.Error, match="there is no draft model; use .* in Python, draft_model"):
        folio.Model(golden_gguf, draft="model")
    with pytest.raises(ValueError, match="draft is 'beam', but has to be one of auto, ngram, model, mtp"):
        folio.Model(golden_gguf, draft="beam")
