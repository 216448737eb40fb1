#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "qkv/core/index.h"

namespace qkv::cli {

/// A .npy file to be written, packed. Borrows the values.
struct NpyOutput {
  std::string path;
  std::vector<Index> shape;
  std::variant<std::span<const float>, std::span<const double>> values;
};

/// Writes all of them or none: every file is complete on the disk before the first one gets its name, and an interrupt
/// waits until no half-written file is left. Errors: CommandError (kOutput); Interrupted.
void write_npy_files(const std::vector<NpyOutput>& files);

}  // namespace qkv::cli
