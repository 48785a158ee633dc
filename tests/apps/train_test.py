"""Tests the program train on a kilobyte of text: the files of a run, how it ends and resumes, and errors."""

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import gguf
import pytest
from safetensors.numpy import load_file, save_file

from exactness import numbers_of
from support import (BUILD, FAILED, HANG, LONG, SMALL_RUN, TEXT, WRONG_USAGE, assert_refused, environment, export,
                     generate, log_of, run, succeed)


def train(home, *flags, ok=True, **more):
    return (succeed if ok else run)("train", home / "cats.txt", *SMALL_RUN, *flags, home=home, **more)


def test_run_writes_the_documented_files(home):
    done = train(home, "--steps", "25", "--eval-every", "10")
    directory = home / "runs" / "cats"
    names = {p.name for p in directory.iterdir()}
    assert names == {"config.toml", "log.jsonl", "loss.svg", "events.out.tfevents.000000", "checkpoints", "model.gguf", "summary.txt"}
    for link in ("last", "best"):
        checkpoint = directory / "checkpoints" / link
        assert checkpoint.is_symlink() and (checkpoint / "model.safetensors").exists()
    assert (directory / "loss.svg").read_text().startswith("<svg")
    assert "of a 5-gram by counting" in (directory / "summary.txt").read_text()
    log = log_of(directory)
    assert [entry["step"] for entry in log] == [10, 20, 25]
    for entry in log:
        assert {"step", "tokens", "loss", "lr", "grad_norm", "tokens_per_s", "peak_share", "val_loss"} <= set(entry)
        assert 0 < entry["peak_share"] <= 1
    assert log[-1]["val_loss"] < log[0]["val_loss"]
    # Each evaluation writes a sample of the model's output to the log and to stdout.
    samples = [entry["sample"] for entry in log if "sample" in entry]
    assert [len(sample) for sample in samples] == [100, 100, 100]  # in characters; the context has only 32 tokens
    for line in (line for sample in samples for line in sample.splitlines()):
        assert f"\n  | {line}\n" in done.stdout
    # stdout is a pipe here, so it gets plain lines, without a terminal's escape sequences.
    assert "\x1b" not in done.stdout and "\r" not in done.stdout and done.stderr == ""
    assert re.search(r"^step 10/25 .*loss", done.stdout, re.MULTILINE)
    assert "5-gram" in done.stdout and str(directory / "model.gguf") in done.stdout
    assert generate(directory / "model.gguf", "-n", "20", "--temp", "0", "The ")["tokens"]


