#include "qkv/kernels/target.h"

#include <cstdlib>
#include <string>

#include "qkv/core/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/target.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

std::int64_t compiled_target() {
  return HWY_TARGET;
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {
namespace {

HWY_EXPORT(compiled_target);

struct NamedTarget {
  std::int64_t bits;  // of Highway; a smaller value is a better target
  std::string_view name;
};

constexpr NamedTarget kTargets[] = {
#if HWY_ARCH_X86
    {HWY_AVX3, "avx512"},
    {HWY_AVX2, "avx2"},
    {HWY_SSE4, "sse4"},
#elif HWY_ARCH_ARM
    {HWY_NEON, "neon"},
#endif
    {HWY_EMU128 | HWY_SCALAR, "portable"},
};

const NamedTarget* find_target(std::string_view name) {
  for (const NamedTarget& target : kTargets)
    if (target.name == name) return &target;
  return nullptr;
}

// What the processor has, capped or not; the portable target is always there.
std::int64_t uncapped_targets = 0;
// Those that QKV_TARGET rules out.
std::int64_t targets_above_cap = 0;

bool read_target_cap() {
  uncapped_targets = hwy::SupportedTargets() | HWY_EMU128 | HWY_SCALAR;
  const char* name = std::getenv("QKV_TARGET");
  if (name == nullptr || *name == '\0') return false;
  const NamedTarget* cap = find_target(name);
  std::string names;
  for (const NamedTarget& target : kTargets) names += (names.empty() ? "" : ", ") + std::string(target.name);
  check(cap != nullptr, "active_target", "QKV_TARGET", name, "one of " + names);
  const std::int64_t best_allowed = cap->bits & -cap->bits;
  targets_above_cap = best_allowed - 1;  // all that are better
  hwy::DisableTargets(targets_above_cap);
  return true;
}

}  // namespace

void apply_target_cap() {
  [[maybe_unused]] static const bool has_cap = read_target_cap();
}

std::string_view active_target() {
  apply_target_cap();
  const std::int64_t bit = HWY_DYNAMIC_DISPATCH(compiled_target)();
  for (const NamedTarget& target : kTargets)
    if (target.bits & bit) return target.name;
  return "portable";
}

std::vector<std::string_view> supported_targets() {
  apply_target_cap();  // remembers what there was before
  std::vector<std::string_view> names;
  for (const NamedTarget& target : kTargets)
    if (target.bits & HWY_TARGETS & uncapped_targets) names.push_back(target.name);
  return names;
}

void set_target_for_test(std::string_view name) {
  apply_target_cap();
  const NamedTarget* target = find_target(name);
  hwy::DisableTargets(target ? 0 : targets_above_cap);
  hwy::SetSupportedTargetsForTest(target ? target->bits : 0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace qkv::kernels

#endif  // HWY_ONCE
