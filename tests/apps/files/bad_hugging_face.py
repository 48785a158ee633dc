"""Lists bad Hugging Face directories: defects in config.json, safetensors, the index of shards, tokenizer.json."""

import json

import numpy as np
import sound
from kinds import Kinds

BOMB = b'{"a":[' + b"0," * 5_000_000 + b"0]}"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
EMBEDDING, WQ, NORM = "model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"


def single():
    return sound.HfDirectory(sound.Shape())


def sharded():
    return sound.HfDirectory(sound.Shape(), shards=2)


def sentencepiece():
    return sound.HfDirectory(sound.Shape(vocab=len(sound.PIECES)), tokenizer=sound.sentencepiece_json())


def qwen2():
    return sound.HfDirectory(sound.Shape(family="qwen2"))


def qwen3():
    return sound.HfDirectory(sound.Shape(family="qwen3", own_head_dim=6))


def qwen3_moe():
    return sound.HfDirectory(sound.Shape(family="qwen3_moe", experts=4))


def mistral():
    """Returns a Mistral: a Llama's tensors with another model_type and a sliding window."""
    model = sound.HfDirectory(sound.Shape(own_head_dim=6))
    model.files["config.json"] |= {"model_type": "mistral", "sliding_window": 5}
    return model


SOUND = {"hugging face, characters": single, "hugging face, qwen2": qwen2, "hugging face, qwen3": qwen3,
         "hugging face, mistral": mistral, "hugging face, qwen3_moe": qwen3_moe,
         "hugging face, shards": sharded,
         "hugging face, SentencePiece": sentencepiece}


def write(folder, model, _):
    return model.write(folder / "hf"), None


def raw(file, data):
    """Returns a change that replaces the file's bytes."""
    return lambda m: m.files.update({file: data})


def at(file, *path):
    """Returns a function that finds, in a model's JSON file, the container and the last key of the value at `path`."""
    def find(m):
        place = m.files[file]
        for key in path[:-1]:
            place = place[key]
        return place, path[-1]
    return find


def put(find, value):
    def change(m):
        place, key = find(m)
        place[key] = value
    return change


def without(find):
    def change(m):
        place, key = find(m)
        del place[key]
    return change


def bad_json(file):
    """Returns (name, error, change) of contents that aren't valid JSON, or not an object."""
    return [
        ("empty", "not valid JSON", raw(file, b"")), ("not JSON", "not valid JSON", raw(file, b"pickle\x80\x04")),
        ("cut in half", "not valid JSON", lambda m: m.files.update({file: json.dumps(m.files[file]).encode()[:40]})),
        ("text behind the value", "not valid JSON", raw(file, b"{} {}")),
        ("list in place of the object", "is missing", raw(file, b"[]")),
        ("nested a hundred thousand deep", "nested deeper than 64", raw(file, b"[" * 100_000)),
        ("objects nested a hundred thousand deep", "nested deeper than 64", raw(file, b'{"a":' * 100_000)),
        ("not UTF-8", "not valid JSON", raw(file, b'{"\xff\xfe": 1}')),
        ("half a surrogate", "not valid JSON", raw(file, b'{"a": "\\ud800"}')),
        ("number past the largest double", "not valid JSON", raw(file, b'{"a": 1e999}')),
        ("key twice", 'the key "a" occurs twice', raw(file, b'{"a": 1, "a": 2}')),
    ]


def missing(file):
    return [("missing", "cannot", raw(file, None))]


