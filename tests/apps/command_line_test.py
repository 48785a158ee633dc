"""Tests the programs' command lines: exit codes, one-line errors that name the problem, one JSON object on stdout."""

import json
import math
import os
import re

import pytest
import sound

from support import EXPECTED, FAILED, GOLDEN, LONG, ROOT, WRONG_USAGE, assert_refused, generate, one_json, run, succeed

PROGRAMS = ["train", "generate", "export", "inspect", "bench", "verify", "chat", "perplexity", "explain"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_name_unknown_flags(program):
    needed = {"train": ["text.txt"], "export": ["c", "--out", "o"], "inspect": ["f"], "verify": ["c", "m"],
              "perplexity": ["--text", "t"], "explain": ["prompt"]}
    for flag in ["--bogus", "--bogus=1", "-Z"] if program == "generate" else ["--bogus"]:
        assert_refused(run(program, *needed.get(program, []), flag), WRONG_USAGE, flag.split("=")[0], "--help")


@pytest.mark.parametrize("program, missing", [("train", "dataset"), ("export", "model"), ("inspect", "file"),
                                              ("verify", "checkpoint"), ("perplexity", "--text"), ("explain", "prompt")])
def test_errors_name_missing_arguments(program, missing):
    assert_refused(run(program), WRONG_USAGE, missing)


NUMBERS = {
    "generate": {"--max-tokens": ["-1", "abc", "3.5", ""], "--temperature": ["nan", "-0.1", "1e9"], "--top-k": ["1.5"],
                 "--seed": ["-1"], "--threads": ["0", "99999"], "--context": ["1", "1e99"],
                 "--gpu-layers": ["0", "x", "99999"]},
    "bench": {"--prompt-tokens": ["0"], "--gen-tokens": ["0"], "--batch": ["0", "1,x"], "--repetitions": ["0"]},
    "train": {"--steps": ["0", "-5", "3.5", "nan"], "--lr": ["nan", "-1", "1e9"], "--batch-size": ["0"],
              "--dropout": ["1", "nan"], "--beta2": ["1"], "--minutes": ["0", "nan"], "--layers": ["0", "1e30"],
              "--threads": ["0"], "--validation-fraction": ["0", "1"], "--seed": ["-1"], "--ema": ["1", "nan"],
              "--patience": ["-1"], "--decay-fraction": ["1.5", "-0.1"]},
    "verify": {"--tolerance": ["nan"], "--windows": ["-1"]},
}


# Programs with LibTorch need 0.2 s to start, so only `make long` (LONG) tests more than one value of their flags.
@pytest.mark.parametrize("program, flag, value", [
    (p, f, v) for p, flags in NUMBERS.items() for f, values in flags.items()
    for v in (values[:1] if p in ("train", "verify") and not LONG else values)])
def test_errors_name_invalid_numbers(program, flag, value):
    needed = {"train": ["text.txt"], "verify": ["c", "m"]}
    assert_refused(run(program, *needed.get(program, []), flag, value), WRONG_USAGE, flag)


# ---- Files ----

@pytest.mark.parametrize("json", [[], ["--json"]])
@pytest.mark.parametrize("program", ["generate", "bench"])
def test_errors_name_missing_models(program, json, tmp_path):
    assert_refused(run(program, "-m", tmp_path / "none.gguf", *json), FAILED, tmp_path / "none.gguf")
    assert_refused(run(program, "-m", tmp_path, *json), FAILED, tmp_path)


@pytest.mark.parametrize("json", [[], ["--json"]])
@pytest.mark.parametrize("program", ["generate", "bench", "chat", "perplexity"])
def test_missing_model_error_suggests_training(program, json, tmp_path):
    (tmp_path / "text.txt").write_text("a text")
    needed = {"chat": ["-p", "a"], "perplexity": ["--text", tmp_path / "text.txt"]}
    done = run(program, *needed.get(program, []), *json, home=tmp_path)
    assert_refused(done, FAILED, tmp_path / "runs", "train", "--model")


def test_newest_run_is_the_default_and_reported(golden_gguf, tmp_path):
    for name in ("old", "new"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "model.gguf").write_bytes(golden_gguf.read_bytes())
    os.utime(tmp_path / "runs/old/model.gguf", (1, 1))
    done = succeed("generate", "--json", "-n", "2", home=tmp_path)
    one_json(done.stdout)
    assert str(tmp_path / "runs/new/model.gguf") in done.stderr


def test_export_and_verify_name_missing_files(golden_gguf, tmp_path):
    assert_refused(run("export", tmp_path / "none", "--out", tmp_path / "o"), FAILED, tmp_path / "none")
    assert_refused(run("export", GOLDEN, "--out", tmp_path / "no" / "o"), FAILED, tmp_path / "no")
    assert_refused(run("export", GOLDEN, "--out", tmp_path / "o", "--type", "q9"), WRONG_USAGE, "--type", "q9")
    assert_refused(run("verify", tmp_path / "none", golden_gguf), FAILED, tmp_path / "none")
    assert_refused(run("inspect", tmp_path / "none"), FAILED, tmp_path / "none")
    assert list(tmp_path.iterdir()) == []  # no partial output


# ---- generate ----

JSON_KEYS = {"prompt_tokens", "tokens", "text", "prefill_tokens_per_s", "decode_tokens_per_s", "finish_reason"}


def test_json_has_the_documented_keys(golden_gguf):
    done = succeed("generate", "--json", "-m", golden_gguf, "-n", "5", "-s", "3", "ROMEO:")
    answer = one_json(done.stdout)
    assert JSON_KEYS <= set(answer) and answer["seed"] == 3
    assert answer["prompt_tokens"] == EXPECTED["greedy"][0]["prompt_tokens"][:6]
    assert len(answer["tokens"]) == len(answer["text"]) == 5
    assert answer["prefill_tokens_per_s"] > 0 and answer["decode_tokens_per_s"] > 0
    assert done.stderr == ""


def test_default_prompt_is_a_newline(golden_gguf):
    assert generate(golden_gguf, "-n", "1")["prompt_tokens"] == [0]


def test_echo(golden_gguf):
    text = generate(golden_gguf, "-n", "9", "-s", "1", "ROMEO:")["text"]
    flags = ["-m", golden_gguf, "-n", "9", "-s", "1", "ROMEO:"]
    assert succeed("generate", *flags).stdout == "ROMEO:" + text + "\n"
    assert succeed("generate", *flags, "--echo").stdout == "ROMEO:" + text + "\n"
    assert succeed("generate", *flags, "--no-echo").stdout == text + "\n"
    assert "ROMEO" not in generate(golden_gguf, *flags[2:], "--no-echo")["text"]


def test_messages_go_to_stderr(golden_gguf):
    done = succeed("generate", "-m", golden_gguf, "-n", "4", "-s", "77", "ROMEO:")
    assert "77" in done.stderr and "tokens/s" in done.stderr and "length" in done.stderr
    assert "tokens/s" not in done.stdout


def test_sampling_flags(golden_gguf):
    greedy = EXPECTED["greedy"][1]["tokens"][:50]
    draw = lambda *flags: generate(golden_gguf, "-n", "50", *flags)
    assert draw("--top-k", "1", "-s", "2")["tokens"] == draw("--temp", "0", "-c", "51")["tokens"] == greedy
    random = draw()
    assert draw("-s", random["seed"], "-t", "2")["tokens"] == random["tokens"] != draw("-s", "5")["tokens"]
    assert generate(golden_gguf, "-n", "0")["tokens"] == []


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_invalid_prompts_are_rejected(golden_gguf, json):
    refuse = lambda code, *flags, parts: assert_refused(run("generate", "-m", golden_gguf, *json, *flags), code, *parts)
    refuse(WRONG_USAGE, "-p", "", parts=["prompt", "empty"])
    refuse(WRONG_USAGE, "", parts=["prompt", "empty"])
    refuse(FAILED, "a" * 257, parts=["257", "256"])
    refuse(FAILED, "-c", "4", "ROMEO:", parts=["6", "4"])
    refuse(FAILED, "caf\u00e9", parts=["é", "U+00E9", "column 4", "vocabulary"])
    refuse(FAILED, "a\nb%", parts=["%", "line 2", "column 2"])
    refuse(FAILED, b"a\xff".decode("utf-8", "surrogateescape"), parts=["UTF-8"])
    refuse(WRONG_USAGE, "-c", "1000", parts=["--context", "1000", "256"])
    refuse(WRONG_USAGE, "one", "two", parts=["two"])


@pytest.mark.parametrize("code, arguments, part", [
    (WRONG_USAGE, ["explain", "a", "--token", "a\nb"], r'"a\x0Ab" has 3 tokens, expected 1'),
    (FAILED, ["explain", "a", "--ablate", "0\x1b[m"], r'"0\x1B[m" is not a place: expected a layer'),
    (WRONG_USAGE, ["generate", "--logit-bias", "a\nb"], r'"a\x0Ab", expected ID=BIAS'),
    (FAILED, ["perplexity", "--text", "/a\nb"], r"/a\x0Ab: no such file")])
def test_errors_escape_control_characters(code, arguments, part):
    assert_refused(run(*arguments, "-m", GOLDEN), code, part)


# ---- bench, inspect ----

def test_bench_json(golden_gguf):
    done = succeed("bench", "--json", "-m", golden_gguf, "--prompt-tokens", "16", "--gen-tokens", "8", "--batch", "1,3",
                   "-t", "1")
    answer = one_json(done.stdout)
    for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "weight_bytes", "bandwidth_share"):
        assert answer[key] > 0, key
    rows = answer["batches"]
    assert [row["batch"] for row in rows] == [1, 3]
    assert all(row["decode_tokens_per_s"] > 0 for row in rows)
    assert answer["weight_bytes"] == answer["step_bytes"] == 4 * 48048


