"""Tests Model.stream and transformers' TextIteratorStreamer with the same checks and models: they behave alike.

Both yield pieces of the output while another thread generates. The tests at the end show differences.
"""

import contextlib
import itertools
import queue
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import support
import tokenizers
import torch
import transformers

import folio
from stall import stalled, until

# Characters of one to four bytes. Each byte occurs only once, so the last byte determines the next one.
CYCLE = "aé中🦊 ŧ\n"


@pytest.fixture(scope="module")
def bytes_model(tmp_path_factory):
    """Returns the path of a byte-level model that repeats CYCLE: its layers add 0, and its output matrix maps each byte
    to the next."""
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
    return path


class Transformers:
    """Streams with transformers: a thread runs generate(), and the test reads from TextIteratorStreamer."""

    times_out_with = queue.Empty

    def __init__(self, path):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
        self.go = threading.Event()
        self.go.set()

    @contextlib.contextmanager
    def stalled(self):
        """Blocks generation before its next token during the `with` block."""
        self.go.clear()
        try:
            yield
        finally:
            self.go.set()

    def draw(self, ids, scores):
        self.go.wait()
        return scores

    def stream(self, prompt, max_tokens, timeout=None, skip_prompt=True):
        streamer = transformers.TextIteratorStreamer(self.tokenizer, skip_prompt=skip_prompt, timeout=timeout)
        inputs = self.tokenizer(prompt, return_tensors="pt")

        thread = threading.Thread(target=self.model.generate, kwargs=dict(
            inputs, streamer=streamer, max_new_tokens=max_tokens, do_sample=False,
            logits_processor=[self.draw]))
        thread.start()
        return types.SimpleNamespace(pieces=streamer, wait_for_the_end=thread.join)


class Folio:
    times_out_with = TimeoutError

    def __init__(self, path):
        self.model = folio.Model(path, threads=1)

    def stalled(self):
        return stalled(self.model)

    def stream(self, prompt, max_tokens, timeout=None):
        tokens = self.model.statistics["tokens"]
        pieces = self.model.stream(prompt, max_tokens=max_tokens, timeout=timeout, temperature=0)

        def wait_for_the_end():
            until(lambda: self.model.statistics["tokens"] > tokens and not self.model.statistics["running"])

        return types.SimpleNamespace(pieces=pieces, wait_for_the_end=wait_for_the_end)


@pytest.fixture(scope="module", params=[Transformers, Folio])
def make(request):
    return request.param


@pytest.fixture(scope="module")
def bytes_streamer(make, bytes_model):
    return make(bytes_model)


@pytest.fixture(scope="module")
def streamer(make):
    return make(support.GOLDEN)


def following(prompt, n_bytes):
    """Returns the n_bytes bytes that bytes_model generates after a prompt that ends with a byte of CYCLE."""
    all_bytes = CYCLE.encode()
    start = all_bytes.index(prompt.encode()[-1:]) + 1
    return bytes(itertools.islice(itertools.cycle(all_bytes), start, start + n_bytes))


def test_pieces_join_to_transformers_text(streamer):
    oracle = Transformers(support.GOLDEN)
    for prompt in ("ROMEO:", "JULIET:\nWhat", "K"):
        ids = oracle.tokenizer(prompt, return_tensors="pt")
        greedy = oracle.model.generate(**ids, max_new_tokens=60, do_sample=False)[0, ids["input_ids"].shape[1]:]
        pieces = list(streamer.stream(prompt, 60).pieces)
        assert "".join(pieces) == oracle.tokenizer.decode(greedy)
        assert pieces and all(type(piece) is str for piece in pieces)


def test_pieces_have_whole_characters(bytes_streamer):
    whole = len(CYCLE.encode())
    for prompt in ("a", "🦊", "中"):
        pieces = list(bytes_streamer.stream(prompt, 5 * whole).pieces)
        assert "".join(pieces).encode() == following(prompt, 5 * whole)
        assert pieces and not any("�" in piece for piece in pieces)


def test_truncated_character_becomes_u_fffd(bytes_streamer):
    told = "".join(bytes_streamer.stream("中", 3).pieces)  # three of the four bytes of 🦊
    assert told == "�"


def test_end_raises_stop_iteration(streamer):
    pieces = streamer.stream("ROMEO:", 5).pieces
    assert iter(pieces) is pieces
    "".join(pieces)
    pieces = streamer.stream("ROMEO:", 5).pieces
    with pytest.raises(StopIteration):
        while True:
            next(pieces)


def test_unread_streams_are_generated(streamer):
    stream = streamer.stream("ROMEO:", 40)
    stream.wait_for_the_end()
    assert "".join(stream.pieces) == "".join(streamer.stream("ROMEO:", 40).pieces)


def test_concurrent_streams(streamer):
    prompts = ["ROMEO:", "JULIET:", "K", "First"] * 2
    alone = ["".join(streamer.stream(prompt, 30).pieces) for prompt in prompts]
    streams = [streamer.stream(prompt, 30) for prompt in prompts]
    with ThreadPoolExecutor(len(prompts)) as pool:
        texts = list(pool.map(lambda stream: "".join(stream.pieces), streams))
    assert texts == alone


def test_timeout_of_a_waiting_reader(bytes_streamer):
    with bytes_streamer.stalled():
        stream = bytes_streamer.stream("a" * 400, 40, timeout=1e-6)
        with pytest.raises(bytes_streamer.times_out_with):
            "".join(stream.pieces)


def test_unused_timeout_changes_nothing(streamer):
    text = "".join(streamer.stream("ROMEO:", 30, timeout=600).pieces)
    assert text == "".join(streamer.stream("ROMEO:", 30).pieces)


# ---- Differences between Folio and transformers ----


def test_unskipped_prompt_comes_first():
    told = "".join(Transformers(support.GOLDEN).stream("ROMEO:", 20, skip_prompt=False).pieces)
    with folio.Model(support.GOLDEN) as model:
        assert told == "ROMEO:" + "".join(model.stream("ROMEO:", max_tokens=20, temperature=0))


def test_leaving_the_loop_ends_generation(bytes_model):
    with folio.Model(bytes_model, threads=1) as model:
        for n in (1, 2, 5):
            pieces = model.stream("a", max_tokens=500)
            for _ in range(n):
                next(pieces)
            pieces.close()
        for _ in model.stream("a", max_tokens=500):
            break
        model.generate("a", max_tokens=1)  # when this returns, earlier requests have ended
        assert model.statistics["running"] == model.statistics["blocks_in_use"] == 0


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_timeout_is_validated(model, timeout):
    with pytest.raises(ValueError, match="^timeout is"):
        model.stream("K", timeout=timeout)
