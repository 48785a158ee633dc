"""Lists bad GGUF files: defects in the container, the configuration, the tensors, and both kinds of tokenizers."""

import struct

import sound
from kinds import PASSES, SHOWS, Kinds, write_file
from sound import ARRAY, BOOL, F32, F64, I32, STRING, U8, U32, U64, Tensor

MiB = 1 << 20


def write(folder, model, packed):
    """Writes `packed`, which is bytes or (head, length) of a sparse file, or the model if `packed` is None."""
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


def field(name, **values):
    return lambda g: g.tensor(name).__dict__.update(values)


def part(**values):
    return lambda g: g.__dict__.update(values)


def entry(raw):
    """Returns a change that appends raw bytes to the metadata, as a key with its value."""
    return lambda g: g.metadata.update({"raw": raw})


def typed(kind, payload=b"", name="k"):
    return entry(sound.gguf_string(name) + struct.pack("<I", kind) + payload)


def drop(name):
    return lambda g: g.tensors.remove(g.tensor(name))


def extra(name, dims):
    size = 1
    for d in dims:
        size *= d
    return lambda g: g.tensors.append(Tensor(name, list(dims), 0, bytes(4 * size)))


def factors(*values):
    return lambda g: g.tensors.append(
        Tensor("rope_freqs.weight", [len(values)], 0, struct.pack(f"<{len(values)}f", *values)))


def sparse(change, size):
    """Returns a change that makes a file of `size` bytes: the changed metadata without tensors, followed by zeros."""
    def apply(g):
        g.tensors = []
        change(g)
        return g.head(), size
    return apply


def shape_of(name, dims):
    def change(g):
        size = 1
        for d in dims:
            size *= d
        t = g.tensor(name)
        t.dims, t.data = list(dims), bytes(4 * size)
    return change


EMBEDDING, WQ, NORM, DOWN = "token_embd.weight", "blk.0.attn_q.weight", "output_norm.weight", "blk.0.ffn_down.weight"
NESTED = struct.pack("<IQ", ARRAY, 1) * 5 + struct.pack("<IQ", U8, 0)

