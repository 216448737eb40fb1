#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "viewer/style.h"

namespace qkv::cli {

/// How the user wants pictures in the terminal.
struct TerminalOptions {
  std::string color = "auto", theme;
  Index width = 0;  ///< 0: not given
  bool ascii = false;
};

void add_terminal_options(CLI::App& command, TerminalOptions& options);

/// The style for standard output, from the options, the environment and the terminal.
viewer::Style stdout_style(const TerminalOptions& options);

}  // namespace qkv::cli
