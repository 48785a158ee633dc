"""Compares Folio's SentencePiece tokenizer with tokenizers, transformers, gguf and llama.cpp.

The vocabulary is a small BPE with byte fallback that `tokenizers` trains here on a mixed text. This file writes it as
llama2.c's tokenizer.bin, from that format's description; Folio converts it to the other formats. The environment
variable FOLIO_TOKENIZER_TOOL has the path of tokenizer_tool (tokenizer_tool.cpp).
"""

import json
import random
import struct

import gguf
import pytest
import tokenizers
from tokenizers import AddedToken, models, normalizers, trainers

from tokenizer_support import (CODE, PROSE, Ours, assert_same_added_tokens, flagged_tokens, llama_cpp_vocabulary, mixed_text,
                               ours, run, to_hf, with_llama_keys)

MARK = "▁"
TEXT = mixed_text(150_000)
TEXTS = [TEXT, *TEXT.split("\n")[:200], *[f"a{' ' * n}b" for n in range(40)], *["\n" * n for n in range(1, 20)],
         "", " ", "  ", MARK, f"{MARK}{MARK}x", f"a{MARK} b", "<s>", "</s> if <unk><0x0A>", "\0x", "\ufeff", "x" * 5000]


def trained_pieces():
    """Trains a BPE and returns its pieces: merged ones in the order of the merges, then single characters."""
    tokenizer = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    lines = [line for line in TEXT.split("\n") if line.isprintable()]
    # Trains words separately, each with the spaces before it, as in SentencePiece.
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(f"{MARK}+[^{MARK}]*"), "isolated")
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=1200, show_progress=False, limit_alphabet=300))
    model = json.loads(tokenizer.to_str())["model"]
    joined = list(dict.fromkeys(left + right for left, right in model["merges"]))
    return joined + [piece for piece in model["vocab"] if len(piece) == 1]