def test_bench_counts_experts_read_per_step(tmp_path):
    shape = sound.Shape(family="qwen3_moe", dim=32, hidden=16, layers=2, context=64, experts=16, experts_per_token=3)
    (tmp_path / "experts.gguf").write_bytes(sound.Gguf(shape).pack())
    answer = one_json(succeed("bench", "--json", "-m", tmp_path / "experts.gguf", "--prompt-tokens", "8",
                              "--gen-tokens", "4", "--batch", "1,16", "-t", "1").stdout)
    one_expert = shape.layers * 3 * shape.hidden * shape.dim * 4
    assert answer["weight_bytes"] == sum(4 * math.prod(size) for size in shape.tensors().values())
    alone, many = answer["batches"]
    assert alone["experts_of_a_layer"] == shape.experts_per_token < many["experts_of_a_layer"] <= shape.experts
    for row in (alone, many):
        left_out = (shape.experts - row["experts_of_a_layer"]) * one_expert
        assert row["step_bytes"] == pytest.approx(answer["weight_bytes"] - left_out, abs=1)
    assert answer["step_bytes"] == alone["step_bytes"]


def test_bench_times_operations(golden_gguf, tmp_path):
    flags = ["--ops", "-m", golden_gguf, "--prompt-tokens", "16", "--gen-tokens", "8", "--repetitions", "2"]
    answer = one_json(succeed("bench", *flags, "--json", "--trace", tmp_path / "trace.json").stdout)
    whole = one_json(succeed("bench", "--json", "-m", golden_gguf, "--prompt-tokens", "16", "--gen-tokens", "8").stdout)
    prompt, decode = answer["prompt"], answer["decode"]
    assert (prompt["steps"], prompt["rows_per_step"]) == (2, 16)
    assert (decode["steps"], decode["rows_per_step"]) == (16, 1)
    for times in (prompt, decode):
        rows = {row["operation"]: row for row in times["operations"]}
        assert abs(times["operations_share_of_forward"] - 1) < 0.03
        in_all = sum(row["us_per_step"] for row in times["operations"]) + times["host_us_per_step"]
        assert in_all == pytest.approx(times["us_per_step"], rel=0.03)
        others = ("embedding", "attention", "rotate and store")
        read = sum(row["mb_per_step"] for name, row in rows.items() if name not in others)
        embedding = rows["embedding"]["mb_per_step"] * 1e6 / times["rows_per_step"] * 66  # reads 1 of 66 rows per token
        assert read * 1e6 + embedding == pytest.approx(whole["weight_bytes"], abs=1)
        # In the last of the two layers, q, k and v are computed for all rows, other products only for the last row.
        n = times["rows_per_step"]
        for name, n_rows in (("q, k, v", n), ("gate, up", (n + 1) / 2), ("down", (n + 1) / 2), ("logits", 1)):
            n_elements = rows[name]["mb_per_step"] * 1e6 / 4
            assert rows[name]["multiply_adds_per_step"] == pytest.approx(n_rows * n_elements)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    steps = [e for e in events if e["name"].startswith("step of ")]
    assert [e["name"] for e in steps] == ["step of 16 rows"] + 8 * ["step of 1 rows"]
    for step in steps:
        within = [e for e in events if e["ph"] == "X" and e["tid"] == 2 and 0 <= e["ts"] - step["ts"] < step["dur"]]
        assert sum(e["name"] == "attention" for e in within) == 2
        assert all(e["ts"] + e["dur"] <= step["ts"] + step["dur"] + 1e-3 for e in within)


