"""Helpers for tests of killed and failing runs: a run to interrupt, and its results, which must repeat bit for bit."""

from support import SMALL_RUN, TEXT, log_of, succeed


def flags_of(steps, threads=1, dtype="f32", eval_every=2):
    """Returns the flags of a training run with dropout that saves a checkpoint after every step."""
    small = SMALL_RUN[:SMALL_RUN.index("--threads")]
    return [*small, "--threads", str(threads), "--dtype", dtype, "--dropout", "0.1", "--steps", str(steps),
            "--log-every", "1", "--eval-every", str(eval_every), "--checkpoint-every", "1"]


def make_home(folder):
    (folder / "cats.txt").write_text(TEXT, encoding="utf-8")
    return folder


def command(home, directory, flags):
    """Returns the arguments for train that resume the run if it has a checkpoint, and otherwise start it."""
    go_on = (directory / "checkpoints" / "last").is_symlink()
    return [str(home / "cats.txt"), "--out", str(directory), *(["--resume"] if go_on else flags)]


def finish(home, directory, flags):
    """Starts or resumes the run, unless it is finished, and waits for its end."""
    if not (directory / "model.gguf").exists():
        done = succeed("train", *command(home, directory, flags), home=home)
        assert done.stderr == "", done.stderr


def numbers_of(directory):
    """Returns the log's entries without speeds, which differ between runs."""
    return [{key: value for key, value in entry.items() if key not in ("tokens_per_s", "peak_share")}
            for entry in log_of(directory)]


def outcome(directory):
    """Returns everything that a repeated run must reproduce: the log without speeds, and the bytes of all files."""
    files = {path.relative_to(directory).as_posix(): path.readlink() if path.is_symlink() else path.read_bytes()
             for path in sorted(directory.rglob("*")) if path.is_symlink() or path.is_file()}
    del files["log.jsonl"]
    # TensorBoard event files contain timestamps, so they differ. tensorboard_test.py compares them with the log.
    files = {name: content for name, content in files.items() if not name.startswith("events.")}
    files.pop(".lock", None)  # a killed process may leave it, which is harmless
    return {"log": numbers_of(directory), **files}


def assert_same(actual, expected, where):
    assert actual.keys() == expected.keys(), f"{where}: {actual.keys() ^ expected.keys()}"
    different = [name for name in expected if actual[name] != expected[name]]
    assert not different, f"{where}: {different} differ from the undisturbed run's"