config = Kinds("config.json", single, write, "config.json")
CONFIG = "config.json"
for name, phrase, change in [
    *missing(CONFIG), *bad_json(CONFIG), ("five million values", "more than 4194304 values", raw(CONFIG, BOMB)),
    ("no model_type", '"model_type" is missing', without(at(CONFIG, "model_type"))),
    ("another model_type", "model_type is mamba", put(at(CONFIG, "model_type"), "mamba")),
    ("no hidden_size", '"hidden_size" is missing', without(at(CONFIG, "hidden_size"))),
    ("no vocab_size", '"vocab_size" is missing', without(at(CONFIG, "vocab_size"))),
    ("no rms_norm_eps", '"rms_norm_eps" is missing', without(at(CONFIG, "rms_norm_eps"))),
    ("size as a string", '"vocab_size" is not an integer', put(at(CONFIG, "vocab_size"), "6")),
    ("size as a float", '"hidden_size" is not an integer', put(at(CONFIG, "hidden_size"), 8.0)),
    ("size past 64 bits", '"hidden_size"', put(at(CONFIG, "hidden_size"), 2**70)),
    ("size past 63 bits", "which is out of range", put(at(CONFIG, "hidden_size"), 2**63)),
    ("negative vocabulary", "vocab_size is -6", put(at(CONFIG, "vocab_size"), -6)),
    ("huge vocabulary", "vocab_size is 1000000000000", put(at(CONFIG, "vocab_size"), 10**12)),
    ("no layers", "n_layers is 0", put(at(CONFIG, "num_hidden_layers"), 0)),
    ("huge number of layers", "n_layers is 1000000000", put(at(CONFIG, "num_hidden_layers"), 10**9)),
    ("no heads", "n_heads is 0", put(at(CONFIG, "num_attention_heads"), 0)),
    ("heads that do not divide the width", "not a multiple of n_heads 3", put(at(CONFIG, "num_attention_heads"), 3)),
    ("heads of one dimension", "so it must be even", put(at(CONFIG, "num_attention_heads"), 8)),
    ("more key heads than heads", "n_kv_heads 4", put(at(CONFIG, "num_key_value_heads"), 4)),
    ("negative key heads", "n_kv_heads is -1", put(at(CONFIG, "num_key_value_heads"), -1)),
    ("head_dim that the matrices do not have", "q_proj.weight has shape [8, 8], expected [32, 8] from config.json", put(at(CONFIG, "head_dim"), 16)),
    ("no context", "context_length is 0", put(at(CONFIG, "max_position_embeddings"), 0)),
    ("eps of zero", "norm_eps is 0", put(at(CONFIG, "rms_norm_eps"), 0)),
    ("eps as a string", '"rms_norm_eps" is not a number', put(at(CONFIG, "rms_norm_eps"), "1e-5")),
    ("theta that is too large for a float", "rope_theta is inf", put(at(CONFIG, "rope_theta"), 1e300)),
    ("negative theta", "rope_theta is -1", put(at(CONFIG, "rope_theta"), -1)),
    ("tied as a number", '"tie_word_embeddings" is not true or false', put(at(CONFIG, "tie_word_embeddings"), 1)),
    ("another activation", 'hidden_act = "gelu" is not supported', put(at(CONFIG, "hidden_act"), "gelu")),
    ("biases", "attention_bias = true is not supported", put(at(CONFIG, "attention_bias"), True)),
    ("RoPE scaling without its numbers", 'the key "low_freq_factor" is missing',
     put(at(CONFIG, "rope_scaling"), {"rope_type": "llama3", "factor": 8.0})),
    ("RoPE scaling of another type", "RoPE scaling of type mrope is not supported",
     put(at(CONFIG, "rope_scaling"), {"type": "mrope", "factor": 8.0})),
    ("RoPE parameters without a factor", 'the key "factor" is missing',
     put(at(CONFIG, "rope_parameters"), {"rope_type": "yarn"})),
    ("RoPE factors of another number", "longrope scaling needs",
     put(at(CONFIG, "rope_parameters"), {"rope_type": "longrope", "short_factor": [1.0] * 9, "long_factor": [1.0] * 9})),
    ("RoPE factors that are no numbers", "long_factor contains \"x\", expected numbers",
     put(at(CONFIG, "rope_parameters"), {"rope_type": "longrope", "short_factor": [1.0], "long_factor": ["x"]})),
]:
    config.add(name, phrase, change)


