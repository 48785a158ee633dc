"""Compares folio.faster_transformer with transformers: greedy outputs, beams, log probabilities, ragged batches.

Both compute in float32. The golden model's tokens are characters, so that any character can be the end_id.
"""

import gc
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

import folio
from folio.faster_transformer import Llama
from stall import resident
from support import EXPECTED, GOLDEN, LONG, generate

torch.set_num_threads(1)
LOG_PROB = 1e-4
LENGTH = 48  # tokens of a sequence, including its prompt


@pytest.fixture(scope="module")
def llama():
    return Llama(GOLDEN, threads=1)


@pytest.fixture(scope="module")
def prompts(tokenizer):
    text = "".join(entry["text"] for entry in EXPECTED["greedy"])
    return [tokenizer(text[i * 40:i * 40 + n])["input_ids"] for i, n in enumerate((20, 3, 31, 1, 12))]


def batch(prompts, length=LENGTH, **more):
    """Returns forward()'s input tensors. Shorter prompts are padded on the right with -1, which must not be read."""
    ids = np.full((len(prompts), max(map(len, prompts))), -1, np.int32)
    for row, prompt in zip(ids, prompts):
        row[:len(prompt)] = prompt
    return {"input_ids": ids, "input_lengths": [len(p) for p in prompts], "output_seq_len": length, **more}


def run(llama, inputs, beam_width=1, names=()):
    return llama.forward(llama.outputs(inputs, beam_width, names), inputs)


def texts_of(outputs):
    """Returns lists of tokens, indexed by [sequence][beam], each with its prompt."""
    return [[ids[:n].tolist() for ids, n in zip(beams, lengths)]
            for beams, lengths in zip(outputs["output_ids"], outputs["sequence_length"])]


def log_probs_of(model, text, n_prompt):
    with torch.no_grad():
        rows = model(torch.tensor([text])).logits[0, :-1].double().log_softmax(-1)
    return rows.gather(1, torch.tensor(text[1:])[:, None])[n_prompt - 1:, 0].numpy()


def theirs(model, prompt, never, length=LENGTH, **more):
    ids = torch.tensor([prompt])
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=length - len(prompt),
                          do_sample=False, suppress_tokens=[never], pad_token_id=never, return_dict_in_generate=True,
                          output_scores=True, **more)


def check_log_probs(model, outputs, prompts):
    for i, prompt in enumerate(prompts):
        for b, text in enumerate(texts_of(outputs)[i]):
            expected = log_probs_of(model, text, len(prompt))
            own = outputs["output_log_probs"][i, b]
            assert np.abs(own[:len(expected)] - expected).max() <= LOG_PROB
            assert not own[len(expected):].any()
            assert abs(outputs["cum_log_probs"][i, b] - expected.sum()) <= LOG_PROB * len(expected)


def test_greedy_outputs_and_log_probabilities(llama, oracle, tokenizer, prompts):
    outputs = run(llama, batch(prompts), names=["cum_log_probs", "output_log_probs"])
    for prompt, (text,) in zip(prompts, texts_of(outputs), strict=True):
        assert text == theirs(oracle, prompt, tokenizer.eos_token_id).sequences[0].tolist()
        assert len(text) == LENGTH
    check_log_probs(oracle, outputs, prompts)


PAIRS = [(width, penalty) for width in (2, 4, 8) for penalty in (0.0, 0.6, 1.0, 2.0)]


@pytest.mark.parametrize("width, penalty", PAIRS if LONG else [(2, 0.0), (4, 0.6), (8, 1.0), (2, 2.0)])
def test_beams_order_and_log_probabilities(llama, oracle, tokenizer, prompts, width, penalty):
    (end,) = tokenizer("e" if penalty == 1.0 else " ")["input_ids"]
    inputs = batch(prompts, len_penalty=penalty, end_id=end)
    outputs = run(llama, inputs, width, ["cum_log_probs", "output_log_probs"])
    ended = 0
    for i, prompt in enumerate(prompts):
        out = theirs(oracle, prompt, tokenizer.eos_token_id, num_beams=width, num_return_sequences=width,
                     length_penalty=penalty, eos_token_id=end)
        for b in range(width):
            text = texts_of(outputs)[i][b]
            expected = out.sequences[b].tolist()
            assert text == expected[:len(text)]
            assert set(expected[len(text):]) <= {tokenizer.eos_token_id}
            assert set(outputs["output_ids"][i, b, len(text):].tolist()) <= {end}
            n = len(text) - len(prompt)
            assert abs(outputs["cum_log_probs"][i, b] / n**penalty - out.sequences_scores[b].item()) <= LOG_PROB
            ended += text[-1] == end and len(text) < LENGTH
    assert ended > 0
    check_log_probs(oracle, outputs, prompts)


