"""Runs schemathesis against the server: requests that match the server's API description, and some that don't."""

import subprocess
import sys
from pathlib import Path

from chat_model import write_chat_model


def test_server_matches_its_openapi_schema(server, tmp_path):
    serve = server(write_chat_model(tmp_path / "chatty.gguf"), "-t", "1", "--api-key", "key")
    # Excludes /engine, whose response is endless, and the check that every request valid in the schema is accepted,
    # since prompts may exceed the context.
    done = subprocess.run([Path(sys.executable).with_name("st"), "run", f"{serve.url}/openapi.json", "-H",
                           "Authorization: Bearer key", "--max-examples", "12", "--seed", "1", "--exclude-path", "/engine",
                           "--exclude-checks", "positive_data_acceptance", "--phases", "coverage,fuzzing"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 passed" in done.stdout
