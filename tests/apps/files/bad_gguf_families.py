"""Lists bad GGUF files of other families than Llama: defects in fields and tensors that a Llama doesn't have."""

import sound
from bad_gguf import WQ, drop, extra, field, key, shape_of, without, write
from kinds import PASSES, SHOWS, Kinds
from sound import F32, I32, STRING, U32, Tensor


def qwen2():
    return sound.Gguf(sound.Shape(family="qwen2"))


def qwen3():
    return sound.Gguf(sound.Shape(family="qwen3", own_head_dim=6))


def wide_heads(g):
    g.key("qwen3.attention.key_length", U32, 1 << 16)
    g.key("qwen3.attention.head_count", U32, 64)


BIAS, QK_NORM = "blk.0.attn_q.bias", "blk.0.attn_k_norm.weight"
biases = Kinds("gguf qwen2", qwen2, write, "m.gguf", PASSES)
for name, phrase, change in [
    ("no bias", "blk.0.attn_q.bias of shape [8] is missing", drop(BIAS)),
    ("bias of another length", "tensor blk.0.attn_q.bias has shape [4], expected [8]", shape_of(BIAS, [4])),
    ("bias that is a matrix", "tensor blk.0.attn_q.bias has shape [2, 4], expected [8]", shape_of(BIAS, [4, 2])),
    ("bias of integers", "tensor blk.0.attn_q.bias has type I32", field(BIAS, kind=26)),
    ("bias of the output projection", "qwen2 models with biases (blk.0.attn_output.bias)", extra("blk.0.attn_output.bias", [8])),
    ("norms of heads", "qwen2 models with norms of q and k (blk.0.attn_q_norm.weight)", extra("blk.0.attn_q_norm.weight", [4])),
    ("experts", "qwen2 models with experts (blk.0.ffn_gate_exps.weight)", extra("blk.0.ffn_gate_exps.weight", [8, 12, 2])),
    ("attention sinks", "qwen2 models with attention sinks (blk.0.attn_sinks.weight)", extra("blk.0.attn_sinks.weight", [2])),
]:
    biases.add(name, phrase, change)
norms = Kinds("gguf qwen3", qwen3, write, "m.gguf", PASSES)
for name, phrase, change in [
    ("no norm of keys", "blk.0.attn_k_norm.weight of shape [6] is missing", drop(QK_NORM)),
    ("norm as wide as the model", "tensor blk.0.attn_k_norm.weight has shape [8], expected [6]", shape_of(QK_NORM, [8])),
    ("queries as wide as the model", "tensor blk.0.attn_q.weight has shape [8, 8], expected [12, 8]", shape_of(WQ, [8, 8])),
    ("biases", "qwen3 models with biases (blk.0.attn_q.bias)", extra(BIAS, [12])),
]:
    norms.add(name, phrase, change)
widths = Kinds("gguf qwen3", qwen3, write, "m.gguf", SHOWS)
for name, phrase, change in [
    ("no width of a head, and RoPE over more", "RoPE over 6 of 4 dimensions", without("qwen3.attention.key_length")),
    ("width of a head of zero", "head_dim is 0", key("qwen3.attention.key_length", U32, 0)),
    ("odd width of a head", "head_dim is 5", key("qwen3.attention.key_length", U32, 5)),
    ("huge width of a head", "head_dim is 4294967295", key("qwen3.attention.key_length", U32, 2**32 - 1)),
    ("heads that are too wide together", "64 heads of head_dim 65536 are too wide",
     wide_heads),
    ("values of another width", "qwen3.attention.value_length is 8, expected the key length 6",
     key("qwen3.attention.value_length", U32, 8)),
    ("sliding window", "qwen3.attention.sliding_window = 4 is not supported", key("qwen3.attention.sliding_window", U32, 4)),
    ("experts", "the architecture is qwen3 with experts, which is not supported", key("qwen3.expert_count", U32, 4)),
    ("RoPE scaling", "RoPE scaling of type dynamic", key("qwen3.rope.scaling.type", STRING, "dynamic")),
    ("keys of a Llama", "qwen2.embedding_length is missing", key("general.architecture", STRING, "qwen2")),
]:
    widths.add(name, phrase, change)


# ---- Experts ----


def qwen3_moe():
    return sound.Gguf(sound.Shape(family="qwen3_moe", experts=4))


