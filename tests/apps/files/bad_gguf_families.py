"""Lists bad GGUF files of other families than Llama: defects in fields and tensors that a Llama doesn't have."""

import sound
from bad_gguf import extra, key, write
from kinds import PASSES, SHOWS, kinds_of
from sound import I32, U32, Tensor


def qwen2():
    return sound.Gguf(sound.Shape(family="qwen2"))


def qwen3():
    return sound.Gguf(sound.Shape(family="qwen3", own_head_dim=6))


def qwen3_moe():
    return sound.Gguf(sound.Shape(family="qwen3_moe", experts=4))


def mixtral():
    return sound.Gguf(sound.Shape(family="mixtral", experts=4))


def wide_heads(g):
    g.key("qwen3.attention.key_length", U32, 1 << 16)
    g.key("qwen3.attention.head_count", U32, 64)


def experts_apart(g):
    """Replaces stacked experts by a tensor per expert, such as blk.0.ffn_gate.0.weight, as in GGUF files of 2023."""
    for which in ("gate", "up", "down"):
        stack = g.tensor(f"blk.0.ffn_{which}_exps.weight")
        size = len(stack.data) // 4
        g.tensors += [Tensor(f"blk.0.ffn_{which}.{e}.weight", stack.dims[:2], 0, stack.data[e * size:(e + 1) * size])
                      for e in range(4)]
        g.tensors.remove(stack)


KINDS = []
for make, inspect, defects in [
    (qwen2, PASSES, [
        ("bias of the output projection", "qwen2 models with biases (blk.0.attn_output.bias)",
         extra("blk.0.attn_output.bias", [8])),
        ("norms of heads", "qwen2 models with norms of q and k (blk.0.attn_q_norm.weight)",
         extra("blk.0.attn_q_norm.weight", [4]))]),
    (qwen3, SHOWS, [
        ("heads that are too wide together", "64 heads of head_dim 65536 are too wide", wide_heads)]),
    (qwen3_moe, SHOWS, [
        ("no chosen experts", "qwen3moe.expert_used_count is 0", key("qwen3moe.expert_used_count", U32, 0)),
        ("negative experts", "the architecture is qwen3moe without experts", key("qwen3moe.expert_count", I32, -4)),
        ("a huge number of experts", "n_experts is 4294967295", key("qwen3moe.expert_count", U32, 2**32 - 1)),
        ("experts of a huge width", "expert_dim is 4294967295", key("qwen3moe.expert_feed_forward_length", U32, 2**32 - 1)),
        ("scores of another kind", "qwen3moe.expert_gating_func = 2 is not supported, expected 1",
         key("qwen3moe.expert_gating_func", U32, 2))]),
    (mixtral, PASSES, [
        ("a tensor for each expert", "one tensor per expert (blk.0.ffn_gate.0.weight) is not supported", experts_apart)]),
]:
    KINDS += kinds_of(f"gguf {make.__name__}", make, write, "m.gguf", inspect, defects)