def write_sparse(folder, model, _):
    path = model.write(folder / "hf")
    with (path / CONFIG).open("wb") as file:
        file.truncate(1 << 30)
    return path, None


sparse = Kinds("config.json", single, write_sparse, "config.json")
sparse.add("gigabyte of zeros", "more than the limit of 16777216", lambda m: None)


# ---- safetensors ----

def text(data, size=None):
    """Returns a change that replaces the safetensors header by `data`, and its stored size by `size` if given."""
    return lambda m: m.files.update({"model.safetensors": m.shards["model.safetensors"].pack(data, size)})


def entry(name, key, value):
    return lambda m: m.shards["model.safetensors"].header[name].update({key: value})


def data(change):
    def apply(m):
        shard = m.shards["model.safetensors"]
        shard.data = change(shard.data)
    return apply


def without_entry(name):
    return lambda m: m.shards["model.safetensors"].header.pop(name) and None


def without_tensor(name, shard="model.safetensors"):
    def change(m):
        arrays = {k: a for k, a in m.arrays.items() if k in m.shards[shard].header and k != name}
        m.shards[shard] = sound.Safetensors(arrays)
    return change


def with_tensors(**arrays):
    def change(m):
        named = {name.replace("__", "."): a for name, a in arrays.items()}
        m.shards["model.safetensors"] = sound.Safetensors({**m.arrays, **named})
    return change


def offsets(name, shift):
    def change(m):
        place = m.shards["model.safetensors"].header[name]["data_offsets"]
        place[:] = shift(*place)
    return change


def twice(m):
    shard = m.shards["model.safetensors"]
    line = json.dumps({NORM: shard.header[NORM]})[1:-1]
    m.files["model.safetensors"] = shard.pack((json.dumps(shard.header)[:-1] + ", " + line + "}").encode())


floats = Kinds("safetensors", single, write, "model.safetensors")
for name, phrase, change in [
    ("empty", "is an empty file", raw("model.safetensors", b"")),
    ("missing", "No such file", lambda m: m.shards.clear()),
    ("seven bytes", "too short", raw("model.safetensors", b"\0" * 7)),
    ("header longer than the file", "a header of 1000000 bytes does not fit", text(b"{}", 1_000_000)),
    ("header whose length wraps", "a header of 18446744073709551615 bytes", text(b"{}", 2**64 - 1)),
    ("empty header", "not valid JSON", text(b"")), ("header that is no JSON", "not valid JSON", text(b"\x80\x04pickle")),
    ("header that is a list", "the header is not a JSON object", text(b"[]")),
    ("header cut in half", "not valid JSON", text(b'{"model.norm.weight": {"dtype": "F3')),
    ("header nested deep", "nested deeper than 64", text(b'{"a":' * 50_000)),
    ("header that is not UTF-8", "not valid JSON", text(b'{"\xff": {}}')),
    ("header of five million values", "more than 4194304 values", text(BOMB)),
    ("tensor twice", 'the key "model.norm.weight" occurs twice', twice),
    ("metadata that is no object", "__metadata__ is not an object",
     lambda m: m.shards["model.safetensors"].header.update({"__metadata__": [1]})),
    ("metadata that is no text", "__metadata__.a is not a string",
     lambda m: m.shards["model.safetensors"].header.update({"__metadata__": {"a": 1}})),
    ("no dtype", "needs dtype, shape and two data_offsets", lambda m: m.shards["model.safetensors"].header[NORM].pop(
        "dtype") and None),
    ("no shape", "needs dtype, shape and two data_offsets", entry(NORM, "shape", None)),
    ("three offsets", "needs dtype, shape and two data_offsets", entry(NORM, "data_offsets", [0, 4, 8])),
    ("entry that is no object", "needs dtype, shape and two data_offsets",
     lambda m: m.shards["model.safetensors"].header.update({NORM: 3})),
    ("unknown dtype", "dtype F4 is not supported", entry(NORM, "dtype", "F4")),
    ("another dtype of that width", "has type I32, expected F32, F16, BF16", entry(NORM, "dtype", "I32")),
    ("dtype of another width", "do not match each other", entry(NORM, "dtype", "F64")),
    ("negative dimension", "a dimension is not a non-negative integer", entry(NORM, "shape", [-8])),
    ("dimension as a float", "a dimension is not a non-negative integer", entry(NORM, "shape", [8.0])),
    ("dimension past 63 bits", "a dimension is not a non-negative integer", entry(NORM, "shape", [2**63])),
    ("size that wraps to the right one", "do not match each other", entry(NORM, "shape", [2**62 + 8])),
    ("size that overflows", "do not match each other", entry(NORM, "shape", [2**40, 2**40])),
    ("negative offset", "an offset is not a non-negative integer", entry(NORM, "data_offsets", [-32, 0])),
    ("offset past the end", "do not match each other", offsets(NORM, lambda a, b: (a + 10**9, b + 10**9))),
    ("offset that wraps", "do not match each other", entry(NORM, "data_offsets", [2**64 - 16, 16])),
    ("offsets the wrong way round", "do not match each other", offsets(NORM, lambda a, b: (b, a))),
    ("tensors that overlap", "overlaps the one before it", offsets(NORM, lambda a, b: (a - 32, b - 32))),
    ("hole between tensors", "belong to no tensor", without_entry(WQ)),
    ("bytes behind the last tensor", "belong to no tensor", data(lambda d: d + b"\0")),
    ("bytes missing at the end", "do not match each other", data(lambda d: d[:-1])),
]:
    floats.add(name, phrase, change)
