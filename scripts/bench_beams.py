#!/usr/bin/env python3
"""Measures tokens/s of beam search, compared with sampling as many sequences and with transformers' beam search.

    scripts/bench_beams.py data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --rounds 5
    scripts/bench_beams.py F32.gguf --peer HF_DIRECTORY --rounds 3

The tokens of all beams count, like those of all sampled sequences. --peer is a directory for transformers with the same
weights in float32: `build/export MODEL --out F32.gguf --type f32`, and `build/export MODEL --out HF_DIRECTORY --format
hf --type f32`. All sides alternate, and ratios are taken within a round."""
import tempfile
import time

from compare import BUILD, alternate, json_of, parser, ratios, report, with_range

PROMPT = "The meaning of the word \"serendipity\" is"


def generate(args, *flags):
    return json_of(BUILD / "generate", "--json", "-m", args.model, "-t", args.threads, "-n", args.tokens, *flags)


def beams(args):
    # These flags prevent sequences from ending early, so that Folio computes as many tokens as transformers' search.
    out = generate(args, "--beams", args.width, "--beams-out", args.width, "--early-stopping=never",
                   "--length-penalty", 10, "-p", PROMPT)
    steps = max(len(beam["tokens"]) for beam in out["beams"]) - 1
    return out["decode_tokens_per_s"] * args.width * steps / sum(len(b["tokens"]) - 1 for b in out["beams"])


def sampled(args):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write((PROMPT + "\n") * args.width)
        file.flush()
        out = generate(args, "--prompts", file.name, "-s", 1)
    lengths = [len(result["tokens"]) for result in out["results"]]
    return out["decode_tokens_per_s"] * args.width * (max(lengths) - 1) / sum(n - 1 for n in lengths)


class Transformers:
    def __init__(self, args):
        import torch
        import transformers

        torch.set_num_threads(args.threads)
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
    p = parser(__doc__, rounds=5)
    p.add_argument("model")
    p.add_argument("--peer", help="a Hugging Face directory with the same weights")
    p.add_argument("--width", type=int, default=4)
    p.add_argument("--tokens", type=int, default=128)
    args = p.parse_args()
    sides = {"beams": beams}
    sides |= {"transformers": Transformers(args)} if args.peer else {"sampled together": sampled}
    results = alternate(sides, lambda side, _: sides[side](args), args)
    rows = [[side, with_range(speeds, 0)] for side, speeds in results.items()]
    rows.append(["ratio", with_range(ratios(*results.values()))])
    report(args, results, [f"{args.width} sequences", "tokens/s"], rows)


if __name__ == "__main__":
    main()
