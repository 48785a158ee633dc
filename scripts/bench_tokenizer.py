#!/usr/bin/env python3
"""Compares the time of `tokenize train` with Hugging Face's BpeTrainer on the same text and threads, alternating.

    build/venv/bin/python scripts/bench_tokenizer.py TEXT [--vocab-size 32000] [--rounds 3] [--threads 2]

TEXT separates documents with <|endoftext|>. Each round runs both in separate processes; prints medians. The merges must
be equal."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("FOLIO_BUILD_DIR", Path(__file__).parents[1] / "build"))
THEIRS = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
text, vocab_size, out = sys.argv[1:]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trainer = trainers.BpeTrainer(vocab_size=int(vocab_size), special_tokens=["<|endoftext|>"], show_progress=False,
                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
tokenizer.train_from_iterator(open(text, encoding="utf-8", newline="").read().split("<|endoftext|>"), trainer)
tokenizer.save(out)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--vocab-size", type=int, default=32000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    seconds = {"folio": [], "tokenizers": []}
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours.json"), Path(folder, "theirs.json")
        commands = {"folio": [BUILD / "tokenize", "train", o.text, "--vocab-size", str(o.vocab_size), "--out", ours, "--force",
                              "--threads", str(o.threads)],
                    "tokenizers": [sys.executable, "-c", THEIRS, o.text, str(o.vocab_size), theirs]}
        for _ in range(o.rounds):
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                               env={**os.environ, "RAYON_NUM_THREADS": str(o.threads)})
                seconds[name].append(time.perf_counter() - start)
        models = [json.loads(path.read_text())["model"] for path in (ours, theirs)]
    merges = [[tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]] for model in models]
    same = merges[0] == merges[1] and models[0]["vocab"] == models[1]["vocab"]
    for name, times in seconds.items():
        print(f"{name:<12} {statistics.median(times):7.2f} s   ({min(times):.2f} to {max(times):.2f})")
    ratio = statistics.median(seconds["tokenizers"]) / statistics.median(seconds["folio"])
    print(f"ratio        {ratio:7.2f}; the merges are {'the same' if same else 'NOT the same'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
