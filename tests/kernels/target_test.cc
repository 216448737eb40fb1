#include "qkv/kernels/target.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace qkv::kernels {
namespace {

// CMakeLists.txt runs this once more with QKV_TARGET=portable.
TEST(Target, ACapIsLiftedForATestAndThenThereAgain) {
  const char* cap = std::getenv("QKV_TARGET");
  const std::string_view normal = cap ? cap : supported_targets().front();
  EXPECT_EQ(active_target(), normal);
  for (std::string_view target : supported_targets()) {
    set_target_for_test(target);
    EXPECT_EQ(active_target(), target);
  }
  set_target_for_test("");
  EXPECT_EQ(active_target(), normal);
}

}  // namespace
}  // namespace qkv::kernels
