#!/usr/bin/env python3
"""Measures the memory of optimizer state and of training: the table in experiments/29_galore/README.md.

Each row is a run of build/train for three steps. The bytes of state are those in its checkpoint, compared with what
the optimizer's formula gives. The peak is the process's maximum resident set, as reported by the kernel. The LoRA
rows train adapters with AdamW on a model that was first trained with the preset.

    scripts/optimizer_memory.py [--threads N]"""
import argparse
import json
import tempfile
from pathlib import Path

import compare

RANKS = {"tiny": [32, 64], "baby": [96, 192]}  # GaLore's ranks: 1/4 and 1/2 of the preset's model width
LORA_RANK = 8


def tensors(path):
    """Returns {name: (shape, number of bytes)} of the tensors in a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: (t["shape"], t["data_offsets"][1] - t["data_offsets"][0])
            for name, t in header.items() if name != "__metadata__"}


def formula(shapes, optimizer, rank):
    """Returns the expected bytes of optimizer state in float32. AdamW stores two values per parameter. For matrices of
    blocks, Muon stores one value per element, and GaLore a projection and two moments of rank `rank`; both use AdamW
    for other parameters."""
    numbers = 0
    for name, shape in shapes.items():
        n, m = shape if len(shape) == 2 else (1, shape[0])
        if optimizer == "adamw" or ".layers." not in name or len(shape) != 2:
            numbers += 2 * n * m
        elif optimizer == "muon":
            numbers += n * m
        else:
            numbers += min(rank, n, m) * (min(n, m) + 2 * max(n, m))
    return 4 * numbers


def train(run, preset, arguments, *flags):
    """Runs three training steps. Returns the maximum resident set size of the process, in bytes."""
    command = [compare.BUILD / "train", "tinyshakespeare", "--preset", preset, "--steps", 3, "--warmup-steps", 0,
               "--dropout", 0, "--dtype", "f32", "--eval-every", 1000, "--checkpoint-every", 1000, "--eval-batches", 1,
               "--sample", 0, "--threads", arguments.threads, "--out", run, *flags]
    return 1024 * 1024 * compare.run(*command).peak_mb


def row(preset, name, run, shapes, peak, optimizer, rank):
    state = {name: bytes for name, (_, bytes) in tensors(run / "checkpoints/last/optimizer.safetensors").items()
             if not name.startswith("random_state.")}
    expected = formula({name: shape for name, (shape, _) in shapes.items()}, optimizer, rank)
    print(f"| {preset} | {name} | {sum(state.values()):,} | {expected:,} | {peak / 1e6:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    print("| preset | optimizer | state, bytes | by the formula | peak, MB |\n|---|---|--:|--:|--:|")
    for preset in RANKS:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "adamw/checkpoints/last"
            for optimizer, rank in [("adamw", None), ("muon", None)] + [("galore", rank) for rank in RANKS[preset]]:
                run = Path(folder) / (optimizer + (f"-{rank}" if rank else ""))
                peak = train(run, preset, arguments, "--optimizer", optimizer, *(["--rank", rank] if rank else []))
                name = optimizer + (f", rank {rank}" if rank else "")
                row(preset, name, run, tensors(model / "model.safetensors"), peak, optimizer, rank)
            run = Path(folder) / "lora"
            peak = train(run, preset, arguments, "--optimizer", "adamw", "--init", model, "--lora-rank", LORA_RANK)
            adapter = tensors(run / "checkpoints/last/adapter_model.safetensors")
            row(preset, f"LoRA, rank {LORA_RANK}", run, adapter, peak, "adamw", None)


if __name__ == "__main__":
    main()
