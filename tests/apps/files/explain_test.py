"""Compares explain with transformers (eager attention) in float32: attention weights, hidden states, the logit lens,
attribution, ablations and patches, on random models with sinks, windows, caps, scales, biases, post-norms and experts."""

import contextlib
import json
import re
import sys

import numpy as np
import pytest
import random_models
import safetensors.torch
import sound
import torch
from support import FAILED, WRONG_USAGE, assert_refused, one_json, run, succeed

FAMILIES = ["llama", "qwen3", "gemma2", "gpt_oss", "mixtral", "qwen2_moe", "olmo2", "granite", "glm4_moe",
            "deepseek_v2", "deepseek_v3"]
MORE = {"glm": dict(partial_rotary_factor=1.0)}  # instead of 0.5, so that RoPE rotates all elements of a head
POST_NORM = {"gemma2": "post_attention_layernorm", "olmo2": "post_attention_layernorm"}
IDS = [int(i) for i in np.random.default_rng(5).integers(0, 5, 60)]  # longer than the sliding windows
OTHER = [int(i) for i in np.random.default_rng(6).integers(0, 5, 23)]
TOLERANCE = 1e-4  # relative to a row's largest value
ROUNDED = 6e-4  # relative tolerance for numbers in the JSON output, which have four significant digits


def text_of(ids):
    return "".join(sound.CHARACTERS[i] for i in ids)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory):
    """Returns a family's name, a random model in transformers, and its directory."""
    torch.set_num_threads(1)
    reference = random_models.make(request.param, **MORE.get(request.param, {}))
    reference.set_attn_implementation("eager")
    return request.param, reference, random_models.write(reference, tmp_path_factory.mktemp(request.param))


def explain(folder, *flags, ids=IDS):
    """Runs explain on the text of `ids`. Returns its JSON output and the activations that it saves."""
    file = folder / "activations.safetensors"
    done = succeed("explain", text_of(ids), "-m", folder, "--json", "--save", file, "-t", 1, *flags)
    return one_json(done.stdout), safetensors.torch.load_file(file)


def forward(reference, ids=IDS):
    with torch.no_grad():
        return reference(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)


def assert_rows_equal(got, expected, what):
    got, expected = got.flatten(0, -2), expected.flatten(0, -2)
    worst = ((got - expected).abs().amax(-1) / expected.abs().amax(-1)).max()
    assert worst < TOLERANCE, f"{what}: {worst}"


