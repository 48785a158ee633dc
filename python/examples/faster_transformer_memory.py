"""Prints the resident memory of this process after each of FasterTransformer's calls.

    python faster_transformer_memory.py MODEL [PROMPT_TOKENS NEW_TOKENS]
"""

import sys

import numpy as np

from folio.faster_transformer import Llama


def say(what):
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    print(f"{what:16} {pages * 4096 / 1e6:7.1f} MB")


def main(path, n_prompt=448, n_new=64):
    n_prompt, n_new = int(n_prompt), int(n_new)
    say("nothing yet")
    llama = Llama(path)
    say("weights mapped")
    llama.initialize()
    say("initialize")
    llama.allocateBuffer(4, 1, n_prompt + n_new, n_prompt)
    say("allocateBuffer")
    ids = np.random.default_rng(1).integers(0, llama.vocab_size, (4, n_prompt), np.int32)
    inputs = {"input_ids": ids, "input_lengths": [n_prompt] * 4, "output_seq_len": n_prompt + n_new, "end_id": -1}
    for _ in range(2):
        llama.forward(llama.outputs(inputs), inputs)
        say("forward")
        llama.freeBuffer()
        say("freeBuffer")


if __name__ == "__main__":
    main(*sys.argv[1:])
