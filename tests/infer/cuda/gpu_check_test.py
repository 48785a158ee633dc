"""Tests scripts/gpu_check without a GPU: errors, output of a timed-out step, the table of results, the bundle. Also tests
for which GPUs scripts/cuda.cmake builds."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import threading
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ["FOLIO_BUILD_DIR"])
SMOLLM2 = ROOT / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

sys.path.append(str(ROOT / "tests/apps"))
from support import wait_until  # noqa: E402

loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "scripts/gpu_check"))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(gpu_check)
import gpu_bundle
import gpu_summary  # noqa: E402


def has_gpu():
    return gpu_check.why_no_gpu() is None


def measured(what):
    """Summarizes the benchmark records `what`. Returns the table of decode steps as {row name: [cell, ...]}, and the
    number of rows that miss their target or have no record."""
    summary = gpu_summary.Summary(what)
    gpu_summary.add_decode(summary)
    return {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:6]] for line in summary.lines}, summary.missed


def decode_row(**given):
    return {"part": "decode", "shape": "8b", "type": "f16", "batch": 1, "context": 1024, "fast": False, "us": 100.0,
            "tokens_per_s": 10.0, "share_of_copy": 0.9, **given}


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_steps_fail_with_a_message_without_a_gpu(tmp_path):
    done = subprocess.run([ROOT / "scripts/gpu_check", "run", "--out", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["correctness", "decode", "attention", "prompt"]
    assert all("GPU" in line or "driver" in line for line in lines)


def test_unknown_steps_are_rejected(tmp_path):
    done = subprocess.run([ROOT / "scripts/gpu_check", "run", "decod", "--out", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2


def test_timed_out_command_keeps_its_output(tmp_path, monkeypatch):
    run = gpu_check.Run("decode", tmp_path, time.monotonic() + 600)

    class Timer(threading.Thread):  # calls stop() once the command has written a line, not after `seconds`
        def __init__(self, seconds, stop):
            super().__init__(target=lambda: (wait_until(lambda: "\nfirst\n" in (tmp_path / "decode.txt").read_text()), stop()))

        def cancel(self):
            self.join()

    with monkeypatch.context() as patch:
        patch.setattr(gpu_check.threading, "Timer", Timer)
        assert run.command("slow", ["sh", "-c", "echo first; exec sleep infinity"], seconds=1) is None
    assert run.command("broken", ["sh", "-c", "echo second; exit 3"]) is None
    assert run.command("fine", ["echo", "third"]) == ["third"]
    assert run.command("absent", [tmp_path / "nothing"]) is None
    assert run.failed == ["slow", "broken", "absent"]
    text = (tmp_path / "decode.txt").read_text()
    assert "first" in text and "slow: cut off" in text and "exit code 3" in text and "third" in text


def test_timed_out_step_starts_no_command(tmp_path):
    run = gpu_check.Run("decode", tmp_path, time.monotonic())
    with pytest.raises(gpu_check.Cut):
        run.command("late", ["touch", tmp_path / "made"])
    assert not (tmp_path / "made").exists() and run.failed == ["late"]


def test_targets_are_met_missed_or_not_measured():
    table, missed = measured([decode_row(), decode_row(fast=True, us=80.0), decode_row(type="q8_0", share_of_copy=0.5)])
    assert table["decode 8 B f16, share of a copy's bandwidth"] == ["≥ 85 %", "92 %", "90 %", "yes"]
    assert table["decode 8 B q8_0, share of a copy's bandwidth"] == ["≥ 75 %", "88 %", "50 %", "no"]
    assert table["decode 8 B q4_0, share of a copy's bandwidth"] == ["≥ 60 %", "75 %", "not measured", "no"]
    assert missed > 2  # unmeasured figures count as missed


def test_batches_are_shown_as_ratios():
    table, _ = measured([decode_row(context=512, tokens_per_s=100.0), decode_row(context=512, batch=64, tokens_per_s=3100.0)])
    assert table["64 sequences of 512 over one, 8 B f16"][2:] == ["31 ×", "yes"]


def test_incomplete_rows_are_ignored(tmp_path):
    (tmp_path / "decode.jsonl").write_text(json.dumps(decode_row()) + '\n{"part": "dec')
    assert gpu_check.read_rows(tmp_path / "decode.jsonl") == [decode_row()]
    assert gpu_check.summarize(tmp_path, ["decode"])[1] > 0
    assert "not measured" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize("present, expected", [("7.5\\n8.6\\n6.1\\n8.6\\n12.0", "86;120"), ("7.5", "")])
def test_builds_only_for_gpus_that_can_run_the_kernels(present, expected, tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nprintf '{present}\\n'\n")
    smi.chmod(0o755)
    (tmp_path / "test.cmake").write_text(
        f'set(FOLIO_CUDA OFF)\ninclude({ROOT}/scripts/cuda.cmake)\nfolio_present_gpus(found)\nmessage("found ${{found}}.")\n')
    done = subprocess.run(["cmake", f"-DNVIDIA_SMI={smi}", "-P", tmp_path / "test.cmake"], capture_output=True, text=True)
    assert done.stderr == f"found {expected}.\n"


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
@pytest.mark.skipif(not (BUILD / "cuda_bench").exists() or not (BUILD / "tests/model_check").exists(),
                    reason="this build has no programs for GPUs")
@pytest.mark.parametrize("step", list(gpu_check.MEASURED))
def test_steps_use_valid_flags(step, tmp_path, monkeypatch):
    called = []

    def command(run, name, argv, seconds=0, env=None):
        called.append([str(a) for a in argv])
        return ["[  PASSED  ] 1 test."]

    monkeypatch.setattr(gpu_check.Run, "command", command)
    gpu_check.STEPS[step](gpu_check.Run(step, tmp_path, time.monotonic() + 600), types.SimpleNamespace(out=tmp_path, build=BUILD))
    assert called
    for argv in called:
        if "--tool" in argv:  # skip compute-sanitizer's own arguments, of which --error-exitcode is the last
            argv = argv[argv.index("--error-exitcode") + 2:]
        if argv[0].endswith("export"):
            continue
        if argv[0].endswith("test_engine_device"):  # needs a GPU to build; test_cuda_device has the same main
            argv[0] = str(BUILD / "tests/test_cuda_device")
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == 1, (argv, done.stderr)  # 2 would be a usage error
        assert "GPU" in done.stderr, (argv, done.stderr)


def test_bundle_requires_a_clone(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_bundle, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="use a git clone"):
        gpu_bundle.source_files()


@pytest.mark.skipif(not SMOLLM2.exists(), reason="make smollm2 fetches the model")
@pytest.mark.skipif(not (BUILD / "export").exists(), reason="export is not built")
def test_bundle_is_complete_and_at_most_60_mb(tmp_path):
    out = tmp_path / "bundle.tar.gz"
    subprocess.run([ROOT / "scripts/gpu_check", "bundle", out, "--build", BUILD], check=True, capture_output=True)
    assert out.stat().st_size <= 60_000_000
    with tarfile.open(out) as tar:
        names = set(tar.getnames())
    top = gpu_bundle.NAME + "/"
    for name in ("CMakeLists.txt", "infer/cuda/product.cu", "scripts/gpu_check", gpu_bundle.MODEL,
                 "deps/include/fmt/format.h", "deps/include/nlohmann/json.hpp", "deps/include/CLI/CLI.hpp",
                 "deps/include/gtest/gtest.h", "deps/include/utf8proc.h", "deps/googletest/src/gtest-all.cc",
                 "deps/lib/libutf8proc.a", "deps/cmake/GTest/GTestConfig.cmake"):
        assert top + name in names, name
    assert not any("/build" in name or "smollm2/" in name for name in names)


@pytest.mark.skipif(not SMOLLM2.exists(), reason="make smollm2 fetches the model")
@pytest.mark.skipif(not (BUILD / "export").exists(), reason="export is not built")
def test_first_layers_match_the_model(tmp_path):
    gguf = pytest.importorskip("gguf")
    subprocess.run([BUILD / "export", SMOLLM2, "--layers", "2", "--out", tmp_path / "two.gguf"], check=True, capture_output=True)
    two, all_of_it = gguf.GGUFReader(tmp_path / "two.gguf"), gguf.GGUFReader(SMOLLM2)
    assert two.fields["llama.block_count"].contents() == 2
    tensors = {tensor.name: tensor for tensor in all_of_it.tensors}
    assert {tensor.name for tensor in two.tensors} == {name for name in tensors if not name.startswith("blk.") or int(name.split(".")[1]) < 2}
    for tensor in two.tensors:
        assert tensor.tensor_type == tensors[tensor.name].tensor_type and (tensor.data == tensors[tensor.name].data).all()
    too_many = subprocess.run([BUILD / "export", SMOLLM2, "--layers", "31", "--out", tmp_path / "x.gguf"], capture_output=True, text=True)
    assert too_many.returncode == 2 and "the model has 30" in too_many.stderr
