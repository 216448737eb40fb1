#include "qkv/nn/patches.h"

#include <string>

#include "qkv/nn/rows.h"

namespace qkv {

Tensor<float, 3> cut_patches(CView<4> pictures, Index patch, const Run& run) {
  constexpr const char* kFunction = "cut_patches";
  const Index batch = pictures.shape(0), height = pictures.shape(1), width = pictures.shape(2),
              channels = pictures.shape(3);
  check(patch >= 1, kFunction, "patch", patch, ">= 1");
  const std::string multiple = "a multiple of patch = " + std::to_string(patch);
  check(height % patch == 0, kFunction, "pictures.shape[1] (height)", height, multiple);
  check(width % patch == 0, kFunction, "pictures.shape[2] (width)", width, multiple);

  const Index across = width / patch, num_patches = height / patch * across;
  Tensor<float, 3> out({batch, num_patches, patch * patch * channels});
  for_each_row(batch, num_patches, run, [&](Index b, Index n) {
    const Index top = n / across * patch, left = n % across * patch;
    float* value = &out.data()[(b * num_patches + n) * out.shape(2)];
    for (Index y = top; y < top + patch; ++y)
      for (Index x = left; x < left + patch; ++x)
        for (Index c = 0; c < channels; ++c) *value++ = pictures(b, y, x, c);
  });
  return out;
}

}  // namespace qkv