container = Kinds("gguf", character, write, "m.gguf")
for name, phrase, change in [
    ("another magic", "neither a GGUF nor a llama2.c file", part(magic=b"GGML")),
    ("version 1", "GGUF version 1 is not supported", part(version=1)),
    ("version 4", "GGUF version 4 is not supported", part(version=4)),
    ("big-endian", "GGUF version 50331648 is not supported", part(version=0x03000000)),
    ("huge number of tensors", "9223372036854775808 tensors do not fit in the file", part(n_tensors=2**63)),
    ("a few tensors too many", "the file is damaged or not a GGUF", part(n_tensors=15)),
    ("huge number of keys", "18446744073709551615 metadata keys do not fit", part(n_keys=2**64 - 1)),
    ("a key too many", "the file is damaged or not a GGUF", lambda g: part(n_keys=len(g.metadata) + 1)(g)),
    ("a key too few", "the file is damaged or not a GGUF", lambda g: part(n_keys=len(g.metadata) - 1)(g)),
    ("wrapped length of a key", "a metadata key needs 18446744073709551615 bytes", entry(struct.pack("<Q", 2**64 - 1))),
    ("huge length of a string", "a string needs 9223372036854775808 bytes", typed(STRING, struct.pack("<Q", 2**63))),
    ("wrapped size of an array", "an array of 2305843009213693952 items does not fit",
     typed(ARRAY, struct.pack("<IQ", U64, 2**61))),
    ("wrapped size of an array of strings", "an array of 2305843009213693953 items does not fit",
     typed(ARRAY, struct.pack("<IQ", STRING, 2**61 + 1))),
    ("array longer than the file", "an array of 100000 items does not fit",
     typed(ARRAY, struct.pack("<IQ", U32, 100000))),
    ("arrays nested six deep", "nested deeper than 4", typed(ARRAY, NESTED)),
    ("unknown type of a value", "key k has the unknown type 13", typed(13, b"\0" * 8)),
    ("unknown type of an array", "unknown array type 99", typed(ARRAY, struct.pack("<IQ", 99, 1))),
    ("boolean of 2", "a boolean is 2", typed(BOOL, b"\x02")),
    ("key twice", "key general.name occurs twice", typed(U8, b"\0", "general.name")),
    ("tensor twice", "tensor output_norm.weight occurs twice", extra(NORM, [8])),
    ("no dimensions", "tensor output_norm.weight has 0 dimensions", field(NORM, dims=[])),
    ("five dimensions", "has 5 dimensions", field(NORM, dims=[8, 1, 1, 1, 1])),
    ("dimension of zero", "has a dimension of 0", field(NORM, dims=[0])),
    ("negative dimension", "has a dimension of -8", field(NORM, dims=[-8])),
    ("least dimension", "has a dimension of -9223372036854775808", field(NORM, dims=[-(2**63)])),
    ("size that overflows", "which is not valid for type", field(NORM, dims=[2**33, 2**33])),
    ("size that wraps to the right one", "which is not valid for type", field(EMBEDDING, dims=[8, 2**61 + 6])),
    ("bytes that wrap", "which is not valid for type", field(NORM, dims=[2**62 + 8])),
    ("unknown type of a tensor", "has the unknown type 99", field(NORM, kind=99)),
    ("type that was removed from the format", "has the unknown type 4", field(NORM, kind=4)),
    ("row that is no whole block", "which is not valid for type", field(WQ, kind=8)),
    ("offset that is not aligned", "which is not a multiple of the alignment 32", field(NORM, offset=4)),
    ("offset that wraps", "past the end", field(NORM, offset=2**64 - 32)),
    ("offset past the end", "past the end", field(NORM, offset=1 << 40)),
    ("tensor longer than the file", "needs 4294967296 bytes", field(NORM, dims=[1 << 30])),
    ("tensors in one place", "two tensors overlap", lambda g: field(NORM, offset=g.offset_of(WQ))(g)),
    ("tensors that overlap in part", "two tensors overlap", lambda g: field(NORM, offset=g.offset_of(WQ) + 32)(g)),
    ("alignment of zero", "general.alignment is 0", key("general.alignment", U32, 0)),
    ("alignment of three", "general.alignment is 3", key("general.alignment", U32, 3)),
    ("huge alignment", "general.alignment is 2147483648", key("general.alignment", U32, 2**31)),
    ("alignment as a string", "general.alignment is not an integer", key("general.alignment", STRING, "32")),
    ("offsets of another alignment", "which is not a multiple of the alignment 64", key("general.alignment", U32, 64)),
    ("a hundred thousand keys", "exceed the limit of 65536",
     lambda g: g.metadata.update({f"{i:05}": (U8, 0) for i in range(100000)})),
    ("a hundred thousand tensors", "exceed the limit of 65536",
     lambda g: g.__dict__.update(tensors=[Tensor(f"{i:05}", [1], 0, b"") for i in range(100000)])),
    ("five million empty strings", "the arrays have more than 4194304 items",
     sparse(typed(ARRAY, struct.pack("<IQ", STRING, 5_000_000)), 48 * MiB)),
    ("array of eight gigabytes of zeros", "the arrays have more than 4194304 items",
     sparse(typed(ARRAY, struct.pack("<IQ", STRING, 1 << 29)), 8 << 30)),
    ("two arrays of two million empty strings", "the arrays have more than 4194304 items",
     lambda g: g.metadata.update({f"k{i}": sound.gguf_string(f"k{i}") + struct.pack("<IIQ", ARRAY, STRING, 2_200_000) +
                                  bytes(8 * 2_200_000) for i in range(2)})),
    ("string of a gigabyte", "makes the header longer than",
     sparse(typed(STRING, struct.pack("<Q", 1 << 30)), 2 << 30)),
    ("name of a gigabyte", "makes the header longer than",
     lambda g: (g.head()[:8] + struct.pack("<QQ", 1, 0) + struct.pack("<Q", 1 << 30), 2 << 30)),
]:
    container.add(name, phrase, change)

