"""Tests train --experts: gradients equal those of transformers, flags select the family, invalid ones are rejected."""

import shutil

import numpy as np
import pytest
import random_models
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from published import FLAGS, train_family
from support import LONG, TEXT, WRONG_USAGE, assert_refused, log_of, run, succeed

EXPERTS = ["--experts", "6", "--experts-per-token", "2"]
# {family: the flags that select it, in addition to --experts}.
FAMILIES = {"mixtral": [], "qwen2_moe": ["--shared-experts", "1"],
            "dots1": ["--shared-experts", "1", "--balance", "bias", "--balance-rate", "0.01"],
            "deepseek_v3": ["--family", "deepseek_v3", "--shared-experts", "1", "--kv-lora-rank", "6", "--q-lora-rank", "5",
                            "--balance-loss", "1e-4"],
            "qwen3_moe": ["--family", "qwen3_moe", "--expert-dim", "12", "--head-dim", "10"],
            "olmoe": ["--family", "olmoe"], "gpt_oss": ["--family", "gpt_oss", "--sliding-window", "9"]}
# Families of random models whose gradients are compared with those of transformers.
MODELS = ["mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "youtu", "gpt_oss"]


@pytest.fixture(scope="module")
def run_of_gpt_oss(tmp_path_factory):
    home = tmp_path_factory.mktemp("gpt_oss")
    (home / "cats.txt").write_text(TEXT)
    succeed("train", home / "cats.txt", *EXPERTS, *FAMILIES["gpt_oss"], "--out", home / "r", *FLAGS, home=home)
    return home / "r/checkpoints/best"


def random_model(home, name, tokens):
    """Saves a random model in home/name with the tokenizer of the run home/first, and returns the model."""
    more = dict(sliding_window=9) if name == "gpt_oss" else {}
    model = random_models.make(name, vocab_size=tokens, max_position_embeddings=64, bos_token_id=tokens - 1,
                               eos_token_id=tokens - 1, **more).train()
    model.set_attn_implementation("eager")
    model.save_pretrained(home / name)
    for file in (home / "first/checkpoints/last").glob("tokenizer*"):
        (home / name / file.name).write_bytes(file.read_bytes())
    return model


def in_stacks(gradients, model):
    """Returns `gradients` with those of all experts stacked as in transformers: a tensor for gate and up, and
    one for down."""
    gradients = {key: g for key, g in gradients.items()
                 if not key.startswith("__pad__") and not key.endswith("e_score_correction_bias")}
    if model.config.model_type == "gpt_oss":
        return gradients
    ffn = "block_sparse_moe" if model.config.model_type == "mixtral" else "mlp"
    names = ("w1", "w3", "w2") if ffn == "block_sparse_moe" else ("gate_proj", "up_proj", "down_proj")
    n = getattr(model.config, "num_local_experts", None) or getattr(model.config, "num_experts", None)
    stacks = {}
    for layer in range(model.config.num_hidden_layers):
        if f"model.layers.{layer}.{ffn}.experts.0.{names[0]}.weight" not in gradients:
            continue

        def stack(name):
            return torch.stack([gradients.pop(f"model.layers.{layer}.{ffn}.experts.{e}.{name}.weight") for e in range(n)])
        gate, up, down = map(stack, names)
        stacks[f"model.layers.{layer}.mlp.experts.gate_up_proj"] = torch.cat([gate, up], 1)
        stacks[f"model.layers.{layer}.mlp.experts.down_proj"] = down
    return {name.replace("block_sparse_moe", "mlp"): g for name, g in gradients.items()} | stacks


def first_step(home, name, *flags):
    """Trains a random model for a step. Returns (the model, the step's rows, the gradients that train wrote)."""
    if not (home / "first").exists():
        succeed("train", home / "cats.txt", "--out", home / "first", *FLAGS, home=home)
    model = random_model(home, name, transformers.AutoTokenizer.from_pretrained(home / "first/checkpoints/last").vocab_size)
    succeed("train", home / "cats.txt", "--init", home / name, "--batch-size", "3", "--steps", "1", "--threads", "1",
            "--log-every", "1", "--dump-batches", home / "batches.npy", "--dump-grads", home / "grads.safetensors", "--out",
            home / f"run {name}", "--sample", "0", *flags, home=home)
    rows = torch.from_numpy(np.load(home / "batches.npy")[0].astype(np.int64))
    return model, rows, in_stacks(load_file(home / "grads.safetensors"), model)


def assert_gradients(gradients, loss, model, name):
    """The tolerance of 1e-5 allows for another order of float32 sums."""
    loss.backward()
    expected = {key: p.grad for key, p in model.named_parameters()}
    assert gradients.keys() == expected.keys(), name
    for key, gradient in expected.items():
        assert (gradients[key] - gradient).norm() <= 1e-5 * gradient.norm(), f"{name}: {key}"


@pytest.mark.parametrize("rate, flags, names", [
    (0.5, [], MODELS), (0.0, ["--fused", "false"], MODELS if LONG else ["mixtral", "deepseek_v3", "gpt_oss"])])
def test_losses_and_gradients_match_transformers(home, rate, flags, names):
    """Losses and gradients must equal transformers', with and without the auxiliary loss."""
    for name in names:
        model, rows, gradients = first_step(home, name, *(["--balance-rate", rate] if name != "youtu" else []), *flags)
        # deepseek_v3 and glm4_moe_lite balance their experts with a bias instead of a loss. youtu has no experts.
        with_loss = rate > 0 and name not in ("deepseek_v3", "glm4_moe_lite", "youtu")
        outputs = model(rows[:, :-1], **(dict(output_router_logits=True) if with_loss else {}))
        loss = F.cross_entropy(outputs.logits.flatten(0, 1), rows[:, 1:].flatten())
        assert log_of(home / f"run {name}")[0]["loss"] == pytest.approx(loss.item(), abs=1e-5), name
        if with_loss:  # transformers' DeepSeek-V2 returns no aux_loss
            aux = outputs.aux_loss if name != "deepseek_v2" else load_balancing_loss_func(outputs.router_logits, 6, 2)
            loss = loss + rate * aux
        assert_gradients(gradients, loss, model, name)


def test_the_loss_of_each_sequence_has_the_papers_gradients(home):
    """The gradients with --balance-loss must equal those that PyTorch computes for equations 17 to 20 of the
    DeepSeek-V3 paper from transformers' router logits."""
    for name in ("deepseek_v3", "deepseek_v2"):
        model, rows, gradients = first_step(home, name, "--balance-loss", "0.5", "--balance-rate", "0")
        outputs = model(rows[:, :-1], output_router_logits=True)
        loss = F.cross_entropy(outputs.logits.flatten(0, 1), rows[:, 1:].flatten())
        n, k = model.config.n_routed_experts, model.config.num_experts_per_tok
        for logits in outputs.router_logits:
            s = logits.sigmoid() if name == "deepseek_v3" else logits.softmax(-1)
            for sequence in s.view(3, -1, n):
                chosen = torch.zeros_like(sequence).scatter(1, sequence.topk(k).indices, 1.0)
                f = n / k * chosen.mean(0)
                p = (sequence / sequence.sum(1, keepdim=True)).mean(0)
                loss = loss + 0.5 * (f * p).sum() / 3
        assert_gradients(gradients, loss, model, name)


@pytest.mark.parametrize("family", FAMILIES if LONG else ["qwen2_moe", "dots1", "deepseek_v3", "gpt_oss"])
def test_family_follows_from_the_model_parts(home, family):
    done, model = train_family(home, family, *EXPERTS, *FAMILIES[family])
    active = sum(p.numel() * (2 / 6 if "experts." in name and (p.dim() == 3 or name.endswith("_bias")) else 1)
                 for name, p in model.named_parameters())
    biases = sum(b.numel() for name, b in model.named_buffers() if name.endswith("e_score_correction_bias"))
    assert (f"{sum(p.numel() for p in model.parameters()) + biases} parameters, {round(active) + biases} of them active"
            in done.stdout)
    assert "  load " in done.stdout
    assert all(1.0 <= entry["expert_load"] <= 3.0 for entry in log_of(home / "r") if "val_loss" in entry)


@pytest.mark.parametrize("tensor, place", [("self_attn.sinks", "heads"), ("self_attn.o_proj.bias", "attention_residual"),
                                          ("mlp.router.bias", "routes"), ("mlp.experts.down_proj_bias", "ffn_residual"),
                                          ("mlp.experts.gate_up_proj_bias", "ffn_residual")])
def test_verify_locates_differences_of_gpt_oss(home, run_of_gpt_oss, tensor, place):
    best, other = run_of_gpt_oss, home / "other"
    shutil.copytree(best, other)
    tensors = load_file(other / "model.safetensors")
    tensors[f"model.layers.1.{tensor}"].view(-1)[1] += 0.5
    save_file(tensors, other / "model.safetensors", {"format": "pt"})
    done = run("verify", best, other, home=home)
    assert done.returncode == 1 and f"layers.1.{place}" in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("flags, parts", [
    ([*EXPERTS, "--family", "mixtral", "--balance", "bias"],
     ["--balance bias", "the family mixtral lacks", "--balance loss"]),
    ([*EXPERTS, "--family", "dots1", "--balance", "loss"], ["--balance loss", "dots1", "--balance bias"]),
    ([*EXPERTS, "--family", "mixtral", "--shared-experts", "1"], ["the family mixtral has no shared experts"]),
    ([*EXPERTS, "--family", "qwen2_moe"], ["the family qwen2_moe requires a shared expert", "--shared-experts 1"]),
    ([*EXPERTS, "--family", "llama"], ["llama has no experts"]),
    ([*EXPERTS, "--optimizer", "galore"], ["--optimizer galore", "does not support experts"]),
    ([*EXPERTS, "--recompute", "true"], ["--recompute"]),
    ([*EXPERTS, "--shared-experts", "1", "--shared-dim", "7"], ["--shared-experts", "--shared-dim"]),
    (["--experts", "2", "--experts-per-token", "3"], ["experts_per_token is 3", "[1, 2]"]),
    ([*EXPERTS, "--expert-dim", "32"], ["--hidden-dim has no effect with --expert-dim 32 in the family mixtral"]),
    (["--experts-per-token", "3"], ["--experts-per-token", "--experts 0"]),
    (["--balance", "bias"], ["--balance", "--experts 0"]),
    (["--shared-experts", "1"], ["--shared-experts", "--experts 0"]),
    (["--balance-loss", "0.1"], ["--balance-loss", "--experts 0"]),
    (["--kv-lora-rank", "8"], ["the family llama has no latent attention", "deepseek_v3"]),
    (["--family", "youtu", "--kv-lora-rank", "0"], ["youtu has latent attention, but kv_lora_rank is 0"]),
    (["--family", "youtu", "--head-dim", "4"], ["--head-dim", "latent attention", "--qk-nope-head-dim"]),
    ([*EXPERTS, "--family", "olmoe", "--head-dim", "10"], ["--head-dim is 10, expected --dim", "the family olmoe"]),
    (["--family", "youtu", "--optimizer", "galore"], ["--optimizer galore", "latent attention"]),
    (["--family", "youtu", "--recompute", "true"], ["--recompute", "latent attention"]),
    (["--family", "youtu", "--rope-scaling", "4"], ["--rope-scaling", "latent attention"]),
    ([*EXPERTS, "--family", "deepseek_v2", "--normalize-routes", "true"], ["does not normalize routing weights"]),
])
def test_incompatible_options_are_rejected(home, flags, parts):
    assert_refused(run("train", home / "cats.txt", "--out", home / "r", *FLAGS, *flags, home=home), WRONG_USAGE, *parts)
    assert not (home / "r").exists()


def test_adapters_of_experts_are_rejected(home):
    succeed("train", home / "cats.txt", *EXPERTS, "--out", home / "r", *FLAGS, home=home)
    done = run("train", home / "cats.txt", "--init", home / "r/model.gguf", "--lora-rank", "2", "--out", home / "l",
               home=home)
    assert_refused(done, WRONG_USAGE, "--lora-rank", "experts")


def test_fine_tuning_a_model_with_experts(home):
    succeed("train", home / "cats.txt", *EXPERTS, *FAMILIES["dots1"], "--out", home / "r", *FLAGS, home=home)
    done = succeed("train", home / "cats.txt", "--init", home / "r/checkpoints/last", "--batch-size", "4", "--steps", "2",
                   "--log-every", "1", "--lr", "1e-3", "--warmup-steps", "0", "--out", home / "more", home=home)
    assert "family dots1" in done.stdout
    assert log_of(home / "more")[0]["loss"] < log_of(home / "r")[0]["loss"]
