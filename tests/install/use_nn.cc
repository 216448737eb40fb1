#include "qkv/nn/linear.h"

int main() {
  qkv::Linear layer{.weight = qkv::Tensor<float, 2>({2, 3}, 2.0f)};
  const auto y = qkv::forward(layer, qkv::Tensor<float, 3>({1, 1, 3}, 1.0f));
  return y(0, 0, 1) == 6.0f ? 0 : 1;
}