def test_length_penalty_applies_per_sequence(llama, tokenizer, prompts):
    (end,) = tokenizer(" ")["input_ids"]
    penalties = [-2.0, 0.0, 3.0]
    alone = [texts_of(run(llama, batch(prompts[:1], len_penalty=p, end_id=end), 4))[0] for p in penalties]
    together = run(llama, batch(prompts[:1] * 3, len_penalty=penalties, end_id=end), 4)
    assert texts_of(together) == alone and alone[0] != alone[2]


def test_sampled_outputs_match_the_program(llama, golden_gguf, tokenizer, prompts):
    inputs = batch(prompts[:3], 60, runtime_top_k=[20, 0, 7], runtime_top_p=[0.9, 0.8, 0.0], temperature=[0.7, 1.5, 1.0],
                   repetition_penalty=1.2, random_seed=np.array([5, 2**63 + 1, 6], np.uint64))
    texts = texts_of(run(llama, inputs))
    for i, flags in enumerate([("--top-k", 20, "--top-p", 0.9, "--temp", 0.7, "--seed", 5),
                               ("--top-p", 0.8, "--temp", 1.5, "--seed", 2**63 + 1),
                               ("--top-k", 7, "--top-p", 1, "--temp", 1, "--seed", 6)]):
        program = generate(golden_gguf, "-p", tokenizer.decode(prompts[i]), "-n", 60 - len(prompts[i]), "--repeat-penalty", 1.2,
                           "--repeat-last-n", 1000, *flags)
        assert program["prompt_tokens"] == prompts[i]
        assert texts[i] == [prompts[i] + program["tokens"]]


def word_list(*words):
    """Returns an array in the format of FasterTransformer's to_word_list_format: a row with the token ids of all words,
    and a row with the end offset of each word, padded with -1."""
    ids = [token for word in words for token in word]
    ends = np.cumsum([len(word) for word in words]).tolist()
    return np.array([ids, ends + [-1] * (len(ids) - len(ends))], np.int32)


def test_stop_words_and_bad_words(llama, oracle, tokenizer, prompts):
    free = texts_of(run(llama, batch(prompts)))[0][0]
    n_prompt = len(prompts[0])
    for words in ([free[30:33]], [free[40:46], free[33:35]], [free[n_prompt - 2:n_prompt + 2]]):
        end = min(n for n in range(n_prompt + 1, LENGTH + 1) for word in words if free[:n][-len(word):] == word)
        stopped = run(llama, batch(prompts[:1], stop_words_list=word_list(*words)[None]))
        assert texts_of(stopped)[0][0] == free[:end] and end < LENGTH

    bad = [free[22:24], free[30:33], [free[25]]]
    inputs = batch(prompts, bad_words_list=word_list(*bad))
    for width in (1, 3):
        outputs = run(llama, {**inputs, "len_penalty": 1.0}, width)
        for prompt, beams in zip(prompts, texts_of(outputs), strict=True):
            expected = theirs(oracle, prompt, tokenizer.eos_token_id, bad_words_ids=bad, num_beams=width,
                              num_return_sequences=width, **({"length_penalty": 1.0} if width > 1 else {}))
            assert beams == expected.sequences.tolist()


def test_sessions_continue(llama, prompts):
    first = [text for (text,) in texts_of(run(llama, batch(prompts[:3], 60, session_len=200)))]
    whole = [text + prompt for text, prompt in zip(first, prompts[2:])]
    continued = texts_of(run(llama, batch(prompts[2:], 150, continue_gen=True)))
    assert continued == texts_of(run(Llama(GOLDEN, threads=1), batch(whole, 150)))


def test_buffer_allocation(prompts):
    llama = Llama(GOLDEN, threads=1, is_free_buffer_after_forward=True)
    llama.allocateBuffer(5, 1, LENGTH, 31)
    assert llama.has_buffer and llama.statistics()["blocks"] == 5 * 2
    run(llama, batch(prompts))
    assert not llama.has_buffer and llama.statistics()["rows"] == 0
    for sizes in ((0, 1, 8, 8), (1, 1, 8, 0)):
        with pytest.raises(ValueError, match="has to be in"):
            llama.allocateBuffer(*sizes)
    with pytest.raises(folio.Error, match=r"max_seq_len is 4096, but must be in \[1, 256\]"):
        llama.allocateBuffer(1, 1, 4096, 8)


