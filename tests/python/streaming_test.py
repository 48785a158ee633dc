"""Tests Model.stream as docs/interfaces.md describes it: pieces of whole characters that join to transformers' text,
generation while the caller does not read, timeouts, and the end of a request whose stream is left."""

import itertools

import pytest
import tokenizers
import torch
import transformers

import folio
from stall import stalled, until

# Characters of one to four bytes. Each byte occurs only once, so the last byte determines the next one.
CYCLE = "aé中🦊 ŧ\n"


@pytest.fixture(scope="module")
def bytes_model(tmp_path_factory):
    """Yields a byte-level model that repeats CYCLE: its layers add 0, and its output matrix maps each byte to the
    next."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)} | {"<|endoftext|>": 256}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>",
                                                eos_token="<|endoftext|>", clean_up_tokenization_spaces=False)
    config = transformers.LlamaConfig(vocab_size=257, hidden_size=264, intermediate_size=8, num_hidden_layers=1,
                                      num_attention_heads=4, max_position_embeddings=512, bos_token_id=256,
                                      eos_token_id=256, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config).eval()
    ids = fast(CYCLE)["input_ids"]
    assert len(set(ids)) == len(ids) == len(CYCLE.encode())
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(257, 264))
        model.lm_head.weight.zero_()
        for last, following in zip(ids, ids[1:] + ids[:1]):
            model.lm_head.weight[following, last] = 1.0
    path = tmp_path_factory.mktemp("bytes") / "model"
    model.save_pretrained(path)
    fast.save_pretrained(path)
    with folio.Model(path, threads=1) as opened:
        yield opened


def following(prompt, n_bytes):
    """Returns the n_bytes bytes that bytes_model generates after a prompt that ends with a byte of CYCLE."""
    all_bytes = CYCLE.encode()
    start = all_bytes.index(prompt.encode()[-1:]) + 1
    return bytes(itertools.islice(itertools.cycle(all_bytes), start, start + n_bytes))


def test_pieces_join_to_transformers_text(model, oracle, tokenizer):
    for prompt in ("ROMEO:", "JULIET:\nWhat", "K"):
        ids = tokenizer(prompt, return_tensors="pt")
        greedy = oracle.generate(**ids, max_new_tokens=60, do_sample=False)[0, ids["input_ids"].shape[1]:]
        pieces = list(model.stream(prompt, max_tokens=60, temperature=0, timeout=600))
        assert "".join(pieces) == tokenizer.decode(greedy)
        assert pieces and all(type(piece) is str for piece in pieces)


def test_pieces_have_whole_characters(bytes_model):
    whole = len(CYCLE.encode())
    for prompt in ("a", "🦊", "中"):
        pieces = list(bytes_model.stream(prompt, max_tokens=5 * whole, temperature=0))
        assert "".join(pieces).encode() == following(prompt, 5 * whole)
        assert pieces and not any("�" in piece for piece in pieces)


def test_truncated_character_becomes_u_fffd(bytes_model):
    assert list(bytes_model.stream("中", max_tokens=3, temperature=0)) == ["�"]  # three of the four bytes of 🦊


def test_unread_streams_are_generated(model):
    tokens = model.statistics["tokens"]
    pieces = model.stream("ROMEO:", max_tokens=40, temperature=0)
    until(lambda: model.statistics["tokens"] > tokens and not model.statistics["running"])
    assert "".join(pieces) == model.generate("ROMEO:", max_tokens=40, temperature=0)


def test_timeout_of_a_waiting_reader(bytes_model):
    with stalled(bytes_model), pytest.raises(TimeoutError, match="timeout of 1e-06 s"):
        list(bytes_model.stream("a", max_tokens=40, timeout=1e-6))


def test_leaving_the_loop_ends_generation(bytes_model):
    for n in (1, 2, 5):
        pieces = bytes_model.stream("a", max_tokens=500)
        for _ in range(n):
            next(pieces)
        pieces.close()
    for _ in bytes_model.stream("a", max_tokens=500):
        break
    bytes_model.generate("a", max_tokens=1)  # when this returns, earlier requests have ended
    assert bytes_model.statistics["running"] == bytes_model.statistics["blocks_in_use"] == 0


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "a", []])
def test_timeout_is_validated(model, timeout):
    with pytest.raises((TypeError, ValueError), match="^timeout "):
        model.stream("K", timeout=timeout)
