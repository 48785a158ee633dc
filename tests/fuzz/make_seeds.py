"""Writes seeds for the fuzz targets, made by other programs than Folio. Usage: make_seeds.py FOLDER.

Each target has a folder. Files named "good-*" must be accepted; the others exercise particular code paths.
tests/apps/files/sound.py packs models and vocabularies for GGUF and llama2.c. *.dict are libFuzzer's dictionaries.
"""

import http.client
import json
import pathlib
import re
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import GGUFValueType as V
from safetensors.numpy import save as safetensors
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import LlamaConfig, Qwen2Config

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "apps" / "files"), str(TESTS / "data" / "chat")]
import jinja_cases  # noqa: E402
import published_templates  # noqa: E402
import random_models  # noqa: E402
import sound  # noqa: E402
from gguf_copies import finish  # noqa: E402

CHARACTERS = ["\n", " ", "a", "é", "日"]
RANDOM = np.random.default_rng(7)


def put(folder, name, content):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def values(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


# ---- GGUF ----

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES = [("a", "b"), ("Ġ", "a"), ("Ġa", "b")]
SPECIAL = ["<s>", "</s>", "<|im_end|>"]


def byte_level_metadata(pre):
    tokens = [*SPECIAL, *BYTES, *(left + right for left, right in MERGES), "<tool>"]
    types = [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL) - 1) + [4]
    return {"tokenizer.ggml.model": (sound.STRING, "gpt2"), "tokenizer.ggml.pre": (sound.STRING, pre),
            "tokenizer.ggml.tokens": (sound.ARRAY, (sound.STRING, tokens)),
            "tokenizer.ggml.token_type": (sound.ARRAY, (sound.I32, types)),
            "tokenizer.ggml.merges": (sound.ARRAY, (sound.STRING, [" ".join(merge) for merge in MERGES])),
            **{f"tokenizer.ggml.{name}_token_id": (sound.U32, i) for i, name in enumerate(("bos", "eos", "eot"))},
            "tokenizer.chat_template": (sound.STRING, "{{ messages }}")}


