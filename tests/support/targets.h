#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "qkv/kernels/target.h"

namespace qkv::test {

/// A fixture whose tests run once for every SIMD target of this machine.
class OnEveryTarget : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    kernels::set_target_for_test(GetParam());
    ASSERT_EQ(kernels::active_target(), GetParam());
  }
  void TearDown() override { kernels::set_target_for_test(""); }

 public:
  static std::string name(const testing::TestParamInfo<std::string_view>& target) { return std::string(target.param); }
};

}  // namespace qkv::test
