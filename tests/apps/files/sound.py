"""Makes small valid models, packed byte by byte with struct and json from the formats' published layouts.

A model is a `Shape` and a dict of arrays with GGUF's names; rows of Wq and Wk are in adjacent RoPE pairs. A class for
each file format holds the parts of a file, so that a test can change one before `pack` or `write` produces the bytes.
"""

import dataclasses
import json
import struct

import numpy as np

END = "<|endoftext|>"
CHARACTERS = ["\n", " ", "a", "b", "é"]


@dataclasses.dataclass
class Shape:
    dim: int = 8
    hidden: int = 12
    layers: int = 1
    heads: int = 2
    kv_heads: int = 1
    vocab: int = len(CHARACTERS) + 1
    context: int = 16
    tied: bool = True
    theta: float = 10000.0
    eps: float = 1e-5
    family: str = "llama"  # or qwen2, qwen3, qwen3_moe, mixtral
    own_head_dim: int = None  # head dimension; None: dim / heads
    experts: int = 0
    experts_per_token: int = 2

    @property
    def architecture(self):
        """The value of general.architecture in a GGUF file."""
        return "llama" if self.family == "mixtral" else self.family.replace("_", "")

    @property
    def head_dim(self):
        return self.own_head_dim or self.dim // self.heads

    def tensors(self):
        """Returns {GGUF name: shape}, in the order of tensor_manifest() in core/manifest.h."""
        d, h, q, kv = self.dim, self.hidden, self.head_dim * self.heads, self.head_dim * self.kv_heads
        layer = {"attn_norm.weight": (d,), "attn_q.weight": (q, d), "attn_k.weight": (kv, d), "attn_v.weight": (kv, d)}
        if self.family == "qwen2":
            layer |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
        if self.family in ("qwen3", "qwen3_moe"):
            layer |= {"attn_q_norm.weight": (self.head_dim,), "attn_k_norm.weight": (self.head_dim,)}
        layer |= {"attn_output.weight": (d, q), "ffn_norm.weight": (d,)}
        if self.experts:
            e = self.experts
            layer |= {"ffn_gate_inp.weight": (e, d), "ffn_gate_exps.weight": (e, h, d), "ffn_up_exps.weight": (e, h, d),
                      "ffn_down_exps.weight": (e, d, h)}
        else:
            layer |= {"ffn_gate.weight": (h, d), "ffn_up.weight": (h, d), "ffn_down.weight": (d, h)}
        shapes = {"token_embd.weight": (self.vocab, d)}
        for i in range(self.layers):
            shapes.update({f"blk.{i}.{name}": shape for name, shape in layer.items()})
        shapes["output_norm.weight"] = (d,)
        if not self.tied:
            shapes["output.weight"] = (self.vocab, d)
        return shapes


def weights(shape, dtype=np.float32):
    random = np.random.default_rng(1)
    return {name: random.standard_normal(size).astype(np.float32 if len(size) == 1 else dtype)
            for name, size in shape.tensors().items()}


# ---- Vocabularies ----

