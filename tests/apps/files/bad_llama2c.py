"""Lists bad files of llama2.c: defects in models of versions 0, 1 and 2, and in tokenizer.bin."""

import json
import struct

import sound
from kinds import PASSES, REFUSES, kinds_of, write_file

DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT = range(7)


def write(folder, model, packed):
    """Writes a tokenizer and the model. `packed`, unless None, replaces the model: the file's bytes, or (first bytes,
    length) of a sparse file. Returns (model path, tokenizer path)."""
    tokenizer = folder / "t.json"
    tokenizer.write_text(json.dumps(sound.character_json()))
    return write_file(folder / "m.bin", model.pack() if packed is None else packed), tokenizer


def write_tokenizer(folder, tokenizer, packed):
    model, _ = write(folder, sound.Llama2c(0, sound.Shape(vocab=len(sound.PIECES))), None)
    return model, write_file(folder / "t.bin", tokenizer.pack() if packed is None else packed)


SOUND = {f"llama2.c version {v}": lambda folder, v=v: write(folder, sound.Llama2c(v), None) for v in (0, 1, 2)}
SOUND["llama2.c untied"] = lambda folder: write(folder, sound.Llama2c(0, sound.Shape(tied=False)), None)
SOUND["tokenizer.bin"] = lambda folder: write_tokenizer(folder, sound.TokenizerBin(), None)


def number(index, value):
    return lambda m: m.numbers.__setitem__(index, value)


def part(**values):
    return lambda m: m.__dict__.update(values)


KINDS = []
for version in (0, 1, 2):
    defects = [
        ("huge width", "dim is 2147483647", number(DIM, 2**31 - 1)),
        ("huge number of layers", "n_layers is 1000000000", number(LAYERS, 10**9)),
        ("most layers of the largest width", "bytes, but its llama2.c version",
         lambda m: [number(LAYERS, 1024)(m), number(DIM, 1 << 17)(m), number(HIDDEN, 1 << 20)(m)] and None),
        ("huge vocabulary", "vocab_size is 2147483647", number(VOCAB, 2**31 - 1)),
        ("huge context", "context_length is 1073741824", number(CONTEXT, 1 << 30)),
    ]
    if version == 0:
        defects += [
            ("no vocabulary", "vocab_size is 0", number(VOCAB, 0)),
            ("sparse terabyte", "bytes, but its llama2.c version 0", lambda m: (m.pack(), 1 << 40)),
        ]
    else:
        defects += [
            ("version 3", "llama2.c version 3 is not supported", part(version=3)),
            ("negative vocabulary", "the header has a vocabulary size of -6", number(VOCAB, -6)),
            ("flag of 2", "shared-output flag of 2", part(shared=2)),
        ]
    if version == 2:
        defects += [
            ("groups of none", "group size 0 does not divide", part(group=0)),
            ("groups that do not divide the width", "group size 3 does not divide", part(group=3)),
            ("groups longer than a row", "group size 2147483647 does not divide", part(group=2**31 - 1)),
        ]
    KINDS += kinds_of(f"llama2.c version {version}", lambda version=version: sound.Llama2c(version), write, "m.bin", REFUSES,
                      defects)


# ---- tokenizer.bin ----

KINDS += kinds_of("tokenizer.bin", sound.TokenizerBin, write_tokenizer, "t.bin", PASSES, [
    ("piece too few", "263 tokens, but the model has 264", lambda t: t.pieces.pop() and None),
    ("piece of a gigabyte", "has 1073741824 bytes, more than the longest's 65535",
     lambda t: (struct.pack("<ifi", 65535, 0.0, 1 << 30), 2 << 30)),
    ("longest piece of a gigabyte", "not a supported tokenizer",
     lambda t: (struct.pack("<ifi", 1 << 30, 0.0, 1 << 30), 2 << 30)),
    ("GGUF without a tokenizer", "tokenizer.ggml.model is missing", lambda t: sound.Gguf().pack()),
    ("sparse gigabytes of zeros", "piece 0 has length 0", lambda t: (struct.pack("<i", 8), 2 << 30)),
])