def tokenizer_gguf_seeds(folder):
    with_prefix = {**sound.sentencepiece_metadata(), "tokenizer.ggml.add_space_prefix": (sound.BOOL, True)}
    tokenizers = {"character": sound.character_metadata(CHARACTERS), "sentencepiece": with_prefix,
                  **{pre: byte_level_metadata(pre) for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o")}}
    for name, tokenizer in tokenizers.items():
        file = sound.Gguf()
        file.metadata = {"general.architecture": (sound.STRING, "llama"), **tokenizer}
        put(folder, f"good-{name}", file.pack())


def model(folder, name, keys=None, tensors=None, types=None, tokenizer=None, alignment=None, **shape):
    """Writes a model of one layer. `keys` is {key without the architecture: value}, `tensors` {name: shape of a tensor
    of the layer, or None to leave it out}, and `types` {name: quantized type}. Names are without ".weight"."""
    weight = lambda short: short if short.endswith(".bias") else f"{short}.weight"
    shape = sound.Shape(**{"dim": 4, "hidden": 3, **shape})
    sizes = shape.tensors() | {f"blk.0.{weight(short)}": size for short, size in (tensors or {}).items()}
    arrays = {tensor: values(*size) for tensor, size in sizes.items() if size}
    file = sound.Gguf(shape, arrays, tokenizer or sound.character_metadata(CHARACTERS))
    if alignment:
        file.alignment = alignment
        file.key("general.alignment", sound.U32, alignment)
    for key, value in (keys or {}).items():
        kind = {float: sound.F32, str: sound.STRING, bool: sound.BOOL}.get(type(value), sound.U32)
        file.key(f"{shape.architecture}.{key}", kind, value)
    for short, kind in (types or {}).items():
        tensor = file.tensor(weight(short))
        tensor.kind, tensor.data = kind, gguf.quants.quantize(arrays[tensor.name], kind).tobytes()
    put(folder, name, file.pack())


def every_type(folder, name):
    writer = gguf.GGUFWriter(folder / name, "any")
    for kind in V:
        if kind == V.ARRAY:
            continue
        value = {V.STRING: "Grüße\n日本", V.BOOL: True, V.FLOAT32: 0.5, V.FLOAT64: 0.1}.get(kind, 7)
        writer.add_key_value(f"scalar.{kind.name}", value, kind)
        writer.add_key_value(f"array.{kind.name}", [value, value], V.ARRAY, sub_type=kind)
    writer.add_key_value("nested", [[1, 2], [3]], V.ARRAY, sub_type=V.ARRAY)
    for dtype in (np.float32, np.float16, np.int8, np.int16, np.int32, np.int64, np.float64):
        writer.add_tensor(np.dtype(dtype).name, np.arange(6, dtype=dtype).reshape(1, 2, 3))
    for kind in (Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0):
        writer.add_tensor(kind.name, gguf.quants.quantize(values(2, 64), kind), raw_dtype=kind)
    finish(writer)


def gguf_seeds(folder):
    model(folder, "good-character")
    model(folder, "good-untied-aligned", tied=False, kv_heads=2, alignment=64)
    model(folder, "good-sentencepiece", dim=2, heads=1, vocab=len(sound.PIECES), tokenizer=sound.sentencepiece_metadata())
    model(folder, "good-mixed-types", dim=32, hidden=2, types={
        "token_embd": Q.F16, "blk.0.attn_q": Q.Q8_0, "blk.0.attn_k": Q.Q4_0, "blk.0.ffn_gate": Q.BF16,
        "blk.0.ffn_up": Q.Q4_1})  # fmt: skip
    biases = {"attn_q.bias": (4,), "attn_k.bias": (2,), "attn_v.bias": (2,)}
    shared = {"ffn_gate_shexp": (6, 4), "ffn_up_shexp": (6, 4), "ffn_down_shexp": (4, 6)}
    model(folder, "good-qwen2", family="qwen2")
    model(folder, "good-qwen3", family="qwen3", own_head_dim=6)
    model(folder, "good-mixtral", family="mixtral", experts=3)
    model(folder, "good-qwen2moe", {"expert_shared_feed_forward_length": 6},
          {**biases, **shared, "ffn_gate_inp_shexp": (4,)}, family="qwen2moe", experts=3)
    model(folder, "good-qwen3moe", family="qwen3_moe", own_head_dim=6, experts=5)
    model(folder, "good-dots1", {
        "expert_shared_count": 2, "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2,
        "leading_dense_block_count": 0, "expert_group_count": 2, "expert_group_used_count": 1},
        {**shared, "exp_probs_b.bias": (4,), "attn_q_norm": (6,), "attn_k_norm": (6,)},
        family="dots1", own_head_dim=6, experts=4)  # fmt: skip
    window = {"attention.sliding_window": 3}
    after = {"post_attention_norm": (4,), "post_ffw_norm": (4,)}
    model(folder, "good-gemma2", {**window, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0}, after,
          family="gemma2")
    model(folder, "good-gemma3", window, {**after, "attn_q_norm": (2,), "attn_k_norm": (2,)}, family="gemma3")
    model(folder, "good-olmo2", None, {
        **after, "attn_norm": None, "ffn_norm": None, "attn_q_norm": (4,), "attn_k_norm": (2,)}, family="olmo2")
    model(folder, "good-granite", {
        "logit_scale": 3.0, "attention.scale": 0.3, "residual_scale": 0.2, "embedding_scale": 12.0}, family="granite")
    fused = {"ffn_gate": None, "ffn_up": (6, 4)}
    model(folder, "good-phi3", window, {**fused, "attn_qkv": (8, 4), "attn_q": None, "attn_k": None, "attn_v": None},
          family="phi3")
    half = {"rope.dimension_count": 2}
    model(folder, "good-chatglm", half, {
        **fused, "ffn_up": (6, 8), "attn_q.bias": (8,), "attn_k.bias": (4,), "attn_v.bias": (4,)}, dim=8, family="chatglm")
    model(folder, "good-glm4", half, {
        **fused, "ffn_up": (6, 8), "post_attention_norm": (8,), "post_ffw_norm": (8,)}, dim=8, family="glm4")
    expert_biases = {"ffn_gate_inp.bias": (3,), **{f"ffn_{which}_exps.bias": (3, 32) for which in ("gate", "up", "down")}}
    model(folder, "good-gpt-oss", window, {
        "attn_sinks": (2,), "ffn_norm": None, "post_attention_norm": (32,), "attn_q.bias": (32,), "attn_k.bias": (16,),
        "attn_v.bias": (16,), "attn_output.bias": (32,), **expert_biases},
        {f"blk.0.ffn_{which}_exps": Q.MXFP4 for which in ("gate", "up", "down")},
        family="gpt-oss", dim=32, hidden=32, experts=3, tied=False)  # fmt: skip
    # Latents of 3 elements; heads of 2 elements without RoPE and 2 with RoPE.
    latent = {**half, "attention.kv_lora_rank": 3, "attention.q_lora_rank": 0}
    matrices = {"attn_q": (8, 6), "attn_k": None, "attn_v": None, "attn_kv_a_mqa": (5, 6), "attn_kv_a_norm": (3,),
                "attn_output": (6, 6)}  # fmt: skip
    model(folder, "good-deepseek2", {
        **latent, "attention.key_length_mla": 4, "attention.value_length_mla": 3, "expert_shared_count": 1},
        {**matrices, "attn_k_b": (2, 3, 2), "attn_v_b": (2, 3, 3), "ffn_gate_shexp": (3, 6), "ffn_up_shexp": (3, 6),
         "ffn_down_shexp": (6, 3)}, family="deepseek2", dim=6, experts=3)  # fmt: skip
    model(folder, "good-deepseek2-old", {
        **latent, "attention.key_length": 4, "attention.value_length": 3, "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 8,
        "rope.scaling.yarn_log_multiplier": 0.0707}, {**matrices, "attn_kv_b": (10, 3)},
        family="deepseek2", dim=6)  # fmt: skip
    every_type(folder, "every-type")
    finish(gguf.GGUFWriter(folder / "empty", "llama"))
    version_2 = bytearray((folder / "good-character").read_bytes())
    version_2[4] = 2  # the version; the rest of this file is the same in versions 2 and 3
    put(folder, "good-version-2", bytes(version_2))


# ---- Hugging Face ----


def safetensors_seeds(folder):
    pairs = {f"t.{kind}": np.arange(6, dtype=kind).reshape(2, 3)
             for kind in ("float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8")}  # fmt: skip
    put(folder, "good-types", safetensors(pairs, {"format": "pt", "ключ": "значение"}))
    put(folder, "good-none", safetensors({}))
    put(folder, "good-empty-and-scalar", safetensors({"e": np.zeros((0, 3), np.float32), "s": np.array(1, np.float32)}))
    put(folder, "good-odd-sizes", safetensors({"a": np.zeros(3, np.uint8), "b": np.zeros((1, 1, 5), np.int8)}))
    put(folder, "boolean", safetensors({"b": np.array([True])}))


def config_seeds(folder):
    shape = dict(vocab_size=66, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                 max_position_embeddings=64)  # fmt: skip
    put(folder, "good-grouped", LlamaConfig(**shape, num_key_value_heads=2, tie_word_embeddings=True).to_json_string())
    put(folder, "good-all-keys", LlamaConfig(**shape, rms_norm_eps=1e-5).to_json_string(use_diff=False))
    older = dict(shape, model_type="llama", rms_norm_eps=1e-6, rope_theta=500000.0, rope_scaling=None, head_dim=4)
    put(folder, "good-older", json.dumps(older))
    scaled = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}  # fmt: skip
    put(folder, "good-scaled", json.dumps(dict(older, rope_scaling=scaled)))
    put(folder, "good-scaled-5", LlamaConfig(**shape, rope_scaling=scaled).to_json_string())

    for name in random_models.MODELS:
        config = random_models.config_of(name)
        put(folder, f"good-{name.replace(' ', '-')}", config.to_json_string(use_diff=False))
    some_windows = Qwen2Config(**shape, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    put(folder, "qwen2-some-windows", some_windows.to_json_string(use_diff=False))


def index_seeds(folder):
    layer = "model.layers.0."
    names = ["model.embed_tokens", layer + "input_layernorm", *(f"{layer}self_attn.{p}_proj" for p in "qkvo"),
             layer + "post_attention_layernorm", *(f"{layer}mlp.{p}_proj" for p in ("gate", "up", "down")),
             "model.norm"]  # fmt: skip
    place = {f"{name}.weight": "a.safetensors" if i < 5 else "b.safetensors" for i, name in enumerate(names)}
    put(folder, "good-index", json.dumps({"metadata": {"total_size": 140}, "weight_map": place}, indent=2))
    put(folder, "incomplete", json.dumps({"metadata": {}, "weight_map": dict(list(place.items())[:3])}))


LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level_json(pre_tokenizer, template=False, ignore_merges=False, normalizer=None):
    tokens = [*SPECIAL, *BYTES, *(left + right for left, right in MERGES)]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, MERGES, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    if template:
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])])  # fmt: skip
    return tokenizer.to_str()


