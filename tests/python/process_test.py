"""Tests how models behave at Ctrl-C, and when the process exits with requests in flight."""

import pytest
from lifetime_test import python


@pytest.mark.parametrize("call", ["model.generate(many, max_tokens=200)", "list(model.stream(many, max_tokens=200))",
                                  "[model.logits(list(range(60)) * 4) for _ in range(10**6)]"])
def test_ctrl_c_interrupts_a_call_but_not_the_model(golden_gguf, call):
    out = python(golden_gguf, f"""
        model = folio.Model(path, threads=1)
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
        except KeyboardInterrupt as interrupted:
            kept = interrupted  # as in a notebook: its traceback keeps the request's stream
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
    python(golden_gguf, f"""
        model = folio.Model(path, threads=1)
        held = []
        def work(call):
            try:
                for _ in call(["ROMEO:"] * 100000, max_tokens=200): pass
            except folio.Error as error:
                assert "the model is closed" in str(error)
        for call in (model.generate, model.stream) * 2:
            threading.Thread(target=work, args=(call,), daemon=True).start()
        while not model.statistics["running"]:
            os.sched_yield()
        {how}
    """)


def test_process_exits_while_one_thread_opens_models(golden_gguf):
    python(golden_gguf, """
        opened = threading.Event()
        def work():
            while True:
                try:
                    with folio.Model(path, threads=1): opened.set()
                except folio.Error as error:
                    assert "shutting down" in str(error)
                    return
        threading.Thread(target=work, daemon=True).start()
        opened.wait()
    """)


def test_only_numpy_is_imported(golden_gguf):
    out = python(golden_gguf, """
        tops = {name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
        print(sorted(name for name in tops if getattr(sys.modules[name], "__file__", None)
                     and "site-packages" in sys.modules[name].__file__))
    """)
    names = eval(out)
    assert "numpy" in names and set(names) <= {"folio", "numpy", "_distutils_hack"}, names
