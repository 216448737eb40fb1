"""tools/fetch_model.py with a made-up model, served by a package index on the loopback address of this machine."""

import base64
import contextlib
import fcntl
import hashlib
import http.server
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time
import zipfile

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "fetch_model.py"
PACKAGE, WHEEL_NAME = "toy-model", "toy_model-1.0-py3-none-any.whl"
FILES = {
    "config.json": b"{}\n",
    "model.safetensors": os.urandom(300_000),
    "vocab.txt": b"word\n" * 100_000,  # larger than the wheel, in which it is compressed
    "1_Pooling/config.json": b"[]\n",
}


def make_wheel(path):
    """A wheel of the smallest form that pip takes, with the model's files in it."""
    files = {f"toy_model/model/{name}": data for name, data in FILES.items()}
    files["toy_model/__init__.py"] = b""
    info = "toy_model-1.0.dist-info/"
    files[info + "METADATA"] = b"Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n"
    files[info + "WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def describe(data):
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


class Index(http.server.ThreadingHTTPServer):
    """A package index with one package; a stalled one sends half of the wheel and then nothing."""

    def __init__(self, wheel):
        super().__init__(("127.0.0.1", 0), IndexHandler)
        self.wheel = wheel
        self.num_downloads = 0
        self.half_is_sent = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def handle_error(self, request, client_address):
        pass  # a client that was killed in the middle is what some tests are about


class IndexHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_wheel = self.path.endswith(".whl")
        page = f'<!DOCTYPE html><html><body><a href="/{WHEEL_NAME}">{WHEEL_NAME}</a></body></html>'.encode()
        data = self.server.wheel if is_wheel else page
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if is_wheel else "text/html")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        half = len(data) // 2
        self.wfile.write(data[:half])
        if is_wheel:
            self.server.num_downloads += 1
            self.server.half_is_sent.set()
            self.server.go_on.wait(60)
        self.wfile.write(data[half:])

    def log_message(self, *_):
        pass