def byte_level(text):
    """Returns the text's UTF-8 bytes in GPT-2's printable alphabet (bytes_to_unicode in GPT-2's encoder.py)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return "".join(chr(b) if b in plain else chr(256 + others.index(b)) for b in text.encode())


# A SentencePiece vocabulary of (text, score, type) by id: unknown, BOS, EOS, the bytes, then the pieces.
PIECES = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), *((f"<0x{b:02X}>", 0.0, 6) for b in range(256)),
          ("▁a", -0.0, 1), ("ab", -1.0, 1), ("▁", -2.0, 1), ("a", -3.0, 1), ("b", -4.0, 1)]


# ---- GGUF ----

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
GGML = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 26}  # ggml's type numbers; BF16 is 30


def gguf_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    if kind == ARRAY:
        of, items = value
        return struct.pack("<IQ", of, len(items)) + b"".join(gguf_value(of, item) for item in items)
    return struct.pack("<" + CODES[kind], value)


@dataclasses.dataclass
class Tensor:
    name: object
    dims: list  # fastest dimension first, as in the file
    kind: int
    data: bytes
    offset: int = None  # None: directly after the previous tensor


class Gguf:
    def __init__(self, shape=None, arrays=None, tokenizer=None):
        self.alignment = 32
        self.metadata, self.tensors = {}, []
        if shape is None:
            return
        self.metadata = {
            "general.architecture": (STRING, shape.architecture), "general.name": (STRING, "sound"),
            **{f"{shape.architecture}.{key}": value for key, value in {
                "block_count": (U32, shape.layers), "context_length": (U32, shape.context),
                "embedding_length": (U32, shape.dim), "feed_forward_length": (U32, shape.hidden),
                "attention.head_count": (U32, shape.heads), "attention.head_count_kv": (U32, shape.kv_heads),
                "attention.layer_norm_rms_epsilon": (F32, shape.eps), "rope.freq_base": (F32, shape.theta),
                "rope.dimension_count": (U32, shape.head_dim), "vocab_size": (U32, shape.vocab)}.items()},
            **({f"{shape.architecture}.attention.{kind}_length": (U32, shape.head_dim) for kind in ("key", "value")}
               if shape.own_head_dim else {}),
            **({f"{shape.architecture}.expert_{key}": (U32, value) for key, value in {
                "count": shape.experts, "used_count": shape.experts_per_token,
                "feed_forward_length": shape.hidden}.items()} if shape.experts else {}),
            **(character_metadata() if tokenizer is None else tokenizer)}
        for name, array in (weights(shape) if arrays is None else arrays).items():
            kind = 30 if array.dtype == np.uint16 else GGML[array.dtype]
            self.tensors.append(Tensor(name, list(array.shape[::-1]), kind, array.tobytes()))

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)

    def key(self, name, kind, value):
        self.metadata[name] = (kind, value)

    def offsets(self):
        at, offsets = 0, []
        for t in self.tensors:
            offsets.append(at if t.offset is None else t.offset)
            at = (at + len(t.data) + self.alignment - 1) // self.alignment * self.alignment
        return offsets

    def head(self):
        """Returns all bytes before the tensors' data. A metadata value of type bytes is written as the whole entry, in
        place of key, type and value."""
        parts = [b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.metadata))]
        for key, entry in self.metadata.items():
            parts.append(entry if isinstance(entry, bytes) else (
                gguf_string(key) + struct.pack("<I", entry[0]) + gguf_value(*entry)))
        for t, offset in zip(self.tensors, self.offsets()):
            parts.append(gguf_string(t.name) + struct.pack(f"<I{len(t.dims)}Q", len(t.dims), *(d % 2**64 for d in t.dims)))
            parts.append(struct.pack("<IQ", t.kind, offset))
        return b"".join(parts)

    def pack(self):
        out = bytearray(self.head())
        out += bytes(-len(out) % self.alignment)
        for t in self.tensors:
            out += t.data
            out += bytes(-len(out) % self.alignment)
        return bytes(out)


def character_metadata(characters=tuple(CHARACTERS)):
    tokens = [byte_level(c) for c in characters]
    merges = [f"{t[:i]} {t[i]}" for t in tokens for i in range(1, len(t))]
    return {"tokenizer.ggml.model": (STRING, "gpt2"), "tokenizer.ggml.pre": (STRING, "gpt-2"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, [*tokens, END])),
            "tokenizer.ggml.token_type": (ARRAY, (I32, [1] * len(tokens) + [3])),
            "tokenizer.ggml.merges": (ARRAY, (STRING, merges)),
            "tokenizer.ggml.bos_token_id": (U32, len(tokens)), "tokenizer.ggml.eos_token_id": (U32, len(tokens)),
            "tokenizer.ggml.add_bos_token": (BOOL, False)}


def sentencepiece_metadata(pieces=None):
    texts, scores, types = (list(column) for column in zip(*(PIECES if pieces is None else pieces)))
    return {"tokenizer.ggml.model": (STRING, "llama"), "tokenizer.ggml.pre": (STRING, "default"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, texts)), "tokenizer.ggml.scores": (ARRAY, (F32, scores)),
            "tokenizer.ggml.token_type": (ARRAY, (I32, types)), "tokenizer.ggml.bos_token_id": (U32, 1),
            "tokenizer.ggml.eos_token_id": (U32, 2), "tokenizer.ggml.unknown_token_id": (U32, 0)}


# ---- safetensors and Hugging Face directories ----

HF_LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
            "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
            "ffn_gate_inp": "mlp.gate"}
HF_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
SAFETENSORS = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.uint16): "BF16"}


def hf_name(gguf_name):
    parts = gguf_name.split(".")
    if parts[0] != "blk":
        return HF_TOP[parts[0]] + ".weight"
    return f"model.layers.{parts[1]}.{HF_LAYER[parts[2]]}.{parts[3]}"


def split_halves(array, head_dim):
    """Reorders rows from adjacent pairs to halves: the inverse of `permute` in llama.cpp's convert_hf_to_gguf.py."""
    return array.reshape(-1, head_dim // 2, 2, array.shape[1]).swapaxes(1, 2).reshape(array.shape)


def hf_arrays(shape, arrays):
    permuted = ("attn_q.weight", "attn_k.weight") if shape.family == "llama" else ()
    out = {}
    for name, a in arrays.items():
        if name.endswith("_exps.weight"):
            which = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}[name.split("_")[-2]]
            layer = name.split(".")[1]
            out |= {f"model.layers.{layer}.mlp.experts.{e}.{which}.weight": a[e] for e in range(len(a))}
        else:
            out[hf_name(name)] = split_halves(a, shape.head_dim) if name.endswith(permuted) else a
    return out


