"""Where a model runs: what is asked for is what is taken, or one line says why not."""

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
    """What each program is given to run the golden model."""
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("To be, or not to be", encoding="utf-8")
    model = ["-m", golden_gguf]
    return {"generate": ["--json", *model, "-n", "2", "a"], "chat": ["--json", *model, "-p", "a", "--chat-template", "chatml"],
            "bench": ["--json", *model, "--prompt-tokens", "4", "--gen-tokens", "2"],
            "perplexity": ["--json", *model, "--text", text], "verify": [GOLDEN, golden_gguf, "--text", text]}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("device", ["gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cuda:99999999999", "CUDA", "cpu:0"])
def test_a_device_that_is_none_is_named(arguments, program, device):
    assert_refused(run(program, *arguments[program], "--device", device), WRONG_USAGE, "--device", "cuda:N", "--help")


@pytest.mark.parametrize("size", ["", "G", "-1", "0", "0G", "1.5G", "2X", "2GX", "1e9", "nan", "99999999999G", "9" * 30])
def test_a_size_that_is_none_is_named(arguments, size):
    done = run("generate", *arguments["generate"], "--device", "cuda", "--cache-memory", size)
    assert_refused(done, WRONG_USAGE, "--cache-memory", "2G")


@pytest.mark.parametrize("layers", ["0", "-1", "3.5", "x", "99999"])
def test_a_number_of_layers_that_is_none_is_named(arguments, layers):
    done = run("generate", *arguments["generate"], "--device", "cuda", "--gpu-layers", layers)
    assert_refused(done, WRONG_USAGE, "--gpu-layers")


def test_more_layers_than_the_model_has_are_refused(arguments):
    done = run("generate", *arguments["generate"], "--device", "cuda", "--gpu-layers", "999")
    assert_refused(done, WRONG_USAGE, "--gpu-layers is 999", "the model has")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("flags", [["--gpu-layers", "1"], ["--cache-memory", "2G"]])
@pytest.mark.parametrize("device", [[], ["--device", "cpu"]])
def test_what_is_for_a_gpu_is_not_ignored_without_one(arguments, program, flags, device):
    done = run(program, *arguments[program], *flags, *device)
    assert_refused(done, WRONG_USAGE, flags[0], "--device cuda")


def test_fast_says_where_it_changes_nothing(golden_gguf):
    """Of the CPU's sets the reference has products of BF16, and AVX2 has none."""
    flags = ["generate", "--json", "-m", golden_gguf, "-p", "Now is the winter of our discontent", "-n", "8", "--temp", "0"]
    note = "--fast changes nothing here: this processor has no products of BF16 that would be faster\n"
    for isa, says in (("reference", ""), ("avx2", note)):
        done = run(*flags, "--fast", FOLIO_ISA=isa)
        if isa == "avx2" and "unknown or not supported" in done.stderr:
            continue
        assert done.returncode == 0 and done.stderr == says, done
        if says:
            assert one_json(done.stdout)["text"] == one_json(succeed(*flags, FOLIO_ISA=isa).stdout)["text"]


@without_gpu
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("flags", [["--device", "cuda"], ["--device", "cuda:1"], ["--device", "cuda", "--gpu-layers", "1"],
                                   ["--device=cuda", "--cache-memory", "512M", "--fast"]])
def test_where_there_is_no_gpu_nothing_else_takes_its_place(arguments, program, flags):
    reason = "no GPU can be used" if HAS_CUDA else "FOLIO_CUDA=ON"
    assert_refused(run(program, *arguments[program], *flags), FAILED, reason, "--device cpu")


@without_gpu
@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_gpu_the_list_says_why(program):
    """Also where an argument is missing that the program needs."""
    reason = "no GPU can be used" if HAS_CUDA else "FOLIO_CUDA=ON"
    assert_refused(run(program, "--device", "list"), FAILED, reason)


def test_the_cpu_is_the_default(golden_gguf):
    flags = ["-n", "20", "--seed", "3", "a"]
    texts = [generate(golden_gguf, *flags, *device)["tokens"] for device in ([], ["--device", "cpu"])]
    assert texts[0] == texts[1]


@with_gpu
def test_the_list_names_devices_as_the_flag_does():
    for number, line in enumerate(succeed("generate", "--device", "list").stdout.splitlines()):
        assert line.startswith(f"cuda:{number} ") and "GB" in line and "driver" in line


@with_gpu
def test_a_gpu_that_is_not_there_is_named(arguments):
    done = run("generate", *arguments["generate"], "--device", "cuda:99")
    assert_refused(done, FAILED, "GPU 99", "--device list")


@with_gpu
@pytest.mark.parametrize("flags", [[], ["--gpu-layers", "1"], ["--cache-memory", "64M"], ["--fast"]])
def test_a_gpu_continues_greedily_as_the_cpu(golden_gguf, flags):
    def greedy(*device):
        return generate(golden_gguf, "-n", "48", "--temp", "0", "ROMEO:", *device)["tokens"]

    assert greedy("--device", "cuda", *flags) == greedy()


@with_gpu
def test_bench_names_the_gpu_and_its_share(arguments):
    one = one_json(succeed("bench", *arguments["bench"], "--device", "cuda").stdout)
    assert one["device"] and one["copy_gb_per_s"] > 0 and one["bandwidth_share"] > 0 and "threads" not in one
    two = one_json(succeed("bench", *arguments["bench"], "--device", "cuda", "--gpu-layers", "1").stdout)
    assert two["device"] and two["threads"] > 0 and two["bandwidth_share"] is None
