#!/usr/bin/env python3
"""Trains eight pairs of equal models on the same batches with Folio and PyTorch, and compares the final losses.

Usage: scripts/train_pairs.py [--steps 1000] [--dtype bf16] [--threads 2]

The model has 4 layers and width 128, trained on batches of 12 windows of 64; each pair has its own initialization and
batches. Folio trains in --dtype; its peer is transformers' Llama in float32 with torch.optim.AdamW, Folio's clipping,
and the learning rates in Folio's log. Both losses are means over the whole validation split, computed by transformers
in float32."""
import argparse
import json
import pathlib
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

from compare import BUILD, TINYSHAKESPEARE, mean_with_interval, run

WINDOW = 64
SHAPE = ["--layers", 4, "--dim", 128, "--heads", 4, "--hidden-dim", 352, "--context", WINDOW, "--batch-size", 12]
MOST_STEPS = 1000  # train --dump-batches writes the batches of at most this many steps
SEEDS = range(1, 9)


def train(out, *flags):
    run(BUILD / "train", TINYSHAKESPEARE, "--out", out, *flags)


def train_with_pytorch(first, batches, rates):
    model = AutoModelForCausalLM.from_pretrained(first, dtype=torch.float32).train()
    groups = [dict(params=[p for p in model.parameters() if (p.dim() == 2) == decays], weight_decay=0.1 * decays)
              for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99), eps=1e-8, fused=True)
    for rows, rate in zip(torch.from_numpy(batches.astype(np.int64)), rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        F.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


@torch.no_grad()
def validation_loss(model, tokens):
    tokens = tokens[int(0.9 * len(tokens)):]
    n = (len(tokens) - 1) // WINDOW * WINDOW
    inputs, targets = tokens[:n].view(-1, WINDOW), tokens[1:n + 1].view(-1, WINDOW)
    losses = [F.cross_entropy(model(x).logits.flatten(0, 1), y.flatten(), reduction="sum").item()
              for x, y in zip(inputs.split(64), targets.split(64))]
    return sum(losses) / n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=MOST_STEPS)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    if a.steps > MOST_STEPS:
        parser.error(f"--steps is {a.steps}, but train --dump-batches writes the batches of {MOST_STEPS} at most")
    torch.set_num_threads(a.threads)
    logging.disable_progress_bar()
    differences = []
    print("| seed | Folio | PyTorch | difference |")
    print("|---|---|---|---|", flush=True)
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as name:
            work = pathlib.Path(name)
            same = [*SHAPE, "--seed", seed, "--threads", a.threads, "--sample", 0]
            train(work / "first", *same, "--steps", 1)
            first = work / "first" / "checkpoints" / "last"
            train(work / "run", *same, "--init", first, "--steps", a.steps, "--dtype", a.dtype, "--log-every", 1,
                  "--eval-every", a.steps, "--dump-batches", work / "batches.npy")
            rates = [json.loads(line)["lr"] for line in (work / "run" / "log.jsonl").read_text().splitlines()]
            theirs = train_with_pytorch(first, np.load(work / "batches.npy"), rates)
            ours = AutoModelForCausalLM.from_pretrained(work / "run" / "checkpoints" / "last", dtype=torch.float32)
            text = TINYSHAKESPEARE.read_text(encoding="utf-8")
            tokens = AutoTokenizer.from_pretrained(first)(text, add_special_tokens=False)
            tokens = torch.tensor(tokens["input_ids"])
            losses = [validation_loss(model.eval(), tokens) for model in (ours, theirs)]
        differences.append(losses[0] - losses[1])
        print(f"| {seed} | {losses[0]:.4f} | {losses[1]:.4f} | {differences[-1]:+.4f} |", flush=True)
    print(f"\nmean difference {mean_with_interval(differences, '+.5f')} (95 %)")


if __name__ == "__main__":
    main()
