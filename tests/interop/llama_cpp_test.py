"""Tests that llama.cpp runs Folio's exports, with the same tokens for a text and the same greedy outputs.

<|endoftext|> gets a bias of minus infinity, since Folio never draws it from a character model. Both engines add in
float32 in different orders, so outputs may differ where llama.cpp's best two logits are closer than 1e-3. On the golden
model, they are always further apart (expected.json).
"""

import llama_cpp as lc
import pytest

from engines import (ACCENTED, EXPECTED, GOLDEN, LEARNING_RUN, NEAR_TIE, SMOLLM2, LlamaCpp, assert_same_text, folio,
                     folio_greedy)


@pytest.fixture(scope="module")
def golden_gguf(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "golden.gguf"
    folio("export", GOLDEN, "--out", path)
    return path


@pytest.fixture(scope="module")
def accented_gguf(tmp_path_factory):
    """Returns the path of a GGUF model trained on a text with characters of two, three and four bytes."""
    folder = tmp_path_factory.mktemp("accented")
    (folder / "accented.txt").write_text(ACCENTED, encoding="utf-8")
    folio("train", folder / "accented.txt", "--out", folder / "run", *LEARNING_RUN)
    return folder / "run" / "model.gguf"


def test_golden_text(golden_gguf):
    with LlamaCpp(golden_gguf) as theirs:
        for entry in EXPECTED["greedy"]:
            ours = folio_greedy(golden_gguf, entry["prompt"], 200)
            assert theirs.tokenize(entry["prompt"]) == ours["prompt_tokens"] == entry["prompt_tokens"]
            tokens, gaps = theirs.greedy(ours["prompt_tokens"], 200, never=65)
            assert min(gaps) > NEAR_TIE, "the golden text has a near tie: see make_expected.py"
            assert tokens == ours["tokens"] == entry["tokens"]


@pytest.mark.parametrize("source", [GOLDEN, SMOLLM2], ids=["characters", "smollm2"])
def test_simplest_call(source, tmp_path):
    """llama_cpp.Llama(path)(prompt) works without any options."""
    path = source
    if source.is_dir():
        path = tmp_path / "model.gguf"
        folio("export", source, "--out", path)
    llm = lc.Llama(str(path), verbose=False)
    [choice] = llm("ROMEO:")["choices"]
    assert choice["text"] and choice["finish_reason"] in ("length", "stop")
    greedy = llm("ROMEO:", temperature=0, repeat_penalty=1.0, max_tokens=8, logit_bias={llm.token_eos(): -100.0})
    if source.is_dir():  # not SmolLM2, whose weights are quantized: the engines round inputs differently
        assert greedy["choices"][0]["text"] == folio_greedy(path, "ROMEO:", 8)["text"]


def test_accented_text(accented_gguf):
    with LlamaCpp(accented_gguf) as theirs:
        characters = theirs.n_vocab - 1
        assert characters == len(set(ACCENTED))
        for prompt in ("Où", "中文", "😀", "Ça va, na", "🚀!\n"):
            ours = folio_greedy(accented_gguf, prompt, 200)
            assert theirs.tokenize(prompt) == ours["prompt_tokens"] and len(ours["prompt_tokens"]) == len(prompt)
            tokens, gaps = theirs.greedy(ours["prompt_tokens"], 200, never=characters)
            same = assert_same_text(ours["tokens"], tokens, gaps)
            assert b"".join(theirs.piece(t) for t in tokens[:same]).decode() == ours["text"][:same]


def test_every_character_is_one_token(golden_gguf, accented_gguf):
    for path in (golden_gguf, accented_gguf):
        with LlamaCpp(path) as theirs:
            pieces = [theirs.piece(i).decode() for i in range(theirs.n_vocab - 1)]
            assert pieces == sorted(set(pieces))
            for i, piece in enumerate(pieces):
                assert theirs.tokenize(piece) == [i], piece
            assert theirs.tokenize("".join(pieces)) == list(range(theirs.n_vocab - 1))


def test_end_of_text_is_last_and_no_bos_is_added(golden_gguf):
    with LlamaCpp(golden_gguf) as theirs:
        assert lc.llama_vocab_eos(theirs.vocab) == lc.llama_vocab_bos(theirs.vocab) == 65
        assert not lc.llama_vocab_get_add_bos(theirs.vocab) and lc.llama_vocab_is_eog(theirs.vocab, 65)
        assert theirs.tokenize("ab", special=True) == theirs.tokenize("ab")
        assert not any(lc.llama_vocab_is_eog(theirs.vocab, i) for i in range(65))


def test_model_converted_through_llama2c_files(accented_gguf, tmp_path):
    """The converted vocabulary is SentencePiece, with byte tokens and non-ASCII tokens. Prompt and output tokens must
    equal those of llama.cpp."""
    folio("export", accented_gguf, "--out", tmp_path / "model.bin", "--format", "llama2c")
    path = tmp_path / "model.gguf"
    folio("export", tmp_path / "model.bin", "--tokenizer", tmp_path / "model.tokenizer.bin", "--out", path)
    with LlamaCpp(path) as theirs:
        assert lc.llama_vocab_bos(theirs.vocab) == 1 and lc.llama_vocab_eos(theirs.vocab) == 2
        for prompt in ("Où est", "中文 书", "x 😀  z", "C'est\nlà"):
            ours = folio_greedy(path, prompt, 100)
            assert [1, *theirs.tokenize(prompt)] == ours["prompt_tokens"] == theirs.tokenize(prompt, bos=True)
            tokens, gaps = theirs.greedy(ours["prompt_tokens"], len(ours["tokens"]), never=[])
            assert_same_text(ours["tokens"], tokens, gaps)
