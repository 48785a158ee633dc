#!/usr/bin/env python3
"""Measures how many questions about a made-up world a model answers after fine-tuning on conversations about it.

Usage: build/venv/bin/python scripts/bench_world.py [--seeds 1,2,3,4,5] [--init MODEL] [--out DIR] [--wordings N]
       [-- FLAGS of train…]

For each seed: generates a world (make_world.py), runs `train train.jsonl --eval eval.jsonl --init MODEL FLAGS`, and
asks its 50 held-out questions before and after training through `serve`, greedily. An answer counts if it matches the
expected one, ignoring case, spaces and a period. Prints a line per seed, then means with 95 % intervals over the seeds
(Student's t). The seed is used for the world and for train. Default FLAGS: those of docs/fine-tuning.md."""
import argparse
import concurrent.futures
import json
import pathlib
import tempfile

import make_world
from compare import BUILD, SMOLLM2, mean_with_interval, run
from servers import Server

FLAGS = "--epochs 3 --lr 3e-4 --min-lr 3e-5 --warmup-steps 5 --window 256 --batch-size 2 --dtype auto".split()


def answers(serve_flags, questions):
    """Starts a server with these flags, asks it the questions, and returns its answers. Uses the adapter `world` if the
    flags load one, else the model."""
    with Server("folio", command=[BUILD / "serve", *serve_flags]) as server:
        names = [model["id"] for model in server.call("/v1/models")[1]["data"]]
        model = "world" if "--adapter" in serve_flags else names[0]

        def asked(question):
            body = {"model": model, "messages": question["messages"][:-1], "temperature": 0, "max_tokens": 24}
            return server.call("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"] or ""

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(asked, questions))


def plain(text):
    return " ".join(text.lower().split()).strip(" .")


def share(serve_flags, questions):
    """Returns the percentage of the questions that are answered correctly."""
    right = [plain(answer) == plain(question["messages"][-1]["content"])
             for question, answer in zip(questions, answers(serve_flags, questions), strict=True)]
    return 100 * sum(right) / len(right)


def trained(folder, seed, init, flags):
    """Runs `train`. Returns its wall and CPU time in seconds, and the flags with which `serve` loads the result."""
    done = run(BUILD / "train", folder / "train.jsonl", "--eval", folder / "eval.jsonl", "--init", init,
               "--out", folder / "run", "--force", "--seed", seed, *flags, log=folder / "train.log")
    if any(flag.startswith("--lora") for flag in flags):
        return done.seconds, done.cpu_seconds, ["-m", init, "--adapter", f"world={folder / 'run/checkpoints/best'}"]
    return done.seconds, done.cpu_seconds, ["-m", folder / "run/model.gguf"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--init", default=SMOLLM2)
    parser.add_argument("--out", type=pathlib.Path, default=None, help="keep the runs here")
    parser.add_argument("--wordings", type=int, choices=range(1, 9), default=4)
    parser.add_argument("flags", nargs="*", metavar="-- FLAGS", help="of train")
    a = parser.parse_args()
    flags = a.flags or FLAGS
    print("train", *flags)
    befores, afters, times, cpus = [], [], [], []
    for seed in map(int, a.seeds.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            folder = (a.out or pathlib.Path(scratch)) / f"world{seed}"
            make_world.write(folder, seed, a.wordings)
            questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
            befores.append(share(["-m", a.init], questions))
            seconds, cpu, serve_flags = trained(folder, seed, a.init, flags)
            afters.append(share(serve_flags, questions))
            times.append(seconds)
            cpus.append(cpu)
            print(f"seed {seed}: {befores[-1]:.0f} % before, {afters[-1]:.0f} % after, {seconds:.0f} s ({cpu:.0f} s of "
                  "processors)", flush=True)
    for name, values, unit in (("before", befores, "%"), ("after", afters, "%"), ("training", times, "s"),
                               ("processors", cpus, "s")):
        if len(values) > 1:
            print(f"{name}: {mean_with_interval(values)} {unit} (mean and 95 % interval over {len(values)} seeds)")


if __name__ == "__main__":
    main()
