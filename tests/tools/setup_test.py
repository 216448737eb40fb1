"""tools/setup.sh in a copy of its folder, with stand-ins for apt-get and dpkg-query."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
BUILD_PACKAGES = ["g++", "cmake", "ninja-build", "pkg-config", "libhwy-dev", "libtbb-dev", "nlohmann-json3-dev"]
BUILD_PACKAGES += ["libutf8proc-dev", "libcli11-dev"]
TEST_PACKAGES = ["libgtest-dev", "libgmock-dev", "libeigen3-dev", "clang", "clang-format", "clang-tidy", "doxygen"]
TEST_PACKAGES += ["ccache"]


def make_wheel(folder, name):
    info = f"{name}-1.0.dist-info/"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(info + "RECORD", f"{name}.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")


class Place:
    """A repository that has only tools/, on a machine whose packages are the lines of a file."""

    def __init__(self, root):
        self.root = root
        shutil.copytree(TOOLS, root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        (root / "tools" / "requirements-test.txt").write_text("# a comment\ntoy==1.0\n")
        (root / "tools" / "requirements-torch.txt").write_text("toytorch==1.0\n")
        make_wheel(root, "toy")
        make_wheel(root, "toytorch")
        (root / "tools" / "requirements-bench.txt").write_text("toyrival==1.0\n")
        make_wheel(root, "toyrival")
        self.installed = root / "installed"
        self.installed.write_text("\n".join(BUILD_PACKAGES + TEST_PACKAGES) + "\n")
        self.calls = root / "calls"
        self.calls.write_text("")
        (root / "bin").mkdir()
        self.program(
            "dpkg-query",
            f'for name in "${{@:4}}"; do if grep -qxF "$name" {self.installed}; then echo "installed $name"; '
            "else rc=1; fi; done; exit ${rc:-0}",
        )
        self.architectures = root / "architectures"
        self.architectures.write_text("amd64\n")
        self.program(
            "dpkg",
            f'case $1 in --print-architecture) head -n 1 {self.architectures} ;; '
            f"--print-foreign-architectures) tail -n +2 {self.architectures} ;; "
            f'--add-architecture) echo "$2" >>{self.architectures} ;; esac',
        )
        self.program("sudo", '[[ $1 == -v ]] || exec "$@"')
        self.apt(f'case " $* " in *" install "*) printf "%s\\n" "${{@:6}}" >>{self.installed} ;; esac')

    def program(self, name, text):
        (self.root / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (self.root / "bin" / name).chmod(0o755)

    def apt(self, text):
        self.program("apt-get", f'echo "noise of apt"; echo "$*" >>{self.calls}\n{text}')

    def remove(self, *names):
        left = [name for name in self.installed.read_text().split() if name not in names]
        self.installed.write_text("\n".join(left) + "\n")

    def run(self, *arguments, **extra):
        ours = ("PIP_", "QKV_")
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(ours)}
        python = pathlib.Path(sys.executable).parent
        kept["PATH"] = f"{self.root}/bin:{python}:{os.environ['PATH']}"
        kept |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.root)}
        command = [self.root / "tools" / "setup.sh", *arguments]
        return subprocess.run(command, env=kept | extra, capture_output=True, text=True, timeout=120, check=False)

    def has_module(self, name):
        python = self.root / ".venv" / "bin" / "python"
        return subprocess.run([python, "-c", f"import {name}"], stderr=subprocess.DEVNULL, check=False).returncode == 0


@pytest.fixture
def bare_place(tmp_path):
    return Place(tmp_path)


@pytest.fixture(scope="module")
def made_venv(tmp_path_factory):
    """A .venv as setup.sh makes it. Making one takes seconds, so the tests that are not about that copy it."""
    place = Place(tmp_path_factory.mktemp("made"))
    run = place.run("model")
    assert run.returncode == 0, run.stderr
    return place.root / ".venv"


@pytest.fixture
def place(bare_place, made_venv):
    shutil.copytree(made_venv, bare_place.root / ".venv", symlinks=True)
    return bare_place


def test_only_the_missing_packages_are_installed_and_named(place):
    place.remove("cmake", "libtbb-dev")
    run = place.run("build")
    assert run.returncode == 0, run.stderr
    assert "setup: installing Debian packages: cmake libtbb-dev\n" in run.stderr
    assert "noise" not in run.stdout + run.stderr
    installs = [call for call in place.calls.read_text().splitlines() if " install " in call]
    assert len(installs) == 1
    assert installs[0].endswith("install --no-install-recommends cmake libtbb-dev")


def test_a_second_run_does_nothing_and_says_nothing(place):
    place.remove("ccache")
    assert place.run("test").returncode == 0
    place.calls.write_text("")
    run = place.run("test")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert place.calls.read_text() == ""


def test_building_needs_no_packages_of_the_tests(place):
    place.remove(*TEST_PACKAGES)
    assert "Debian packages" not in place.run("build").stderr
    assert not place.has_module("toy")


def test_what_the_tests_need_is_installed_for_them(place):
    place.remove(*TEST_PACKAGES)
    run = place.run("test")
    assert f"setup: installing Debian packages: {' '.join(TEST_PACKAGES)}\n" in run.stderr
    assert "setup: installing into .venv: toy==1.0\n" in run.stderr
    assert place.has_module("toy")
    assert not place.has_module("toytorch")


def test_what_fuzzing_needs_is_installed_for_it(place):
    place.remove("ccache", "libgtest-dev")
    run = place.run("fuzz")
    assert "setup: installing Debian packages: libclang-rt-dev ccache\n" in run.stderr
    assert not place.has_module("toy")


def test_the_architecture_is_made_known_before_its_packages_are_asked_for(place):
    place.apt(
        f'[[ $* == *update* ]] && cp {place.architectures} {place.root}/listed; '
        f'[[ $* != *:arm64* ]] || grep -q arm64 {place.root}/listed || exit 100'
    )
    run = place.run("arm")
    assert run.returncode == 0, run.stderr
    assert "setup: adding the architecture arm64 to dpkg's" in run.stderr
    calls = [re.search(r"\b(update|install)\b", call)[1] for call in place.calls.read_text().splitlines()]
    assert calls == ["update", "install"]
    assert "adding" not in place.run("arm").stderr
    assert place.architectures.read_text() == "amd64\narm64\n"


def test_a_package_of_this_architecture_does_not_stand_for_that_of_another(place):
    assert "libhwy-dev:arm64" in place.run("arm", QKV_NO_INSTALL="1").stderr
    assert place.architectures.read_text() == "amd64\n"


def test_what_measuring_needs_is_installed_for_it(place):
    place.remove(*TEST_PACKAGES)
    run = place.run("bench")
    assert "setup: installing Debian packages: libbenchmark-dev ccache\n" in run.stderr
    assert all(place.has_module(name) for name in ("toy", "toytorch", "toyrival"))


def test_pytorch_is_installed_only_when_asked_for(place):
    place.run("test")
    run = place.run("test", QKV_TEST_TORCH="1")
    assert run.stderr == "setup: installing into .venv: toytorch==1.0\n"
    assert place.has_module("toytorch")
    assert place.run("test", QKV_TEST_TORCH="1").stderr == ""


def test_changed_requirements_are_installed_again(place):
    place.run("test")
    (place.root / "tools" / "requirements-test.txt").write_text("toy==1.0\ntoytorch==1.0\n")
    assert place.run("test").stderr == "setup: installing into .venv: toy==1.0 toytorch==1.0\n"
    assert place.has_module("toytorch")


def test_with_no_install_what_is_missing_is_only_reported(bare_place):
    bare_place.remove("cmake", "ccache")
    run = bare_place.run("test", QKV_NO_INSTALL="1", QKV_TEST_TORCH="1")
    assert run.returncode == 1
    assert run.stderr == (
        "setup: missing Debian packages: cmake ccache\n"
        "setup: missing: the Python environment .venv\n"
        "setup: missing in .venv: toy==1.0 toytorch==1.0\n"
    )
    assert bare_place.calls.read_text() == ""
    assert not (bare_place.root / ".venv").exists()


def test_with_no_install_and_nothing_missing_all_is_well(place):
    place.run("test")
    run = place.run("test", QKV_NO_INSTALL="1")
    assert (run.returncode, run.stderr) == (0, "")


def test_a_failing_install_is_tried_again_with_new_package_lists(place):
    place.remove("cmake")
    place.apt(f'[[ $* == *update* ]] && touch {place.root}/updated; [[ -e {place.root}/updated ]] || exit 100')
    assert place.run("build").returncode == 0
    calls = [re.search(r"\b(update|install)\b", call)[1] for call in place.calls.read_text().splitlines()]
    assert calls[-2:] == ["update", "install"]


def test_when_apt_fails_the_end_of_its_log_is_shown(bare_place):
    bare_place.remove("cmake")
    bare_place.apt("seq 1000; echo 'E: no such thing' >&2; exit 100")
    run = bare_place.run("build")
    assert run.returncode == 1
    assert "E: no such thing\nsetup: apt-get " in run.stderr
    assert len(run.stderr.splitlines()) < 80
    assert not (bare_place.root / ".venv").exists()


def test_when_pip_fails_the_end_of_its_log_is_shown_and_the_next_run_tries_again(place):
    (place.root / "tools" / "requirements-test.txt").write_text("absent==1.0\n")
    run = place.run("test")
    assert run.returncode == 1
    assert "No matching distribution found for absent==1.0" in run.stderr
    assert run.stderr.endswith("setup: pip install failed\n")
    assert place.run("test").returncode == 1


def test_a_venv_that_was_half_made_is_made_anew(bare_place):
    (bare_place.root / ".venv" / "bin").mkdir(parents=True)
    (bare_place.root / ".venv" / "bin" / "python").symlink_to(sys.executable)
    run = bare_place.run("test")
    assert run.returncode == 0, run.stderr
    assert "setup: making .venv with Python 3." in run.stderr
    assert bare_place.has_module("toy")


def test_a_python_that_cannot_make_a_venv_is_passed_over(bare_place):
    bare_place.program("python3", "exit 1")
    run = bare_place.run("model")
    if run.returncode == 0:  # /usr/bin/python3 could
        assert bare_place.has_module("pip")
    else:  # and where it cannot, its package is asked for
        assert "installing Debian packages: python3-venv" in run.stderr


def test_an_unknown_mode_is_a_usage_error(place):
    run = place.run("everything")
    assert run.returncode == 2
    assert run.stderr == "setup: unknown mode 'everything'; modes: model, build, test, fuzz, arm, bench\n"
