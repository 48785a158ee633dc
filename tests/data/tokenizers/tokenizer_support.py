"""Helpers of the tokenizer tests: runs Folio's tokenizer_tool and llama.cpp's tokenizer, and makes texts and tokens."""

import contextlib
import ctypes
import json
import os
import random
import subprocess

import gguf
import pytest
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

TOOL = os.environ["FOLIO_TOKENIZER_TOOL"]
LONG = "FOLIO_LONG" in os.environ  # set by `make long`: more texts

CODE = """
def encode(text: str, *, limit=1_000) -> list[int]:
    \tif len(text) > limit: raise ValueError(f"{len(text)} > {limit}")
    return [ord(c) ^ 0x5F for c in text if c != '\\n' and c <= '~']

for (size_t i = 0; i < n; ++i) { sum += weights[i] * static_cast<float>(x[i]); }
"""
PROSE = """It was the best of times, it was the worst of times; 1859 copies at $3.50, or 12,345.67 in all.
Où est le café ? C'est là, à côté. Grüße aus Köln!  Ça va, naïve œuvre…   ¿Qué?
色は匂へど 散りぬるを 我が世誰ぞ 常ならむ。 天地玄黃,宇宙洪荒。日月盈昃,辰宿列張。 가나다라 마바사
Съешь ещё этих мягких французских булок, да выпей чаю. שלום עולם مرحبا
😀 👩‍👩‍👧 🇩🇪 e\u0301 n\u0303 a\u0308\u0323 ﬁ \u00a0\u2003\u200b\ufeff
"""


def mixed_text(n_bytes):
    """Returns n_bytes or more of code, prose in several scripts, emoji, combining marks, digits and white space."""
    rng = random.Random(7)
    words = (CODE + PROSE).split(" ")
    parts = [CODE, PROSE]
    size = 0
    while size < n_bytes:
        kind = rng.randrange(6)
        if kind == 0:
            part = rng.choice(" \n\t\r") * rng.randrange(1, 40)
        elif kind == 1:
            part = str(rng.randrange(10 ** rng.randrange(1, 15)))
        elif kind == 2:
            part = "".join(chr(rng.choice([rng.randrange(0x20, 0x7F), rng.randrange(0x4E00, 0x9FFF),
                                           rng.randrange(0x1F300, 0x1F700), rng.randrange(0x300, 0x370)]))
                           for _ in range(rng.randrange(12)))
        else:
            part = " ".join(rng.choices(words, k=rng.randrange(1, 12))) + rng.choice([" ", "\n", "  "])
        parts.append(part)
        size += len(part.encode())
    return "".join(parts)


# Published pre-tokenizers, by llama.cpp's names.
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
PRE_TOKENIZERS = {
    "gpt-2": lambda: ByteLevel(add_prefix_space=False),
    "smollm": lambda: Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]),
    "llama-bpe": lambda: Sequence([Split(Regex(LLAMA3_PATTERN), "isolated"),
                                   ByteLevel(add_prefix_space=False, use_regex=False)]),
    "qwen2": lambda: Sequence([Split(Regex(QWEN2_PATTERN), "isolated"),
                               ByteLevel(add_prefix_space=False, use_regex=False, trim_offsets=False)]),
    "gpt-4o": lambda: Sequence([Split(Regex(O200K_PATTERN), "isolated"),
                                ByteLevel(add_prefix_space=False, use_regex=False)]),
    "tekken": lambda: Sequence([Split(Regex(TEKKEN_PATTERN), "isolated"),
                                ByteLevel(add_prefix_space=False, use_regex=False)]),
}
# The pre-tokenizer in Mistral NeMo's tokenizer.json.
TEKKEN_PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
                  r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# The pre-tokenizer in gpt-oss's tokenizer.json, which extends Mistral NeMo's.
O200K_PATTERN = TEKKEN_PATTERN.replace("]+|[", "]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[").replace(
    r"]*|\p{N}|", r"]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|")

# Added tokens with flags, such as lstrip, which removes spaces to the left. One token is a prefix of another.
FLAGGED = [("<|end|>", dict(rstrip=True, normalized=False, special=True)),
           ("<|end|>>", dict(lstrip=True, rstrip=True, normalized=False, special=True)),
           ("<mask>", dict(lstrip=True, normalized=False, special=True)),
           ("[SEP]", dict(single_word=True, normalized=False, special=True)),
           ("<norm>", dict(normalized=True, special=True)),
           ("<tool>", dict(normalized=True)),
           ("<l r>", dict(lstrip=True, rstrip=True, normalized=True)),
           ("word", dict(single_word=True, normalized=True)),
           ("Où", dict(single_word=True, normalized=False)),
           ("e\u0301!", dict(normalized=True, rstrip=True)),
           ("qu", dict(normalized=False, single_word=True, lstrip=True)),
           ("\t\t", dict(normalized=False, lstrip=True, rstrip=True)),
           ("  \n", dict(normalized=True, rstrip=True)),
           ("the", dict(single_word=True, normalized=False))]


