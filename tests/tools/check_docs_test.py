"""tools/check_docs.sh on a copy of the headers: it is silent there, and notices each kind of declaration without a comment."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNDOCUMENTED = """
namespace qkv {
void planted_function();
using PlantedAlias = int;
inline constexpr int kPlantedConstant = 0;
enum class PlantedEnumeration { kOne };
struct PlantedType {
  int x = 0;  ///< A field.
};
/// A type.
class PlantedHolder {
 public:
  int planted_field = 0;
  int planted_method() const { return 0; }
  PlantedHolder(int);
};
}  // namespace qkv
"""
NAMES = r"planted_\w+|PlantedAlias|kPlanted\w+|PlantedEnumeration|PlantedType|PlantedHolder\(int\)"

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


@pytest.mark.parametrize("header", ["nn/linear.h", "kernels/gemm.h"])
def test_declarations_without_a_comment_are_found(root, header):
    plant(root, header, UNDOCUMENTED)
    result = check(root)
    assert result.returncode != 0
    found = "\n".join(line for line in result.stderr.splitlines() if f"qkv/{header}:" in line)
    assert set(re.findall(NAMES, found)) == set(re.findall(NAMES, UNDOCUMENTED))


def test_headers_that_are_not_installed_are_not_looked_at(root):
    for header in ("attention/resolve.h", "kernels/tile_mask.h", "text/unicode.h"):
        plant(root, header, UNDOCUMENTED)
    assert check(root).returncode == 0