config = Kinds("gguf", character, write, "m.gguf", SHOWS)
for name, phrase, change in [
    ("no architecture", "general.architecture is missing", without("general.architecture")),
    ("another architecture", "the architecture is gpt2", key("general.architecture", STRING, "gpt2")),
    ("architecture with a terminal's commands", "the architecture is \\x1B[31mllama",
     key("general.architecture", STRING, "\x1b[31mllama")),
    ("architecture as a number", "general.architecture is missing or not a string", key("general.architecture", U32, 1)),
    ("no block_count", "llama.block_count is missing", without("llama.block_count")),
    ("no embedding_length", "llama.embedding_length is missing", without("llama.embedding_length")),
    ("no head_count", "llama.attention.head_count is missing", without("llama.attention.head_count")),
    ("no feed_forward_length", "llama.feed_forward_length is missing", without("llama.feed_forward_length")),
    ("no context_length", "llama.context_length is missing", without("llama.context_length")),
    ("no layers", "n_layers is 0", key("llama.block_count", U32, 0)),
    ("negative layers", "n_layers is -1", key("llama.block_count", I32, -1)),
    ("huge number of layers", "n_layers is 4294967295", key("llama.block_count", U32, 2**32 - 1)),
    ("no width", "dim is 0", key("llama.embedding_length", U32, 0)),
    ("width as a float", "llama.embedding_length is not an integer", key("llama.embedding_length", F32, 8.0)),
    ("width past 63 bits", "which is too large", key("llama.embedding_length", U64, 2**64 - 1)),
    ("no heads", "n_heads is 0", key("llama.attention.head_count", U32, 0)),
    ("heads that do not divide the width", "not a multiple of n_heads 3", key("llama.attention.head_count", U32, 3)),
    ("heads of one dimension", "so it must be even", key("llama.attention.head_count", U32, 8)),
    ("heads layer by layer", "head_count is not an integer", key("llama.attention.head_count", ARRAY, (U32, [2]))),
    ("no key heads", "n_kv_heads is 0", key("llama.attention.head_count_kv", U32, 0)),
    ("more key heads than heads", "not a multiple of n_kv_heads 4", key("llama.attention.head_count_kv", U32, 4)),
    ("no inner width", "hidden_dim is 0", key("llama.feed_forward_length", U32, 0)),
    ("no context", "context_length is 0", key("llama.context_length", U32, 0)),
    ("huge context", "context_length is 4294967295", key("llama.context_length", U32, 2**32 - 1)),
    ("eps of NaN", "norm_eps is nan", key("llama.attention.layer_norm_rms_epsilon", F32, float("nan"))),
    ("eps of zero", "norm_eps is 0", key("llama.attention.layer_norm_rms_epsilon", F32, 0.0)),
    ("negative eps", "norm_eps is -1", key("llama.attention.layer_norm_rms_epsilon", F32, -1.0)),
    ("eps as an integer", "not a floating-point number", key("llama.attention.layer_norm_rms_epsilon", U32, 1)),
    ("theta below one", "rope_theta is 0.5", key("llama.rope.freq_base", F32, 0.5)),
    ("infinite theta", "rope_theta is inf", key("llama.rope.freq_base", F32, float("inf"))),
    ("theta too large for a float", "rope_theta is inf", key("llama.rope.freq_base", F64, 1e300)),
    ("vocabulary of another size", "llama.vocab_size is 7, but token_embd.weight has 6", key("llama.vocab_size", U32, 7)),
    ("RoPE over a part of a head", "RoPE over 2 of 4 dimensions", key("llama.rope.dimension_count", U32, 2)),
    ("RoPE scaling", "RoPE scaling of type dynamic", key("llama.rope.scaling.type", STRING, "dynamic")),
    ("RoPE scaling without a factor", "requires llama.rope.scaling.factor, which is missing", key("llama.rope.scaling.type", STRING, "yarn")),
    ("RoPE scaling of long contexts", "tensor rope_factors_short.weight is missing or is not F32 of shape [2]",
     extra("rope_factors_long.weight", [2])),
    ("RoPE's factors of zero", "rope_scaling_factor is 0", factors(0, 0)),
    ("RoPE's factors of NaN", "rope_scaling_factor is nan", factors(float("nan"), float("nan"))),
    ("RoPE's factors of another kind", "rope_freqs.weight does not match Llama 3's formula: element 1 is 8, expected 1 for factor 8",
     factors(1, 8)),
    ("too few of RoPE's factors", "rope_freqs.weight is F32 of shape [1], expected F32 of shape [2]", factors(1)),
    ("RoPE's factors in sixteen bits", "rope_freqs.weight is F16 of shape [2]",
     lambda g: g.tensors.append(Tensor("rope_freqs.weight", [2], 1, bytes(4)))),
    ("RoPE's turns in the wrong order", "rope_scaling_low is 8",
     key("llama.rope.scaling.llama3.low_freq_factor", F32, 8.0)),
    ("RoPE's original context of zero", "rope_scaling_context is 0",
     key("llama.rope.scaling.llama3.original_context_length", U32, 0)),
    ("RoPE scaling that shortens", "rope_scaling_factor is 0.5", key("llama.rope.scaling.factor", F32, 0.5)),
    ("keys of another width", "RoPE over 4 of 16 dimensions", key("llama.attention.key_length", U32, 16)),
    ("values of another width", "llama.attention.value_length is 16, expected the key length 4", key("llama.attention.value_length", U32, 16)),
    ("no embedding", "token_embd.weight is missing", drop(EMBEDDING)),
    ("embedding that is a vector", "token_embd.weight is missing or not a matrix", shape_of(EMBEDDING, [48])),
]:
    config.add(name, phrase, change)

