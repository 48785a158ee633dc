#!/usr/bin/env python3
"""Measures tokens/s of beam search, compared with sampling as many sequences and with transformers' beam search.

    scripts/bench_beams.py data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --rounds 5
    scripts/bench_beams.py F32.gguf --peer HF_DIRECTORY --rounds 3

The tokens of all beams count, like those of all sampled sequences. --peer is a directory for transformers with the same
weights in float32: `build/export MODEL --out F32.gguf --type f32`, and `build/export MODEL --out HF_DIRECTORY --format
hf --type f32`. All sides alternate, and ratios are taken within a round."""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"
PROMPT = "The meaning of the word \"serendipity\" is"


def generate(*flags):
    return json.loads(subprocess.run([BUILD / "generate", "--json", *map(str, flags)], capture_output=True, check=True).stdout)


def beams(args):
    # These flags let no sequence end early, so that Folio computes as many tokens as transformers' search.
    out = generate("-m", args.model, "-t", args.threads, "-n", args.tokens, "--beams", args.width, "--beams-out", args.width,
                   "--early-stopping=never", "--length-penalty", 10, "-p", PROMPT)
    steps = max(len(beam["tokens"]) for beam in out["beams"]) - 1
    return out["decode_tokens_per_s"] * args.width * steps / sum(len(b["tokens"]) - 1 for b in out["beams"])


def sampled(args):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write((PROMPT + "\n") * args.width)
        file.flush()
        out = generate("-m", args.model, "-t", args.threads, "-n", args.tokens, "--prompts", file.name, "-s", 1)
    lengths = [len(result["tokens"]) for result in out["results"]]
    return out["decode_tokens_per_s"] * args.width * (max(lengths) - 1) / sum(n - 1 for n in lengths)


class Transformers:
    def __init__(self, args):
        import torch
        import transformers

        torch.set_num_threads(args.threads)
        self.args = args
        self.model = transformers.AutoModelForCausalLM.from_pretrained(args.peer, dtype=torch.float32).eval()
        self.inputs = transformers.AutoTokenizer.from_pretrained(args.peer)(PROMPT, return_tensors="pt")

    def __call__(self, args):
        def seconds(n):
            start = time.perf_counter()
            self.model.generate(**self.inputs, min_new_tokens=n, max_new_tokens=n, num_beams=args.width, do_sample=False,
                                pad_token_id=0, eos_token_id=None)
            return time.perf_counter() - start

        return args.width * (args.tokens - 1) / (seconds(args.tokens) - seconds(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer", help="a Hugging Face directory with the same weights")
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    other = Transformers(args) if args.peer else sampled
    ours, theirs = [], []
    for i in range(args.rounds):
        for side, speeds in ((beams, ours), (other, theirs))[:: 1 if i % 2 else -1]:
            speeds.append(side(args))
    ratios = sorted(a / b for a, b in zip(ours, theirs))
    print(f"{args.width} beams {statistics.median(ours):.0f} tokens/s, "
          f"{'transformers' if args.peer else 'sampled together'} {statistics.median(theirs):.0f}; "
          f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) in {args.rounds} rounds")


if __name__ == "__main__":
    main()
