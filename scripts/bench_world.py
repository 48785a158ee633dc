#!/usr/bin/env python3
"""Measures how many questions about a made-up world a model answers after fine-tuning on conversations about it.

Usage: build/venv/bin/python scripts/bench_world.py [--seeds 1,2,3,4,5] [--init MODEL] [--out DIR] [--wordings N]
       [--build DIR] [-- FLAGS of train…]

For each seed: generates a world (make_world.py), runs `train train.jsonl --eval eval.jsonl --init MODEL FLAGS`, and
asks its 50 held-out questions before and after training through `serve`, greedily. An answer counts if it matches the
expected one, ignoring case, spaces and a period. Prints a line per seed, then means with 95 % intervals over the seeds
(Student's t). The seed is used for the world and for train. Default FLAGS: those of docs/fine-tuning.md."""
import argparse
import concurrent.futures
import json
import math
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import make_world

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLAGS = "--epochs 3 --lr 3e-4 --min-lr 3e-5 --warmup-steps 5 --window 256 --batch-size 2 --dtype auto".split()
T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # {seeds: t at 95 %}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def asked(port, model, conversation):
    body = {"model": model, "messages": conversation["messages"][:-1], "temperature": 0, "max_tokens": 24}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.load(reply)["choices"][0]["message"]["content"] or ""


def answers(build, serve_flags, questions):
    """Returns the replies of `serve FLAGS` to each question, from its adapter `world` if it has one, else its model."""
    port = free_port()
    server = subprocess.Popen([build / "serve", *serve_flags, "--port", str(port)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).read()
                break
            except OSError:
                if server.poll() is not None:
                    sys.exit(f"error: serve {' '.join(map(str, serve_flags))} ended")
                time.sleep(0.2)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as reply:
                names = [model["id"] for model in json.load(reply)["data"]]
            model = "world" if "--adapter" in serve_flags else names[0]
            return list(pool.map(lambda question: asked(port, model, question), questions))
    finally:
        server.terminate()
        server.wait()


def plain(text):
    return " ".join(text.lower().split()).strip(" .")


def share(build, serve_flags, questions, show=False):
    right = 0
    for question, answer in zip(questions, answers(build, serve_flags, questions)):
        expected = question["messages"][-1]["content"]
        right += plain(answer) == plain(expected)
        if show and plain(answer) != plain(expected):
            print(f"    {question['messages'][1]['content']} {answer!r}, not {expected!r}")
    return 100 * right / len(questions)


def interval(values):
    mean = statistics.mean(values)
    if len(values) not in T95:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {T95[len(values)] * statistics.stdev(values) / math.sqrt(len(values)):.1f}"


def trained(build, folder, seed, init, flags):
    """Runs `train` and returns its seconds, its CPU seconds, and the flags with which `serve` loads the result."""
    started, used = time.monotonic(), sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    done = subprocess.run([build / "train", folder / "train.jsonl", "--eval", folder / "eval.jsonl", "--init", init,
                           "--out", folder / "run", "--force", "--seed", str(seed), *flags], capture_output=True, text=True)
    seconds = time.monotonic() - started
    cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - used
    (folder / "train.log").write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        sys.exit(done.stderr)
    if any(flag.startswith("--lora") for flag in flags):
        return seconds, cpu, ["-m", init, "--adapter", f"world={folder / 'run/checkpoints/best'}"]
    return seconds, cpu, ["-m", folder / "run/model.gguf"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--init", default=ROOT / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--out", type=pathlib.Path, default=None, help="keep the runs here")
    parser.add_argument("--wordings", type=int, default=4)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--no-before", action="store_true", help="don't ask the model before")
    parser.add_argument("--show", action="store_true", help="print wrong answers")
    own, flags = sys.argv[1:], []
    if "--" in own:
        own, flags = own[:own.index("--")], own[own.index("--") + 1:]
    a = parser.parse_args(own)
    flags = flags or FLAGS
    print("train", *flags)
    befores, afters, times, cpus = [], [], [], []
    for seed in map(int, a.seeds.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            folder = (a.out or pathlib.Path(scratch)) / f"world{seed}"
            make_world.write(folder, seed, a.wordings)
            questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
            if not a.no_before:
                befores.append(share(a.build, ["-m", a.init], questions))
            seconds, cpu, serve_flags = trained(a.build, folder, seed, a.init, flags)
            afters.append(share(a.build, serve_flags, questions, a.show))
            times.append(seconds)
            cpus.append(cpu)
            before = f"{befores[-1]:.0f} % before, " if befores else ""
            print(f"seed {seed}: {before}{afters[-1]:.0f} % after, {seconds:.0f} s ({cpu:.0f} s of processors)", flush=True)
    for name, values, unit in (("before", befores, "%"), ("after", afters, "%"), ("training", times, "s"), ("processors", cpus, "s")):
        if len(values) > 1:
            print(f"{name}: {interval(values)} {unit} (mean and 95 % interval over {len(values)} seeds)")


if __name__ == "__main__":
    main()
