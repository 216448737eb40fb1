"""Programs that use an installed and moved qkv, one project for each way there is."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMPONENTS = ["attention", "nn", "io", "models"]


def configure(project, folder, *options):
    command = ["cmake", "-S", HERE / project, "-B", folder, "-G", "Ninja", *options]
    return subprocess.run(command, capture_output=True, text=True)


def build_and_run(run, project, folder, *options, components=COMPONENTS):
    configured = configure(project, folder, *options)
    assert configured.returncode == 0, configured.stdout + configured.stderr
    run("cmake", "--build", folder)
    for component in components:
        run(folder / f"use_{component}", cwd=folder)


@pytest.fixture
def without_files_of_models(run, tmp_path):
    """A search path of pkg-config that knows Highway and oneTBB, and no utf8proc."""
    for name in ("libhwy", "tbb"):
        folder = run("pkg-config", "--variable=pcfiledir", name).strip()
        shutil.copy(f"{folder}/{name}.pc", tmp_path)
    return str(tmp_path)


def test_find_package_with_the_static_libraries(run, static_prefix, tmp_path):
    build_and_run(run, "find_package", tmp_path, f"-DCMAKE_PREFIX_PATH={static_prefix}")


def test_find_package_with_the_shared_libraries(run, shared_prefix, tmp_path):
    build_and_run(run, "find_package", tmp_path, f"-DCMAKE_PREFIX_PATH={shared_prefix}")
    assert "libqkv_nn.so.0.1" in run("ldd", tmp_path / "use_nn")


def test_find_package_looks_up_no_more_than_the_components_need(
    static_prefix, tmp_path, monkeypatch, without_files_of_models
):
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", without_files_of_models)
    options = [f"-DCMAKE_PREFIX_PATH={static_prefix}", "-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON"]
    few = configure("find_package", tmp_path / "few", "-DCOMPONENTS=attention;nn;io", *options)
    assert few.returncode == 0, few.stderr
    all_of_them = configure("find_package", tmp_path / "all", *options)
    assert all_of_them.returncode != 0
    assert "qkv::models needs utf8proc" in all_of_them.stderr


def test_an_unknown_component_is_named_and_so_are_the_known_ones(static_prefix, tmp_path):
    result = configure("find_package", tmp_path, "-DCOMPONENTS=attention;vision", f"-DCMAKE_PREFIX_PATH={static_prefix}")
    assert result.returncode != 0
    message = " ".join(result.stderr.split())
    assert "qkv: component: got vision, expected one of those installed: attention, nn, io, models" in message


@pytest.mark.parametrize("wanted, fits", [("0.1", True), ("0.1.0", True), ("0.2", False), ("1.0", False), ("0.0", False)])
def test_find_package_takes_only_the_same_minor_version(run, static_prefix, wanted, fits):
    version = re.search(r"project\(qkv VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert version.startswith("0.1."), "adapt the versions above"
    file = static_prefix / "lib" / "cmake" / "qkv" / "qkv-config-version.cmake"
    major, minor = wanted.split(".")[:2]
    script = (
        f"set(PACKAGE_FIND_VERSION {wanted})\nset(PACKAGE_FIND_VERSION_MAJOR {major})\n"
        f"set(PACKAGE_FIND_VERSION_MINOR {minor})\nset(CMAKE_SIZEOF_VOID_P 8)\ninclude(\"{file}\")\n"
        "message(STATUS \"compatible: ${PACKAGE_VERSION_COMPATIBLE}\")\n"
    )
    path = static_prefix.parent / "version.cmake"
    path.write_text(script)
    assert f"compatible: {str(fits).upper()}" in run("cmake", "-P", path)


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_pkg_config(run, pkg_config, kind, tmp_path, request):
    prefix = request.getfixturevalue(f"{kind}_prefix")
    for component in ("attention", "models"):
        flags = pkg_config(prefix, "--cflags", "--libs", f"qkv-{component}")
        program = tmp_path / component
        run("g++", "-std=c++20", HERE / f"use_{component}.cc", "-o", program, *flags)
        run(program, cwd=tmp_path, env=dict(os.environ, LD_LIBRARY_PATH=str(prefix / "lib")))


def test_add_subdirectory(run, tmp_path):
    """Without tests, command, warnings as errors or a build type, and only with what attention needs."""
    build_and_run(run, "add_subdirectory", tmp_path, f"-DQKV_SOURCE={ROOT}", components=["attention"])
    commands = run("ninja", "-C", tmp_path, "-t", "commands", "use_attention").splitlines()
    own = [line for line in commands if "use_attention.cc" in line and " -c " in line]
    theirs = [line for line in commands if "attention_forward.cc" in line and " -c " in line]
    assert own and theirs
    assert not re.search(r" -(W|O|f)\w", own[0]), own[0]
    assert " -O2" in theirs[0] and "-Werror" not in theirs[0], theirs[0]
    run("cmake", "--install", tmp_path, "--prefix", tmp_path / "prefix")
    assert [path.name for path in (tmp_path / "prefix").rglob("*") if path.is_file()] == ["use_attention"]


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_installed_files_name_no_folder_of_the_build(kind, request):
    prefix = request.getfixturevalue(f"{kind}_prefix")
    places = [str(ROOT).encode(), str(prefix.parent).encode()]
    files = [path for path in prefix.rglob("*") if path.is_file()]
    assert len(files) > 40
    for path in files:
        content = path.read_bytes()
        assert not any(place in content for place in places), path


def test_the_installed_command_runs(run, static_prefix):
    assert run(static_prefix / "bin" / "qkv", "--version").startswith("qkv 0.1.")
