#!/usr/bin/env python3
"""Measures transformers on a Hugging Face directory, like build/bench: greedy decoding, or beam search.

Usage: scripts/transformers_speed.py -m DIRECTORY [-t N] [--prompt-tokens N] [--gen-tokens N] [--beams N]
       [--repetitions N]

Weights are F32. The tokens of all beams count. Decode excludes the time of the first token. Prints one JSON object:
tokens/s of prefill and decode, medians over the repetitions."""
import time

import torch
from transformers import AutoModelForCausalLM

from compare import print_speeds, speed_parser


def main():
    a = speed_parser(__doc__, beams=1).parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32).eval()
    options = dict(do_sample=False, num_beams=a.beams, pad_token_id=0, eos_token_id=None)

    def seconds(n_prompt, n_gen):
        tokens = (torch.arange(n_prompt)[None] * 7919 + 13) % model.config.vocab_size
        start = time.perf_counter()
        model.generate(tokens, attention_mask=torch.ones_like(tokens), min_new_tokens=n_gen, max_new_tokens=n_gen,
                       **options)
        return time.perf_counter() - start

    def measure(n_prompt, n_gen, _):
        first = seconds(n_prompt, 1)
        return n_prompt / first, a.beams * (n_gen - 1) / (seconds(n_prompt, n_gen) - first)

    print_speeds(measure, a)


if __name__ == "__main__":
    main()
