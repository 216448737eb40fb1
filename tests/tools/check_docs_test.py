"""tools/check_docs.sh on a copy of the headers: it is silent there, and notices each kind of declaration without a comment."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLANTED = {
    "function": "namespace qkv {\nvoid planted();\n}\n",
    "type": "namespace qkv {\nstruct Planted {\n  int x = 0;  ///< A field.\n};\n}\n",
    "field": "namespace qkv {\n/// A type.\nstruct Holder {\n  int planted = 0;\n};\n}\n",
    "method": "namespace qkv {\n/// A type.\nclass Holder {\n public:\n  int planted() const { return 0; }\n};\n}\n",
    "alias": "namespace qkv {\nusing Planted = int;\n}\n",
    "constant": "namespace qkv {\ninline constexpr int kPlanted = 0;\n}\n",
    "enumeration": "namespace qkv {\nenum class Planted { kOne };\n}\n",
}

pytestmark = pytest.mark.skipif(not shutil.which("doxygen"), reason="no doxygen")


@pytest.fixture
def root(tmp_path):
    shutil.copytree(ROOT / "qkv", tmp_path / "qkv")
    shutil.copy(ROOT / "CMakeLists.txt", tmp_path)
    return tmp_path


def check(root):
    return subprocess.run([ROOT / "tools" / "check_docs.sh", root], capture_output=True, text=True)


def plant(root, header, text):
    with open(root / "qkv" / header, "a") as file:
        file.write(text)


def test_every_public_declaration_has_its_comment(root):
    result = check(root)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
    assert (root / "build" / "docs" / "html" / "structqkv_1_1MultiHeadAttention.html").exists()


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("header", ["nn/linear.h", "kernels/gemm.h"])
def test_a_declaration_without_a_comment_is_found(root, kind, header):
    plant(root, header, PLANTED[kind])
    result = check(root)
    assert result.returncode != 0
    assert f"qkv/{header}:" in result.stderr and "lanted" in result.stderr


@pytest.mark.parametrize("header", ["attention/resolve.h", "kernels/tile_mask.h", "text/unicode.h"])
def test_headers_that_are_not_installed_are_not_looked_at(root, header):
    plant(root, header, PLANTED["function"])
    assert check(root).returncode == 0