def test_bench_ops_rejects_other_flags(golden_gguf):
    assert_refused(run("bench", "--trace", "trace.json", "-m", golden_gguf), 2, "--trace", "--ops")
    assert_refused(run("bench", "--ops", "--shards", "2", "-m", golden_gguf), 2, "--ops", "--shards", "WORLD_SIZE")


def test_bench_rejects_what_it_cannot_measure(golden_gguf, tmp_path):
    (tmp_path / "schemas").write_text('\n{"const": 3}\n')
    (tmp_path / "bad").write_text('{"const": 3}\n\n{\n')
    flags = ["-m", golden_gguf, "-t", "1", "--repetitions", "1", "--prompt-tokens", "40", "--gen-tokens", "1"]
    for more, code, *parts in [
        (["--batch", "300"], WRONG_USAGE, "--batch 300", "256"),
        (["--batch", "300", "--ops"], WRONG_USAGE, "--batch 300", "256"),
        (["--batch", "128"], FAILED, "--batch", "--prompt-tokens"),
        (["--batch", "64", "--json-schemas", tmp_path / "schemas"], FAILED, "--batch"),
        (["--batch", "2", "--json-schemas", tmp_path / "bad"], FAILED, tmp_path / "bad:3: ", "invalid JSON"),
        (["--memory", "--ops"], WRONG_USAGE, "--memory", "--ops"),
        (["--memory"], WRONG_USAGE, "--model has no effect with --memory"),
    ]:
        assert_refused(run("bench", *flags, *more), code, *parts)
    for flag in (["--batch", "1"], ["--top-k", "1"]):
        assert_refused(run("bench", "--memory", *flag), WRONG_USAGE, f"{flag[0]} has no effect with --memory")


