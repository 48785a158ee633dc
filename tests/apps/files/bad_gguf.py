"""Lists bad GGUF files: defects in the container, the configuration, the tensors, and both kinds of tokenizers."""

import math
import struct

import sound
from kinds import PASSES, REFUSES, SHOWS, kinds_of, write_file
from sound import ARRAY, I32, STRING, U8, U32, U64, Tensor


def write(folder, model, packed):
    """Writes the model. `packed`, unless None, replaces it: the file's bytes, or (first bytes, length) of a sparse
    file. Returns (path, None), because a GGUF needs no tokenizer file."""
    return write_file(folder / "m.gguf", model.pack() if packed is None else packed), None


def character():
    return sound.Gguf(sound.Shape())


def sentencepiece():
    shape = sound.Shape(vocab=len(sound.PIECES))
    return sound.Gguf(shape, tokenizer=sound.sentencepiece_metadata())


def key(name, kind, value):
    return lambda g: g.key(name, kind, value)


def without(name):
    return lambda g: g.metadata.pop(name) and None


def entry(raw):
    """Returns a function that appends the bytes `raw` to a model's metadata, in place of a serialized key and value."""
    return lambda g: g.metadata.update({"raw": raw})


def typed(kind, payload=b"", name="k"):
    return entry(sound.gguf_string(name) + struct.pack("<I", kind) + payload)


def extra(name, dims):
    return lambda g: g.tensors.append(Tensor(name, dims, 0, bytes(4 * math.prod(dims))))


def factors(*values):
    return lambda g: g.tensors.append(
        Tensor("rope_freqs.weight", [len(values)], 0, struct.pack(f"<{len(values)}f", *values)))


def sparse(change, size):
    """Returns a function that maps a model to a sparse file, (first bytes, `size`): the header after
    `change`, then zeros."""
    def apply(g):
        g.tensors = []
        change(g)
        return g.head(), size
    return apply


KINDS = kinds_of("gguf", character, write, "m.gguf", REFUSES, [
    ("a hundred thousand keys", "exceed the limit of 65536",
     lambda g: g.metadata.update({f"{i:05}": (U8, 0) for i in range(100000)})),
    ("a hundred thousand tensors", "exceed the limit of 65536",
     lambda g: g.__dict__.update(tensors=[Tensor(f"{i:05}", [1], 0, b"") for i in range(100000)])),
    ("array of eight gigabytes of zeros", "the arrays have more than 4194304 items",
     sparse(typed(ARRAY, struct.pack("<IQ", STRING, 1 << 29)), 8 << 30)),
    ("two arrays of two million empty strings", "the arrays have more than 4194304 items",
     lambda g: g.metadata.update({f"k{i}": sound.gguf_string(f"k{i}") + struct.pack("<IIQ", ARRAY, STRING, 2_200_000) +
                                  bytes(8 * 2_200_000) for i in range(2)})),
    ("string of a gigabyte", "makes the header longer than",
     sparse(typed(STRING, struct.pack("<Q", 1 << 30)), 2 << 30)),
    ("name of a gigabyte", "makes the header longer than",
     lambda g: (g.head()[:8] + struct.pack("<QQ", 1, 0) + struct.pack("<Q", 1 << 30), 2 << 30)),
])
KINDS += kinds_of("gguf", character, write, "m.gguf", SHOWS, [
    ("another architecture", "the architecture is gpt2", key("general.architecture", STRING, "gpt2")),
    ("huge context", "context_length is 4294967295", key("llama.context_length", U32, 2**32 - 1)),
    ("vocabulary of another size", "llama.vocab_size is 7, but token_embd.weight has 6", key("llama.vocab_size", U32, 7)),
    ("RoPE scaling of long contexts", "tensor rope_factors_short.weight is missing",
     extra("rope_factors_long.weight", [2])),
    ("RoPE's factors of zero", "rope_scaling_factor is 0", factors(0, 0)),
    ("RoPE's factors of NaN", "rope_scaling_factor is nan", factors(float("nan"), float("nan"))),
    ("too few of RoPE's factors", "rope_freqs.weight is F32 of shape [1], expected F32 of shape [2]", factors(1)),
    ("RoPE's factors in sixteen bits", "rope_freqs.weight is F16 of shape [2]",
     lambda g: g.tensors.append(Tensor("rope_freqs.weight", [2], 1, bytes(4)))),
    ("RoPE's original context of zero", "rope_scaling_context is 0",
     key("llama.rope.scaling.llama3.original_context_length", U32, 0)),
])
KINDS += kinds_of("gguf", character, write, "m.gguf", PASSES, [
    ("a layer too many", "unexpected tensor blk.1.attn_norm.weight", extra("blk.1.attn_norm.weight", [8])),
])
KINDS += kinds_of("gguf character vocabulary", character, write, "m.gguf", SHOWS, [
    ("negative beginning of text", "tokenizer.ggml.bos_token_id is -1", key("tokenizer.ggml.bos_token_id", I32, -1)),
])
KINDS += kinds_of("gguf character vocabulary", character, write, "m.gguf", PASSES, [
    ("more tokens than the model", "the tokenizer has 7 tokens, but the model has 6",
     lambda g: g.metadata.update(sound.character_metadata([*sound.CHARACTERS, "c"]))),
])
KINDS += kinds_of("gguf SentencePiece vocabulary", sentencepiece, write, "m.gguf", SHOWS, [
    ("no scores", "tokenizer.ggml.scores is missing", without("tokenizer.ggml.scores")),
    ("end of text that wraps to an id", "tokenizer.ggml.eos_token_id is 4294967298",
     key("tokenizer.ggml.eos_token_id", U64, 2**32 + 2)),
])
KINDS += kinds_of("gguf SentencePiece vocabulary", sentencepiece, write, "m.gguf", PASSES, [
    ("fewer pieces than the model", "the tokenizer has 263 tokens, but the model has 264",
     lambda g: g.metadata.update(sound.sentencepiece_metadata(sound.PIECES[:-1]))),
])
