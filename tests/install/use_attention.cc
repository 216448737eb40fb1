#include <qkv/qkv.h>

#include <cmath>

int main() {
  const qkv::Tensor<float, 4> x({1, 2, 3, 8}, 0.5f);  // [batch, heads, len, head_dim]
  const auto r = qkv::attention(x, x, x, {.mask = {.causal = true}, .observe = {.entropy = true}});
  return std::abs(r.out(0, 1, 2, 7) - 0.5f) < 1e-6f && std::abs(r.entropy(0, 1, 2) - std::log(3.0f)) < 1e-6f ? 0 : 1;
}
