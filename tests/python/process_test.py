"""Tests how models behave at Ctrl-C, when the process exits with requests in flight, and after a fork."""

import subprocess
import sys
import textwrap

import pytest

HEAD = "import folio, os, signal, sys, threading\nmodel = folio.Model(sys.argv[1], threads=1)\n"


def python(golden_gguf, code, timeout=300):
    done = subprocess.run([sys.executable, "-c", HEAD + textwrap.dedent(code), str(golden_gguf)], capture_output=True,
                          text=True, timeout=timeout)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr


@pytest.mark.parametrize("call", ["model.generate(many, max_tokens=200)", "list(model.stream(many, max_tokens=200))",
                                  "[model.logits(list(range(60)) * 4) for _ in range(10**6)]"])
def test_ctrl_c_interrupts_a_call_but_not_the_model(golden_gguf, call):
    out, _ = python(golden_gguf, f"""
        many = ["ROMEO:"] * 20000
        text = model.generate("ROMEO:", max_tokens=20, seed=1)
        steps = model.statistics["steps"]
        def interrupt():
            while model.statistics["steps"] == steps:
                os.sched_yield()
            os.kill(os.getpid(), signal.SIGINT)
        try:
            threading.Thread(target=interrupt).start()
            {call}
        except KeyboardInterrupt:
            print("interrupted")
        assert model.generate("ROMEO:", max_tokens=20, seed=1) == text
        assert model.statistics["tokens"] < len(many) * 200
        assert model.statistics["running"] + model.statistics["waiting"] == 0
        print(model.statistics["blocks_in_use"])
    """)
    assert out == "interrupted\n0\n"


@pytest.mark.parametrize("how", ["", "sys.exit(0)", "stream = model.stream('a', max_tokens=200); next(stream)",
                                 "held.append(model)"])
def test_process_exits_with_requests_in_flight(golden_gguf, how):
    _, errors = python(golden_gguf, f"""
        held = []
        def work():
            try:
                model.generate(["ROMEO:"] * 100000, max_tokens=200)
            except folio.Error as error:
                assert "the model is closed" in str(error)
        def tell():
            try:
                for _ in model.stream(["ROMEO:"] * 100000, max_tokens=200): pass
            except folio.Error as error:
                assert "the model is closed" in str(error)
        for target in (work, tell) * 2:
            threading.Thread(target=target, daemon=True).start()
        while not model.statistics["running"]:
            os.sched_yield()
        {how}
    """)
    assert errors == ""


def test_process_exits_with_tasks_in_flight(golden_gguf):
    _, errors = python(golden_gguf, """
        import asyncio
        async def main():
            tasks = [asyncio.create_task(model.agenerate("ROMEO:", max_tokens=200)) for _ in range(500)]
            await anext(model.astream("ROMEO:", max_tokens=200))
        asyncio.run(main())
    """)
    assert errors == ""


def test_model_error_after_fork_explains_why(golden_gguf):
    out, errors = python(golden_gguf, """
        text = model.generate("ROMEO:", max_tokens=20, seed=1)
        stream = model.stream("ROMEO:", max_tokens=200, seed=1)
        next(stream)
        sys.stdout.flush()
        if os.fork() == 0:
            for use in (lambda: model.generate("a"), lambda: next(stream), lambda: model.statistics):
                try:
                    use()
                except folio.Error as error:
                    assert "forked" in str(error), error
                    print("said")
            model.close()  # nothing of it is the child's
            other = folio.Model(sys.argv[1], threads=1)
            assert other.generate("ROMEO:", max_tokens=20, seed=1) == text
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        assert model.generate("ROMEO:", max_tokens=20, seed=1) == text
        print("parent")
    """)
    assert out.split() == ["said"] * 3 + ["parent"] and errors == ""


def test_pool_processes_open_their_own_models(golden_gguf):
    python(golden_gguf, """
        import multiprocessing
        def work(seed):
            with folio.Model(sys.argv[1], threads=1) as own:
                return own.generate("ROMEO:", max_tokens=20, seed=seed)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            texts = pool.map(work, range(4))
        assert texts == [model.generate("ROMEO:", max_tokens=20, seed=seed) for seed in range(4)]
    """)


def test_only_numpy_is_imported(golden_gguf):
    out, _ = python(golden_gguf, """
        tops = {name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
        print(sorted(name for name in tops if getattr(sys.modules[name], "__file__", None)
                     and "site-packages" in sys.modules[name].__file__))
    """)
    names = eval(out)
    assert "numpy" in names and set(names) <= {"folio", "numpy", "_distutils_hack"}, names