for name, phrase, change in [
    ("no embedding", "model.embed_tokens.weight of shape [6, 8] is missing", without_tensor(EMBEDDING)),
    ("no norm", "model.norm.weight of shape [8] is missing", without_tensor(NORM)),
    ("no output though untied", "lm_head.weight of shape [6, 8] is missing", put(at(CONFIG, "tie_word_embeddings"), False)),
    ("output that is not the tied embedding", "unexpected tensor lm_head.weight for the family llama",
     with_tensors(lm_head__weight=np.zeros((6, 8), np.float32))),
    ("bias", "llama models with biases (model.layers.0.self_attn.q_proj.bias)",
     with_tensors(model__layers__0__self_attn__q_proj__bias=np.zeros(8, np.float32))),
    ("a layer more than there are", "model.layers.1.input_layernorm.weight of shape [8] is missing",
     put(at(CONFIG, "num_hidden_layers"), 2)),
    ("matrix of another shape", "q_proj.weight has shape [4, 16], expected [8, 8] from config.json",
     entry(WQ, "shape", [4, 16])),
    ("cube in place of a norm", "has shape [2, 2, 2], expected [8] from config.json", entry(NORM, "shape", [2, 2, 2])),
    ("vocabulary of another size", "has shape [6, 8], expected [7, 8] from config.json", put(at(CONFIG, "vocab_size"), 7)),
    ("inner width of another size", "has shape [12, 8], expected [16, 8] from config.json",
     put(at(CONFIG, "intermediate_size"), 16)),
]:
    floats.add(name, phrase, change)

# ---- The index of shards ----

