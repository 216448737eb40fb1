#include "cli/help.h"

#include <sstream>
#include <utility>
#include <vector>

#include "viewer/display_text.h"
#include "viewer/terminal_parts.h"

namespace qkv::cli {
namespace {

constexpr Index kLeftColumn = 24;
constexpr viewer::Style kStyle = {.width = 80};

std::string indented(const std::string& lines) {
  std::istringstream in(lines);
  std::string result;
  for (std::string line; std::getline(in, line);) result += "  " + line + "\n";
  return result;
}

std::string opening(const CLI::App& command, const HelpText& text) {
  return command.get_description() + "\n\nExamples:\n" + indented(text.examples) + "\nUsage: " + text.usage + "\n";
}

// A name and what it means, in two columns, or one below the other where the name is long.
std::string entry(const std::string& name, const std::string& meaning) {
  const std::string indent(kLeftColumn, ' ');
  const std::string left = "  " + name;
  std::string right = viewer::wrapped(meaning, indent, kStyle);
  if (viewer::display_width(left) + 2 > kLeftColumn) return left + "\n" + right;
  return viewer::pad_right(left, kLeftColumn) + right.substr(indent.size());
}

std::string entry_of(const CLI::Option& option) {
  if (option.get_positional()) return entry(option.get_name(true), option.get_description());
  std::string name = option.get_snames().empty() ? "" : "-" + option.get_snames().front();
  if (!option.get_lnames().empty()) name += (name.empty() ? "--" : ", --") + option.get_lnames().front();
  if (option.get_items_expected_max() > 0) {
    // CLI11 adds ":" and what it checks; the meaning says that in words.
    const std::string type = option.get_type_name();
    name += " " + type.substr(0, type.find(':'));
  }
  return entry(name, option.get_description());
}

std::string section(const std::string& title, const std::string& entries) {
  return entries.empty() ? "" : "\n" + title + ":\n" + entries;
}

std::string full_help(const CLI::App& command, const HelpText& text) {
  std::string arguments, options, commands;
  for (const CLI::Option* option : command.get_options())
    (option->get_positional() ? arguments : options) += entry_of(*option);
  for (const CLI::App* sub : command.get_subcommands(nullptr))
    commands += entry(sub->get_name(), sub->get_description());
  const std::string notes = text.notes.empty() ? "" : "\n" + viewer::wrapped(text.notes, "", kStyle);
  return opening(command, text) + section("Commands", commands) + section("Arguments", arguments) +
         section("Options", options) + notes;
}

}  // namespace

void set_help(CLI::App& command, const HelpText& text) {
  // The footer is where CLI11 has room for text of ours; short_help() reads it back.
  command.footer(opening(command, text));
  command.formatter_fn(
      [text](const CLI::App* app, const std::string&, CLI::AppFormatMode) { return full_help(*app, text); });
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() ? full_name(*command.get_parent()) + " " + command.get_name() : "qkv";
}

std::string short_help(const CLI::App& command) {
  return command.get_footer() + "\n`" + full_name(command) + " --help` says more.\n";
}

}  // namespace qkv::cli