def tokenizer_seeds(folder):
    put(folder, "good-character", json.dumps(sound.character_json(CHARACTERS)))
    put(folder, "good-sentencepiece", json.dumps(sound.sentencepiece_json()))
    byte_level = pre_tokenizers.ByteLevel
    digits = pre_tokenizers.Digits(individual_digits=True)
    llama3 = pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated")
    put(folder, "good-gpt2", byte_level_json(byte_level(add_prefix_space=False)))
    put(folder, "good-digits", byte_level_json(pre_tokenizers.Sequence([digits, byte_level(add_prefix_space=False)])))
    put(folder, "good-llama3", byte_level_json(
        pre_tokenizers.Sequence([llama3, byte_level(add_prefix_space=False, use_regex=False)]), True, True))
    qwen2 = pre_tokenizers.Split(Regex(LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")), "isolated")
    put(folder, "good-qwen2", byte_level_json(
        pre_tokenizers.Sequence([qwen2, byte_level(add_prefix_space=False, use_regex=False)]), normalizer=normalizers.NFC()))
    put(folder, "prefix-space", byte_level_json(byte_level(add_prefix_space=True)))


# ---- llama2.c ----


def llama2c_seeds(folder):
    for version in (0, 1, 2):
        put(folder, f"good-v{version}", sound.Llama2c(version).pack())
        untied = sound.Shape(tied=False, layers=2, kv_heads=2)
        put(folder, f"good-v{version}-untied", sound.Llama2c(version, untied).pack())


def tokenizer_bin_seeds(folder):
    put(folder, "good-tokenizer", sound.TokenizerBin().pack())


# ---- texts and JSON ----


def json_seeds(folder):
    put(folder, "good-config", LlamaConfig().to_json_string())
    put(folder, "good-tokenizer", json.dumps(sound.character_json(CHARACTERS)))
    numbers = [0, -1, 2**63, 2**64 - 1, 2**64, 1e-5, 1e300, -0.0, 0.1]
    put(folder, "good-values", json.dumps({"n": numbers, "s": "\"\\/\b\f\n\r\té日\U0001f600", "t": [True, False, None, {}, []]}))
    put(folder, "good-deep", "[" * 60 + "]" * 60)
    put(folder, "too-deep", "[" * 70 + "]" * 70)
    put(folder, "twice", '{"a": 1, "a": 2}')


def chat_template_seeds(folder):
    """Writes published chat templates, and the templates in tests/data/chat/jinja_cases.py."""
    for name, template in published_templates.KNOWN.items():
        put(folder, "good-" + name.replace(" ", "-"), template)
    for kind in ("ACCEPTED", "REFUSED", "HOSTILE"):
        for i, template in enumerate(getattr(jinja_cases, kind)):
            put(folder, f"{kind.lower()}-{i}", template)


def conversation_seeds(folder):
    chat = '{"messages":[{"role":"system","content":"s"},{"role":"user","content":"<end>é"},{"role":"assistant","content":"a"}]}'
    put(folder, "good-two", chat + "\n\n" + chat)
    put(folder, "good-tools", """{"messages":[{"role":"user","content":[{"type":"text","text":"2+2"}]},{"role":"assistant","content":null,
        "tool_calls":[{"id":"1","type":"function","function":{"name":"add","arguments":{"b":2,"a":[1.5,null]}}}]},{"role":"tool",
        "name":"add","tool_call_id":"1","content":"4"},{"role":"assistant","content":"4"}],"tools":[{"type":"function","function":
        {"name":"add"}}]}""".replace("\n", ""))
    put(folder, "no-answer", '{"messages":[{"role":"user","content":"q"}]}')
    put(folder, "text", chat + '\n{"text":"once"}')
    put(folder, "weight", '{"messages":[{"role":"assistant","content":"a","weight":0}]}')
    put(folder, "nested", '{"tools":' + "[" * 100 + "]" * 100 + "}")


def api_seeds(folder):
    """Writes bodies of requests to the server. Together, they contain every field."""
    common = {"model": "f", "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "repetition_penalty": 1.1,
              "presence_penalty": 1, "frequency_penalty": -1, "logit_bias": {"3": -100, "0": 2.5}, "seed": -1, "n": 2,
              "stop": ["a", "bc"], "stream": True, "stream_options": {"include_usage": True}, "user": "u"}
    text = {"max_tokens": 9, "echo": True, "logprobs": 3, "best_of": 2}
    put(folder, "good-text", json.dumps({"prompt": "abc", **common, **text}))
    put(folder, "good-texts", json.dumps({"prompt": ["abc", "d"], "n": 64}))
    put(folder, "good-ids", json.dumps({"prompt": [1, 2, 3], "stop": "x"}))
    put(folder, "good-lists", json.dumps({"prompt": [[1, 2], [3]], "seed": 2**63 - 1}))
    messages = [{"role": "system", "content": "be"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": "yes", "name": "a"}, {"role": "user", "content": "<|end|>"}]
    put(folder, "good-chat", json.dumps({"messages": messages, **common, "max_completion_tokens": 3, "logprobs": True,
                                         "top_logprobs": 2, "response_format": {"type": "text"}, "store": False}))
    put(folder, "good-tokenize", json.dumps({"messages": messages}))
    put(folder, "good-detokenize", json.dumps({"tokens": [0, 5, 30]}))
    put(folder, "tools", json.dumps({"messages": messages, "tools": []}))
    schema = {"type": "object", "required": ["z", "a"], "properties": {
        "z": {"type": "integer", "minimum": -7}, "a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/b"}]}},
        "additionalProperties": False, "$defs": {"b": {"enum": ["x", 1, [True]]}}}
    ask = {"messages": messages[:2], "max_tokens": 9}
    forms = {"schema": {"response_format": {"type": "json_schema", "json_schema": {
                 "name": "n", "description": "d", "strict": True, "schema": schema}}},
             "object": {"response_format": {"type": "json_object"}}, "json": {"guided_json": schema},
             "json-text": {"json_schema": json.dumps(schema)}, "regex": {"guided_regex": "(a|b{2,3})+[^x]$"},
             "choice": {"guided_choice": ["a", "ab", "c"]}, "grammar": {"grammar": 'root ::= "a" b*\nb ::= [0-9] | "-" b'},
             "outputs": {"structured_outputs": {"json": schema, "disable_any_whitespace": False}}}
    for name, form in forms.items():
        put(folder, f"good-form-{name}", json.dumps(ask | form))
        put(folder, f"good-text-{name}", json.dumps({"prompt": "a", "max_tokens": 9} | form))
    functions = [{"type": "function", "function": {"name": "f-1.x", "description": "does it", "strict": True,
                                                   "parameters": schema}},
                 {"type": "function", "function": {"name": "g"}}]
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "g", "arguments": "{\"a\": [1, {}]}"}}
    called = [*messages[:2], {"role": "assistant", "content": None, "tool_calls": [call, call]},
              {"role": "tool", "tool_call_id": "abcdefghi", "name": "g", "content": "{}"}]
    for name, choice in {"auto": "auto", "none": "none", "required": "required",
                         "named": {"type": "function", "function": {"name": "g"}}}.items():
        put(folder, f"good-tools-{name}", json.dumps({"messages": called, "tools": functions, "tool_choice": choice,
                                                      "parallel_tool_calls": name == "auto", "max_tokens": 9}))
    put(folder, "good-tools-or-schema", json.dumps(ask | forms["schema"] | {"tools": functions}))
    put(folder, "good-calls", json.dumps({"messages": called, "max_tokens": 9}))
    put(folder, "two-forms", json.dumps(ask | forms["regex"] | forms["grammar"]))
    put(folder, "bad-arguments", json.dumps({"messages": [{"role": "assistant", "tool_calls": [
        {**call, "function": {"name": "g", "arguments": "["}}]}], "tools": functions}))
    put(folder, "good-reasoning", json.dumps(ask | {"chat_template_kwargs": {"enable_thinking": False, "a": [{}, "b"]}, "messages": [
        *messages[:2], {"role": "assistant", "content": "a", "reasoning": "b"}, messages[1]]}))
    items = [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}, {"type": "reasoning", "summary": [],
             "content": [{"type": "reasoning_text", "text": "b"}]}, {"type": "function_call", "call_id": "abcdefghi",
             "name": "g", "arguments": "{}"}, {"type": "function_call_output", "call_id": "abcdefghi", "output": "c"}]
    put(folder, "good-response", json.dumps({"input": items, "instructions": "d", "max_output_tokens": 9, "tools": [
        {"type": "function", "name": "g"}], "text": {"format": {"type": "json_schema", "name": "n", "schema": {"const": 1}}}}))
    put(folder, "unknown", json.dumps({"prompt": "a", **{f"field{i}": i for i in range(40)}}))


