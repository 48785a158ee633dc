"""Tests that a resumed run gives the same bits as an uninterrupted one, at the default model size and with LibTorch's
default number of threads. The resumed processes have other memory layouts. kill_test.py kills small runs at random
times."""

import pathlib
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from exactness import assert_same, command, outcome
from support import BUILD, LONG, SMALL_RUN, environment, held, read_until, succeed

# Each kill is two or three steps after a checkpoint or the start, so that some steps are repeated.
FLAGS = ["--steps", "12", "--seed", "5", "--log-every", "1", "--checkpoint-every", "4"]
KILLS = [3, 6, 11] if LONG else [6, 11]
# Environment variables that a user may have set and that must not change results.
UNRULY = {"MKL_DYNAMIC": "TRUE", "OMP_DYNAMIC": "true", "OMP_MAX_ACTIVE_LEVELS": "3"}


def perturbed(seed):
    """Returns environment variables that change the addresses and initial bytes of a program's memory."""
    dice = random.Random(seed)
    library = BUILD / "tests/libperturb_heap.so"
    assert library.exists()  # otherwise the loader would only print a warning
    return {"LD_PRELOAD": str(library), "FOLIO_HEAP_SEED": str(seed),
            "MALLOC_PERTURB_": str(dice.randrange(1, 256)), "MALLOC_TOP_PAD_": str(dice.randrange(1 << 22)),
            # Blocks of up to 32 MiB come from the heap, too. With mmap(), each would get new pages, and a step would
            # take twice as long.
            "MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


def asks_mkl_for_the_same_bits():
    """Returns True if fix_threads() makes MKL compute the same bits with any number of threads on this machine."""
    about = pathlib.Path("/proc/cpuinfo").read_text()
    return "GenuineIntel" in about and "avx512f" in about


@pytest.mark.skipif(not asks_mkl_for_the_same_bits(), reason="not an Intel processor with AVX-512")
def test_f32_results_do_not_depend_on_threads(tmp_path):
    if "MKL" not in torch.__config__.show():
        pytest.skip("this LibTorch has no MKL")
    (tmp_path / "cats.txt").write_text(text_of_65_characters(20000))
    runs = [tmp_path / f"{threads} threads" for threads in (1, 2)]
    for threads, run in zip("12", runs):
        succeed("train", *command(tmp_path, run, [*FLAGS, "--threads", threads]), home=tmp_path, timeout=600)
    one, two = map(outcome, runs)
    for name in ("log", "model.gguf", "checkpoints/step-000012/optimizer.safetensors"):
        assert one[name] == two[name], name


def test_mkl_does_not_choose_the_thread_count(tmp_path):
    """Checks in MKL's log that MKL_DYNAMIC is off, since some machines keep the thread count even if it is on."""
    (tmp_path / "text.txt").write_text(text_of_65_characters(3000))
    done = succeed("train", tmp_path / "text.txt", *SMALL_RUN[:-2], "--steps", "1", home=tmp_path, OMP_NUM_THREADS="2",
                   MKL_VERBOSE="1", **UNRULY)
    products = [line for line in done.stdout.splitlines() if line.startswith("MKL_VERBOSE") and "GEMM" in line]
    if not products:
        pytest.skip("this LibTorch has no MKL")
    assert [line for line in products if "Dyn:0" not in line] == []


def text_of_65_characters(length):
    dice = random.Random(1)
    return "".join(chr(dice.randrange(ord("!"), ord("!") + 65)) for _ in range(length))


@pytest.mark.parametrize("threads", [1, 2] if LONG else [2])
def test_killed_run_is_bit_exact(tmp_path, threads):
    (tmp_path / "cats.txt").write_text(text_of_65_characters(20000))
    with ThreadPoolExecutor(max_workers=2 // threads) as at_once:
        list(at_once.map(lambda dtype: repeats_the_bits(tmp_path, dtype, threads), ["f32", "bf16"]))


def repeats_the_bits(home, dtype, threads):
    """Kills a run at the steps KILLS, resumes it each time, and compares it with an uninterrupted run. Like most
    users, doesn't set --threads, so OMP_NUM_THREADS = `threads` determines the number of threads."""
    flags = [*FLAGS, "--dtype", dtype]
    own = {"OMP_NUM_THREADS": str(threads)}
    whole = succeed("train", *command(home, home / f"{dtype} whole", flags), home=home, timeout=600, **own)
    if "may differ from an uninterrupted one" in whole.stderr:
        pytest.skip(whole.stderr)
    expected = outcome(home / f"{dtype} whole")
    assert len(expected["log"]) == 12

    killed = home / f"{dtype} killed"
    for seed, step in enumerate(KILLS):
        # The first process determines the run's number of threads. Later processes must keep it despite other settings.
        more = own if seed == 0 else {"OMP_NUM_THREADS": "3", **UNRULY, **perturbed(seed)}
        process = held([BUILD / "train", *command(home, killed, flags)], env=environment(home, **more))
        read_until(process, f"step {step}/")
        process.kill()
        process.communicate()
    succeed("train", *command(home, killed, flags), home=home, timeout=600, **perturbed(9))
    assert_same(outcome(killed), expected, f"{dtype}, {threads} threads")
