"""Tests device selection: the requested device is used, or a one-line error explains why not."""

import os

import pytest

from support import BUILD, FAILED, GOLDEN, WRONG_USAGE, assert_refused, generate, one_json, run, succeed

PROGRAMS = ["generate", "chat", "bench", "perplexity"] + ["verify"] * (BUILD / "verify").exists()
HAS_CUDA = os.environ.get("FOLIO_HAS_CUDA", "OFF") == "ON"
HAS_GPU = (BUILD / "generate").exists() and run("generate", "--device", "list").returncode == 0
without_gpu = pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
with_gpu = pytest.mark.skipif(not HAS_GPU, reason="there is no GPU that this build runs on")


@pytest.fixture(scope="session")
def arguments(golden_gguf, tmp_path_factory):
    """Returns {program: the arguments with which it runs the golden model}."""
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("To be, or not to be", encoding="utf-8")
    model = ["-m", golden_gguf]
    return {"generate": ["--json", *model, "-n", "2", "a"], "chat": ["--json", *model, "-p", "a", "--chat-template", "chatml"],
            "bench": ["--json", *model, "--prompt-tokens", "4", "--gen-tokens", "2"],
            "perplexity": ["--json", *model, "--text", text], "verify": [GOLDEN, golden_gguf, "--text", text]}


@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_name_invalid_devices(arguments, program):
    all_kinds = ["gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cuda:99999999999", "CUDA", "cpu:0"]
    for device in all_kinds if program == "generate" else all_kinds[:1]:
        assert_refused(run(program, *arguments[program], "--device", device), WRONG_USAGE, "--device", "cuda:N", "--help")


@pytest.mark.parametrize("size", ["", "G", "-1", "0", "0G", "1.5G", "2X", "2GX", "1e9", "nan", "99999999999G", "9" * 30])
def test_errors_name_invalid_sizes(arguments, size):
    done = run("generate", *arguments["generate"], "--device", "cuda", "--cache-memory", size)
    assert_refused(done, WRONG_USAGE, "--cache-memory", "2G")


def test_more_layers_than_the_model_are_rejected(arguments):
    done = run("generate", *arguments["generate"], "--device", "cuda", "--gpu-layers", "999")
    assert_refused(done, WRONG_USAGE, "--gpu-layers is 999", "the model has")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("flags", [["--gpu-layers", "1"], ["--cache-memory", "2G"]])
@pytest.mark.parametrize("device", [[], ["--device", "cpu"]])
def test_gpu_flags_are_rejected_without_a_gpu(arguments, program, flags, device):
    done = run(program, *arguments[program], *flags, *device)
    assert_refused(done, WRONG_USAGE, flags[0], "--device cuda")


def test_fast_reports_its_effect(golden_gguf):
    """With FOLIO_ISA=reference, --fast reports products of BF16 numbers; with avx2, it reports that it does nothing."""
    flags = ["generate", "--json", "-m", golden_gguf, "-p", "Now is the winter of our discontent", "-n", "8", "--temp", "0"]
    note = "--fast has no effect: this CPU has no fast BF16 instructions\n"
    for isa, says in (("reference", "--fast: products of BF16 numbers, as reference rounds them\n"), ("avx2", note)):
        done = run(*flags, "--fast", FOLIO_ISA=isa)
        if isa == "avx2" and "unknown or not supported" in done.stderr:
            continue
        assert done.returncode == 0 and done.stderr == says, done
        if says == note:
            assert one_json(done.stdout)["text"] == one_json(succeed(*flags, FOLIO_ISA=isa).stdout)["text"]


@without_gpu
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("flags", [["--device", "cuda"], ["--device", "cuda:1"], ["--device", "cuda:0", "--gpu-layers", "1"],
                                   ["--device=cuda", "--cache-memory", "512M", "--fast"]])
def test_missing_gpu_has_no_fallback(arguments, program, flags):
    reason = "no usable GPU" if HAS_CUDA else "FOLIO_CUDA=ON"
    assert_refused(run(program, *arguments[program], *flags), FAILED, reason, "--device cpu")


@without_gpu
@pytest.mark.parametrize("program", PROGRAMS)
def test_device_list_explains_a_missing_gpu(program):
    """--device list reports why there is no GPU, even without the arguments that the program otherwise requires."""
    reason = "no usable GPU" if HAS_CUDA else "FOLIO_CUDA=ON"
    assert_refused(run(program, "--device", "list"), FAILED, reason)


@with_gpu
def test_device_list_uses_the_flags_names():
    for number, line in enumerate(succeed("generate", "--device", "list").stdout.splitlines()):
        assert line.startswith(f"cuda:{number} ") and "GB" in line and "driver" in line


@with_gpu
def test_errors_name_missing_gpus(arguments):
    done = run("generate", *arguments["generate"], "--device", "cuda:99")
    assert_refused(done, FAILED, "GPU 99", "--device list")


@with_gpu
@pytest.mark.parametrize("flags", [[], ["--gpu-layers", "1"], ["--cache-memory", "64M"], ["--fast"]])
def test_greedy_on_gpu_matches_cpu(golden_gguf, flags):
    def greedy(*device):
        return generate(golden_gguf, "-n", "48", "--temp", "0", "ROMEO:", *device)["tokens"]

    assert greedy("--device", "cuda:0", *flags) == greedy()


@with_gpu
def test_bench_reports_the_gpu_and_bandwidth(arguments):
    one = one_json(succeed("bench", *arguments["bench"], "--device", "cuda").stdout)
    assert one["device"] and one["copy_gb_per_s"] > 0 and one["bandwidth_share"] > 0 and "threads" not in one
    two = one_json(succeed("bench", *arguments["bench"], "--device", "cuda", "--gpu-layers", "1").stdout)
    assert two["device"] and two["threads"] > 0 and two["bandwidth_share"] is None