def block_seeds(folder):
    """Writes inputs of fuzz_blocks.cpp: the type's index, the number of rows minus one, the blocks."""
    random = np.random.default_rng(2)
    types = [gguf.GGMLQuantizationType[name]
             for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "MXFP4")]
    for i, qtype in enumerate(types):
        elements, size = gguf.GGML_QUANT_SIZES[qtype]
        put(folder, f"good-{qtype.name}", bytes([i, 2]) + random.integers(0, 256, 6 * size, dtype=np.uint8).tobytes())
        if qtype.name[-1] != "K":
            blocks = gguf.quants.quantize(random.standard_normal((17, elements)).astype(np.float32), qtype)
            put(folder, f"good-{qtype.name}-quantized", bytes([i, 16]) + blocks.tobytes())


def text_seeds(folder):
    put(folder, "good-play", "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n")
    put(folder, "good-many", "aé日\U0001f600\u0080\u07ff\u0800\uffff\U00010000\U0010ffff\ud7ff\ue000")
    put(folder, "good-two", "abé \n".encode() + b"\xff" + "é ba\n".encode())
    put(folder, "latin-1", "Grüße".encode("latin-1"))
    put(folder, "surrogate", b"a\xed\xa0\x80")
    put(folder, "stranger", b"ab\xffabc")