@contextlib.contextmanager
def inputs_changed(modules, change):
    """In a `with` block, replaces the input of modules[layer] by change(layer, input)."""
    hooks = [module.register_forward_pre_hook(lambda _, args, layer=layer: (change(layer, args[0]), *args[1:]))
             for layer, module in enumerate(modules)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def output_projections(reference):
    return [layer.self_attn.o_proj for layer in reference.model.layers]


def heads_of(reference, ids=IDS):
    """Returns the input of each layer's output projection: (T, heads * head_dim)."""
    seen = {}
    with inputs_changed(output_projections(reference), lambda layer, z: seen.setdefault(layer, z)):
        forward(reference, ids)
    return [seen[layer][0] for layer in range(len(seen))]


def test_attention_and_hidden_states_match_transformers(model):
    name, reference, folder = model
    expected = forward(reference)
    _, got = explain(folder)
    heads = heads_of(reference)
    for layer, weights in enumerate(expected.attentions):
        pattern = got[f"blocks.{layer}.attn.hook_pattern"]
        assert_rows_equal(pattern, weights[0], f"attention of layer {layer}")
        sums = pattern.sum(-1)
        assert (sums < 0.999).any() if name == "gpt_oss" else (sums - 1).abs().max() < 1e-5
        assert_rows_equal(got[f"blocks.{layer}.attn.hook_z"].flatten(1), heads[layer], f"heads of layer {layer}")
        assert_rows_equal(got[f"blocks.{layer}.hook_resid_pre"], expected.hidden_states[layer][0], f"layer {layer}")
    last = got[f"blocks.{layer}.hook_resid_post"]
    with torch.no_grad():
        assert_rows_equal(reference.model.norm(last), expected.hidden_states[-1][0], "the last layer")
    assert_rows_equal(got["logits"], expected.logits[0], "logits")
    window = random_models.window_of(reference)
    assert not window or (got["blocks.0.attn.hook_pattern"][:, 50, :50 - window] == 0).all()


def test_lens_and_candidates_match_transformers(model):
    _, reference, folder = model
    said, saved = explain(folder)
    expected = forward(reference)
    final = expected.logits[0].argmax(-1)
    cap = getattr(reference.config, "final_logit_softcapping", None)
    for level, rows in enumerate(said["lens"]):
        hidden = saved["hook_embed"] if level == 0 else saved[f"blocks.{level - 1}.hook_resid_post"]
        with torch.no_grad():
            logits = reference.lm_head(reference.model.norm(hidden)) / getattr(reference.config, "logits_scaling", 1.0)
        logits = cap * torch.tanh(logits / cap) if cap else logits
        p = logits.double().softmax(-1)
        for row, one in enumerate(rows):
            ids, top = zip(*one["top"])
            assert top == pytest.approx(p[row].topk(5).values.tolist(), rel=ROUNDED)
            assert p[row][list(ids)].tolist() == pytest.approx(top, rel=ROUNDED)
            assert one["rank"] == 1 + (logits[row] > logits[row][final[row]]).sum()
            assert one["p"] == pytest.approx(p[row][final[row]].item(), rel=ROUNDED)
        size = hidden.double().pow(2).mean(-1).sqrt()
        assert said["residual"][level] == pytest.approx(size.tolist(), rel=ROUNDED)
    for row, one in enumerate(said["candidates"]):  # p: probabilities after the last layer, left by the loop above
        best = p[row].sort(descending=True).values
        assert [id for id, _, _ in one["list"]] == logits[row].argsort(descending=True).tolist()
        assert one["top_k"] == len(best)
        assert one["top_p"] == 1 + (best.cumsum(0) < 0.95).sum()
        assert one["min_p"] == (best >= 0.05 * best[0]).sum()


def test_attribution_is_exact(model):
    name, reference, folder = model
    said, saved = explain(folder, "--token", "é")
    norm, post = reference.model.norm, POST_NORM.get(name)
    weight_of = lambda norm: 1 + norm.weight if name == "gemma2" else norm.weight
    inverse = lambda x: (x.pow(2).mean(-1, keepdim=True) + norm.eps if hasattr(norm, "eps")
                         else x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()
    n = len(reference.model.layers)
    last = saved[f"blocks.{n - 1}.hook_resid_post"]
    with torch.no_grad():
        u = weight_of(norm) * reference.lm_head.weight[sound.CHARACTERS.index("é")] * inverse(last)  # (T, dim)
        logit = reference.lm_head(norm(last))[:, sound.CHARACTERS.index("é")]
        heads = heads_of(reference)
        for row, shares in enumerate(said["attribution"]):
            all_shares = [shares["embedding"], *np.ravel(shares["heads"]), *shares["attention_bias"], *shares["ffn"]]
            largest = np.abs(all_shares).max()
            assert shares["token"] == sound.CHARACTERS.index("é")
            assert shares["logit"] == pytest.approx(logit[row].item(), rel=ROUNDED, abs=1e-3 * largest)
            assert abs(shares["remainder"]) < 1e-3 * largest
            # Each number is rounded to four significant digits, so its relative error is at most 5e-4.
            rounding = 5e-4 * np.abs(all_shares).sum() + 5e-4 * abs(shares["logit"])
            assert abs(sum(all_shares) + shares["remainder"] - shares["logit"]) <= rounding
            embedding = (saved["hook_embed"][row] @ u[row]).item()
            assert shares["embedding"] == pytest.approx(embedding, rel=ROUNDED, abs=1e-3 * largest)
        for layer, block in enumerate(reference.model.layers):
            projection = block.self_attn.o_proj
            scale = getattr(reference.config, "residual_multiplier", 1.0)
            direction = u * scale
            if post:
                direction = u * weight_of(getattr(block, post)) * inverse(projection(heads[layer]))
            back = (direction @ projection.weight * heads[layer]).unflatten(-1, (reference.config.num_attention_heads, -1))
            bias = direction @ projection.bias if projection.bias is not None else torch.zeros(len(IDS))
            got = torch.tensor([row["heads"][layer] for row in said["attribution"]])
            scales = back.abs().amax(-1).amax(-1, keepdim=True) + 1e-3
            assert ((got - back.sum(-1)).abs() < 2e-3 * scales).all(), layer
            said_bias = [row["attention_bias"][layer] for row in said["attribution"]]
            assert said_bias == pytest.approx(bias.tolist(), rel=ROUNDED, abs=1e-3)
        assert (bias != 0).any() == (name == "gpt_oss")


def test_experts_match_transformers(model):
    name, reference, folder = model
    n = getattr(reference.config, "num_experts_per_tok", None)
    experts, dense = explain(folder)[0]["experts"], getattr(reference.config, "first_k_dense_replace", 0)
    assert (experts is None) == (n is None)
    for layer, rows in enumerate(experts or []):
        assert rows is None if layer < dense else all(len(row) == n for row in rows)
        if name == "mixtral":  # Mixtral scales the weights of each token's experts to a sum of 1
            assert all(sum(weight for _, weight in row) == pytest.approx(1, abs=1e-3) for row in rows)
    if name in ("mixtral", "qwen2_moe", "gpt_oss"):  # the others limit groups, or add a bias to select experts
        with torch.no_grad():
            logits = reference(torch.tensor([IDS]), output_router_logits=True).router_logits
        chosen = [[{expert for expert, _ in row} for row in rows] for rows in experts]
        assert chosen == [[set(ids) for ids in of_layer.topk(n).indices.tolist()] for of_layer in logits]


def test_interventions_match_transformers(model):
    _, reference, folder = model
    head_dim = output_projections(reference)[0].in_features // reference.config.num_attention_heads
    columns = slice(2 * head_dim, 3 * head_dim)
    before = forward(reference).logits[0]

    def logits_with(flags, modules, change):
        said, saved = explain(folder, *flags)
        with inputs_changed(modules, change):
            expected = forward(reference).logits[0]
        assert_rows_equal(saved["logits"], expected, flags)
        was, now = before.double().log_softmax(-1), expected.double().log_softmax(-1)
        effects = said["interventions"]
        divergence = (was.exp() * (was - now)).sum(-1)
        assert effects["kl"] == pytest.approx(divergence.tolist(), rel=1e-2, abs=1e-4)
        for row, one in enumerate(effects["rows"]):
            top = was[row].argmax()
            assert one["before"][0][0] == top
            assert one["top_change"] == pytest.approx((now - was)[row][top].item(), rel=1e-2, abs=1e-4)
            assert one["after"][0][0] == now[row].argmax()
        return effects

    def replaced(z, rows, by):
        z = z.clone()
        z[0, rows, columns] = by
        return z

    only = lambda replacement: lambda layer, z: replacement(z) if layer == 1 else z
    projections = output_projections(reference)
    everywhere = slice(None)
    effects = logits_with(["--ablate", "1.2"], projections, only(lambda z: replaced(z, everywhere, 0.0)))
    assert effects["description"] == ["1.2: zero"] and max(effects["kl"]) > 1e-4
    mean = lambda z: replaced(z, everywhere, z[0, :, columns].mean(0))
    logits_with(["--mean", "1.2"], projections, only(mean))
    other = heads_of(reference, OTHER)[1][:, columns]
    logits_with(["--mean", "1.2", "--mean-over", text_of(OTHER)], projections,
                only(lambda z: replaced(z, everywhere, other.mean(0))))
    # One run replaces head 2 in three layers: by its mean in layer 0, by zeros in layer 1, and by its output for the
    # text OTHER in layer 2.
    others = heads_of(reference, OTHER)[2][:, columns]
    three = {0: mean, 1: lambda z: replaced(z, everywhere, 0.0),
             2: lambda z: replaced(z, slice(len(IDS) - len(OTHER), None), others)}
    effects = logits_with(["--patch", "2.2", "--from", text_of(OTHER), "--mean", "0.2", "--ablate", "1.2"], projections,
                          lambda layer, z: three[layer](z))
    assert effects["description"] == ["1.2: zero", "0.2: mean", "2.2: patch from another text"]
    logits_with(["--patch", "1.2", "--from", text_of(OTHER)], projections,
                only(lambda z: replaced(z, slice(len(IDS) - len(OTHER), None), other)))
    said, _ = explain(folder, "--patch", "1.attention@7:20", "--from", text_of(OTHER))
    assert [row for row, one in enumerate(said["attribution"]) if any(one["replaced"])] == [7]
    said, _ = explain(folder, "--patch", "1.attention", "--from", text_of(OTHER))
    for row, one in enumerate(said["attribution"]):
        is_replaced = row >= len(IDS) - len(OTHER)
        assert one["replaced"] == [False, is_replaced, False]
        assert (np.array(one["heads"][1]) == 0).all() == is_replaced
        shares = [one["embedding"], *np.ravel(one["heads"]), *one["attention_bias"], *one["ffn"]]
        assert abs(one["remainder"]) < 1e-3 * np.abs(shares).max()
    logits_with(["--patch", "1.2@7:20", "--from", text_of(OTHER)], projections,
                only(lambda z: replaced(z, 7, other[20])))
    # Ablating a layer makes its output equal its input. Patching the layer's residual sets its output to that for the
    # text OTHER.
    layers = reference.model.layers
    inputs = []
    skip = lambda layer, x: (inputs.append(x), inputs[-2] if layer == 2 else x)[1]
    logits_with(["--ablate", "1"], layers, skip)
    there = forward(reference, OTHER).hidden_states[2]
    logits_with(["--patch", "1.residual", "--from", text_of(OTHER)], layers,
                lambda layer, x: torch.cat([x[:, :-len(OTHER)], there], 1) if layer == 2 else x)
    same = explain(folder, "--patch", "1.residual", "--from", text_of(IDS))[1]["logits"]
    assert (same == explain(folder)[1]["logits"]).all()
    # Ablating both branches is the same as ablating the layer.
    both = explain(folder, "--ablate", "1.attention", "--ablate", "1.ffn")[1]["logits"]
    assert_rows_equal(both, explain(folder, "--ablate", "1")[1]["logits"], "both branches")


@pytest.mark.parametrize("model", ["llama", "glm"], indirect=True)  # RoPE with split halves or adjacent pairs
def test_activations_have_the_names_shapes_and_order_of_transformer_lens(model):
    _, reference, folder = model
    _, saved = explain(folder)
    T, config = len(IDS), reference.config
    heads, kv_heads, d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    rows = (T, config.hidden_size)
    block = {"hook_resid_pre": rows, "ln1.hook_normalized": rows, "attn.hook_q": (T, heads, d),
             "attn.hook_k": (T, kv_heads, d), "attn.hook_rot_q": (T, heads, d), "attn.hook_rot_k": (T, kv_heads, d),
             "attn.hook_v": (T, kv_heads, d), "attn.hook_z": (T, heads, d),
             "attn.hook_pattern": (heads, T, T), "hook_attn_out": rows, "hook_resid_mid": rows,
             "ln2.hook_normalized": rows, "mlp.hook_post": (T, config.intermediate_size), "hook_mlp_out": rows,
             "hook_resid_post": rows}
    shapes = {f"blocks.{layer}.{hook}": shape for layer in range(3) for hook, shape in block.items()}
    shapes |= {"hook_embed": rows, "ln_final.hook_normalized": rows, "logits": (T, config.vocab_size)}
    assert {key: tuple(value.shape) for key, value in saved.items() if not key.startswith("__pad__")} == shapes
    attention = reference.model.layers[1].self_attn
    with torch.no_grad():
        normed = saved["blocks.1.ln1.hook_normalized"] * reference.model.layers[1].input_layernorm.weight
        q, k, v = (p(normed).view(1, T, -1, d).transpose(1, 2)
                   for p in (attention.q_proj, attention.k_proj, attention.v_proj))
        angles = reference.model.rotary_emb(q, torch.arange(T)[None])
        rot_q, rot_k = sys.modules[type(reference).__module__].apply_rotary_pos_emb(q, k, *angles)
        out = attention.o_proj(saved["blocks.1.attn.hook_z"].flatten(1))
    for hook, expected in (("q", q), ("k", k), ("rot_q", rot_q), ("rot_k", rot_k), ("v", v)):
        assert_rows_equal(saved[f"blocks.1.attn.hook_{hook}"], expected[0].transpose(0, 1), hook)
    assert_rows_equal(saved["blocks.1.hook_attn_out"], out, "hook_attn_out")


@pytest.mark.parametrize("model", ["qwen3", "deepseek_v3"], indirect=True)
def test_queries_and_keys_of_other_families_precede_norms_and_rope(model):
    """hook_q and hook_k are saved before Qwen3's norms and before RoPE. DeepSeek-V3's keys are computed from latents,
    and RoPE rotates only their last elements."""
    name, reference, folder = model
    _, saved = explain(folder)
    attention, config = reference.model.layers[1].self_attn, reference.config
    seen = {}
    projections = {"q": attention.q_proj, "k": attention.k_proj} if name == "qwen3" else {
        "q": attention.q_b_proj, "kv": attention.kv_b_proj, "latent": attention.kv_a_proj_with_mqa}
    hooks = [module.register_forward_hook(lambda _, args, out, key=key: seen.setdefault(key, out[0]))
             for key, module in projections.items()]
    forward(reference)
    for hook in hooks:
        hook.remove()
    got = {hook: saved[f"blocks.1.attn.hook_{hook}"] for hook in ("q", "k", "rot_q", "rot_k")}
    if name == "qwen3":
        keys = seen["k"].view(got["k"].shape)
    else:
        nope, rope = config.qk_nope_head_dim, config.qk_rope_head_dim
        of_heads = seen["kv"].view(len(IDS), config.num_attention_heads, -1)[..., :nope]
        keys = torch.cat([of_heads, seen["latent"][:, None, -rope:].expand(*of_heads.shape[:2], rope)], -1)
        assert torch.equal(got["k"][..., :nope], got["rot_k"][..., :nope]), "elements without RoPE"
    assert_rows_equal(got["q"], seen["q"].view(got["q"].shape), "hook_q")
    assert_rows_equal(got["k"], keys, "hook_k")
    assert not torch.allclose(got["q"], got["rot_q"]) and not torch.allclose(got["k"], got["rot_k"])


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_wrong_input_is_one_line(model, tmp_path):
    _, _, folder = model
    for flags, code, *parts in [
            ([text_of([2] * 257)], FAILED, "257 tokens", "1 to 256", "shorten"),
            (["ab", "--patch", "1.ffn", "--from", text_of([2] * 257)], FAILED, '"1.ffn": its source has 257', "shorten"),
            (["ab", "--mean", "1", "--mean-over", text_of([2] * 257)], FAILED, '"1": its source has 257'),
            (["ab", "--ablate", "9.1"], FAILED, "layer 9", "0 to 2"),
            (["ab", "--ablate", "1.4"], FAILED, "head 4", "0 to 3"),
            (["ab", "--ablate", "-1"], FAILED, '"-1"'),
            (["ab", "--ablate", "1.mlp"], FAILED, "1.mlp", "L.ffn"),
            (["ab", "--patch", "1.ffn@2:0", "--from", "a"], FAILED, "position 2", "0 to 1"),
            (["ab", "--patch", "1.ffn@1:1", "--from", "a"], FAILED, "position 1", "0 to 0"),
            (["ab", "--patch", "1.ffn@0", "--from", "a"], FAILED, "1.ffn@0", "@TO:FROM"),
            (["ab", "--ablate", "1.ffn@0:0"], FAILED, "only a patch"),
            (["ab", "--patch", "1.ffn"], WRONG_USAGE, "--from"),
            (["ab", "--mean-over", "a"], WRONG_USAGE, "--mean"),
            (["ab", "--token", "ab"], WRONG_USAGE, "2 tokens"),
            (["ab", "--save", "x", "--out", "./x"], WRONG_USAGE, "--save and --out both write"),
            (["ab", "--json", "--out", tmp_path / "p.html"], WRONG_USAGE, "--out")]:
        assert_refused(run("explain", *flags, "-m", folder, "--out" if code == FAILED else "-t",
                           tmp_path / "p.html" if code == FAILED else 1), code, *parts)
    assert list(tmp_path.iterdir()) == []


def test_the_page_contains_the_json(model, tmp_path):
    _, _, folder = model
    done = succeed("explain", "ab a", "-m", folder, "-o", tmp_path / "p.html", "-t", 1)
    assert str(tmp_path / "p.html") in done.stderr and done.stdout == ""
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    said = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    printed = one_json(succeed("explain", "ab a", "-m", folder, "--json", "-t", 1).stdout)
    kinds = [operation["kind"] for operation in said["operations"]]
    assert ("router" in kinds) == (printed["experts"] is not None) and "logits" in kinds
    for one in said, printed:
        for operation in one["operations"]:
            assert operation.pop("ms") > 0
    assert said == printed
    assert [said["vocabulary"][str(token["id"])] for token in said["tokens"]] == list("ab a")
