"""Compares train --optimizer galore with galore_torch on transformers' Llama, with the same weights and batches.

Trains twelve steps with a new subspace every four, on wide, tall and square matrices. The signs of singular vectors are
arbitrary, but matter from the second subspace on, because moments keep the old signs. So galore_torch uses its own
vectors with the signs of Folio's.
"""

import importlib.util
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from support import succeed

STEPS, EVERY, RANK, SCALE = 12, 4, 16, 0.25
LR, DECAY, EPS = 1e-2, 1.0, 1e-4  # so large that errors in applying weight decay or epsilon show
HEADS, KV_HEADS, DIM, HIDDEN, CONTEXT = 4, 2, 64, 96, 48
SHAPE = ["--layers", 2, "--heads", HEADS, "--kv-heads", KV_HEADS, "--dim", DIM, "--hidden-dim", HIDDEN,
         "--context", CONTEXT, "--window", CONTEXT]


@pytest.fixture(scope="module")
def galore_torch():
    """Yields galore_torch.adamw, imported without the package's __init__, whose other optimizers need bitsandbytes."""
    spec = importlib.util.find_spec("galore_torch")
    assert spec, "galore-torch is missing: scripts/bootstrap.sh test"
    sys.modules["galore_torch"] = importlib.util.module_from_spec(spec)
    yield importlib.import_module("galore_torch.adamw")
    for name in [name for name in sys.modules if name.split(".")[0] == "galore_torch"]:
        del sys.modules[name]


def galore_group(parameters):
    return [dict(params=parameters, rank=RANK, update_proj_gap=EVERY, scale=SCALE, proj_type="std")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Trains one step, so that norm weights differ from 1. From this checkpoint, trains runs of 1, 5 and 12 steps with
    GaLore. Returns the folder that contains all runs."""
    out = tmp_path_factory.mktemp("galore")
    text = out / "text.txt"
    text.write_text("".join(f"{i} times {j} is {i * j}.\n" for i in range(60) for j in range(20)), encoding="utf-8")
    succeed("train", text, *SHAPE, "--batch-size", 4, "--steps", 1, "--out", out / "first")
    for steps in (1, 1 + EVERY, STEPS):  # the checkpoints of these runs have the first, second and third subspace
        succeed("train", text, "--init", out / "first/checkpoints/last", "--batch-size", 4, "--steps", steps, "--schedule",
                "constant", "--warmup-steps", 0, "--lr", LR, "--weight-decay", DECAY, "--adam-eps", EPS, "--optimizer",
                "galore", "--rank", RANK, "--galore-every", EVERY, "--galore-scale", SCALE, "--dump-batches",
                out / "batches.npy", "--out", out / f"run-{steps}")
    return out


OURS = {"self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
        "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "ffn.w1", "mlp.up_proj": "ffn.w3", "mlp.down_proj": "ffn.w2"}


def our_vectors(runs, names):
    """Yields the singular vectors in Folio's checkpoints: for the first subspace, those of all matrices in `names`,
    then the same for the second and the third subspace."""
    for steps in (1, 1 + EVERY, STEPS):
        state = load_file(runs / f"run-{steps}/checkpoints/last/optimizer.safetensors")
        for name in names:
            _, _, layer, block, matrix, _ = name.split(".")
            yield state[f"ortho_matrix.layers.{layer}.{OURS[f'{block}.{matrix}']}.weight"]


@pytest.fixture
def take_signs(galore_torch, monkeypatch):
    """Returns take(others), which makes galore_torch give its singular vectors the signs of those in the iterator
    `others`. take() returns a list to which the number of changed signs of each matrix is added."""
    def take(others):
        def compute(self, weights, rank, type):
            vectors, like = theirs(self, weights, rank, type), next(others)
            cosines = (vectors * like).sum(1 if type == "right" else 0, keepdim=True)
            assert (cosines.abs() - 1).abs().max() < 1e-4
            turned.append((cosines < 0).sum().item())
            return vectors * cosines.sign()
        turned = []
        monkeypatch.setattr(galore_torch.GaLoreProjector, "get_orthogonal_matrix", compute)
        return turned
    theirs = galore_torch.GaLoreProjector.get_orthogonal_matrix
    return take


class OurRows:
    """A copy of q_proj or k_proj for an optimizer, with rows in Folio's order (adjacent RoPE pairs)."""

    def __init__(self, weight, heads):
        self.weight, self.heads = weight, heads
        self.parameter = torch.nn.Parameter(self.ours(weight.detach()))

    def ours(self, rows):
        return rows.view(self.heads, 2, -1, DIM).transpose(1, 2).reshape(rows.shape).clone()

    def before_step(self):
        self.parameter.grad = self.ours(self.weight.grad)

    def after_step(self):
        rows = self.parameter.detach().view(self.heads, -1, 2, DIM).transpose(1, 2).reshape(self.weight.shape)
        self.weight.data.copy_(rows)


def matrices_of_blocks(model):
    return {name: p for name, p in model.named_parameters() if ".layers." in name and p.dim() == 2}


def train_with_galore_torch(galore_torch, model, batches):
    torch.set_num_threads(1)
    turned, blocks = [], []
    for name, p in matrices_of_blocks(model).items():
        if ".q_proj." in name or ".k_proj." in name:
            turned.append(OurRows(p, HEADS if ".q_proj." in name else KV_HEADS))
            p = turned[-1].parameter
        blocks.append(p)
    rest = [p for name, p in model.named_parameters() if name not in matrices_of_blocks(model)]
    optimizers = [
        galore_torch.AdamW(galore_group(blocks), lr=LR, betas=(0.9, 0.99), eps=EPS, weight_decay=DECAY,
                           no_deprecation_warning=True),
        torch.optim.AdamW([dict(params=[p for p in rest if (p.dim() == 2) == decays], weight_decay=DECAY * decays)
                           for decays in (True, False)], lr=LR, betas=(0.9, 0.99), eps=EPS)]
    for rows in torch.from_numpy(batches.astype(np.int64)):
        model.zero_grad()
        F.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in turned:
            each.before_step()
        for optimizer in optimizers:
            optimizer.step()
        for each in turned:
            each.after_step()


def test_twelve_steps_match_galore_torch(galore_torch, take_signs, runs):
    batches = np.load(runs / "batches.npy")
    assert batches.shape == (STEPS, 4, CONTEXT + 1)
    model = AutoModelForCausalLM.from_pretrained(runs / "first/checkpoints/last", dtype=torch.float32).train()
    turned = take_signs(our_vectors(runs, matrices_of_blocks(model)))
    train_with_galore_torch(galore_torch, model, batches)
    assert len(turned) == 3 * len(matrices_of_blocks(model))
    first = load_file(runs / "first/checkpoints/last/model.safetensors")
    last = load_file(runs / f"run-{STEPS}/checkpoints/last/model.safetensors")
    apart = {name: (last[name] - p).abs().max().item() for name, p in model.named_parameters()}
    print("largest difference:", max((value, name) for name, value in apart.items()), "signs that differed:", sum(turned))
    assert apart.keys() == last.keys()
    shapes = {tuple(p.shape) for p in matrices_of_blocks(model).values()}
    assert shapes == {(DIM, DIM), (DIM // 2, DIM), (HIDDEN, DIM), (DIM, HIDDEN)}
    moved = {name: (last[name] - p).abs().max().item() for name, p in first.items()}
    print("smallest change:", min((value, name) for name, value in moved.items()))
    for name in moved:
        assert apart[name] <= 1e-4 < moved[name] / 50, name
