"""Lists bad Hugging Face directories: defects in config.json, safetensors, the index of shards, the tokenizer's files."""

import numpy as np
import sound
from kinds import PASSES, REFUSES, SHOWS, kinds_of

BOMB = b'{"a":[' + b"0," * 5_000_000 + b"0]}"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
NORM = "model.norm.weight"


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
    """Returns a function that sets the contents of a model's file `file` to `data`, or removes it if `data` is None."""
    return lambda m: m.files.update({file: data})


def at(file, *path):
    """Returns a function that maps a model to the (container, key) of the value at `path` in its JSON file."""
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


CONFIG = "config.json"
KINDS = kinds_of(CONFIG, single, write, CONFIG, REFUSES, [
    ("missing", "cannot", raw(CONFIG, None)), ("list in place of the object", "is missing", raw(CONFIG, b"[]")),
    ("five million values", "more than 4194304 values", raw(CONFIG, BOMB)),
    ("head_dim that the matrices do not have", "q_proj.weight has shape [8, 8], expected [32, 8] from config.json", put(at(CONFIG, "head_dim"), 16)),
    ("RoPE factors that are no numbers", "long_factor contains \"x\", expected numbers",
     put(at(CONFIG, "rope_parameters"), {"rope_type": "longrope", "short_factor": [1.0], "long_factor": ["x"]})),
])


def write_sparse(folder, model, _):
    path = model.write(folder / "hf")
    with (path / CONFIG).open("wb") as file:
        file.truncate(1 << 30)
    return path, None


KINDS += kinds_of(CONFIG, single, write_sparse, CONFIG, REFUSES, [
    ("gigabyte of zeros", "more than the limit of 16777216", lambda m: None),
])

# ---- safetensors ----

def text(data):
    """Returns a function that replaces the safetensors header with `data`."""
    return lambda m: m.files.update({"model.safetensors": m.shards["model.safetensors"].pack(data)})


def entry(name, key, value):
    return lambda m: m.shards["model.safetensors"].header[name].update({key: value})


def tensors(change):
    """Returns a function that replaces a model's tensors, {name: array}, by change(tensors)."""
    return lambda m: m.shards.update({"model.safetensors": sound.Safetensors(change(m.arrays))})


KINDS += kinds_of("safetensors", single, write, "model.safetensors", REFUSES, [
    ("missing", "No such file", lambda m: m.shards.clear()),
    ("header of five million values", "more than 4194304 values", text(BOMB)),
])

# ---- The index of shards ----

KINDS += kinds_of("index", sharded, write, CONFIG, REFUSES, [
    ("shard that is no safetensors", "a header of", put(at(INDEX, "weight_map", NORM), CONFIG)),
])

# ---- The tokenizer's files ----


def renamed(old, new):
    """Returns a function that renames a token in a model's vocabulary and keeps the token's id."""
    def change(m):
        vocab = m.files["tokenizer.json"]["model"]["vocab"]
        vocab[new] = vocab.pop(old)
    return change


VOCAB = ("tokenizer.json", "model", "vocab")
for make, file, inspect, defects in [
    (single, "tokenizer.json", SHOWS, [("missing", "cannot", raw("tokenizer.json", None)),
                                       ("huge id", "the vocabulary's IDs are not 0 to 5", put(at(*VOCAB, "a"), 2**64 - 1))]),
    (sentencepiece, "tokenizer.json", SHOWS, [("piece of two megabytes", "piece 263 has 2000000 bytes",
                                               renamed("b", "b" * 2_000_000))]),
    (sentencepiece, "hf", PASSES, [("more pieces than the model", "the tokenizer has 265 tokens, but the model has 264",
                                    put(at(*VOCAB, "c"), 264))]),
    (sentencepiece, "tokenizer_config.json", SHOWS, [("missing", "cannot", raw("tokenizer_config.json", None))]),
]:
    KINDS += kinds_of(f"{make.__name__} {file}", make, write, file, inspect, defects)

# ---- Other model families ----

EXPERT = "model.layers.0.mlp.experts.2.up_proj.weight"
SWITCHED = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}
for make, file, defects in [
    (qwen3_moe, "model.safetensors", [
        ("an expert that is missing", f"{EXPERT} of shape [12, 8] is missing",
         tensors(lambda a: {name: array for name, array in a.items() if name != EXPERT})),
        ("an expert of another shape", f"{EXPERT} has shape [8, 12], expected [12, 8] from config.json",
         entry(EXPERT, "shape", [8, 12])),
        ("an expert of another type", f"{EXPERT} has type F16, but model.layers.0.mlp.experts.0.up_proj.weight has type F32",
         tensors(lambda a: a | {EXPERT: a[EXPERT].astype(np.float16)})),
        ("an expert too many", "tensor model.layers.0.mlp.experts.4.up_proj.weight matches no expert of the model",
         tensors(lambda a: a | {EXPERT.replace(".2.", ".4."): np.zeros((12, 8), np.float32)}))]),
    (qwen3, CONFIG, [
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
        ("experts", "num_experts = 4 is not supported", put(at(CONFIG, "num_experts"), 4))]),
    (qwen3_moe, CONFIG, [
        ("number of experts that is missing", "the family qwen3_moe has experts, but num_experts is missing or 0",
         without(at(CONFIG, "num_experts"))),
        ("negative experts", "the family qwen3_moe has experts", put(at(CONFIG, "num_experts"), -4)),
        ("no width of an expert", '"moe_intermediate_size" is missing', without(at(CONFIG, "moe_intermediate_size"))),
        ("experts in each second layer", "decoder_sparse_step = 2 is not supported",
         put(at(CONFIG, "decoder_sparse_step"), 2)),
        ("a last layer without experts", "mlp_only_layers = [3] is not supported",
         put(at(CONFIG, "mlp_only_layers"), [3])),
        ("no layer with experts", "dense_layers is 1, but must be less than the 1 layers",
         put(at(CONFIG, "mlp_only_layers"), [0]))]),
    (mistral, CONFIG, [
        ("window of zero", "sliding_window is 0", put(at(CONFIG, "sliding_window"), 0))]),
]:
    KINDS += kinds_of(make.__name__, make, write, file, REFUSES, defects)
