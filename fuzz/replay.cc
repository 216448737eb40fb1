// Calls a fuzz target with every file that is named or in a folder that is named, without libFuzzer.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "fuzz/fuzz_support.h"

namespace {

namespace fs = std::filesystem;

void replay(const fs::path& path) {
  std::printf("%s\n", path.c_str());  // before the call, so that the last line is the file that ends the process
  std::fflush(stdout);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  // A copy of exactly this size: a sanitizer sees a read of one byte too many.
  const auto data = std::make_unique<std::uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), data.get());
  LLVMFuzzerTestOneInput(data.get(), bytes.size());
}

}  // namespace

int main(int num_arguments, char** arguments) {
  int num_files = 0;
  for (int i = 1; i < num_arguments; ++i) {
    if (!fs::is_directory(arguments[i])) {
      replay(arguments[i]);
      ++num_files;
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(arguments[i])) {
      if (!entry.is_regular_file()) continue;
      replay(entry.path());
      ++num_files;
    }
  }
  std::printf("files: %d\n", num_files);
  return num_files > 0 ? 0 : 1;
}