def adapter_seeds(folder):
    """Writes inputs of fuzz_adapter.cpp: adapter_config.json, a zero byte, adapter_model.safetensors for its model."""
    shapes = {"self_attn.q_proj": (4, 4), "self_attn.k_proj": (2, 4), "mlp.down_proj": (4, 3), "mlp.up_proj": (3, 4)}
    tensors = {}
    for layer in range(2):
        for name, (n_out, k) in shapes.items():
            module = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{module}.lora_A.weight"] = values(2, k)
            tensors[f"{module}.lora_B.weight"] = values(n_out, 2)
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "use_rslora": False, "use_dora": False,
              "target_modules": ["q_proj"], "init_lora_weights": True, "modules_to_save": None}
    weights = b"\0" + safetensors(tensors, {"format": "pt"})
    put(folder, "good", json.dumps(config).encode() + weights)
    put(folder, "good-rslora", json.dumps({**config, "use_rslora": True, "lora_alpha": 0.5}).encode() + weights)
    one = {name: value for name, value in tensors.items() if "layers.1.mlp.up" in name}
    put(folder, "good-one", json.dumps(config).encode() + b"\0" + safetensors(one))
    put(folder, "dora", json.dumps({**config, "use_dora": True}).encode() + weights)
    put(folder, "rank", json.dumps({**config, "r": 3}).encode() + weights)
    put(folder, "half", json.dumps(config).encode() + weights[:200])
    put(folder, "rank-long-base", json.dumps({**config, "r": 3, "base_model_name_or_path": "x" * 300}).encode() + weights)


