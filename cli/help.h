#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace qkv::cli {

/// What a command's help begins with.
struct HelpText {
  std::string usage;     ///< "qkv look TEXT [options]"
  std::string examples;  ///< one command a line
  std::string notes;     ///< below the options; may be empty
};

/// Makes --help of `command` print its description, usage and examples first, then its arguments and options.
void set_help(CLI::App& command, const HelpText& text);

/// "qkv lesson scale": what is typed to run a command; "qkv" for the whole program.
std::string full_name(const CLI::App& command);

/// The first part of a command's help, for who forgot its argument.
std::string short_help(const CLI::App& command);

/// Thrown where nothing was asked for: the short help of `command` is shown instead, as a usage error.
struct ShowShortHelp {
  const CLI::App* command;
};

}  // namespace qkv::cli
