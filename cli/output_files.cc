#include "cli/output_files.h"

#include <deque>

#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "qkv/io/npy.h"

namespace qkv::cli {

void write_npy_files(const std::vector<NpyOutput>& outputs) {
  const HoldInterrupts hold;
  blame(ExitCode::kOutput, [&] {
    std::deque<AtomicFile> files;  // they do not move
    for (const NpyOutput& output : outputs) {
      AtomicFile& file = files.emplace_back(output.path);
      std::visit([&](auto values) { write_npy(file, output.shape, values); }, output.values);
      hold.check();
    }
    for (AtomicFile& file : files) file.finish();
    hold.check();
    for (AtomicFile& file : files) file.commit();
  });
}

}  // namespace qkv::cli
