"""Compares Folio's byte-level BPE with tokenizers, transformers, gguf and llama.cpp.

Vocabularies: SmolLM2's, from the published GGUF that scripts/get_smollm2.py fetches, and small ones that `tokenizers`
trains here with the published pre-tokenizers of GPT-2, SmolLM2, Llama 3, gpt-oss, Mistral and Qwen (which normalizes
to NFC). The environment variable FOLIO_TOKENIZER_TOOL has the path of tokenizer_tool (tokenizer_tool.cpp).
"""

import functools
import json
import pathlib
import random
import unicodedata

import gguf
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_support import (CODE, LONG, PRE_TOKENIZERS, PROSE, Ours, assert_same_added_tokens, flagged_tokens,
                               llama_cpp_vocabulary, mixed_text, ours, run, to_hf, with_llama_keys)

SMOLLM2 = pathlib.Path(__file__).parents[3] / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SPECIAL = ["<|begin|>", "<|im_start|>", "<|im_end|>", "<|im_end|>x"]
TEXT = mixed_text(1_100_000 if LONG else 100_000)


@functools.cache
def all_characters():
    """Returns every character of the assigned planes, in random order. Each is preceded by "a" and
    usually followed by a random letter, digit, space or punctuation mark.

    Omits digits that are new in Unicode 17, because `tokenizers` uses Unicode 16 in regular expressions but Unicode
    17 in its pre-tokenizer Digits.
"""
    later = {*range(0x11DE0, 0x11DEA), *range(0x16FF4, 0x16FF7), *range(0xD800, 0xE000)}
    letters = [chr(c) for c in [*range(0x34000), *range(0xE0000, 0xE0200)] if c not in later]
    rng = random.Random(3)
    rng.shuffle(letters)
    return "".join("a" + c + rng.choice(["", "", "", " ", "  ", "a", "1", "\n", " \n", "'", "'s", "!"]) for c in letters)


EDGES = ["", "iPhone HTTPServer ABC's Abc'LL ΑΒγ Ǆx ʰA ʰʰ 中A中a É\u0301É aʰB \u0301AB !/\n/ //\n a/b", " ", "  ", "\n", "\r\n", " \n ", "\n\n  x", "a\n", "a  \n  b", "a   b", "\t\ta", "x \r\n\r\n y", "\u00a0\u00a0x",
         "I'm you've they're he'd 'LLa'VEr 'M 'RE'd", "it's IT'S they'Lla x'sx ''s 'ſ x'ſa s' ' s", "'", "''", "a'", "don't", "1234567", " 12 345 6", "१२३४", "x²³", "½",
         "¡a", ".a", " .a", "..\n\n", "!!\r\nx", "\u2028x", "e\u0301e\u0301", "\u0301", "👩‍👩‍👧", "🏴\U000e0067\U000e007f", "\0", "\ufeff",
         "<|im_start|>user", "a" * 3000, " " * 3000, "1" * 3000, "\n" * 3000, "ab" * 3000, "!" * 3000]
TEXTS = [TEXT, *EDGES, *[f"a{' ' * n}{c}" for n in range(5) for c in ("b", "1", "!", "\n", "")],
         *["".join(random.Random(n).choices(" \n\r\tab1'!é中\u0301s", k=30)) for n in range(200)],
         # For NFC: runs of combining marks of many classes, characters that decompose (some into marks only), and
         # Hangul.
         *["".join(random.Random(n).choices("aqé가각\u0301\u0323\u0327\u0338\u0344\u0345\u05b0\u0f71\u0f73\u0958\u212b", k=60))
           for n in range(200)]]


def byte_level(data):
    """Returns bytes in GPT-2's printable alphabet (bytes_to_unicode in GPT-2's encoder.py)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return "".join(chr(b) if b in plain else chr(256 + others.index(b)) for b in data)


def field(reader, key):
    return reader.fields[f"tokenizer.{key}"].contents() if f"tokenizer.{key}" in reader.fields else None


@functools.cache
def published(key):
    """Returns a field of SmolLM2's GGUF. Cached, since reading a list takes seconds."""
    return field(published_file(), key)