class Safetensors:
    def __init__(self, arrays):
        self.header, self.data = {}, b""
        for name, array in arrays.items():
            begin = len(self.data)
            self.data += array.tobytes()
            self.header[name] = {"dtype": SAFETENSORS[array.dtype], "shape": list(array.shape),
                                 "data_offsets": [begin, len(self.data)]}

    def pack(self, text=None):
        text = json.dumps(self.header).encode() if text is None else text
        return struct.pack("<Q", len(text)) + text + self.data


def hf_config(shape):
    return {"architectures": [f"{shape.family.capitalize()}ForCausalLM"], "model_type": shape.family,
            **({"head_dim": shape.head_dim} if shape.own_head_dim else {}), "vocab_size": shape.vocab,
            "hidden_size": shape.dim, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads, "intermediate_size": shape.hidden,
            "max_position_embeddings": shape.context, "rope_theta": shape.theta, "rms_norm_eps": shape.eps,
            "tie_word_embeddings": shape.tied, "hidden_act": "silu",
            **({"num_experts": shape.experts, "num_experts_per_tok": shape.experts_per_token,
                "moe_intermediate_size": shape.hidden, "norm_topk_prob": True} if shape.experts else {})}


def character_json(characters=tuple(CHARACTERS)):
    vocab = {c: i for i, c in enumerate([*characters, END])}
    end = {"id": len(characters), "content": END, "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "byte_fallback": False, "vocab": vocab, "merges": []}}


def sentencepiece_json():
    """Returns a tokenizer.json like the one to which transformers converts Llama 2's vocabulary."""
    added = [{"id": i, "content": PIECES[i][0], "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i in range(3)]
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text = [{"Sequence": {"id": "A", "type_id": 0}}, begin | {"SpecialToken": {"id": "<s>", "type_id": 1}},
            {"Sequence": {"id": "B", "type_id": 1}}]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing", "single": [begin, text[0]], "pair": [begin, *text],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                      "vocab": {piece: i for i, (piece, _, _) in enumerate(PIECES)}, "merges": ["▁ a", "a b"]}}


class HfDirectory:
    """A Hugging Face directory. `files` is {name: bytes, or a value to write as JSON, or None for no file}."""

    def __init__(self, shape, arrays=None, shards=1, tokenizer=None):
        self.arrays = hf_arrays(shape, weights(shape) if arrays is None else arrays)
        self.files = {"config.json": hf_config(shape), "tokenizer.json": tokenizer or character_json(),
                      "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END,
                                                "eos_token": END}}
        if tokenizer:
            self.files["tokenizer_config.json"] |= {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        if shards == 1:
            self.shards = {"model.safetensors": Safetensors(self.arrays)}
            return
        names = list(self.arrays)
        self.shards, place = {}, {}
        for i in range(shards):
            part = names[i * len(names) // shards:(i + 1) * len(names) // shards]
            shard = f"model-{i + 1:05}-of-{shards:05}.safetensors"
            self.shards[shard] = Safetensors({name: self.arrays[name] for name in part})
            place.update(dict.fromkeys(part, shard))
        self.files["model.safetensors.index.json"] = {"metadata": {"total_size": 0}, "weight_map": place}

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in {**{n: s.pack() for n, s in self.shards.items()}, **self.files}.items():
            if content is None:
                (folder / name).unlink(missing_ok=True)
            else:
                (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return folder


# ---- llama2.c ----

LLAMA2C = 0x616B3432
ORDER_0 = ["token_embd", "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_down",
           "ffn_up", "output_norm"]
ORDER_1 = ["attn_norm", "ffn_norm", "output_norm", "token_embd", "attn_q", "attn_k", "attn_v", "attn_output",
           "ffn_gate", "ffn_down", "ffn_up", "output"]


def by_role(shape, arrays, roles):
    """Yields the arrays in llama2.c's order: all layers of one kind of matrix, then of the next kind in `roles`."""
    for role in roles:
        names = [f"blk.{i}.{role}.weight" for i in range(shape.layers)] if f"blk.0.{role}.weight" in arrays else [
            f"{role}.weight"]
        yield from (arrays[name] for name in names if name in arrays)


def rope_tables(shape):
    """Returns llama2.c's RoPE tables (freqs_cis in model.py): cosines, then sines, each (context, head_dim / 2)."""
    frequencies = 1.0 / shape.theta ** (np.arange(0, shape.head_dim, 2, dtype=np.float32) / np.float32(shape.head_dim))
    angles = np.outer(np.arange(shape.context, dtype=np.float32), frequencies.astype(np.float32)).astype(np.float32)
    return np.concatenate([np.cos(angles), np.sin(angles)]).astype(np.float32)


def quantize_q80(array, group):
    """Quantizes like llama2.c's export.py, with a scale of max|x| / 127 per group. Returns (quants, scales)."""
    groups = array.reshape(-1, group)
    scale = np.abs(groups).max(axis=1) / np.float32(127.0)
    with np.errstate(invalid="ignore"):
        quants = np.where(scale[:, None] > 0, np.round(groups / scale[:, None]), 0).astype(np.int8)
    return quants, scale.astype(np.float32)


def group_size(shape):
    """Returns the group size: 64, halved until it divides dim (as in export.py) and hidden (as runq.c requires)."""
    group = 64
    while shape.dim % group or shape.hidden % group:
        group //= 2
    return group


class Llama2c:
    def __init__(self, version, shape=Shape()):
        self.version, self.shape, self.arrays = version, shape, weights(shape)
        s = self.shape
        vocab = -s.vocab if version == 0 and not s.tied else s.vocab
        self.shared = int(s.tied)
        self.numbers = [s.dim, s.hidden, s.layers, s.heads, s.kv_heads, vocab, s.context]
        self.group = group_size(s)

    def header(self):
        numbers = struct.pack("<7i", *self.numbers)
        if self.version == 0:
            return numbers
        head = struct.pack("<Ii", LLAMA2C, self.version) + numbers + struct.pack("<B", self.shared)
        if self.version == 2:
            head += struct.pack("<i", self.group)
        return head.ljust(256, b"\0")

    def body(self):
        s, a = self.shape, self.arrays
        if self.version == 0:
            out = b"".join(x.tobytes() for x in by_role(s, a, ORDER_0)) + rope_tables(s).tobytes()
            return out if s.tied else out + a["output.weight"].tobytes()
        out = b""
        for array in by_role(s, a, ORDER_1):
            if self.version == 1 or array.ndim == 1:
                out += array.tobytes()
            else:
                out += b"".join(part.tobytes() for part in quantize_q80(array, group_size(s)))
        return out

    def pack(self):
        return self.header() + self.body()


class TokenizerBin:
    """A tokenizer.bin: the length of the longest text, then score, length and text of each token, as in export.py."""

    def __init__(self):
        texts = [p[0].replace("▁", " ") for p in PIECES]
        texts[1], texts[2] = "\n<s>\n", "\n</s>\n"
        self.pieces = [(score, text.encode()) for text, (_, score, _) in zip(texts, PIECES)]

    def pack(self):
        return struct.pack("<i", max(len(text) for _, text in self.pieces)) + b"".join(
            struct.pack("<fi", score, len(text)) + text for score, text in self.pieces)