def gguf_adapter_seeds(folder):
    """Writes adapters as llama.cpp's convert_lora_to_gguf.py does, for the model of fuzz_gguf_adapter.cpp."""
    shapes = {"attn_q": (4, 4), "attn_k": (2, 4), "ffn_down": (4, 3), "ffn_up": (3, 4)}

    def write(name, rank=lambda layer: 2, alpha=4.0, change=None, half=False, kind="adapter", targets=shapes):
        writer = gguf.GGUFWriter(folder / name, "llama")
        writer.add_string("general.type", kind)
        writer.add_string("adapter.type", "lora")
        if alpha is not None:
            writer.add_float32("adapter.lora.alpha", alpha)
        for layer in range(2):
            for target in targets:
                n_out, k = shapes[target]
                for which, shape in ("a", (rank(layer), k)), ("b", (n_out, rank(layer))):
                    tensor = values(*shape).astype(np.float16 if half else np.float32)
                    writer.add_tensor(f"blk.{layer}.{target}.weight.lora_{which}", tensor)
        if change:
            change(writer)
        finish(writer)

    write("good")
    write("good-half", half=True, alpha=0.5)
    write("good-ranks", rank=lambda layer: 1 + layer, alpha=None)
    write("good-one", targets=["ffn_up"], alpha=-1.0)
    write("model", kind="model")
    write("norm", change=lambda w: w.add_tensor("blk.0.attn_norm.weight", values(4)))
    write("lost", change=lambda w: w.add_tensor("blk.0.attn_v.weight.lora_a", values(2, 4)))


