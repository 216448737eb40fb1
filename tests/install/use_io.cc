#include <qkv/core/error.h>
#include <qkv/io/npy.h>

#include <array>

int main() {
  const std::array<qkv::Index, 1> shape{2};
  const std::array<float, 2> values{1.5f, -2.0f};
  qkv::write_npy("two.npy", shape, values);
  if (qkv::NpyFile("two.npy").to_f32().values.data()[1] != -2.0f) return 1;
  try {
    qkv::NpyFile("missing.npy");
  } catch (const qkv::IoError&) {  // thrown inside the library, caught outside
    return 0;
  }
  return 1;
}
