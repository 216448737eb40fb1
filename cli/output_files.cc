#include "cli/output_files.h"

#include <bit>
#include <cstddef>
#include <deque>

#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "qkv/io/atomic_file.h"

namespace qkv::cli {
namespace {

// What a .npy file of version 1.0 and dtype f4 has before its values.
std::string npy_header(const std::vector<Index>& shape) {
  std::string lengths;
  for (Index length : shape) lengths += std::to_string(length) + ",";  // a comma at the end is as Python likes it
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  std::string dict = std::string("{'descr': '") + order + "f4', 'fortran_order': False, 'shape': (" + lengths + "), }";
  // The values begin at a multiple of 64, and a line end stands before them.
  constexpr Index kAlignment = 64, kPrefix = 10;
  const Index length = round_up(kPrefix + static_cast<Index>(dict.size()) + 1, kAlignment) - kPrefix;
  dict.resize(static_cast<std::size_t>(length - 1), ' ');
  std::string header = "\x93NUMPY\x01";
  header += {'\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + dict + '\n';
}

}  // namespace

void write_npy_files(const std::vector<NpyOutput>& outputs) {
  const HoldInterrupts hold;
  blame(ExitCode::kOutput, [&] {
    std::deque<AtomicFile> files;  // they do not move
    for (const NpyOutput& output : outputs) {
      AtomicFile& file = files.emplace_back(output.path);
      const std::string header = npy_header(output.shape);
      file.write(std::as_bytes(std::span(header)));
      file.write(std::as_bytes(output.values));
      hold.check();
    }
    for (AtomicFile& file : files) file.commit();
  });
}

}  // namespace qkv::cli
