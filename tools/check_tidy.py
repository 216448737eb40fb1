"""Runs clang-tidy, with the checks of .clang-tidy, over the library, the viewer and the command.

  tools/check_tidy.py BUILD     BUILD: a folder with compile_commands.json

Prints what clang-tidy finds; the exit code is 1 if that is anything. A file that passed is looked at again only when it, a
header of ours that it includes, its compile command or .clang-tidy has changed: stamps of those that passed lie in
BUILD/passed.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

FOLDERS = ("qkv", "viewer", "cli")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def with_own_headers(root, path, known=None):
    """The paths, relative to root, of a file and all headers of ours that it includes, at any depth."""
    known = set() if known is None else known
    if path not in known and (root / path).is_file():
        known.add(path)
        for include in INCLUDE.findall((root / path).read_text(errors="replace")):
            with_own_headers(root, include, known)
    return known


def key_of(root, path, command):
    """Says everything, the system's headers apart, that the findings in a file depend on."""
    digest = hashlib.sha256()
    for name in [".clang-tidy", *sorted(with_own_headers(root, path))]:
        content = (root / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    digest.update(command.encode())
    return digest.hexdigest()


def commands(root, build):
    """{path: compile command} of the files to look at."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if file.is_relative_to(root) and file.relative_to(root).parts[0] in FOLDERS:
            found[file.relative_to(root).as_posix()] = entry["command"]
    return found


def run_clang_tidy(root, build, path):
    """What clang-tidy says of one file; nothing if it is content."""
    command = ["clang-tidy", "--quiet", "-p", str(build), str(root / path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 and not done.stdout.strip():
        return ""
    return done.stdout.strip() or done.stderr.strip()


def main(arguments):
    if len(arguments) != 1:
        print("usage: tools/check_tidy.py BUILD", file=sys.stderr)
        return 2
    root = pathlib.Path(__file__).resolve().parent.parent
    build = pathlib.Path(arguments[0]).resolve()
    passed = build / "passed"
    passed.mkdir(exist_ok=True)
    keys = {path: key_of(root, path, command) for path, command in commands(root, build).items()}
    for stamp in passed.iterdir():
        if stamp.name not in keys.values():
            stamp.unlink()
    waiting = [path for path, key in keys.items() if not (passed / key).exists()]
    num_bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, findings in zip(waiting, pool.map(lambda path: run_clang_tidy(root, build, path), waiting)):
            if findings:
                print(findings, flush=True)
                num_bad += 1
            else:
                (passed / keys[path]).touch()
    print(f"check_tidy: {len(keys)} files, {len(waiting)} looked at, with findings: {num_bad}", file=sys.stderr)
    return 1 if num_bad or not keys else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
