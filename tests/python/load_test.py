"""Sends 4,000 requests (10,000 with FOLIO_LONG) from 64 threads and 64 tasks and cancels a tenth. Outputs must equal
those of build/generate."""

import asyncio
import gc
import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import support

import folio
from stall import resident

N = 10_000 if support.LONG else 4_000
THREADS = TASKS = 64


def test_thousands_of_requests(golden_gguf):
    rng = random.Random(7)
    prompts = ["ROMEO:", "JULIET:\n", "First Citizen:\nWe", "K", "O, then, dear saint, let lips do what hands do;\n"]
    kinds = [(rng.choice(prompts), rng.randint(1, 60), seed) for seed in range(60)]
    expected = {kind: support.generate(golden_gguf, "-n", kind[1], "-s", kind[2], kind[0])["text"] for kind in kinds}
    numbers = itertools.count()
    wrong, done, memory = [], [0], {}
    lock = threading.Lock()

    def take():
        with lock:
            i = next(numbers)
        return None if i >= N else (i, kinds[i * 31 % len(kinds)])

    def check(kind, text, given_up):
        whole = expected[kind]
        if not (whole.startswith(text) if given_up else text == whole):
            wrong.append((kind, text))
        with lock:
            done[0] += 1
            if done[0] in (2000, N):
                gc.collect()
                memory[done[0]] = resident()

    def work(model):
        while (one := take()) is not None:
            i, kind = one
            prompt, n, seed = kind
            if i % 10 == 0:
                stream = model.stream(prompt, max_tokens=n, seed=seed)
                check(kind, next(stream), True)
                stream.close()
            elif i % 10 < 5:
                check(kind, "".join(model.stream(prompt, max_tokens=n, seed=seed)), False)
            else:
                check(kind, model.generate(prompt, max_tokens=n, seed=seed), False)

    async def task(model):
        while (one := take()) is not None:
            i, kind = one
            prompt, n, seed = kind
            if i % 10 == 0:
                stream = model.astream(prompt, max_tokens=n, seed=seed)
                check(kind, await anext(stream), True)
                await stream.aclose()
            elif i % 10 < 5:
                check(kind, "".join([piece async for piece in model.astream(prompt, max_tokens=n, seed=seed)]), False)
            else:
                check(kind, await model.agenerate(prompt, max_tokens=n, seed=seed), False)

    async def tasks(model):
        await asyncio.gather(*(task(model) for _ in range(TASKS)))

    with folio.Model(golden_gguf, max_sequences=64) as model:
        with ThreadPoolExecutor(THREADS) as pool:
            workers = [pool.submit(work, model) for _ in range(THREADS)]
            asyncio.run(tasks(model))
        assert all(worker.result() is None for worker in workers)
        assert not wrong, wrong[:3]
        assert done[0] == N
        grown = memory[N] - memory[2000]
        assert grown < 4 << 20, f"{grown / 1e6:.1f} MB more after {N} requests than after 2000"
        model.generate("a", max_tokens=1)  # when this returns, earlier requests have ended
        assert model.statistics["running"] == model.statistics["blocks_in_use"] == 0