def llama2c_file(pieces):
    """Returns the bytes of a tokenizer.bin: the byte length of the longest token, then each token's score, length and
    bytes."""
    tokens = [("<unk>", 0.0), ("\n<s>\n", 0.0), ("\n</s>\n", 0.0)]
    tokens += [(f"<0x{byte:02X}>", 0.0) for byte in range(256)]
    tokens += [(piece.replace(MARK, " "), -float(i)) for i, piece in enumerate(pieces)]
    data = struct.pack("<i", max(len(piece.encode()) for piece, _ in tokens))
    for piece, score in tokens:
        encoded = piece.encode()
        data += struct.pack("<fi", score, len(encoded)) + encoded
    return data


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Returns a folder with one vocabulary in every format. Folio writes all files except tokenizer.bin."""
    folder = tmp_path_factory.mktemp("vocabulary")
    pieces = trained_pieces()
    assert len(pieces) > 1000 and MARK in pieces and max(map(len, pieces)) > 6
    (folder / "pieces.json").write_text(json.dumps(pieces))  # training again may give other pieces, as ties are random
    (folder / "tokenizer.bin").write_bytes(llama2c_file(pieces))
    ours("to-gguf", folder / "tokenizer.bin", folder / "tokenizer.gguf")
    to_hf(folder / "tokenizer.bin", folder / "hf")
    return folder


def vocabulary_of(files):
    return json.loads((files / "hf" / "tokenizer.json").read_text())


def write_changed(files, directory, data):
    """Writes a Hugging Face directory that differs from that of `files` in the contents of tokenizer.json."""
    directory.mkdir()
    (directory / "tokenizer.json").write_text(json.dumps(data))
    (directory / "tokenizer_config.json").write_bytes((files / "hf" / "tokenizer_config.json").read_bytes())


def load_tokenizers(directory):
    theirs = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    theirs.encode_special_tokens = True  # encodes "<s>" in a text as plain text
    return theirs


def assert_same_tokens(theirs, tokenizer, tmp_path):
    (tmp_path / "texts").write_text(json.dumps(TEXTS))
    encoded = json.loads(ours("encode-each", tokenizer.tokenizer, tmp_path / "texts"))
    for i, (text, ids) in enumerate(zip(TEXTS, encoded, strict=True)):
        assert ids == theirs.encode(text, add_special_tokens=False).ids, repr(text[:80])
        if i % 5 == 0 or len(text) < 3:
            decoded = tokenizer.decode(ids).decode()
            assert decoded == theirs.decode(ids) == text.replace(MARK, " "), repr(text[:80])


def test_tokens_match_tokenizers(files, tmp_path):
    theirs = load_tokenizers(files / "hf")
    assert len(theirs.encode(TEXT).ids) < len(TEXT.encode()) * 0.7  # merges are used
    assert {3, 3 + 255} & set(theirs.encode("\0", add_special_tokens=False).ids)
    assert_same_tokens(theirs, Ours(files / "tokenizer.bin", tmp_path), tmp_path)


def test_bos_is_added_like_tokenizers(files):
    theirs = load_tokenizers(files / "hf")
    shown = json.loads(ours("show", files / "hf"))
    assert shown == {"kind": "SentencePiece", "vocab_size": theirs.get_vocab_size(), "end_of_text": 2,
                     "prefix_tokens": [1], "ends_text": [1, 2], "special_tokens": {"<unk>": 0, "<s>": 1, "</s>": 2}, "chat_template": ""}
    assert theirs.encode("a").ids == [1] + theirs.encode("a", add_special_tokens=False).ids


def test_transformers_loads_our_directory(files, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(files / "hf")
    assert (theirs.bos_token_id, theirs.eos_token_id, theirs.unk_token_id) == (1, 2, 0)
    tokenizer = Ours(files / "hf", tmp_path)
    for text in ("Hello world", "  two\n\nlines ", "Où est 色は 😀?", PROSE):
        assert theirs(text).input_ids == [1] + tokenizer.encode(text)
        assert theirs.decode(theirs(text).input_ids, skip_special_tokens=True) == text
    theirs.save_pretrained(tmp_path / "saved")  # Folio must also read the files that transformers saves
    assert Ours(tmp_path / "saved", tmp_path).encode(TEXT) == tokenizer.encode(TEXT)


def test_unknown_characters_match_without_byte_fallback(files, tmp_path):
    """The vocabulary has no byte tokens, so <unk> replaces each run of unknown characters."""
    directory = tmp_path / "no_bytes"
    data = vocabulary_of(files)
    kept = [piece for piece in data["model"]["vocab"] if not piece.startswith("<0x")]
    data["model"].update(vocab={piece: i for i, piece in enumerate(kept)}, byte_fallback=False)
    write_changed(files, directory, data)
    theirs, tokenizer = load_tokenizers(directory), Ours(directory, tmp_path)
    for text in TEXTS[:100]:
        assert tokenizer.encode(text) == theirs.encode(text, add_special_tokens=False).ids, repr(text[:80])
    assert 0 in tokenizer.encode(TEXT)


def test_user_defined_tokens_match_tokenizers(files, tmp_path):
    directory = tmp_path / "user_defined"
    data = vocabulary_of(files)
    for content in ("<tool>", "<tool>>", "ou"):
        token = {**data["added_tokens"][0], "id": len(data["model"]["vocab"]), "content": content, "special": False}
        if content in data["model"]["vocab"]:
            token["id"] = data["model"]["vocab"][content]
        data["model"]["vocab"][content] = token["id"]
        data["added_tokens"].append(token)
    data["model"]["merges"] = [m for m in data["model"]["merges"] if "ou" not in m.split(" ") and
                               m.replace(" ", "") != "ou"]
    write_changed(files, directory, data)
    theirs, tokenizer = load_tokenizers(directory), Ours(directory, tmp_path)
    for text in ("<tool>", "a<tool>b", "<tool>>> you  <tool> <tool> out", "ou", " ou ", "<tool", CODE, PROSE):
        assert tokenizer.encode(text) == theirs.encode(text, add_special_tokens=False).ids, text
        assert tokenizer.decode(tokenizer.encode(text)).decode() == text


PHI3 = [("</s>", dict(rstrip=True, normalized=False, special=False)),
        ("<|endoftext|>", dict(normalized=False, special=True)),
        *[(f"<|{name}|>", dict(rstrip=True, normalized=False, special=True))
          for name in ("assistant", "placeholder1", "system", "user")]]
PREPEND = [{"type": "Prepend", "prepend": MARK}]
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
STRIP = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]


def metaspace(scheme, split):
    return {"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme} |
            ({} if split is None else {"split": split})}


# Fields of tokenizer.json that define the handling of spaces. "prepend" is in the files of Llama and Phi-3-mini, and
# "replace" in those of Gemma, which adds no leading space. transformers writes or wrote the others for Llama.
SPACES = {"prepend": {"normalizer": {"type": "Sequence", "normalizers": [*PREPEND, REPLACE]}},
          "replace": {"normalizer": REPLACE},
          **{f"{scheme}-{split}": metaspace(scheme, split) for scheme in ("first", "always", "never")
             for split in (False, True)},
          "first-older": metaspace("first", None)}
SPACES["first-older"]["pre_tokenizer"] |= {"add_prefix_space": True, "str_rep": MARK}


def write_shaped(files, directory, spaces, added):
    """Writes the vocabulary of `files` with the added tokens `added` and with spaces handled by SPACES[spaces]. Returns
    the number of tokens."""
    data = vocabulary_of(files) | SPACES[spaces]
    without = spaces == "replace" or spaces.startswith("never")
    data["decoder"]["decoders"] = data["decoder"]["decoders"][:3] + ([] if without else STRIP)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(data))
    theirs.add_tokens(added)
    write_changed(files, directory, json.loads(theirs.to_str()))
    n = theirs.get_vocab_size()
    (directory / "config.json").write_text(json.dumps({"vocab_size": n + 21}))
    return n


@pytest.mark.parametrize("spaces", SPACES)
def test_added_tokens_match_tokenizers(spaces, files, tmp_path):
    """As in Phi-3-mini's directory, the model has more embedding rows than tokens, and </s> strips spaces around it."""
    directory = tmp_path / "phi3"
    n = write_shaped(files, directory, spaces, flagged_tokens(PHI3))
    shown = json.loads(ours("show", directory))
    assert (shown["kind"], shown["vocab_size"]) == ("SentencePiece", n + 21)
    names = [name for name, _ in PHI3] + ["<s>", "<unk>"]
    assert_same_added_tokens(directory, tmp_path, names)
    # Writing the tokenizer to a new directory keeps the added tokens and their flags.
    again = to_hf(directory, tmp_path / "again")
    assert tokenizers.Tokenizer.from_file(str(again / "tokenizer.json")).get_vocab_size() == n
    assert_same_added_tokens(again, tmp_path, names, n=1000)


