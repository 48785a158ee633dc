#!/usr/bin/env python3
"""Measures how much of their speed programs keep while busy processes run on the same machine.

Usage: scripts/bench_busy.py COMMAND... [--models FILE...] [--busy 0 1] [--copies N...] [--rounds 7]
                             [--keep FILE]

  scripts/bench_busy.py "train tinyshakespeare --steps 200" "GOMP_SPINCOUNT=300000 train tinyshakespeare --steps 200"
  scripts/bench_busy.py "bench -m {}" "bench -m {} -t 1" "llama.cpp -m {} -t 1" "llama.cpp -m {} -t 2" --models A.gguf B.gguf

A command is a quoted string of environment variables and a program with its flags. The program is train, bench or
generate in build/, or an absolute path to one of another build; bench and generate get --json added. llama.cpp has the
flags -m, -t (2), --prompt-tokens and --gen-tokens, and runs llama_cpp_speed.py (--python, --plain). serve has the flags
-m, -t (2), --gen-tokens and --seconds (3), and runs serve_speed.py, which measures as a client. {} stands for each of
--models. A busy process runs `while True: pass` in Python. --copies 2 also runs two instances of a command at once
without a busy process, and adds their speeds.

Each round runs every command once in each of these ways, in alternating order. Prints medians of tokens/s, and medians
with 95 % bootstrap intervals of three ratios within a round: to the same command on the idle machine, and, under the
same load, to the first command and to the fastest of llama.cpp's. For train, `steps` excludes the startup, evaluations,
samples and checkpoints that `run` includes. --keep appends the rounds to FILE and prints all that it contains, so that
rounds can be spread over quiet periods."""
import argparse
import contextlib
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from bench_speculation import interval

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", HERE.parent / "build"))


@contextlib.contextmanager
def load(n):
    """Keeps n processes that never sleep running during the `with` block."""
    code = "print(flush=True)\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(n)]
    try:
        for process in busy:
            process.stdout.readline()
        yield
    finally:
        for process in busy:
            process.kill()
            process.communicate()


