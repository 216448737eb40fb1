#include "qkv/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/io/file_support.h"

namespace qkv {
namespace {

using ::testing::ElementsAre;
using testing::little_endian;
using testing::safetensors;
using testing::TempFolder;

TEST(SafetensorsFile, ReadsATensorOfF32) {
  const TempFolder folder;
  const auto path = folder.write("x", safetensors(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                                                  little_endian(std::vector<float>{1, 2, 3, 4, 5, 6})));
  const SafetensorsFile file(path);
  EXPECT_THAT(file.names(), ElementsAre("w"));
  const auto w = file.load<2>("w", {2, 3});
  EXPECT_EQ(w(1, 0), 4.f);
}

}  // namespace
}  // namespace qkv