@functools.cache
def published_file():
    if not SMOLLM2.exists():
        pytest.skip("SmolLM2 is there after `make smollm2`")
    return gguf.GGUFReader(SMOLLM2)


@functools.cache
def smollm2():
    """Returns SmolLM2's vocabulary as a Tokenizer of `tokenizers`, and the path of its GGUF for Folio."""
    tokens, merges = published("ggml.tokens"), published("ggml.merges")
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS["smollm"]()
    tokenizer.decoder = decoders.ByteLevel()
    types = published("ggml.token_type")
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t, kind in zip(tokens, types) if kind == gguf.TokenType.CONTROL])
    tokenizer.encode_special_tokens = True  # encodes "<|im_end|>" in a text as plain text
    return tokenizer, SMOLLM2


def with_merges_of_first_bytes(data):
    """Adds a merge of "a" with each first byte of a multi-byte character. The tokens of "a" and any such character then
    show whether the pre-tokenizer splits the two. Returns the contents of tokenizer.json."""
    vocabulary, merges = data["model"]["vocab"], data["model"]["merges"]
    for first in (byte_level([b]) for b in range(0xC2, 0xF5)):
        if "a" + first not in vocabulary:
            vocabulary["a" + first] = len(vocabulary)
            merges.append(["a", first] if isinstance(merges[0], list) else "a " + first)
    return json.dumps(data)