def regex_seeds(folder):
    put(folder, "good-date", r"\d{4}-(0[1-9]|1[0-2])-\d{2}")
    put(folder, "good-string", r'^"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*?"$')
    put(folder, "good-groups", r"(?P<a>[[:alpha:]]+)(?<b>\s?|,)(x{0,300}|[^\W\d_-]{2,})+")
    put(folder, "good-characters", "(^|[à-üß]).[日本]\\x{1F600}\\u00e9($|\\z)")
    put(folder, "good-unicode", r"[\p{Lu}\PN]{1,3}\pL+|\p{Letter}")
    put(folder, "look-ahead", "a(?=b)")
    put(folder, "backreference", r"(a)\1")
    put(folder, "explodes", "((a{1000}){1000}){1000}")
    put(folder, "nested", "(" * 300 + ")" * 300)


def gbnf_seeds(folder):
    put(folder, "good-list", 'root ::= ("- " item)+ # a list\nitem ::= [^\\n]+ "\\n"\n')
    put(folder, "good-recursion", 'root ::= "(" root ")" | word{2,300}\nword ::=\n  [a-z] |\n  ( "é" . \n )? "\\x41"')
    put(folder, "good-empty", 'root ::= | "" "a" root')
    put(folder, "left", 'root ::= sum\nsum ::= sum "+" [0-9] | [0-9]')
    put(folder, "undefined", "root ::= a b")
    put(folder, "token", "root ::= <think> !<[5]>")
    put(folder, "explodes", 'root ::= ((("a"{1000}){1000}){1000}){1000}')
    put(folder, "nested", "root ::= " + "(" * 300)


def json_schema_seeds(folder):
    put(folder, "good-object", """{"type":"object","properties":{"a":{"type":"integer","minimum":-5,"multipleOf":3},"b":{"enum":
        [1,"x",null]},"é":{"format":"date"}},"required":["a"],"additionalProperties":{"type":"string","maxLength":300}}""")
    put(folder, "good-recursion", """{"$defs":{"n":{"type":["object","null"],"properties":{"next":{"$ref":"#/$defs/n"}},"minProperties":1,
        "additionalProperties":false}},"anyOf":[{"$ref":"#/$defs/n"},{"type":"array","prefixItems":[true],"items":false}]}""")
    put(folder, "good-merged", """{"allOf":[{"minimum":0.1},{"exclusiveMaximum":2e3}],"oneOf":[{"type":"number"},{"type":"string",
        "pattern":"^a|b","minLength":2},{"patternProperties":{"^x":{}},"type":"object"}]}""")
    put(folder, "good-patterns", r"""{"properties":{"a":{"pattern":"^\\p{Lu}[^\\s.]\\u{e9}$","maxLength":9},"b":{}},"patternProperties":
        {"^a":{"maxLength":3},"b$":true,"^.?$":{"type":"integer"}},"additionalProperties":{"allOf":[{"type":"array"},{"minItems":1}]}}""")
    put(folder, "doubles", '{"$ref":"#/$defs/0","$defs":{' + "".join(
        f'"{i}":{{"allOf":[{{"$ref":"#/$defs/{i + 1}"}},{{"$ref":"#/$defs/{i + 1}"}}]}},' for i in range(28)) + '"28":{}}}')
    put(folder, "not", '{"not":{}}')
    put(folder, "explodes", '{"items":' * 20 + '{"maxLength":2000}' + ',"maxItems":3000}' * 20)
    put(folder, "nested", '{"items":' * 100 + "{}" + "}" * 100)


