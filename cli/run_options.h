#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "cli/console.h"
#include "qkv/core/executor.h"

namespace qkv::cli {

/// What every command that computes can be told about how it runs.
struct RunOptions {
  Index num_threads = 0;  ///< 0: not given
  bool quiet = false, verbose = false;
};

void add_run_options(CLI::App& command, RunOptions& options);

/// A check of options that hold a number: CLI11 takes "" for an optional one that was not given, and a script's unset variable with it.
CLI::Validator not_empty();

/// The executor of --threads; without it null, which is default_executor().
/// Errors: CommandError (kUsage) also for what QKV_NUM_THREADS and QKV_TARGET hold, so that it does not come later as
/// an error of something else.
std::unique_ptr<Executor> make_executor(const RunOptions& options);

/// A note to the user, unless --quiet.
void note(const Console& console, const RunOptions& options, const std::string& text);

/// The seed that was typed; CLI11 would take -1 and 2^64 without a word.
std::uint64_t parse_seed(const std::string& text);

}  // namespace qkv::cli
