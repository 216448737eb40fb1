#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/index.h"
#include "qkv/core/tensor_values.h"
#include "qkv/io/atomic_file.h"

namespace qkv {

/// One tensor to be written. Borrows its values, packed and row-major.
struct SafetensorsEntry {
  std::string name;               ///< Unique in its file.
  std::vector<Index> shape;       ///< Empty: one value.
  std::span<const float> values;  ///< As many as the shape says.
};

/// Writes tensors of dtype F32 as a safetensors file; whole or not at all, as AtomicFile says.
///
/// The bytes are those that the reference library writes: tensors in the order of their names, the header padded with
/// spaces so that the data begins at a multiple of 8. (Of several entries in metadata the reference library writes no
/// order that repeats; ours is that of the keys.)
/// Edge: no tensors at all, sizes of zero and rank 0 are fine; so is any name in UTF-8 but __metadata__. Empty metadata
///   is left out. transformers loads only files whose metadata says {"format": "pt"}.
/// Errors, before any file appears: std::invalid_argument for a name that is reserved, given twice or not UTF-8, for
///   metadata that is not UTF-8, for a shape that is not that of the values or has more than kMaxRank lengths, and for
///   a header above the format's limit of 100 MB. IoError.
/// Source: https://github.com/huggingface/safetensors, section "Format".
/// @{
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> tensors,
                       const std::map<std::string, std::string>& metadata = {});
void write_safetensors(const std::string& path, const StateDict& tensors,
                       const std::map<std::string, std::string>& metadata = {});
/// @}

/// The same into a file that the caller commits, for several files that shall appear together.
void write_safetensors(AtomicFile& file, std::span<const SafetensorsEntry> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace qkv