index = Kinds("index", sharded, write, INDEX)
for name, phrase, change in [
    *bad_json(INDEX),
    ("no weight_map", '"weight_map" is missing', raw(INDEX, b'{"metadata": {}}')),
    ("weight_map that is a list", "weight_map is empty or not an object", put(at(INDEX, "weight_map"), [])),
    ("empty weight_map", "weight_map is empty or not an object", put(at(INDEX, "weight_map"), {})),
    ("shard that is a number", "is not a string", put(at(INDEX, "weight_map", NORM), 2)),
    ("shard in the parent directory", "is not a file name in this directory", put(at(INDEX, "weight_map", NORM), "../" + TWO)),
    ("shard by its absolute path", "is not a file name in this directory", put(at(INDEX, "weight_map", NORM), "/etc/passwd")),
    ("shard in a folder", "is not a file name in this directory", put(at(INDEX, "weight_map", NORM), "hf/" + TWO)),
    ("shard that is the parent", "is not a file name in this directory", put(at(INDEX, "weight_map", NORM), "..")),
    ("shard whose name ends early", "is not a file name in this directory",
     put(at(INDEX, "weight_map", NORM), TWO + "\0.txt")),
    ("shard without a name", "is not a file name in this directory", put(at(INDEX, "weight_map", NORM), "")),
    ("tensor in the wrong shard", f"{WQ} of {ONE} is not in weight_map", put(at(INDEX, "weight_map", WQ), TWO)),
    ("tensor that is not listed", f"{WQ} of {ONE} is not in weight_map", without(at(INDEX, "weight_map", WQ))),
    ("tensor that is not there", f"tensor ghost is not in {TWO}", put(at(INDEX, "weight_map", "ghost"), TWO)),
]:
    index.add(name, phrase, change)
for name, phrase, file, change in [
    ("shard that is missing", "No such file", TWO, lambda m: m.shards.pop(TWO) and None),
    ("shard that is no safetensors", "a header of", "config.json", put(at(INDEX, "weight_map", NORM), "config.json")),
    ("shard that is empty", "is an empty file", ONE, raw(ONE, b"")),
    ("tensor in two shards", "is also in another shard", TWO, lambda m: m.shards.update(
        {TWO: sound.Safetensors({**{n: m.arrays[n] for n in m.shards[TWO].header}, WQ: m.arrays[WQ]})})),
    ("tensor that no shard has", "is not in " + ONE, INDEX, without_tensor(WQ, ONE)),
]:
    index.add(name, phrase, change, file=file)

# ---- Parts of other families ----

EXPERT = "model.layers.0.mlp.experts.2.up_proj.weight"


def in_sixteen_bits(name):
    def change(m):
        m.shards["model.safetensors"] = sound.Safetensors({**m.arrays, name: m.arrays[name].astype(np.float16)})
    return change


SWITCHED = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}
families = []
for make, kinds in {
    qwen2: [
        ("no bias", "model.layers.0.self_attn.k_proj.bias of shape [4] is missing",
         without_tensor("model.layers.0.self_attn.k_proj.bias")),
        ("bias of another length", "k_proj.bias has shape [2, 2], expected [4] from config.json",
         entry("model.layers.0.self_attn.k_proj.bias", "shape", [2, 2])),
        ("norms of heads", "qwen2 models with norms of q and k (model.layers.0.self_attn.q_norm.weight)",
         with_tensors(model__layers__0__self_attn__q_norm__weight=np.zeros(4, np.float32))),
    ],
    qwen3: [
        ("no norm of queries", "model.layers.0.self_attn.q_norm.weight of shape [6] is missing",
         without_tensor("model.layers.0.self_attn.q_norm.weight")),
        ("biases", "qwen3 models with biases (model.layers.0.self_attn.q_proj.bias)",
         with_tensors(model__layers__0__self_attn__q_proj__bias=np.zeros(12, np.float32))),
    ],
    qwen3_moe: [
        ("an expert that is missing", f"{EXPERT} of shape [12, 8] is missing", without_tensor(EXPERT)),
        ("an expert of another shape", f"{EXPERT} has shape [8, 12], expected [12, 8] from config.json",
         entry(EXPERT, "shape", [8, 12])),
        ("an expert of another type", f"{EXPERT} has type F16, but model.layers.0.mlp.experts.0.up_proj.weight has type F32",
         in_sixteen_bits(EXPERT)),
        ("an expert too many", "tensor model.layers.0.mlp.experts.4.up_proj.weight matches no expert of the model",
         with_tensors(model__layers__0__mlp__experts__4__up_proj__weight=np.zeros((12, 8), np.float32))),
        ("a router of fewer experts", "mlp.gate.weight has shape [2, 16], expected [4, 8] from config.json",
         entry("model.layers.0.mlp.gate.weight", "shape", [2, 16])),
    ],
}.items():
    of_family = Kinds(make.__name__, make, write, "model.safetensors")
    for name, phrase, change in kinds:
        of_family.add(name, phrase, change)
    families += of_family.all
