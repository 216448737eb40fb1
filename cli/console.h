#pragma once

#include <functional>
#include <string_view>

namespace qkv::cli {

/// The way out for what a command has to say. main.cc makes the only one: nothing else in qkv prints.
struct Console {
  /// Part of the result, to standard output. Errors: CommandError (kOutput).
  std::function<void(std::string_view)> print;
  /// One line for the user, to standard error: what was left out, timings.
  std::function<void(std::string_view)> note;
  /// A line that the next one overwrites; an empty one removes it. Does nothing where standard error is no terminal.
  std::function<void(std::string_view)> progress;
};

}  // namespace qkv::cli
