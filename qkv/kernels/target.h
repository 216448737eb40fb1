#pragma once

#include <string_view>
#include <vector>

// The SIMD target: which instruction set the kernels run with. Every kernel is compiled once per target; the best one
// the processor has is taken at run time. Names: "portable" < "sse4" < "avx2" < "avx512", and "neon".

namespace qkv::kernels {

/// The target in use. QKV_TARGET=NAME caps it: nothing better than NAME is used.
/// Errors: std::invalid_argument if QKV_TARGET is not the name of a target.
std::string_view active_target();

/// The targets that this build and this processor have, best first, whatever QKV_TARGET says.
std::vector<std::string_view> supported_targets();

/// Runs everything that follows with one of supported_targets(); an empty name goes back to normal. For tests only, as
/// it changes a global: no kernel may be running.
void set_target_for_test(std::string_view name);

/// Reads QKV_TARGET, once per process. Whoever dispatches to a kernel calls it first.
void apply_target_cap();

}  // namespace qkv::kernels