for make, kinds in {
    qwen3: [
        ("head of no width", "head_dim is 0", put(at(CONFIG, "head_dim"), 0)),
        ("head of odd width", "head_dim is 7", put(at(CONFIG, "head_dim"), 7)),
        ("head as wide as a number can be", "head_dim is 9223372036854775807", put(at(CONFIG, "head_dim"), 2**63 - 1)),
        ("head whose width is a string", '"head_dim" is not an integer', put(at(CONFIG, "head_dim"), "6")),
        ("window that is not a number", '"sliding_window" is not an integer',
         lambda m: m.files[CONFIG].update(SWITCHED, sliding_window="5")),
        ("switch of the window that is a number", '"use_sliding_window" is not true or false',
         lambda m: m.files[CONFIG].update(SWITCHED, use_sliding_window=1)),
        ("types of layers that are no list", '"layer_types" has a value of the wrong type',
         lambda m: m.files[CONFIG].update(SWITCHED, layer_types="sliding_attention")),
        ("types of more layers than there are", "layer_types has 2 entries, but the model has 1 layers",
         lambda m: m.files[CONFIG].update(SWITCHED, layer_types=["sliding_attention"] * 2)),
        ("window in a negative number of layers", "n_layers is -2",
         lambda m: m.files[CONFIG].update(SWITCHED, num_hidden_layers=-2)),
        ("experts", "num_experts = 4 is not supported", put(at(CONFIG, "num_experts"), 4)),
    ],
    qwen3_moe: [
        ("no experts", "the family qwen3_moe has experts, but num_experts is missing or 0", put(at(CONFIG, "num_experts"), 0)),
        ("number of experts that is missing", "the family qwen3_moe has experts, but num_experts is missing or 0",
         without(at(CONFIG, "num_experts"))),
        ("negative experts", "the family qwen3_moe has experts", put(at(CONFIG, "num_experts"), -4)),
        ("more chosen experts than there are", "experts_per_token is 5, but must be in [1, 4]",
         put(at(CONFIG, "num_experts_per_tok"), 5)),
        ("no chosen experts", "experts_per_token is 0", put(at(CONFIG, "num_experts_per_tok"), 0)),
        ("no width of an expert", '"moe_intermediate_size" is missing', without(at(CONFIG, "moe_intermediate_size"))),
        ("experts in each second layer", "decoder_sparse_step = 2 is not supported",
         put(at(CONFIG, "decoder_sparse_step"), 2)),
        ("a last layer without experts", "mlp_only_layers = [3] is not supported",
         put(at(CONFIG, "mlp_only_layers"), [3])),
        ("no layer with experts", "dense_layers is 1, but must be less than the 1 layers",
         put(at(CONFIG, "mlp_only_layers"), [0])),
    ],
    mistral: [
        ("window of zero", "sliding_window is 0", put(at(CONFIG, "sliding_window"), 0)),
        ("negative window", "sliding_window is -1", put(at(CONFIG, "sliding_window"), -1)),
        ("huge window", "sliding_window is 1099511627776", put(at(CONFIG, "sliding_window"), 1 << 40)),
    ],
}.items():
    of_family = Kinds(make.__name__, make, write, CONFIG)
    for name, phrase, change in kinds:
        of_family.add(name, phrase, change)
    families += of_family.all

KINDS = [*config.all, *sparse.all, *floats.all, *index.all, *families]