class Command:
    """One run of a command as a process, and the tokens/s that the process reports."""

    def __init__(self, line, a):
        words = shlex.split(line)
        self.environment = {}
        while words and "=" in words[0]:
            name, value = words.pop(0).split("=", 1)
            self.environment[name] = value
        name = pathlib.Path(words[0]).name if words else ""
        if name not in ("train", "bench", "generate", "serve", "llama.cpp"):
            sys.exit(f"{line}: it is train, bench, generate, serve or llama.cpp that can be measured")
        self.line, self.is_peer, self.is_training = line, name == "llama.cpp", name == "train"
        if self.is_peer:
            parser = argparse.ArgumentParser(prog="llama.cpp")
            parser.add_argument("-m", required=True)
            parser.add_argument("-t", default="2")
            parser.add_argument("--prompt-tokens", default="128")
            parser.add_argument("--gen-tokens", default="64")
            f = parser.parse_args(words[1:])
            self.words = [a.python, str(HERE / "llama_cpp_speed.py"), f.m, "--threads", f.t, "--prompt-tokens",
                          f.prompt_tokens, "--gen-tokens", f.gen_tokens, *["--plain"] * a.plain]
        elif name == "serve":
            self.words = [sys.executable, str(HERE / "serve_speed.py"), *words[1:]]
            self.environment["FOLIO_BUILD_DIR"] = str((BUILD / words[0]).parent)
        else:
            self.words = [str(BUILD / words[0]), *words[1:]] + ([] if self.is_training else ["--json"])

    def start(self):
        self.run = tempfile.TemporaryDirectory() if self.is_training else None
        words = self.words + (["--out", self.run.name + "/run"] if self.is_training else [])
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(words, env=os.environ | self.environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def speeds(self):
        """Waits for the process and returns {kind of speed, such as "decode": tokens/s}."""
        out, error = self.process.communicate()
        seconds = time.perf_counter() - self.begun
        if self.process.returncode:
            sys.exit(f"{self.line} ended with {self.process.returncode}: {error[-300:]}")
        if self.is_training:
            with self.run, open(self.run.name + "/run/log.jsonl") as file:
                log = [json.loads(line) for line in file]
            tokens = [entry["tokens"] - before for entry, before in zip(log, [0] + [e["tokens"] for e in log])]
            in_steps = sum(n / entry["tokens_per_s"] for n, entry in zip(tokens, log))
            return {"steps": sum(tokens) / in_steps, "run": sum(tokens) / seconds}
        said = json.loads(out)
        return {what: said[f"{what}_tokens_per_s"] for what in ("prefill", "decode")}


def measure(lines, model, n_busy, n_copies, a):
    """Runs n_copies of each command with n_busy busy processes. Returns a record for each, with summed tokens/s."""
    results = []
    for line in lines:
        copies = [Command(line.replace("{}", str(model)), a) for _ in range(n_copies)]
        with load(n_busy):
            for copy in copies:
                copy.start()
            speeds = [copy.speeds() for copy in copies]
        results.append({"model": str(model), "command": line, "busy": n_busy, "copies": n_copies,
                        "speeds": {what: sum(s[what] for s in speeds) for what in speeds[0]}})
    return results


def ratio(pairs):
    """Formats the median of x / y over the pairs (x, y) with its 95 % interval. Returns "" if no pair has both."""
    ratios = [x / y for x, y in pairs if x and y]
    if not ratios:
        return ""
    low, high = interval(ratios)
    return f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"


def table(rounds):
    """Prints a table with a row per command, kind of speed and load. Each of `rounds` is a result of measure()."""
    speed = [{(r["model"], r["command"], r["busy"], r["copies"], what): value for r in one
              for what, value in r["speeds"].items()} for one in rounds]
    keys = sorted(dict.fromkeys(key for one in speed for key in one), key=lambda key: (key[0], key[3], key[2], key[4]))
    rows = ["| command | model | | busy | tokens/s | of its own alone | of the first command | of llama.cpp's best |",
            "|---|---|---|--:|--:|---|---|---|"]
    for key in keys:
        model, command, busy, copies, what = key
        beside = [k for k in keys if k[0] == model and k[2:] == key[2:]]
        peers = [k for k in beside if "llama.cpp" in k[1]]

        def over(other):
            return ratio([(one.get(key), other(one)) for one in speed])

        own = over(lambda one: one.get((model, command, 0, 1, what))) if (busy, copies) != (0, 1) else ""
        first = over(lambda one: one.get(beside[0])) if key != beside[0] else ""
        best = over(lambda one: max((one[k] for k in peers if k in one), default=None)) if key not in peers else ""
        shown = f"{copies} x {command}" if copies > 1 else command
        middle = statistics.median(one[key] for one in speed if key in one)
        rows.append(f"| `{shown}` | {pathlib.Path(model).name} | {what} | {busy} | {middle:,.0f} | {own} | {first} | {best} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    parser.add_argument("--models", nargs="+", default=[""], metavar="FILE")
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 1], metavar="N")
    parser.add_argument("--copies", nargs="+", type=int, default=[], metavar="N")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--python", default=sys.executable, help="that has llama-cpp-python")
    parser.add_argument("--plain", action="store_true", help="llama.cpp without its repacked kernels")
    a = parser.parse_args()
    rounds = [json.loads(line) for line in open(a.keep)] if a.keep and a.keep.exists() else []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that load() ends the busy processes
    ways = [(n, 1) for n in a.busy] + [(0, n) for n in a.copies]
    for number in range(len(rounds), len(rounds) + a.rounds):
        lines = a.commands if number % 2 == 0 else a.commands[::-1]
        rounds.append([r for model in a.models for way in ways for r in measure(lines, model, *way, a)])
        if a.keep:
            with open(a.keep, "a") as file:
                print(json.dumps(rounds[-1]), file=file)
    print(table(rounds))


if __name__ == "__main__":
    main()