def test_gguf_named_phi3_has_phi3s_flags(files, tmp_path):
    """GGUF can't store the flags of added tokens. Like llama.cpp, Folio uses those of Phi-3 for models of that name."""
    directory = tmp_path / "phi3"
    write_shaped(files, directory, "prepend", [AddedToken(name, **flags) for name, flags in PHI3])
    ours("to-gguf", directory, tmp_path / "tokenizer.gguf")
    names = [name for name, _ in PHI3]
    with_llama_keys(tmp_path / "tokenizer.gguf", tmp_path / "named.gguf", name="Phi 3 Mini / Phi-3-mini-4k-instruct")
    assert_same_added_tokens(directory, tmp_path, names, file=tmp_path / "named.gguf", n=2000)
    with_llama_keys(tmp_path / "tokenizer.gguf", tmp_path / "other.gguf", name="Llama")
    (tmp_path / "texts").write_text(json.dumps(["a<|user|> \nb"]))
    named, other = (json.loads(ours("prompts", tmp_path / f"{name}.gguf", tmp_path / "texts"))[0] for name in ("named", "other"))
    assert len(named) < len(other)


def test_added_words_can_still_result_from_merges(files, tmp_path):
    """Added tokens with single_word match only whole words. Within other words, merges can still produce them."""
    vocabulary = vocabulary_of(files)["model"]["vocab"]
    words = [piece for piece in vocabulary if piece.isalpha() and piece.isascii() and 1 < len(piece) < 6][:20] + ["a", "b"]
    write_shaped(files, tmp_path / "words", "prepend", flagged_tokens([(w, dict(single_word=True)) for w in words]))
    assert_same_added_tokens(tmp_path / "words", tmp_path, words + words)
    assert_same_added_tokens(to_hf(tmp_path / "words", tmp_path / "again"), tmp_path, words + words, n=1000)


@pytest.mark.parametrize("settings", [{}, {"legacy": True}, {"add_prefix_space": False}, {"add_bos_token": True},
                                      {"legacy": True, "add_bos_token": True, "add_eos_token": True}], ids=str)
def test_llama_tokenizers_saved_by_transformers_are_read(settings, files, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = vocabulary_of(files)["model"]
    merges = [tuple(merge.split(" ")) for merge in model["merges"]]
    theirs = transformers.LlamaTokenizer(vocab=model["vocab"], merges=merges, **settings)
    theirs.add_tokens(flagged_tokens(PHI3))
    theirs.save_pretrained(tmp_path / "saved")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "saved").save_pretrained(tmp_path / "twice")
    for directory in (tmp_path / "saved", tmp_path / "twice"):
        assert_same_added_tokens(directory, tmp_path, [name for name, _ in PHI3], n=1000)
        assert json.loads(ours("show", directory))["prefix_tokens"] == [1] * settings.get("add_bos_token", False)
        tokenizer = Ours(directory, tmp_path)
        for text in ("Hello world", "two\n\nlines ", "Où est 色は 😀?", PROSE):
            ids = theirs(text, add_special_tokens=False).input_ids
            assert tokenizer.encode(text) == ids and tokenizer.decode(ids).decode() == theirs.decode(ids)


