#!/usr/bin/env python3
"""Compares training on TinyShakespeare: nanoGPT's CPU configuration, then Folio for the same time on the same cores.

Usage: scripts/race.py NANOGPT_DIR [--seeds 1 2 3] [-- FLAGS OF TRAIN: --preset race]

NANOGPT_DIR is a checkout of nanoGPT. It trains as its README describes for a CPU: 4 layers, width 128, windows of 64,
batches of 12, 2,000 steps, no dropout, not compiled. Times are those of whole processes. Folio's includes loading,
an n-gram baseline, training, evaluation, and writing the model. Both train on the first 90 % of the text. Folio's
loss is that of its last checkpoint over the whole last 10 %; nanoGPT's is its own estimate over random batches."""
import argparse
import json
import pathlib
import pickle
import re
import shutil
import sys
import tempfile

import numpy as np

from compare import BUILD, TINYSHAKESPEARE, run

NANOGPT = ["config/train_shakespeare_char.py", "--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=100",
           "--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4", "--n_embd=128", "--max_iters=2000",
           "--lr_decay_iters=2000", "--dropout=0.0"]


def prepare(nanogpt, work):
    """Copies nanoGPT into `work`, writes the dataset as data/shakespeare_char/prepare.py does, and returns the copy's
    path."""
    copy = work / "nanogpt"
    shutil.copytree(nanogpt, copy, ignore=shutil.ignore_patterns(".git"))
    text = TINYSHAKESPEARE.read_text(encoding="utf-8")
    characters = sorted(set(text))
    ids = {c: i for i, c in enumerate(characters)}
    data = copy / "data" / "shakespeare_char"
    cut = int(len(text) * 0.9)
    for name, part in (("train", text[:cut]), ("val", text[cut:])):
        np.array([ids[c] for c in part], dtype=np.uint16).tofile(data / f"{name}.bin")
    with open(data / "meta.pkl", "wb") as file:
        pickle.dump({"vocab_size": len(ids), "stoi": ids, "itos": dict(enumerate(characters))}, file)
    return copy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=pathlib.Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    a, flags = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:] or ["--preset", "race"]
    if not (a.nanogpt / "train.py").is_file():
        parser.error(f"{a.nanogpt} is no checkout of nanoGPT: it has no train.py")
    overhead = 5.0  # estimated seconds of Folio's process outside of training steps
    print("| seed | nanoGPT: s | its validation loss | Folio: s | steps | validation loss of the last checkpoint |")
    print("|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        nanogpt = prepare(a.nanogpt, work)
        for seed in a.seeds:
            theirs = run(sys.executable, "train.py", *NANOGPT, f"--out_dir={work / 'theirs'}", folder=nanogpt,
                         environment={"OMP_NUM_THREADS": str(a.threads)})
            loss = re.findall(r"val loss ([\d.]+)", theirs.out)[-1]
            minutes = (theirs.seconds - overhead) / 60
            out = work / f"ours-{seed}"
            ours = run(BUILD / "train", TINYSHAKESPEARE, *flags, "--minutes", f"{minutes:.4f}", "--seed", seed,
                       "--threads", a.threads, "--out", out)
            last = json.loads((out / "log.jsonl").read_text().splitlines()[-1])
            overhead = ours.seconds - 60 * minutes
            print(f"| {seed} | {theirs.seconds:.1f} | {loss} | {ours.seconds:.1f} | {last['step']} | "
                  f"{last['val_loss']:.4f} |", flush=True)


if __name__ == "__main__":
    main()
