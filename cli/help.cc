#include "cli/help.h"

#include <sstream>

namespace qkv::cli {
namespace {

std::string indented(const std::string& lines) {
  std::istringstream in(lines);
  std::string result;
  for (std::string line; std::getline(in, line);) result += (line.empty() ? "" : "  ") + line + "\n";
  return result;
}

std::string opening(const CLI::App& command, const HelpText& text) {
  return command.get_description() + "\n\nUsage: " + text.usage + "\n\nExamples:\n" + indented(text.examples);
}

}  // namespace

void set_help(CLI::App& command, const HelpText& text) {
  // The footer is where CLI11 has room for text of ours; short_help() reads it back.
  command.footer(opening(command, text));
  command.formatter_fn([text](const CLI::App* app, const std::string& name, CLI::AppFormatMode mode) {
    const CLI::Formatter parts;
    if (mode != CLI::AppFormatMode::Normal) return parts.make_help(app, name, mode);
    return opening(*app, text) + parts.make_positionals(app) + parts.make_groups(app, mode) +
           parts.make_subcommands(app, mode) + (text.notes.empty() ? "" : "\n" + text.notes);
  });
}

std::string short_help(const CLI::App& command) {
  const std::string name = command.get_parent() ? "qkv " + command.get_name() : "qkv";
  return command.get_footer() + "\n`" + name + " --help` says more.\n";
}

}  // namespace qkv::cli