def test_bpe_with_incomplete_merges_is_rejected(tmp_path):
    """BpeTrainer writes one merge per piece. SentencePiece merges any pair that forms a piece, so tokens differ."""
    tokenizer = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    tokenizer.decoder = tokenizers.decoders.Sequence(
        [tokenizers.decoders.Replace(MARK, " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse(),
         tokenizers.decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"]
    tokenizer.train_from_iterator(PROSE.split("\n"), trainers.BpeTrainer(vocab_size=600, special_tokens=special))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')
    done = run("show", tmp_path)
    assert done.returncode == 1 and b"is not supported" in done.stderr and b"BPE" in done.stderr, done.stderr


def test_llama2c_files_round_trip_exactly(files, tmp_path):
    for source in ("tokenizer.bin", "tokenizer.gguf", "hf"):
        rows = json.loads(ours("to-llama2c", files / source, tmp_path / "back.bin"))
        assert rows == list(range(len(rows)))
        if source != "hf":  # a Hugging Face directory stores the order of merges instead of scores
            assert (tmp_path / "back.bin").read_bytes() == (files / "tokenizer.bin").read_bytes(), source
    assert Ours(tmp_path / "back.bin", tmp_path).encode(TEXT) == Ours(files / "tokenizer.bin", tmp_path).encode(TEXT)


def test_gguf_hugging_face_round_trip_is_identical(files, tmp_path):
    ours("to-gguf", files / "hf", tmp_path / "a.gguf")
    directory = to_hf(tmp_path / "a.gguf", tmp_path / "hf")
    ours("to-gguf", directory, tmp_path / "b.gguf")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (directory / name).read_bytes() == (files / "hf" / name).read_bytes()


def test_every_format_gives_the_same_tokens_and_keeps_arbitrary_bytes(files, tmp_path):
    expected = Ours(files / "tokenizer.bin", tmp_path).encode(TEXT)
    data = random.Random(11).randbytes(200_000).replace(MARK.encode(), b"")
    for name in ("tokenizer.bin", "tokenizer.gguf", "hf", "hf/tokenizer.json"):
        tokenizer = Ours(files / name, tmp_path)
        assert tokenizer.encode(TEXT) == expected, name
        assert tokenizer.decode(tokenizer.encode(data)) == data, name


def test_gguf_package_reads_the_vocabulary(files):
    fields = gguf.GGUFReader(files / "tokenizer.gguf").fields
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents()  # noqa: E731
    pieces = json.loads((files / "pieces.json").read_text())
    assert get("model") == "llama" and get("add_bos_token") is True and get("add_space_prefix") is True
    assert get("tokens") == ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *pieces]
    assert get("scores") == [0.0] * 259 + [-float(i) for i in range(len(pieces))]
    types = gguf.TokenType
    assert get("token_type") == ([types.UNKNOWN, types.CONTROL, types.CONTROL] + [types.BYTE] * 256 +
                                 [types.NORMAL] * len(pieces))
    assert (get("bos_token_id"), get("eos_token_id"), get("unknown_token_id")) == (1, 2, 0)


def test_tokens_match_llama_cpp(files, tmp_path):
    with_llama_keys(files / "tokenizer.gguf", tmp_path / "model.gguf")
    tokenizer = Ours(files / "tokenizer.gguf", tmp_path)
    with llama_cpp_vocabulary(tmp_path / "model.gguf") as (lc, vocab, encode):
        for text in TEXTS:
            assert encode(text.encode()) == tokenizer.encode(text), repr(text[:80])
        assert lc.llama_vocab_get_add_bos(vocab) and lc.llama_vocab_bos(vocab) == 1 and lc.llama_vocab_eos(vocab) == 2


@pytest.mark.parametrize("text", ["To bé, or 中\n", "abc", "a <0x41> <unk>\n<s>\n", "é é😀 \u00a0z", " "])
def test_character_vocabulary_is_written_for_llama2c(text, tmp_path):
    """The expected bytes follow llama2.c's layout: ASCII characters have their bytes' ids, others have later ids."""
    (tmp_path / "text").write_text(text)
    (tmp_path / "hf").mkdir()
    ours("characters", tmp_path / "text", tmp_path / "hf")
    rows = json.loads(ours("to-llama2c", tmp_path / "hf", tmp_path / "tokenizer.bin"))
    characters = sorted(set(text))
    expected = [len(characters)] * 259  # unused ids have the row of <|endoftext|>
    for row, character in enumerate(characters):
        if character < "\x80":
            expected[3 + ord(character)] = row
        else:
            expected.append(row)
    assert rows == expected
    tokens = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{b:02X}>" for b in range(256)), *(c for c in characters if c >= "\x80")]
    tokens[3 + ord(" ")] = " "
    data = struct.pack("<i", 6)
    for token in tokens:
        data += struct.pack("<fi", 0.0, len(token.encode())) + token.encode()
    assert (tmp_path / "tokenizer.bin").read_bytes() == data
