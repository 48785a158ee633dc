"""Measures the training cost of a multi-token prediction module (train --mtp 1) and its effect on the model's own loss.
Runs train with and without the module, with the same seeds, and prints a line per seed and the means.

    experiments/34_ahead/training.py --build build --steps 300 --seeds 5
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from compare import run  # noqa: E402


def trained(build, text, out, seed, steps, flags):
    """Runs build/train. Returns its log and its CPU time per step in milliseconds."""
    done = run(build / "train", text, "--out", out, "--seed", seed, "--steps", steps, "--threads", 1,
               "--eval-every", steps, "--checkpoint-every", steps, "--sample", 0, *flags)
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return log, 1e3 * done.cpu_seconds / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--text", default="tinyshakespeare")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--weight", default="0.3")
    o = parser.parse_args()
    rows = []
    print("seed   loss without   with   difference   loss of the token after the next   CPU ms a step without   with")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, o.seeds + 1):
            results = [trained(o.build, o.text, pathlib.Path(folder) / f"{seed}-{len(flags)}", seed, o.steps, flags)
                       for flags in ([], ["--mtp", "1", "--mtp-weight", o.weight])]
            (plain, alone), (ahead, both) = results
            later = statistics.mean(entry["mtp_loss"] for entry in ahead[-10:])
            row = plain[-1]["val_loss"], ahead[-1]["val_loss"], later, alone, both
            rows.append(row)
            print(f"{seed:4} {row[0]:14.4f} {row[1]:6.4f} {row[1] - row[0]:12.4f} {later:34.3f} {alone:23.1f} {both:6.1f}",
                  flush=True)
    differences = [row[1] - row[0] for row in rows]
    error = statistics.stdev(differences) / len(rows) ** 0.5 if len(rows) > 1 else 0.0
    print(f"difference of the validation loss: {statistics.mean(differences):+.4f} ± {error:.4f} (standard error)")
    print(f"time of a step: × {statistics.median(row[4] / row[3] for row in rows):.3f} (median)")


if __name__ == "__main__":
    main()
