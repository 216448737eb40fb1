// PyTorch's attention called from C++, with no Python between the calls. bench/torch_loop.py compiles it against the headers and
// libraries that PyTorch's wheel brings along, and loads it by ctypes.

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <cstdint>

/// Seconds of one call on q, k and v of [1, 1, 1, head_dim]: the mean of `calls` in a row.
extern "C" double torch_tiny_call_seconds(std::int64_t head_dim, float* q, float* k, float* v, std::int64_t calls) {
  const c10::InferenceMode no_gradients;
  const auto view = [&](float* data) { return at::from_blob(data, {1, 1, 1, head_dim}); };
  const at::Tensor query = view(q), key = view(k), value = view(v);
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t n = 0; n < calls; ++n) at::scaled_dot_product_attention(query, key, value);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / static_cast<double>(calls);
}
