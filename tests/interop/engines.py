"""Runs Folio's programs and llama.cpp on the same file, for tests that compare them.

llama.cpp is the PyPI package llama-cpp-python, built from source by scripts/bootstrap.sh. Its KV cache is float32, as
Folio's is for an F32 file, and flash attention is off. FOLIO_BUILD_DIR is the folder of Folio's programs (default:
build).
"""

import ctypes
import sys
from pathlib import Path

import llama_cpp as lc
import numpy as np

sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("apps", "apps/files")]
from support import (ACCENTED, BUILD, EXPECTED, GOLDEN, LEARNING_RUN, ROOT, SMOLLM2, generate,  # noqa: E402, F401
                     succeed)  # the tests import them from here

NEAR_TIE = 1e-3  # if the best two logits are closer, rounding may decide which token is selected


def folio(program, *args):
    return succeed(program, *args, timeout=300).stdout


def folio_greedy(model, prompt, n, *flags):
    return generate(model, "-n", n, "--temp", 0, "-p", prompt, *flags, timeout=300)


@lc.llama_log_callback
def quiet(_level, _text, _user):
    """Ignores llama.cpp's log messages."""


class LlamaCpp:
    """A model that llama.cpp loaded from a GGUF file, for tokenizing and computing logits."""

    def __init__(self, path, n_ctx=256, n_threads=1):
        lc.llama_log_set(quiet, ctypes.c_void_p(0))
        lc.llama_backend_init()
        params = lc.llama_model_default_params()
        params.use_extra_bufts = False  # disables AMX kernels, which crash on some virtual machines
        self.model = lc.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, f"llama.cpp refuses {path}"
        params = lc.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = n_ctx
        params.n_threads = params.n_threads_batch = n_threads
        params.type_k = params.type_v = lc.GGML_TYPE_F32
        params.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = lc.llama_init_from_model(self.model, params)
        assert self.context
        self.vocab = lc.llama_model_get_vocab(self.model)
        self.n_vocab = lc.llama_vocab_n_tokens(self.vocab)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lc.llama_free(self.context)
        lc.llama_model_free(self.model)

    def tokenize(self, text, special=False, bos=None):
        """Returns llama.cpp's tokens of a text. `special`: parse special tokens; `bos` (default: `special`): begin with
        BOS if the model requires it."""
        data = text.encode()
        tokens = (lc.llama_token * (len(data) + 8))()
        n = lc.llama_tokenize(self.vocab, data, len(data), tokens, len(tokens), special if bos is None else bos, special)
        assert n >= 0, n
        return list(tokens[:n])

    def piece(self, token):
        buffer = ctypes.create_string_buffer(256)
        n = lc.llama_token_to_piece(self.vocab, token, buffer, 256, 0, True)
        return buffer.raw[:n]

    def clear(self):
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)

    def decode(self, tokens):
        """Appends tokens to the current sequence and returns the logits after the last one."""
        array = (lc.llama_token * len(tokens))(*tokens)
        assert lc.llama_decode(self.context, lc.llama_batch_get_one(array, len(tokens))) == 0
        logits = lc.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(logits, shape=(self.n_vocab,)).copy()

    def all_logits(self, tokens):
        """Returns the logits after each token of a new sequence, as an array (tokens, vocabulary)."""
        self.clear()
        batch = lc.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, True
            batch.seq_id[i][0] = 0
        try:
            assert lc.llama_decode(self.context, batch) == 0
        finally:
            lc.llama_batch_free(batch)
        logits = lc.llama_get_logits(self.context)
        return np.ctypeslib.as_array(logits, shape=(len(tokens), self.n_vocab))

    def greedy(self, tokens, n, never):
        """Greedily generates n tokens, excluding `never`, a token id or a list of ids. Returns the tokens and, for
        each, the gap between the best two logits."""
        self.clear()
        new, gaps = [], []
        logits = self.decode(tokens)
        while len(new) < n:
            logits[never] = -np.inf
            second, best = np.sort(logits)[-2:]
            gaps.append(float(best - second))
            new.append(int(logits.argmax()))
            logits = self.decode(new[-1:])
        return new, gaps


def assert_same_text(ours, theirs, gaps, near=NEAR_TIE):
    """Asserts equal tokens up to one where the gap of the best two logits is less than `near`. Returns their number."""
    for at, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a != b:
            assert gaps[at] < near, f"they part at token {at}: {a} and {b}, where the gap is {gaps[at]:.2e}"
            return at
    return len(ours)