def on_a_terminal(columns, *arguments, home):
    """Returns the output of train on a terminal of `columns` columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([BUILD / "train", *map(str, arguments)], env=environment(home), stdout=its)
    os.close(its)
    written = b""
    with contextlib.suppress(OSError):  # Linux reports a closed terminal as EIO
        while part := os.read(ours, 65536):
            written += part
    os.close(ours)
    assert process.wait(timeout=HANG) == 0
    return written.decode()


@pytest.mark.parametrize("columns", [40, 80, 200] if LONG else [40, 200])
def test_progress_bar_fits_the_terminal(home, columns):
    written = on_a_terminal(columns, home / "cats.txt", *SMALL_RUN, "--steps", "400", "--eval-every", "200", home=home)
    drawn = re.findall(r"\r\x1b\[K([^\r\n]*)", written)
    lines = [line for line in drawn if "step " in line and "of peak" not in line]  # each is overwritten by the next
    assert len(lines) >= 40 and max(map(len, lines)) < columns
    assert any("####" in line for line in lines) == (columns > 40)
    if columns > 40:
        assert all(re.search(r"ETA \d+:\d\d$", line) for line in lines)
    if columns == 200:
        assert f"[{12 * '#'}{12 * '.'}] step 200/400" in written
    assert re.search(r"step 200/400 .*% of peak", written)


def test_a_module_of_multi_token_prediction_is_trained_and_saved(home):
    train(home, "--steps", "30", "--eval-every", "10", "--log-every", "5", "--mtp", "1")
    directory = home / "runs/cats"
    log = log_of(directory)
    assert all({"loss", "mtp_loss", "val_loss"} <= set(entry) for entry in log if entry["step"] % 10 == 0)
    assert log[-1]["mtp_loss"] < log[0]["mtp_loss"]
    best = directory / "checkpoints/best"
    tensors = load_file(best / "model.safetensors")
    assert {"model.layers.1.eh_proj.weight", "model.layers.1.enorm.weight", "model.layers.1.hnorm.weight",
            "model.layers.1.shared_head.norm.weight", "model.layers.1.mlp.up_proj.weight"} <= tensors.keys()
    assert not any(t.name.startswith("blk.1.") for t in gguf.GGUFReader(directory / "model.gguf").tensors)
    succeed("export", best, "--mtp", "--out", home / "ahead.gguf")
    for model in (directory / "model.gguf", home / "ahead.gguf"):
        succeed("verify", best, model, "-t", "1")


def test_the_module_of_multi_token_prediction_does_not_change_evaluation(home):
    """If the weight of the MTP loss is 0, all other losses equal those of a run without an MTP module."""
    logs = []
    for flags in (["--mtp", "1", "--mtp-weight", "0"], []):
        train(home, "--steps", "10", "--log-every", "1", "--clip", "0", *flags, "--force")
        logs.append([(entry["loss"], entry.get("val_loss")) for entry in log_of(home / "runs/cats")])
    assert logs[0] == logs[1]


def test_run_resumes_without_its_gpu(home):
    on_a_gpu = train(home, "--steps", "2", "--device", "cuda", "--out", home / "gpu", ok=False)
    if on_a_gpu.returncode == 0:
        pytest.skip("there is a GPU, which such a run would take")
    assert_refused(on_a_gpu, FAILED, "--device cuda", "--device cpu")
    train(home, "--steps", "4")
    (home / "runs/cats/model.gguf").unlink()
    state = home / "runs/cats/checkpoints/last/trainer.json"
    text = state.read_text(encoding="utf-8")
    assert text.count('"device": "cpu"') == 1
    state.write_text(text.replace('"device": "cpu"', '"device": "cuda"'), encoding="utf-8")
    assert_refused(run("train", home / "cats.txt", "--resume", home=home), FAILED, "--device cpu")
    done = succeed("train", home / "cats.txt", "--resume", "--device", "cpu", home=home)
    assert "device cuda -> cpu" in done.stderr, done.stderr


@pytest.mark.parametrize("flags", [["--family", "youtu"], ["--experts", "4"]])
def test_resume_accepts_the_flags_of_the_start(home, flags):
    flags = [*flags, "--steps", "2", "--out", home / "r"]
    train(home, *flags)
    (home / "r/model.gguf").unlink()  # as if killed before the export
    refused = train(home, *flags, "--resume", "--dump-grads", home / "g", ok=False)
    assert_refused(refused, WRONG_USAGE, "--dump-grads", "--resume continues after step 2")
    assert "resumed at step 2" in train(home, *flags, "--resume").stdout


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_resume_keeps_the_measured_type(home, dtype):
    train(home, "--dtype", dtype, "--steps", "2", "--out", home / "r")
    (home / "r/model.gguf").unlink()  # as if killed before the export
    assert "resumed at step 2" in train(home, "--dtype", "auto", "--steps", "2", "--out", home / "r", "--resume").stdout


def test_run_without_a_finite_validation_loss_fails(home):
    (home / "z.txt").write_text("Z" + TEXT)
    succeed("train", home / "z.txt", *SMALL_RUN, "--tie-embeddings", "false", "--steps", "1", "--out", home / "base", home=home)
    base = (home / "base/checkpoints/best").resolve()
    weights = load_file(base / "model.safetensors")
    z = json.loads((base / "tokenizer.json").read_text())["model"]["vocab"]["Z"]
    weights["model.embed_tokens.weight"][z] = float("nan")  # a token of the validation text only
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    done = run("train", home / "cats.txt", "--init", base, "--eval", home / "z.txt", "--window", "16", "--batch-size", "4",
               "--warmup-steps", "0", "--threads", "1", "--steps", "1", "--out", home / "r", home=home)
    assert done.returncode == FAILED and done.stderr.count("\n") == 1
    assert "the validation loss was not finite in any evaluation; lower --lr" in done.stderr
    assert not (home / "r/summary.txt").exists()
    # With NaN already in the training loss, --resume would fail again.
    (home / "only_z.txt").write_text("Z" * 1000)
    done = run("train", home / "only_z.txt", "--init", base, "--window", "16", "--threads", "1", "--out", home / "z", home=home)
    assert done.returncode == FAILED and done.stderr.count("\n") == 1
    assert "the loss is nan at step 1; lower --lr" in done.stderr and "start a new run" in done.stderr
    assert "continue with --resume" not in done.stderr


def test_rejected_force_keeps_the_run(home):
    train(home, "--steps", "1", "--out", home / "r")
    for file, part in ((home / "none/g", f"the folder {home}/none does not exist"), (home, "it is a folder")):
        done = train(home, "--steps", "1", "--out", home / "r", "--force", "--dump-grads", file, ok=False)
        assert_refused(done, FAILED, f"--dump-grads {file}: {part}")
        assert (home / "r/model.gguf").exists()
    (home / "cats.txt").write_text("ab")
    done = train(home, "--steps", "1", "--out", home / "r", "--force", ok=False)
    assert done.returncode == FAILED and done.stderr.count("\n") == 1
    assert (home / "r/model.gguf").exists()


def test_config_of_a_run_reproduces_it(home):
    train(home, "--steps", "7", "--dropout", "0.2", "--tie-embeddings", "false", "--norm-eps", "1e-6",
          "--rope-theta", "777", "--seed", "5", "--log-every", "1", "--out", home / "a")
    again = ["train", home / "cats.txt", "--config", home / "a/config.toml", "--threads", "1"]
    succeed(*again, "--out", home / "b", home=home)
    assert (home / "a/config.toml").read_text() == (home / "b/config.toml").read_text()
    assert numbers_of(home / "a") == numbers_of(home / "b")
    # A flag overrides the configuration file.
    succeed(*again, "--steps", "2", "--out", home / "c", home=home)
    assert log_of(home / "c")[-1]["step"] == 2


def test_config_is_validated_strictly(home):
    refuse = lambda text: ((home / "c.toml").write_text(text), train(home, "--config", home / "c.toml", ok=False))[1]
    assert_refused(refuse("bogus = 3\n"), WRONG_USAGE, '--config: "bogus" is not a flag\'s long name')
    assert_refused(refuse("dropout = nan\n"), WRONG_USAGE, "dropout")
    assert_refused(refuse('preset = "huge"\n'), WRONG_USAGE, "huge", "tiny, race, blog, baby")
    assert_refused(train(home, "--config", home / "none.toml", ok=False), WRONG_USAGE, "none.toml")


def test_minutes_become_steps(home):
    done = train(home, "--minutes", "0.05", "--log-every", "100000", "--eval-every", "100000")
    steps = log_of(home / "runs/cats")[-1]["step"]
    assert steps >= 20 and f"0.05 minutes: {steps} steps of " in done.stdout
    assert f"steps = {steps}\n" in (home / "runs/cats/config.toml").read_text()


def embedding_of_gguf(path):
    return next(bytes(tensor.data) for tensor in gguf.GGUFReader(path).tensors if tensor.name == "token_embd.weight")


@pytest.mark.parametrize("exported", ["best", "last"] if LONG else ["best"])
def test_patience_ends_a_run(home, exported):
    flags = [f if f != "1e-2" else "0.5" for f in SMALL_RUN]  # a rate so high that the loss fluctuates
    done = succeed("train", home / "cats.txt", *flags, "--schedule", "constant", "--steps", "2000", "--eval-every", "2",
                   "--patience", "3", "--export", exported, "--out", home / "r", home=home)
    log = [entry for entry in log_of(home / "r") if "val_loss" in entry]
    lowest = min(log, key=lambda entry: entry["val_loss"])
    assert log[-1]["step"] == lowest["step"] + 6 < 2000
    assert f"no better validation loss in 3 evaluations: stopped at step {log[-1]['step']} of 2000" in done.stdout
    embeddings = {}
    for name, entry in {"best": lowest, "last": log[-1]}.items():
        checkpoint = home / "r/checkpoints" / name
        assert checkpoint.readlink().name == f"step-{entry['step']:06}"
        embeddings[name] = load_file(checkpoint / "model.safetensors")["model.embed_tokens.weight"].tobytes()
    assert embeddings["best"] != embeddings["last"]
    assert embedding_of_gguf(home / "r/model.gguf") == embeddings[exported]


@pytest.mark.parametrize("openmp, flags, threads", [(None, ["--threads", "3"], 3), ("1", [], 1), ("1", ["--threads", "2"], 2)])
def test_threads_are_those_of_the_flag_or_of_openmp(home, openmp, flags, threads):
    variables = {**environment(home), "OMP_NUM_THREADS": openmp}
    done = subprocess.run([BUILD / "train", home / "cats.txt", *SMALL_RUN[:SMALL_RUN.index("--threads")], *flags, "--steps", "1"],
                          env={name: value for name, value in variables.items() if value}, capture_output=True, text=True)
    assert done.returncode == 0 and f", 1 steps, {threads} threads\n" in done.stdout, done.stdout + done.stderr


def test_tutorial_output(home):
    done = succeed("train", home / "cats.txt", "--preset", "blog", "--dim", "16", "--heads", "2", "--layers", "1",
                   "--hidden-dim", "16", "--steps", "30", "--threads", "1", home=home)
    line = r"^Epoch (\d+) \| Loss (\d+\.\d{3}) \| Time (\d+\.\d{3}) \| ETA (\d+\.\d{3})$"
    lines = re.findall(line, done.stdout, re.MULTILINE)
    assert [int(line[0]) for line in lines] == [10, 20, 30]
    assert float(lines[-1][3]) == 0


def test_auto_dtype_is_float32_without_bfloat16(home):
    train(home, "--steps", "1", "--dtype", "auto", ONEDNN_MAX_CPU_ISA="AVX2")
    assert 'dtype = "f32"' in (home / "runs/cats/config.toml").read_text()


def test_help_groups_flags_and_shows_presets(tmp_path):
    shown = succeed("train", "--help", home=tmp_path).stdout
    groups = re.findall(r"^([A-Z][\w ]+):$", shown, re.MULTILINE)
    assert groups == ["Arguments", "General", "Data", "Run", "Model", "Batches", "Mixture of experts", "LoRA", "Optimizer", "Schedule",
                      "Evaluation", "Checkpoints and logging", "Parallelism", "Diagnostics"]
    header, *rows = shown[shown.index("Presets:"):].strip().splitlines()
    assert header.split() == ["Presets:", "tiny", "race", "blog", "baby", "lora", "experts"]
    table = {name: values for name, *values in map(str.split, rows)}
    assert table["--lr"] == ["0.002", "0.006", "0.001", "0.002", "0.001", "0.002"]
    assert table["--schedule"] == ["cosine", "linear", "constant", "linear", "linear", "cosine"]
    assert table["--layers"] == ["4", "4", "4", "6", "4", "4"]
    assert all(len(values) == 6 and len(set(values)) > 1 for values in table.values())


def test_config_keeps_llama_3_rope_scaling(home):
    scaling = ["--rope-scaling", "8", "--rope-scaling-low", "1.5", "--rope-scaling-high", "3", "--rope-scaling-context", "16"]
    train(home, "--steps", "1", *scaling, "--out", home / "model")
    expected = json.loads((home / "model/checkpoints/last/config.json").read_text())["rope_scaling"]
    assert expected["rope_type"] == "llama3" and expected["factor"] == 8 and expected["low_freq_factor"] == 1.5
    short = ["--steps", "1", "--batch-size", "4", "--window", "16", "--threads", "1"]
    succeed("train", home / "cats.txt", *short, "--init", home / "model/checkpoints/last", "--out", home / "tuned", home=home)
    succeed("train", home / "cats.txt", "--config", home / "tuned/config.toml", "--threads", "1", "--out", home / "again", home=home)
    for run_of in ("tuned", "again"):
        assert json.loads((home / run_of / "checkpoints/last/config.json").read_text())["rope_scaling"] == expected
    assert (home / "tuned/config.toml").read_text() == (home / "again/config.toml").read_text()


@pytest.mark.parametrize("flags, parts", [
    (["--momentum", "0.9"], ["--momentum", "--optimizer adamw"]),
    (["--resume", "--force"], ["--resume", "--force"]),
    (["--rank", "8"], ["--rank", "--optimizer galore"]),
    (["--optimizer", "muon", "--galore-every", "8"], ["--galore-every", "--optimizer muon", "--optimizer galore"]),
    (["--decay-fraction", "0.5", "--schedule", "linear"], ["--decay-fraction", "--schedule linear"]),
    (["--min-lr", "0", "--schedule", "constant"], ["--min-lr", "--schedule constant"]),
    (["--recompute", "true", "--fused", "false"], ["--recompute", "--fused false"]),
    (["--recompute", "true", "--family", "qwen3"], ["--recompute", "qwen3"]),
    (["--steps", "5", "--minutes", "1"], ["--steps", "--minutes"]),
    (["--rope-scaling-high", "8"], ["--rope-scaling-high", "--rope-scaling 1"]),
    (["--profile", "--trace", "t.json"], ["--trace", "--profile"]),
    (["--mtp-weight", "1"], ["--mtp-weight has no effect with --mtp 0"]),
    (["--mtp", "2"], ["--mtp", "2"]),
    (["--family", "gemma"], ["--family", "gemma", "qwen3"]),
    (["--sliding-window", "8"], ["sliding_window is 8, but the family llama does not support it"]),
    (["--family", "qwen3", "--head-dim", "7"], ["head_dim is 7"]),
    (["--mtp", "1", "--family", "gemma2"], ["n_tokens_ahead is 1, but in the family gemma2 layers differ in their windows"]),
])
def test_invalid_and_idle_flags_are_rejected(home, flags, parts):
    done = run("train", home / "cats.txt", *SMALL_RUN, *flags, home=home)
    assert_refused(done, WRONG_USAGE, *parts)
    assert not (home / "runs").exists()


# ---- Unusable training texts ----

def test_unusable_texts_are_rejected(tmp_path):
    for text, parts in ((b"fine until here \xff\n", ["UTF-8", "line 1", "column 17"]),
                        (TEXT[:200].encode(), ["16", "10", "shorter", "longer"])):
        (tmp_path / "t.txt").write_bytes(text)
        done = run("train", tmp_path / "t.txt", *SMALL_RUN, "--validation-fraction", "0.05", home=tmp_path)
        assert_refused(done, FAILED, *parts)
        assert not (tmp_path / "runs").exists()


def test_other_rejections(home):
    text = home / "cats.txt"

    def refuse(code, *arguments, parts):
        assert_refused(run("train", *arguments, home=home), code, *parts)

    refuse(FAILED, home / "none.txt", parts=["none.txt", "tinyshakespeare"])
    (home / "nothing").mkdir()
    refuse(FAILED, home / "nothing", parts=["nothing", "no files"])
    train(home, "--steps", "1", "--out", home / "r")
    model = export(home / "r/checkpoints/last", home / "model.bin", "--format", "llama2c")
    refuse(FAILED, text, "--init", model, parts=["--init", "a llama2.c file contains no tokenizer", "export"])
    refuse(FAILED, text, "--context", "5000", "--window", "5000", parts=["5000"])
    refuse(WRONG_USAGE, text, "--context", "32", "--window", "64", parts=["--window", "--context"])
    odd = text, "--window", "16", "--heads", "3"
    refuse(WRONG_USAGE, *odd, "--family", "mistral", parts=["--heads 3", "--head-dim"])
    refuse(WRONG_USAGE, *odd, "--head-dim", "32", parts=["expected a multiple of --heads 3 in the family llama"])
    assert not (home / "runs").exists()
    if os.geteuid() != 0:  # root can write everywhere
        home.chmod(0o500)
        assert_refused(train(home, "--steps", "1", ok=False), FAILED, "runs")
        home.chmod(0o700)