tensors = Kinds("gguf", character, write, "m.gguf", PASSES)
for name, phrase, change in [
    ("a tensor fewer in the count", "output_norm.weight of shape [8] is missing", part(n_tensors=10)),
    ("a layer more than there are", "blk.1.attn_norm.weight of shape [8] is missing", key("llama.block_count", U32, 2)),
    ("missing matrix", "blk.0.attn_q.weight of shape [8, 8] is missing", drop(WQ)),
    ("missing norm", "output_norm.weight of shape [8] is missing", drop(NORM)),
    ("bias", "llama models with biases (blk.0.attn_q.bias)", extra("blk.0.attn_q.bias", [8])),
    ("a layer too many", "unexpected tensor blk.1.attn_norm.weight", extra("blk.1.attn_norm.weight", [8])),
    ("name that is not UTF-8", "unexpected tensor \\xFF\\x0A", extra(b"\xff\n", [8])),
    ("matrix that is transposed", "ffn_down.weight has shape [12, 8], expected [8, 12]", field(DOWN, dims=[8, 12])),
    ("matrix of too few rows", "attn_q.weight has shape [4, 8], expected [8, 8]", shape_of(WQ, [8, 4])),
    ("norm that is a matrix", "output_norm.weight has shape [1, 8]", field(NORM, dims=[8, 1])),
    ("inner width that is not the matrices'", "ffn_gate.weight has shape [12, 8], expected [13, 8]",
     key("llama.feed_forward_length", U32, 13)),
    ("embedding of another width", "token_embd.weight has shape [3, 16], expected [3, 8]",
     lambda g: (field(EMBEDDING, dims=[16, 3])(g), key("llama.vocab_size", U32, 3)(g)) and None),
    ("weights that are integers", "output_norm.weight has type I32, expected F32, F16, BF16, Q8_0", field(NORM, kind=26)),
    ("weights in a type that is not run", "attn_q.weight has type I8, expected F32, F16, BF16, Q8_0",
     field(WQ, kind=24, data=bytes(64))),
]:
    tensors.add(name, phrase, change)


def tokens(change, name="tokens"):
    def apply(g):
        kind, (of, items) = g.metadata[f"tokenizer.ggml.{name}"]
        items = list(items)
        changed = change(items)
        g.metadata[f"tokenizer.ggml.{name}"] = (kind, (of, items if changed is None else changed))
    return apply


def put(index, value, name="tokens"):
    return tokens(lambda items: items.__setitem__(index, value), name)


characters = Kinds("gguf character vocabulary", character, write, "m.gguf", SHOWS)
for name, phrase, change in [
    ("no kind", "tokenizer.ggml.model is missing", without("tokenizer.ggml.model")),
    ("another kind", 'a tokenizer of kind "bert" is not supported', key("tokenizer.ggml.model", STRING, "bert")),
    ("no tokens", "tokenizer.ggml.tokens is missing", without("tokenizer.ggml.tokens")),
    ("tokens that are numbers", "tokenizer.ggml.tokens is missing or not", key("tokenizer.ggml.tokens", ARRAY, (U32, [1]))),
    ("tokens that are one string", "tokenizer.ggml.tokens is missing or not", key("tokenizer.ggml.tokens", STRING, "ab")),
    ("empty list of tokens", "0 pieces are not a valid vocabulary", tokens(lambda t: [])),
    ("no end of text", "5 pieces, but 6 types", tokens(lambda t: t[:-1])),
    ("token twice", 'the character "a" occurs twice', put(3, "a")),
    ("token of two characters", "does not join two tokens into a third", put(3, "ab")),
    ("empty token", "does not join two tokens into a third", put(3, "")),
    ("token outside the byte alphabet", "is not in the byte-level alphabet", put(3, "日")),
    ("token that is not UTF-8", "is not in the byte-level alphabet", put(3, b"\xff\xfe")),
    ("token of half a character", "does not join two tokens into a third", put(4, sound.byte_level("é")[0])),
    ("end of text that is no token", "tokenizer.ggml.eos_token_id is 6", key("tokenizer.ggml.eos_token_id", U32, 6)),
    ("negative beginning of text", "tokenizer.ggml.bos_token_id is -1", key("tokenizer.ggml.bos_token_id", I32, -1)),
    ("end of text as a string", "eos_token_id is not an integer", key("tokenizer.ggml.eos_token_id", STRING, "5")),
]:
    characters.add(name, phrase, change)
