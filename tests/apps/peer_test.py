"""Compares ten training steps with PyTorch: transformers' Llama and torch.optim, with the same weights and batches.

The model has grouped queries. Tests plain and fused modules, and matrix products in F32 and BF16.
"""

import contextlib
import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from support import FAILED, run, succeed

SHAPE = ["--layers", 3, "--heads", 4, "--kv-heads", 2, "--dim", 64, "--hidden-dim", 96, "--context", 48, "--window", 48]
LR = 1e-3


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{i} times {j} is {i * j}.\n" for i in range(60) for j in range(20)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def first(text):
    """Trains for one step, so that the norm weights aren't all ones, and returns the checkpoint. Folio and PyTorch
    start from it."""
    out = text.parent / "first"
    succeed("train", text, *SHAPE, "--batch-size", 4, "--steps", 1, "--out", out)
    return out / "checkpoints" / "last"


def train(text, first, out, *flags):
    succeed("train", text, "--init", first, "--batch-size", 3, "--accumulation", 2, "--steps", 10, "--warmup-steps", 3,
            "--lr", LR, "--min-lr", LR / 10, "--log-every", 1, "--dump-batches", out / "batches.npy", "--dump-grads",
            out / "grads.safetensors", "--out", out / "run", *flags)
    losses = [json.loads(line)["loss"] for line in (out / "run" / "log.jsonl").read_text().splitlines()]
    return losses, load_file(out / "grads.safetensors"), np.load(out / "batches.npy")


def optimizers(model, muon):
    """Yields the optimizers: AdamW, or Muon for the blocks' matrices and AdamW for the rest. Weight decay applies only
    to matrices."""
    blocks = [p for name, p in model.named_parameters() if muon and ".layers." in name and p.dim() == 2]
    rest = [p for p in model.parameters() if all(p is not b for b in blocks)]
    groups = [dict(params=[p for p in rest if (p.dim() == 2) == decays], weight_decay=0.1 * decays)
              for decays in (True, False)]
    yield torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99), eps=1e-8)
    if muon:
        yield torch.optim.Muon(blocks, lr=LR, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")


def rate_at(step):
    """Returns the learning rate: a linear warm-up of three steps, then half a cosine that ends after the last step."""
    return LR * (step + 1) / 3 if step < 3 else LR / 10 + 0.45 * LR * (1 + math.cos(math.pi * (step - 3) / 7))


def train_with_pytorch(first, batches, bf16, muon):
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(first, dtype=torch.float32).train()
    parts = list(optimizers(model, muon))
    losses, gradients = [], {}
    for step, rows in enumerate(torch.from_numpy(batches.astype(np.int64))):
        with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
            logits = model(rows[:, :-1]).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        gradients = gradients or {name: p.grad.clone() for name, p in model.named_parameters()}
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in parts:
            for group in optimizer.param_groups:
                group["lr"] = rate_at(step)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses, gradients


@pytest.mark.parametrize("dtype, flags, of_loss, of_gradient", [
    ("f32", [], 1e-4, 1e-5),
    ("f32", ["--recompute", "true"], 1e-4, 1e-5),
    ("f32", ["--fused", "false"], 1e-4, 1e-5),
    ("bf16", [], 1e-2, 2e-2),  # significands of 8 bits cause larger errors
    # PyTorch's Muon orthogonalizes in bfloat16, which changes losses by 1.2e-5. Using AdamW instead of Muon would
    # change the tenth loss by 0.1.
    pytest.param("f32", ["--optimizer", "muon"], 1e-4, 1e-5, marks=pytest.mark.skipif(
        not hasattr(torch.optim, "Muon"), reason="this PyTorch is older than its Muon")),
])
def test_first_ten_steps_match_pytorch(text, first, tmp_path, dtype, flags, of_loss, of_gradient):
    losses, gradients, batches = train(text, first, tmp_path, "--dtype", dtype, *flags)
    assert batches.shape == (10, 6, 49) and batches.dtype == np.int32
    expected, expected_gradients = train_with_pytorch(first, batches, dtype == "bf16", "muon" in flags)
    assert losses == pytest.approx(expected, abs=of_loss)
    assert losses[0] - losses[9] > 10 * of_loss  # otherwise a trainer that changes no weights would pass
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        assert (gradients[name] - gradient).norm() <= of_gradient * gradient.norm(), name


def test_errors_name_unwritable_files(text, tmp_path):
    done = run("train", text, "--dump-batches", tmp_path / "missing" / "batches.npy", "--out", tmp_path / "run")
    assert done.returncode == FAILED and "batches.npy" in done.stderr and done.stderr.count("\n") == 1, done.stderr