def flagged_tokens(base=()):
    return [AddedToken(content, **flags) for content, flags in [*base, *FLAGGED]]


def drawn_texts(n, names=()):
    """Returns n random texts of added tokens (FLAGGED and `names`), parts of these, spaces and combining marks."""
    rng = random.Random(17)
    names = [name for name, _ in FLAGGED] + list(names)
    parts = [*names, *names, *[name[:-1] for name in names], *[name[1:] for name in names], " ", " ", "  ", "   ", "\n",
             "\t", "\r\n", "\u00a0", "\u2003", "▁", "_", "7", "²", "ⓐ", "ⅷ", "é", "e\u0301", "\u0301", "\u200d", "中",
             "😀", "!", "'s", "Hello", "world", "where", "to", "a", "B"]
    return ["".join(rng.choices(parts, k=rng.randrange(1, 14))) for _ in range(n)]


def assert_same_added_tokens(directory, tmp_path, names=(), n=10_000 if LONG else 2_000, file=None):
    """Asserts that `tokenizers` and Folio encode n random texts equally, both with special tokens parsed and with
    special tokens as plain text. Folio loads `file`, by default `directory`."""
    theirs = Tokenizer.from_file(str(directory / "tokenizer.json"))
    texts = drawn_texts(n, names)
    (tmp_path / "texts").write_text(json.dumps(texts))
    bos = json.loads(ours("show", file or directory))["prefix_tokens"]
    seen = set()
    for command, as_text in (("prompts", False), ("encode-each", True)):
        theirs.encode_special_tokens = as_text
        for text, ids in zip(texts, json.loads(ours(command, file or directory, tmp_path / "texts")), strict=True):
            expected = theirs.encode(text, add_special_tokens=False).ids
            if not as_text and expected[:len(bos)] != bos:
                expected = bos + expected
            assert ids == expected, (command, text, theirs.encode(text, add_special_tokens=False).tokens)
            seen |= set(ids)
    added = theirs.get_added_tokens_decoder()
    missing = {token.content for i, token in added.items() if i not in seen}
    assert not missing & {*names, *(name for name, _ in FLAGGED)}, missing  # each added token occurred


def run(*args):
    return subprocess.run([TOOL, *map(str, args)], capture_output=True, timeout=120)


def ours(*args):
    done = run(*args)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def to_hf(tokenizer, folder):
    """Writes the tokenizer to the new folder, which it returns."""
    folder.mkdir()
    ours("to-hf", tokenizer, folder)
    return folder


class Ours:
    """Folio's tokenizer. Each call starts tokenizer_tool, which loads the tokenizer, so make few calls with long
    texts."""

    def __init__(self, tokenizer, tmp_path):
        self.tokenizer, self.tmp_path = tokenizer, tmp_path

    def encode(self, text):
        (self.tmp_path / "text").write_bytes(text if isinstance(text, bytes) else text.encode())
        return json.loads(ours("encode", self.tokenizer, self.tmp_path / "text"))

    def decode(self, ids):
        (self.tmp_path / "ids").write_text(json.dumps(ids))
        return ours("decode", self.tokenizer, self.tmp_path / "ids")


def with_llama_keys(source, target, name="vocabulary"):
    """Copies a vocabulary to a GGUF without weights, with the fields that llama.cpp requires."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for key, field in reader.fields.items():
        if key.startswith("tokenizer."):
            writer.add_key_value(key, field.contents(), field.types[0], *field.types[1:2])
    writer.add_name(name)
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_feed_forward_length(8)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextlib.contextmanager
def llama_cpp_vocabulary(path):
    """Loads a GGUF's vocabulary in llama.cpp. Yields (module, vocabulary, function from bytes to token ids)."""
    lc = pytest.importorskip("llama_cpp", reason="llama.cpp is there after `make interop`")
    quiet = lc.llama_log_callback(lambda *_: None)
    lc.llama_log_set(quiet, ctypes.c_void_p(0))
    lc.llama_backend_init()
    params = lc.llama_model_default_params()
    params.vocab_only = True
    model = lc.llama_model_load_from_file(str(path).encode(), params)
    assert model, "llama.cpp refuses the vocabulary"
    vocab = lc.llama_model_get_vocab(model)

    def encode(data, parse_special=False):
        tokens = (lc.llama_token * (len(data) + 8))()
        n = lc.llama_tokenize(vocab, data, len(data), tokens, len(tokens), False, parse_special)
        assert n >= 0
        return list(tokens[:n])

    yield lc, vocab, encode
    lc.llama_model_free(model)
