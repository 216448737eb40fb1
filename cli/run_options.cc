#include "cli/run_options.h"

#include <charconv>
#include <limits>

#include "cli/exit_code.h"
#include "qkv/kernels/target.h"

namespace qkv::cli {

void add_run_options(CLI::App& command, RunOptions& options) {
  constexpr Index kMostThreads = 4096;
  command
      .add_option("--threads", options.num_threads, "Threads to use; default: QKV_NUM_THREADS, else every processor")
      ->check(CLI::Range(Index{1}, kMostThreads))
      ->type_name("N");
  auto* quiet = command.add_flag("-q,--quiet", options.quiet, "Say nothing but errors on standard error");
  command.add_flag("-v,--verbose", options.verbose, "Say on standard error how long it took")->excludes(quiet);
}

CLI::Validator not_empty() {
  return {[](const std::string& text) { return text.empty() ? std::string("got '', expected a number") : ""; }, "",
          "not_empty"};
}

std::unique_ptr<Executor> make_executor(const RunOptions& options) {
  return blame(ExitCode::kUsage, [&]() -> std::unique_ptr<Executor> {
    kernels::active_target();
    if (options.num_threads > 0) return std::make_unique<TbbExecutor>(options.num_threads);
    default_num_threads();
    return nullptr;
  });
}

void note(const Console& console, const RunOptions& options, const std::string& text) {
  if (!options.quiet) console.note(text);
}

std::uint64_t parse_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size()) return seed;
  throw CommandError(ExitCode::kUsage, "--seed: got '" + text + "', expected a whole number from 0 to " +
                                           std::to_string(std::numeric_limits<std::uint64_t>::max()));
}

}  // namespace qkv::cli