class Toy:
    """The made-up model, its index and its cache."""

    def __init__(self, root):
        self.root = root
        make_wheel(root / WHEEL_NAME)
        self.wheel = (root / WHEEL_NAME).read_bytes()
        self.index = Index(self.wheel)
        self.url = f"http://127.0.0.1:{self.index.server_address[1]}/simple"
        self.cache = root / "cache"
        self.folder = self.cache / "models" / "toy"
        self.entry = {
            "package": PACKAGE,
            "version": "1.0",
            "licenses": {"package": "MIT", "model": "Apache-2.0"},
            "wheel": describe(self.wheel),
            "folder_in_wheel": "toy_model/model",
            "files": {name: describe(data) for name, data in FILES.items()},
        }

    def environment(self):
        ours = ("PIP_", "QKV_", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(ours)}
        return {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": self.url, "QKV_CACHE": str(self.cache)}

    def command(self, *arguments):
        listing = {"default": "toy", "models": {"toy": self.entry}}
        (self.root / "models.json").write_text(json.dumps(listing), encoding="utf-8")
        return [sys.executable, SCRIPT, "--models", self.root / "models.json", *arguments]

    def run(self, *arguments, **options):
        options = {"env": self.environment(), "capture_output": True, "text": True, "timeout": 60, **options}
        return subprocess.run(self.command(*arguments), check=False, **options)

    def start(self):
        return subprocess.Popen(
            self.command(), env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def assert_whole(self):
        for name, data in FILES.items():
            assert (self.folder / name).read_bytes() == data
        self.assert_no_leftovers()

    def assert_no_leftovers(self):
        names = {path.name for path in (self.cache / "models").glob("*")}
        assert names <= {"toy", ".lock"}
        assert {path.name for path in (self.cache / "models").glob(".*")} <= {".lock"}


@pytest.fixture
def toy(tmp_path):
    toy = Toy(tmp_path)
    thread = threading.Thread(target=toy.index.serve_forever, args=(0.05,))
    thread.start()
    yield toy
    toy.index.go_on.set()
    toy.index.shutdown()
    toy.index.server_close()
    thread.join()


def assert_one_error(run, code, *words):
    assert run.returncode == code
    assert run.stdout == ""
    lines = [line for line in run.stderr.splitlines() if "downloading" not in line]
    assert len(lines) == 1, run.stderr
    for word in words:
        assert word in lines[0]


def test_a_model_is_fetched_and_its_folder_is_printed(toy):
    run = toy.run()
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"{toy.folder}\n"
    assert run.stderr == "fetch_model: toy: downloading 0 MB (licences: package MIT, model Apache-2.0)\n"
    toy.assert_whole()


def test_a_model_that_is_there_is_not_fetched_again(toy):
    toy.run()
    run = toy.run(env={**toy.environment(), "PIP_INDEX_URL": "http://127.0.0.1:1/simple"})
    assert (run.returncode, run.stdout, run.stderr) == (0, f"{toy.folder}\n", "")
    assert toy.index.num_downloads == 1


@pytest.mark.parametrize("damage", ["changed", "shortened", "removed", "file in place of the folder"])
def test_a_broken_model_is_fetched_anew(toy, damage):
    toy.run()
    weights = toy.folder / "model.safetensors"
    if damage == "changed":
        weights.write_bytes(bytes(len(FILES["model.safetensors"])))
    elif damage == "shortened":
        weights.write_bytes(FILES["model.safetensors"][:-1])
    elif damage == "removed":
        weights.unlink()
    else:
        os.rename(toy.folder, toy.root / "aside")
        toy.folder.write_text("not a folder")
    assert toy.run().returncode == 0
    toy.assert_whole()


def test_the_cache_is_found_as_the_environment_says(toy):
    base = {name: value for name, value in toy.environment().items() if name != "QKV_CACHE"}
    home, xdg = toy.root / "home", toy.root / "xdg"
    home.mkdir()
    run = toy.run(env={**base, "HOME": str(home)})
    assert run.stdout == f"{home}/.cache/qkv/models/toy\n"
    run = toy.run(env={**base, "HOME": str(home), "XDG_CACHE_HOME": str(xdg)})
    assert run.stdout == f"{xdg}/qkv/models/toy\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_fetch_leaves_nothing_and_says_one_line(toy, number, code):
    toy.index.go_on.clear()
    process = toy.start()
    assert toy.index.half_is_sent.wait(30)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert out == ""
    assert err.splitlines()[1:] == ["qkv: interrupted; the model was not fetched"]
    toy.assert_no_leftovers()
    assert not toy.folder.exists()
    toy.index.go_on.set()
    assert toy.run().returncode == 0
    toy.assert_whole()


def test_what_a_killed_fetch_left_is_removed_by_the_next(toy):
    toy.index.go_on.clear()
    process = toy.start()
    assert toy.index.half_is_sent.wait(30)
    process.kill()
    process.communicate()
    assert list((toy.cache / "models").glob(".fetch-*"))
    toy.index.go_on.set()
    assert toy.run().returncode == 0
    toy.assert_whole()


def test_two_fetches_at_once_download_once_and_both_succeed(toy):
    toy.index.go_on.clear()
    first = toy.start()
    assert toy.index.half_is_sent.wait(30)
    second = toy.start()
    assert second.stderr.readline() == "fetch_model: waiting for another fetch to end\n"
    toy.index.go_on.set()
    for process in (first, second):
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, f"{toy.folder}\n")
    assert toy.index.num_downloads == 1
    toy.assert_whole()


def test_a_fetch_that_waits_for_another_can_be_interrupted(toy):
    (toy.cache / "models").mkdir(parents=True)
    with open(toy.cache / "models" / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = toy.start()
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "qkv: interrupted; the model was not fetched\n")


def test_on_a_terminal_the_progress_is_drawn(toy, new_terminal):
    toy.index.go_on.clear()
    mine, theirs = new_terminal()
    process = subprocess.Popen(
        toy.command(), env=toy.environment(), stdout=subprocess.DEVNULL, stderr=theirs, text=True
    )
    os.close(theirs)
    assert toy.index.half_is_sent.wait(30)
    time.sleep(0.5)
    toy.index.go_on.set()
    assert process.wait(60) == 0
    drawn = b""
    with contextlib.suppress(OSError):  # the end of a pty is an error
        while chunk := os.read(mine, 4096):
            drawn += chunk
    os.close(mine)
    assert b"\r[" in drawn
    assert b"] 0 of 0 MB" in drawn


def test_a_wheel_with_another_checksum_is_refused(toy):
    toy.entry["wheel"]["sha256"] = "0" * 64
    assert_one_error(toy.run(), 1, "fetch_model: ", WHEEL_NAME, "SHA-256", "0" * 64)
    toy.assert_no_leftovers()
    assert not toy.folder.exists()


def test_a_file_with_another_checksum_is_refused_and_what_was_there_stays(toy):
    toy.folder.mkdir(parents=True)
    (toy.folder / "config.json").write_text("mine")
    toy.entry["files"]["1_Pooling/config.json"]["sha256"] = "0" * 64
    assert_one_error(toy.run(), 1, "fetch_model: ", "1_Pooling/config.json has SHA-256")
    toy.assert_no_leftovers()
    assert (toy.folder / "config.json").read_text() == "mine"


def test_a_file_that_the_wheel_lacks_is_one_clear_line(toy):
    toy.entry["files"]["absent.json"] = describe(b"")
    assert_one_error(toy.run(), 1, "fetch_model: ", "absent.json")
    assert not toy.folder.exists()


def test_without_a_network_there_is_one_clear_line(toy):
    run = toy.run(env={**toy.environment(), "PIP_INDEX_URL": "http://127.0.0.1:1/simple"})
    assert_one_error(run, 1, "fetch_model: cannot download toy-model==1.0: no connection to the package index")
    toy.assert_no_leftovers()


def test_a_version_that_the_index_lacks_is_one_clear_line(toy):
    toy.entry["version"] = "2.0"
    assert_one_error(toy.run(), 1, "fetch_model: cannot download toy-model==2.0: pip says: ")
    toy.assert_no_leftovers()


def test_too_little_space_is_said_before_the_download(toy):
    toy.entry["wheel"]["bytes"] = 10**18
    assert_one_error(toy.run(), 1, "fetch_model: no space in ", "MB are free")
    assert toy.index.num_downloads == 0
    toy.assert_no_leftovers()


@pytest.mark.parametrize(("limit", "words"), [(100_000, "cannot write in"), (400_000, "cannot use the cache")])
def test_a_write_that_fails_is_one_clear_line(toy, limit, words):
    # A limit on the size of files stands for the full disk: the smaller one stops pip, the larger one the unpacking.

    def set_limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    run = toy.run(preexec_fn=set_limit)
    assert_one_error(run, 1, f"fetch_model: {words}", "File too large")
    toy.assert_no_leftovers()
    assert not toy.folder.exists()


def test_a_cache_that_cannot_be_made_is_one_clear_line(toy):
    (toy.root / "file").write_text("")
    run = toy.run(env={**toy.environment(), "QKV_CACHE": str(toy.root / "file")})
    assert_one_error(run, 1, "fetch_model: cannot use the cache: ", "Not a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_without_write_permission_is_one_clear_line(toy):
    toy.cache.mkdir(mode=0o500)
    assert_one_error(toy.run(), 1, "fetch_model: cannot use the cache: ", "Permission denied")


def test_a_whole_model_in_a_cache_without_write_permission_is_used(toy):
    toy.run()
    os.chmod(toy.cache / "models", 0o500)
    assert toy.run().stdout == f"{toy.folder}\n"


def test_an_unknown_name_is_told_what_there_is(toy):
    assert_one_error(toy.run("other"), 1, "fetch_model: no model 'other'", "toy")


def test_the_default_model_of_the_repository_is_fully_described():
    listing = json.loads(SCRIPT.with_name("models.json").read_text(encoding="utf-8"))
    model = listing["models"][listing["default"]]
    assert {"config.json", "model.safetensors", "tokenizer.json", "vocab.txt"} <= set(model["files"])
    for entry in [model["wheel"], *model["files"].values()]:
        assert entry["bytes"] > 0
        assert len(bytes.fromhex(entry["sha256"])) == 32
    assert model["licenses"] == {"package": "MIT", "model": "Apache-2.0"}