def dictionary(folders, pattern, words):
    """Returns a dictionary for libFuzzer: `words`, and all matches of the pattern in the folders' seeds."""
    for folder in folders:
        for file in folder.iterdir():
            words |= set(re.findall(pattern, file.read_bytes().decode(errors="replace"), re.ASCII))
    escaped = (json.dumps(word).replace("\\r", "\\x0d").replace("\\n", "\\x0a") for word in sorted(words))
    return "".join(word + "\n" for word in escaped)


def dictionaries(out):
    json_folders = [out / name for name in ("adapter", "api", "hf_config", "hf_index", "safetensors", "tokenizer_json")]
    put(out, "json.dict", dictionary(json_folders, r'"(?!field\d|<0x)[\w<|>./-]{1,40}"', {
        "null", "true", "false", "1e400", "-0.0", "9223372036854775808", "18446744073709551615", "\\u0000",
        "\\ud83d\\ude00", "\\ud800", "\\u2581", '"__pad__.0"', '"<0x0A>"', '"BF16"', '"Metaspace"'}))  # fmt: skip
    put(out, "http.dict", dictionary([out / "http"], r"[\w-]+: |\b[\w-]{4,20}\b|[!-~]{0,20}\r\n(?:\r\n)?", {"GET / ", "POST / "}))


class Recorded:
    """Replaces the socket of http.client and records the bytes that are sent."""

    def __init__(self):
        self.bytes = b""

    def sendall(self, data):
        self.bytes += data


def http_seeds(folder):
    """Writes the bytes that Python's HTTP client sends, and handwritten requests, most of which are invalid."""
    for name, method, body, headers in (
            ("get", "GET", None, {}), ("post", "POST", b'{"prompt": "a"}', {"Content-Type": "application/json"}),
            ("chunked", "POST", [b"abc", b"0123456789" * 4], {"Authorization": "Bearer k", "Origin": "http://o"}),
            ("expect", "PUT", b"abc", {"Expect": "100-continue", "Connection": "close"})):
        client = http.client.HTTPConnection("localhost:8080")
        client.sock = Recorded()
        client.request(method, f"/{name}?q=1", body, headers, encode_chunked=True)
        put(folder, f"good-{name}", client.sock.bytes)
        put(folder, f"good-{name}-twice", client.sock.bytes * 2)
    chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    put(folder, "good-trailer", chunked + '5;a="b";c\r\nabcde\r\n0;last\r\nX-Sum: 1\r\nY: 2\r\n\r\n')
    put(folder, "good-old", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n")
    for name, text in (("coding", chunked.replace("chunked", "gzip, chunked")), ("size", chunked + "0x5\r\nabcde\r\n"),
                       ("both", chunked.replace("\r\n\r\n", "\r\nContent-Length: 3\r\n\r\n") + "0\r\n\r\n"),
                       ("extension", chunked + "5;" + "a" * 2000), ("trailers", chunked + "0\r\n" + "A: b\r\n" * 300),
                       ("lengths", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"),
                       ("folded", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"), ("newlines", "GET / HTTP/1.1\nHost: a\n\n"),
                       ("large", "POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n")):
        put(folder, name, text)


def main():
    out = pathlib.Path(sys.argv[1])
    makers = {"adapter": adapter_seeds, "gguf_adapter": gguf_adapter_seeds, "api": api_seeds, "blocks": block_seeds, "chat_template": chat_template_seeds, "conversations": conversation_seeds, "gguf": gguf_seeds, "http": http_seeds,
              "gbnf": gbnf_seeds, "json_schema": json_schema_seeds, "regex": regex_seeds, "safetensors": safetensors_seeds, "hf_config": config_seeds,
              "hf_index": index_seeds, "tokenizer_json": tokenizer_seeds, "tokenizer_gguf": tokenizer_gguf_seeds,
              "llama2c": llama2c_seeds, "tokenizer_bin": tokenizer_bin_seeds,
              "json": json_seeds, "text": text_seeds}  # fmt: skip
    for target, make in makers.items():
        (out / target).mkdir(parents=True, exist_ok=True)
        make(out / target)
    dictionaries(out)


if __name__ == "__main__":
    main()