def test_bench_measures_memory_without_a_model():
    one, default = (one_json(succeed("bench", "--memory", "--json", *flags).stdout) for flags in (["-t", "1"], []))
    assert one["threads"] == 1 and default["threads"] == len(os.sched_getaffinity(0))
    assert 0.1 < one["read_gb_per_s"] < 10_000


def test_bench_rejects_more_tokens_than_the_context(golden_gguf):
    done = run("bench", "--json", "-m", golden_gguf, "--prompt-tokens", "200", "--gen-tokens", "100")
    assert_refused(done, WRONG_USAGE, "--prompt-tokens", "--gen-tokens", "256")


def test_inspect_shows_every_format(golden_gguf):
    for path in (golden_gguf, GOLDEN):
        shown = succeed("inspect", path).stdout
        for part in ("5000", "48048", "n_kv_heads", "character", "66"):
            assert part in shown, f"{part} of {path}"
    assert "blk.1.ffn_down.weight" in succeed("inspect", golden_gguf).stdout
    for path in (GOLDEN, GOLDEN / "model.safetensors"):
        assert "model.layers.1.mlp.down_proj.weight" in succeed("inspect", path).stdout


@pytest.mark.parametrize("program", ["bench", "chat", "explain", "export", "generate", "inspect", "perplexity", "serve",
                                     "train", "verify"])
def test_every_program_prints_its_version_and_help(program):
    version = re.search(r"project\(folio VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    done = succeed(program, "--version")
    assert done.stdout == f"{program} of Folio {version}\n" and done.stderr == ""
    done = succeed(program, "--help")
    assert "Usage" in done.stdout and program in done.stdout and "--version" in done.stdout and done.stderr == ""
