"""Compares beam search with transformers' generate(num_beams=W, do_sample=False): tokens, order, sequences_scores.

Both compute in float32. The golden model generates characters, so a stop string of one character corresponds to
transformers' eos_token_id. SmolLM2's outputs end with its own end token.
"""

import itertools

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from support import EXPECTED, GOLDEN, LONG, WRONG_USAGE, assert_refused, generate, one_json, run, succeed

torch.set_num_threads(1)
WIDTHS, PENALTIES, EARLY = (2, 4, 8), (0.6, 1.0, 2.0), (False, True, "never")
N_TOKENS = 24
SCORE = 1e-4


@pytest.fixture(scope="module")
def golden():
    return AutoModelForCausalLM.from_pretrained(GOLDEN, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(GOLDEN)


@pytest.fixture(scope="module")
def prompts():
    """Returns 40 prompts of equal length, so that transformers can batch them without padding."""
    text = "".join(entry["text"] for entry in EXPECTED["greedy"]).replace("\n", " ")
    return [text[i * 9:i * 9 + 20].strip().ljust(20, "o") for i in range(40)]


def transformers_beams(model, ids, width, penalty, early, end, never=None, n=N_TOKENS):
    """Returns transformers' outputs for each prompt, best first: (tokens without the end token, score)."""
    ids = torch.tensor(ids)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, num_beams=width, do_sample=False,
                         num_return_sequences=width, length_penalty=penalty, early_stopping=early, eos_token_id=end,
                         pad_token_id=-1 if never is None else never, suppress_tokens=None if never is None else [never],
                         return_dict_in_generate=True, output_scores=True)
    texts = []
    for row, score, made in zip(out.sequences[:, ids.shape[1]:].tolist(), out.sequences_scores.tolist(),
                                (out.beam_indices >= 0).sum(1).tolist()):
        texts.append((row[:made], score))
    return [texts[i * width:(i + 1) * width] for i in range(len(ids))]


def flags_of(width, penalty, early):
    how = [] if early is False else ["--early-stopping" if early is True else "--early-stopping=never"]
    return ["--beams", width, "--beams-out", width, "--length-penalty", penalty, *how, "-n", N_TOKENS]


def assert_equal(ours, theirs, what):
    assert [beam["tokens"] for beam in ours] == [tokens for tokens, _ in theirs], what
    for beam, (_, score) in zip(ours, theirs):
        assert abs(beam["score"] - score) <= SCORE, (what, beam["score"], score)


# A Latin square: for any two of the options, the nine cases cover every combination of values.
SQUARE = [(WIDTHS[i], PENALTIES[j], EARLY[(i + j) % 3]) for i in range(3) for j in range(3)]


@pytest.mark.parametrize("width, penalty, early", list(itertools.product(WIDTHS, PENALTIES, EARLY)) if LONG else SQUARE)
def test_outputs_order_and_scores_match_transformers(golden, tokenizer, golden_gguf, prompts, tmp_path, width, penalty, early):
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(prompts) + "\n", encoding="utf-8")
    ends = "e" if penalty == 1.0 else " "  # a stop string that most or all outputs contain
    theirs = transformers_beams(golden, [tokenizer(p)["input_ids"] for p in prompts], width, penalty, early,
                                tokenizer(ends)["input_ids"], tokenizer.eos_token_id)
    done = succeed("generate", "--json", "-m", golden_gguf, "--prompts", file, "--stop", ends, "-t", 1,
                   *flags_of(width, penalty, early))
    reasons = set()
    for prompt, ours, expected in zip(prompts, one_json(done.stdout)["results"], theirs, strict=True):
        assert_equal(ours["beams"], expected, prompt)
        assert ours["tokens"] == ours["beams"][0]["tokens"] and ours["text"] == ours["beams"][0]["text"]
        reasons |= {beam["finish_reason"] for beam in ours["beams"]}
        for beam in ours["beams"]:
            assert ends not in beam["text"]
    assert "stop" in reasons


def test_plain_output_shows_the_best_beams(golden_gguf):
    flags = ["-m", golden_gguf, "-n", 20, "--beams", 4, "-p", "ROMEO:"]
    best = generate(golden_gguf, *flags[2:])
    done = succeed("generate", *flags)
    assert done.stdout == "ROMEO:" + best["text"] + "\n"
    assert f"scores {best['score']:.4f}\n" in done.stderr
    both = succeed("generate", *flags, "--beams-out", 2, "--no-echo")
    texts = [beam["text"] for beam in generate(golden_gguf, *flags[2:], "--beams-out", 2)["beams"]]
    assert both.stdout == "\n\n".join(texts) + "\n"


@pytest.mark.parametrize("flags, parts", [
    (["--beams-out", 2], ["--beams-out requires --beams"]),
    (["--length-penalty", 2], ["--length-penalty requires --beams"]),
    (["--early-stopping"], ["--early-stopping requires --beams"]),
    (["--beams", 2, "--beams-out", 3], ["--beams-out is 3", "--beams 2"]),
    (["--beams", 65], ["--beams", "[1, 64]"]),
    (["--beams", 2, "--length-penalty", "nan"], ["--length-penalty", "[-10, 10]"]),
    (["--beams", 2, "--early-stopping=sometimes"], ["--early-stopping", "never"]),
    (["--beams", 2, "--temp", 0.5], ["--temperature", "--beams"]),
    (["--beams", 2, "--logit-bias", "1=2"], ["--logit-bias", "--beams"]),
    (["--beams", 2, "--speculate", 3], ["--speculate", "--beams"]),
    (["--beams", 2, "--slide"], ["--slide", "--beams"]),
])
def test_meaningless_flags_are_rejected(golden_gguf, flags, parts):
    assert_refused(run("generate", "-m", golden_gguf, *flags, "ROMEO:"), WRONG_USAGE, *parts)