def test_memory_example_runs(capsys):
    example = Path(__file__).parents[2] / "python" / "examples" / "faster_transformer_memory.py"
    runpy.run_path(str(example))["main"](GOLDEN, 40, 8)
    said = [line.rsplit(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert [what for what, _, _ in said] == ["nothing yet", "weights mapped", "initialize", "allocateBuffer", "forward",
                                             "freeBuffer", "forward", "freeBuffer"]
    assert all(float(size) > 1 and unit == "MB" for _, size, unit in said)


def test_calls_do_not_leak_memory(prompts):
    llama = Llama(GOLDEN, threads=1)

    def calls(n):
        for _ in range(n):
            run(llama, batch(prompts), 2, ["cum_log_probs"])
            llama.freeBuffer()
        gc.collect()
        return resident()

    before = calls(10)
    assert calls(30) - before < 2 << 20


def test_outputs_use_the_callers_arrays(llama, prompts):
    inputs = batch(prompts)
    mine = llama.outputs(inputs)
    got = llama.forward(mine, inputs, weights=llama)
    assert got["output_ids"] is mine["output_ids"] and mine["sequence_length"].all()
    assert mine["output_ids"].dtype == np.int32 and mine["output_ids"].shape == (5, 1, LENGTH)


@pytest.mark.parametrize("change, error, message", [
    ({"input_ids": np.zeros((5, 31))}, TypeError, "input_ids is of the type float64, but has to be int32"),
    ({"input_ids": np.full((5, 31), 2**40)}, ValueError, "input_ids has a value that is no int32"),
    ({"temperature": "warm"}, TypeError, "temperature is of the type"),
    ({"continue_gen": 1}, TypeError, "continue_gen is of the type int64, but has to be bool"),
])
def test_invalid_inputs_are_rejected(llama, prompts, change, error, message):
    outputs = llama.outputs(batch(prompts))
    llama.freeBuffer()
    with pytest.raises(error, match=message):
        llama.forward(outputs, {**batch(prompts), **change})
    assert not outputs["output_ids"].any()


@pytest.mark.parametrize("change, message", [
    ({"input_ids": None}, "input tensor input_ids is missing"),
    ({"input_ids": [[1, 2], [3]]}, "input_ids has rows of unequal lengths; pad them"),
    ({"input_ids": np.zeros((0, 3), np.int32)}, r"input_ids has shape \[0, 3\], expected"),
    ({"input_lengths": 3}, r"input_lengths has shape \[\], expected"),
    ({"output_seq_len": [9, 9]}, r"output_seq_len has shape \[2\], expected \[1\] or \[5\]"),
])
def test_outputs_for_invalid_inputs_are_rejected(llama, prompts, change, message):
    inputs = {name: value for name, value in {**batch(prompts), **change}.items() if value is not None}
    for call in (llama.outputs, lambda tensors: llama.forward(llama.outputs(batch(prompts)), tensors)):
        with pytest.raises((folio.Error, ValueError), match="^" + message):
            call(inputs)


def test_invalid_outputs_and_options_are_rejected(llama, prompts):
    inputs = batch(prompts)
    outputs = llama.outputs(inputs)
    with pytest.raises(folio.Error, match="output_ids has type float32, expected int32"):
        llama.forward({**outputs, "output_ids": np.zeros((5, 1, LENGTH), np.float32)}, inputs)
    with pytest.raises(folio.Error, match="output_ids has an unsupported type"):
        llama.forward({**outputs, "output_ids": np.zeros((5, 1, LENGTH), np.int64)}, inputs)
    with pytest.raises(ValueError, match="output_ids has to lie in rows"):
        llama.forward({**outputs, "output_ids": np.zeros((5, 1, 2 * LENGTH), np.int32)[..., ::2]}, inputs)
    with pytest.raises(TypeError, match="output_ids has to be an array"):
        llama.forward({**outputs, "output_ids": [1]}, inputs)
    with pytest.raises(ValueError, match="there is no output tensor 'logits' to make"):
        llama.outputs(inputs, names=["logits"])
    with pytest.raises(ValueError, match=r"beam_width is 65, but has to be in \[1, 64\]"):
        llama.outputs(inputs, beam_width=65)
    shortest = {**inputs, "output_seq_len": 1}
    with pytest.raises(folio.Error, match="output_seq_len is 1 for sequence 0, which already has 20 tokens"):
        llama.forward(llama.outputs(shortest, names=["output_log_probs"]), shortest)
    with pytest.raises(ValueError, match="weights have to be this object's own"):
        llama.forward(outputs, inputs, weights=Llama(GOLDEN))
    with pytest.raises(ValueError, match="cache_type is 'int4'"):
        Llama(GOLDEN, cache_type="int4")
    with pytest.raises(ValueError, match="threads is 0"):
        Llama(GOLDEN, threads=0)
    with pytest.raises(TypeError, match="end_id has to be an integer"):
        Llama(GOLDEN, end_id="x")
    with pytest.raises(folio.Error):
        Llama("/nonexistent/model.gguf")