def mixtral():
    return sound.Gguf(sound.Shape(family="mixtral", experts=4))


def experts_apart(g):
    """Stores a tensor for each expert, as GGUF files of 2023 do: blk.0.ffn_gate.0.weight."""
    for which in ("gate", "up", "down"):
        stack = g.tensor(f"blk.0.ffn_{which}_exps.weight")
        size = len(stack.data) // 4
        g.tensors += [Tensor(f"blk.0.ffn_{which}.{e}.weight", stack.dims[:2], 0, stack.data[e * size:(e + 1) * size])
                      for e in range(4)]
        g.tensors.remove(stack)


MOE, STACK, ROUTER = "qwen3moe.expert_", "blk.0.ffn_down_exps.weight", "blk.0.ffn_gate_inp.weight"
numbers = Kinds("gguf qwen3_moe", qwen3_moe, write, "m.gguf", SHOWS)
for name, phrase, change in [
    ("no number of chosen experts", "qwen3moe.expert_used_count is missing", without(MOE + "used_count")),
    ("no chosen experts", "qwen3moe.expert_used_count is 0", key(MOE + "used_count", U32, 0)),
    ("more chosen experts than there are", "experts_per_token is 5, but must be in [1, 4]", key(MOE + "used_count", U32, 5)),
    ("no experts", "the architecture is qwen3moe without experts", key(MOE + "count", U32, 0)),
    ("negative experts", "the architecture is qwen3moe without experts", key(MOE + "count", I32, -4)),
    ("a huge number of experts", "n_experts is 4294967295", key(MOE + "count", U32, 2**32 - 1)),
    ("experts as a float", "qwen3moe.expert_count is not an integer", key(MOE + "count", F32, 4.0)),
    ("experts of no width", "expert_dim is 0", key(MOE + "feed_forward_length", U32, 0)),
    ("experts of a huge width", "expert_dim is 4294967295", key(MOE + "feed_forward_length", U32, 2**32 - 1)),
    ("scores of another kind", "qwen3moe.expert_gating_func = 2 is not supported, expected 1",
     key(MOE + "gating_func", U32, 2)),
]:
    numbers.add(name, phrase, change)
stacks = Kinds("gguf qwen3_moe", qwen3_moe, write, "m.gguf", PASSES)
for name, phrase, change in [
    ("no stack", "blk.0.ffn_down_exps.weight of shape [4, 8, 12] is missing", drop(STACK)),
    ("stack of fewer experts", "tensor blk.0.ffn_down_exps.weight has shape [3, 8, 12], expected [4, 8, 12]",
     shape_of(STACK, [12, 8, 3])),
    ("stack that is a matrix", "tensor blk.0.ffn_down_exps.weight has shape [32, 12], expected [4, 8, 12]",
     field(STACK, dims=[12, 32])),
    ("stack of four dimensions", "tensor blk.0.ffn_down_exps.weight has shape [1, 4, 8, 12], expected [4, 8, 12]",
     field(STACK, dims=[12, 8, 4, 1])),
    ("stack that is transposed", "tensor blk.0.ffn_down_exps.weight has shape [4, 12, 8], expected [4, 8, 12]",
     field(STACK, dims=[8, 12, 4])),
    ("no router", "blk.0.ffn_gate_inp.weight of shape [4, 8] is missing", drop(ROUTER)),
    ("router of more experts", "tensor blk.0.ffn_gate_inp.weight has shape [5, 8], expected [4, 8]", shape_of(ROUTER, [8, 5])),
    ("a shared expert", "qwen3_moe models with shared experts (blk.0.ffn_up_shexp.weight)",
     extra("blk.0.ffn_up_shexp.weight", [8, 12])),
    ("a selection bias", "qwen3_moe models with a bias for the selection of experts (blk.0.exp_probs_b.bias)",
     extra("blk.0.exp_probs_b.bias", [4])),
]:
    stacks.add(name, phrase, change)
apart = Kinds("gguf mixtral", mixtral, write, "m.gguf", PASSES)
apart.add("a tensor for each expert", "one tensor per expert (blk.0.ffn_gate.0.weight) is not supported", experts_apart)

KINDS = [*biases.all, *norms.all, *widths.all, *numbers.all, *stacks.all, *apart.all]
