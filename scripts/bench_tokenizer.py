#!/usr/bin/env python3
"""Compares the time of `tokenize train` with Hugging Face's BpeTrainer on the same text and threads, alternating.

    build/venv/bin/python scripts/bench_tokenizer.py TEXT [--vocab-size 32000] [--rounds 3] [--threads 2]

TEXT separates documents with <|endoftext|>. Each round runs both in separate processes. Prints medians; exits with 1
if the merges differ."""
import hashlib
import json
import sys
import tempfile
from pathlib import Path

from compare import BUILD, alternate, parser, ratios, report, run, with_range

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


def trained(command, path, threads):
    """Runs the command. Returns its wall time in seconds, and a digest of the vocabulary and merges that it wrote."""
    seconds = run(*command, environment={"RAYON_NUM_THREADS": str(threads)}).seconds
    model = json.loads(path.read_text())["model"]
    merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    return seconds, hashlib.sha256(json.dumps([merges, model["vocab"]], sort_keys=True).encode()).hexdigest()


def main():
    p = parser(__doc__, rounds=3)
    p.add_argument("text")
    p.add_argument("--vocab-size", type=int, default=32000)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours.json"), Path(folder, "theirs.json")
        commands = {"folio": ([BUILD / "tokenize", "train", a.text, "--vocab-size", a.vocab_size, "--out", ours,
                               "--force", "--threads", a.threads], ours),
                    "tokenizers": ([sys.executable, "-c", THEIRS, a.text, a.vocab_size, theirs], theirs)}
        results = alternate(commands, lambda name, _: trained(*commands[name], a.threads), a)
    seconds = {name: [r[0] for r in rounds] for name, rounds in results.items()}
    same = len({digest for rounds in results.values() for _, digest in rounds}) == 1
    rows = [[name, with_range(values)] for name, values in seconds.items()]
    rows += [["ratio", with_range(ratios(seconds["tokenizers"], seconds["folio"]))],
             ["merges", "the same" if same else "NOT the same"]]
    report(a, results, ["", "seconds"], rows)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