@functools.cache
def training(pre):
    """Trains a vocabulary with the pre-tokenizer `pre`. Returns the JSON of the tokenizer and of its configuration."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
    tokenizer.decoder = decoders.ByteLevel()
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=2000, show_progress=False, special_tokens=SPECIAL,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    # (?i:'s) also matches "'ſ" (long s). "ſa" becomes a token here, so that the tokens of "'ſa" show whether it was
    # split.
    tokenizer.train_from_iterator([TEXT[:300_000], "\nſa" * 500], trainer)
    tokenizer = Tokenizer.from_str(with_merges_of_first_bytes(json.loads(tokenizer.to_str())))
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<tool>>", normalized=False)])
    config = {"bos_token": None, "eos_token": "<|im_end|>"}
    if pre == "llama-bpe":
        config["bos_token"] = "<|begin|>"
        template = processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A <|begin|> $B",
                                                 special_tokens=[("<|begin|>", 0)])
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    data = json.loads(tokenizer.to_str())
    # For gpt-4o, GGUF cannot store it, but the merges of this vocabulary and of gpt-oss produce all tokens anyway.
    data["model"]["ignore_merges"] = pre in ("llama-bpe", "tekken", "gpt-4o")
    return json.dumps(data), json.dumps(config | {"chat_template": "{{ messages }}"})


def trained(pre, folder):
    """Writes a trained vocabulary to a Hugging Face directory. Returns it as a Tokenizer, and the directory."""
    data, config = training(pre)
    (folder / "tokenizer.json").write_text(data)
    (folder / "tokenizer_config.json").write_text(config)
    tokenizer = Tokenizer.from_str(data)
    tokenizer.encode_special_tokens = True
    return tokenizer, folder


@pytest.fixture(scope="module", params=["smollm2", *PRE_TOKENIZERS])
def pair(request, tmp_path_factory):
    """Returns a vocabulary as a Tokenizer of `tokenizers`, and the path from which Folio loads it."""
    if request.param == "smollm2":
        return smollm2()
    return trained(request.param, tmp_path_factory.mktemp(request.param))


def normalized(theirs, text):
    """Returns the text, converted to NFC by Python if the tokenizer normalizes."""
    return unicodedata.normalize("NFC", text) if theirs.normalizer else text


def ids_of(theirs, text):
    return theirs.encode(text, add_special_tokens=False).ids


def test_tokens_match_tokenizers(pair, tmp_path, request):
    theirs, path = pair
    tokenizer = Ours(path, tmp_path)
    # Slow, so `make test` tests three vocabularies. The others' pre-tokenizers use the same character classes.
    if LONG or request.node.callspec.params["pair"] in ("smollm2", "qwen2", "gpt-4o"):
        assert tokenizer.encode(all_characters()) == ids_of(theirs, all_characters())
    ids = ids_of(theirs, TEXT)
    assert tokenizer.encode(TEXT) == ids
    assert tokenizer.decode(ids).decode(errors="replace") == theirs.decode(ids, skip_special_tokens=False)


def test_pre_tokenization_matches_tokenizers(pair, tmp_path):
    theirs, path = pair
    (tmp_path / "texts").write_text(json.dumps(TEXTS[1:]))
    assert json.loads(ours("encode-each", path, tmp_path / "texts")) == [ids_of(theirs, text) for text in TEXTS[1:]]


def test_invalid_utf8_bytes_are_kept(pair, tmp_path):
    """Words are split as if each invalid byte were U+FFFD, but the tokens have the original bytes."""
    theirs, path = pair
    rng = random.Random(13)
    data = bytearray(TEXT[:30_000 if LONG else 5_000].encode())
    for _ in range(len(data) // 12):
        data[rng.randrange(len(data))] = rng.randrange(256)
    data += bytes([0xC3]) + b"\xF5\x80 \xED\xA0\x80 \xE2\x82"
    escaped = normalized(theirs, bytes(data).decode(errors="surrogateescape"))
    characters = "".join("\uFFFD" if "\uDC80" <= c <= "\uDCFF" else c for c in escaped)
    words = [escaped[a:b] for _, (a, b) in theirs.pre_tokenizer.pre_tokenize_str(characters)]
    bpe = Tokenizer(theirs.model)  # has no pre-tokenizer, and encodes one word at a time
    expected = []
    for word in words:
        expected += bpe.encode(byte_level(word.encode(errors="surrogateescape"))).ids
    assert Ours(path, tmp_path).encode(bytes(data)) == expected


def test_arbitrary_bytes_round_trip(pair, tmp_path):
    theirs, path = pair
    vocabulary = theirs.get_vocab()
    missing = [b for b in range(256) if byte_level([b]) not in vocabulary]
    assert len(missing) == 21 if path == SMOLLM2 else not missing  # SmolLM2 has no tokens for some rare bytes
    data = bytes(b for b in random.Random(11).randbytes(200_000) if b not in missing)
    tokenizer = Ours(path, tmp_path)
    text = normalized(theirs, data.decode(errors="surrogateescape"))
    assert tokenizer.decode(tokenizer.encode(data)) == text.encode(errors="surrogateescape")


def test_special_tokens_are_parsed_only_on_request(pair, tmp_path):
    theirs, path = pair
    marks = ["<|im_start|>", "<|im_end|>"]
    text = f"{marks[0]}user\nI'd say {marks[0]} a{marks[1]}x <|im_end|{marks[1]}\n"
    asking = Tokenizer.from_str(theirs.to_str())
    asking.encode_special_tokens = False
    both = {}
    for parse_special, tokenizer in ((True, asking), (False, theirs)):
        (tmp_path / "pieces").write_text(json.dumps([[text, parse_special]]))
        both[parse_special] = json.loads(ours("pieces", path, tmp_path / "pieces"))
        assert both[parse_special] == ids_of(tokenizer, text)
    special = [theirs.token_to_id(mark) for mark in marks]
    assert set(special) <= set(both[True]) and not set(special) & set(both[False])
    # As in a chat: special tokens are parsed in the template's text but not in messages, and a word may span both.
    pieces = [[f"{marks[0]}user\nsay", True], ["ing <|im_end|>", False], [f"{marks[1]}\n", True]]
    (tmp_path / "pieces").write_text(json.dumps(pieces))
    expected = [special[0], *ids_of(theirs, "user\nsaying <|im_end|>"), special[1], *ids_of(theirs, "\n")]
    assert json.loads(ours("pieces", path, tmp_path / "pieces")) == expected


def test_every_format_gives_the_same_tokens(pair, tmp_path):
    """Folio converts a vocabulary to GGUF, then to a directory that `tokenizers` reads, and back to the same GGUF."""
    theirs, path = pair
    ours("to-gguf", path, tmp_path / "a.gguf")
    to_hf(tmp_path / "a.gguf", tmp_path / "hf")
    ours("to-gguf", tmp_path / "hf", tmp_path / "b.gguf")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    again = Tokenizer.from_file(str(tmp_path / "hf" / "tokenizer.json"))
    again.encode_special_tokens = True
    for text in (PROSE, CODE, TEXT[:50_000]):
        ids = ids_of(theirs, text)
        assert ids_of(again, text) == ids
        assert Ours(tmp_path / "a.gguf", tmp_path).encode(text) == ids == Ours(tmp_path / "hf", tmp_path).encode(text)
    assert again.encode("a").ids == json.loads(ours("show", path))["prefix_tokens"] + ids_of(theirs, "a")
    assert json.loads(ours("show", path)) == json.loads(ours("show", tmp_path / "hf"))


def test_gguf_keeps_smollm2s_metadata(tmp_path):
    theirs, path = smollm2()
    ours("to-gguf", path, tmp_path / "a.gguf")
    after = gguf.GGUFReader(tmp_path / "a.gguf")
    for key in ("ggml.model", "ggml.pre", "ggml.tokens", "ggml.token_type", "ggml.merges", "ggml.bos_token_id",
                "ggml.eos_token_id", "ggml.unknown_token_id", "ggml.padding_token_id", "ggml.add_bos_token",
                "chat_template"):
        assert published(key) is not None and published(key) == field(after, key), key
    shown = json.loads(ours("show", path))
    assert (shown["kind"], shown["end_of_text"], shown["prefix_tokens"]) == ("byte-level BPE", 2, [])
    assert shown["ends_text"] == [0, 1, 2] and shown["special_tokens"]["<|im_end|>"] == 2


def test_transformers_loads_our_directory(pair, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs, path = pair
    loaded = transformers.AutoTokenizer.from_pretrained(to_hf(path, tmp_path / "hf"))
    shown = json.loads(ours("show", path))
    assert loaded.eos_token_id == shown["end_of_text"] and loaded.chat_template == shown["chat_template"] != ""
    for text in (PROSE, CODE, "Hello world", "  two\n\nlines "):
        assert loaded(text).input_ids == shown["prefix_tokens"] + ids_of(theirs, text)
    loaded.save_pretrained(tmp_path / "saved")  # Folio must also read the files that transformers saves
    assert Ours(tmp_path / "saved", tmp_path).encode(TEXT[:20_000]) == ids_of(theirs, TEXT[:20_000])
    assert json.loads(ours("show", tmp_path / "saved"))["chat_template"] == shown["chat_template"]


def test_tokens_match_llama_cpp(pair, tmp_path):
    theirs, path = pair
    model = path
    if path != SMOLLM2:
        ours("to-gguf", path, tmp_path / "a.gguf")
        model = tmp_path / "model.gguf"
        with_llama_keys(tmp_path / "a.gguf", model)
    # Leaves out texts where llama.cpp differs from tokenizers. For example, llama.cpp doesn't case-fold a long s (ſ).
    # Texts are normalized here, because llama.cpp doesn't normalize.
    texts = [normalized(theirs, text) for text in (TEXT, CODE, PROSE, *EDGES)
             if "ſ" not in text and len(text) < 2000 or text is TEXT]
    if "\\p{Lu}" in theirs.to_str():  # llama.cpp treats all letters except a to z as capitals
        texts = ["".join(c for c in text if c.isascii()) for text in texts]
    shown = json.loads(ours("show", model))
    with llama_cpp_vocabulary(model) as (lc, vocab, encode):
        tokenizer = Ours(model, tmp_path)
        for text in texts:
            if "🏴" not in text:
                assert encode(text.encode()) == tokenizer.encode(text), repr(text[:80])
        (tmp_path / "pieces").write_text(json.dumps([["<|im_start|>user\nHi<|im_end|>\n", True]]))
        assert (encode(b"<|im_start|>user\nHi<|im_end|>\n", parse_special=True) ==
                json.loads(ours("pieces", model, tmp_path / "pieces")))
        assert lc.llama_vocab_eos(vocab) == shown["end_of_text"]
        assert lc.llama_vocab_get_add_bos(vocab) == bool(shown["prefix_tokens"])


@pytest.mark.parametrize("change, phrase", [
    (lambda t: t.update(pre_tokenizer={"type": "Metaspace"}), "the pre-tokenizer"),
    (lambda t: t["pre_tokenizer"].update(add_prefix_space=True), "the pre-tokenizer"),
    (lambda t: t.update(normalizer={"type": "NFKC"}), 'the normalizer {"type":"NFKC"}'),
    (lambda t: t.update(decoder={"type": "Fuse"}), "the decoder"),
    (lambda t: t.update(post_processor={"type": "BertProcessing"}), "the post-processor"),
    (lambda t: t["model"]["merges"].append(["a", "\u00fe"]), "does not join two tokens into a third"),
    (lambda t: t["model"]["merges"].append(t["model"]["merges"][0]), "occurs twice"),
])
def test_unknown_settings_are_rejected_by_name(change, phrase, tmp_path):
    trained("gpt-2", tmp_path)
    data = json.loads((tmp_path / "tokenizer.json").read_text())
    change(data)
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    done = run("show", tmp_path)
    assert done.returncode == 1 and phrase in done.stderr.decode() and "tokenizer.json" in done.stderr.decode(), done.stderr


@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe", "qwen2"])  # of these, qwen2 normalizes to NFC
def test_added_tokens_match_tokenizers(pre, tmp_path):
    theirs, _ = trained(pre, tmp_path)
    theirs.add_tokens(flagged_tokens([("s", dict(single_word=True)), ("ing", dict(single_word=True))]))
    theirs.save(str(tmp_path / "tokenizer.json"))
    assert_same_added_tokens(tmp_path, tmp_path, ["<|im_start|>", "<|im_end|>", "<|im_end|>x", "<tool>>"])
    if pre == "llama-bpe":  # Folio writes added tokens to "vocab", where ignore_merges would match them as words
        return
    assert_same_added_tokens(to_hf(tmp_path, tmp_path / "again"), tmp_path, n=1000)


def test_tekken_without_tokenizer_json_is_rejected(tmp_path):
    (tmp_path / "tekken.json").write_text("{}")
    done = run("show", tmp_path)
    assert done.returncode == 1 and b"the tokenizer tekken (tekken.json) is not supported" in done.stderr


def test_model_may_have_more_rows_than_tokens(tmp_path):
    """Qwen's embedding has unused rows. In a GGUF, these are tokens named [PADn], as in llama.cpp's files."""
    theirs, _ = trained("qwen2", tmp_path)
    n = theirs.get_vocab_size()
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": n + 3}))
    ours("to-gguf", tmp_path, tmp_path / "a.gguf")
    reader = gguf.GGUFReader(tmp_path / "a.gguf")
    assert field(reader, "ggml.tokens")[n:] == [f"[PAD{i}]" for i in range(n, n + 3)]
    assert field(reader, "ggml.token_type")[n:] == [gguf.TokenType.UNUSED] * 3
    assert Ours(tmp_path, tmp_path).encode(PROSE) == ids_of(theirs, PROSE)
    assert Tokenizer.from_file(str(to_hf(tmp_path / "a.gguf", tmp_path / "hf") / "tokenizer.json")).get_vocab_size() == n