for name, phrase, change in [
    ("fewer tokens than the model", "the tokenizer has 5 tokens, but the model has 6",
     lambda g: g.metadata.update(sound.character_metadata(sound.CHARACTERS[:-1]))),
    ("more tokens than the model", "the tokenizer has 7 tokens, but the model has 6",
     lambda g: g.metadata.update(sound.character_metadata([*sound.CHARACTERS, "c"]))),
]:
    characters.add(name, phrase, change, inspect=PASSES)

pieces = Kinds("gguf SentencePiece vocabulary", sentencepiece, write, "m.gguf", SHOWS)
for name, phrase, change in [
    ("no scores", "tokenizer.ggml.scores is missing", without("tokenizer.ggml.scores")),
    ("no types", "tokenizer.ggml.token_type is missing", without("tokenizer.ggml.token_type")),
    ("scores that are doubles", "scores is missing or not a list of 32-bit floating-point",
     key("tokenizer.ggml.scores", ARRAY, (F64, [0.0]))),
    ("types that are bytes", "token_type is missing or not a list of 32-bit integers",
     key("tokenizer.ggml.token_type", ARRAY, (U8, [1]))),
    ("fewer scores than pieces", "264 pieces, but 263 scores", tokens(lambda s: s[:-1], "scores")),
    ("fewer types than pieces", "264 pieces, but 263 types", tokens(lambda s: s[:-1], "token_type")),
    ("score of NaN", "the score of piece 259 is nan", put(259, float("nan"), "scores")),
    ("infinite score", "the score of piece 260 is -inf", put(260, float("-inf"), "scores")),
    ("unknown type of a piece", "piece 259 has the unknown type 7", put(259, 7, "token_type")),
    ("negative type of a piece", "piece 259 has the unknown type -1", put(259, -1, "token_type")),
    ("byte piece that is no byte", 'byte piece 10 is "<0xZZ>"', put(10, "<0xZZ>")),
    ("piece twice", "occurs twice", put(262, "▁a")),
    ("piece that is not UTF-8", 'piece 262 ("\\xFF") is not UTF-8', put(262, b"\xff")),
    ("piece with an overlong character", "is not UTF-8", put(262, b"\xc0\xaf")),
    ("piece with half a surrogate", "is not UTF-8", put(262, b"\xed\xa0\x80")),
    ("empty piece", "piece 262 has 0 bytes", put(262, "")),
    ("piece of two thousand bytes", "piece 262 has 2000 bytes", put(262, "x" * 2000)),
    ("beginning of text past the vocabulary", "the BOS token is 264", key("tokenizer.ggml.bos_token_id", U32, 264)),
    ("negative end of text", "the EOS token is -1", key("tokenizer.ggml.eos_token_id", I32, -1)),
    ("end of text that wraps to an id", "tokenizer.ggml.eos_token_id is 4294967298",
     key("tokenizer.ggml.eos_token_id", U64, 2**32 + 2)),
    ("unknown token past the vocabulary", "the unknown token is 999", key("tokenizer.ggml.unknown_token_id", U32, 999)),
    ("no piece for the space", "the space", put(261, "zz")),
    ("flag as a number", "add_bos_token is missing or not a boolean", key("tokenizer.ggml.add_bos_token", U32, 1)),
]:
    pieces.add(name, phrase, change)
pieces.add("fewer pieces than the model", "the tokenizer has 263 tokens, but the model has 264",
           lambda g: g.metadata.update(sound.sentencepiece_metadata(sound.PIECES[:-1])), inspect=PASSES)

KINDS = [*container.all, *config.all, *tensors.all, *characters.all, *pieces.all]
