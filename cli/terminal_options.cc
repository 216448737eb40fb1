#include "cli/terminal_options.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string_view>

namespace qkv::cli {
namespace {

const std::map<std::string, viewer::ColorChoice> kColorChoices = {
    {"auto", viewer::ColorChoice::kAuto},     {"never", viewer::ColorChoice::kNever},
    {"always", viewer::ColorChoice::kAlways}, {"16", viewer::ColorChoice::k16},
    {"256", viewer::ColorChoice::k256},       {"true", viewer::ColorChoice::kTrue},
};

std::optional<Index> terminal_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

}  // namespace

void add_terminal_options(CLI::App& command, TerminalOptions& options) {
  constexpr Index kMostWidth = 10'000;
  command
      .add_option(
          "--color", options.color,
          "auto, never, always, 16, 256 or true; auto looks at NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR, CLICOLOR, "
          "TERM and whether the output is a terminal")
      ->check(CLI::IsMember({"auto", "never", "always", "16", "256", "true"}))
      ->type_name("WHEN");
  command
      .add_option("--theme", options.theme, "dark or light: the terminal's background; default: COLORFGBG, else dark")
      ->check(CLI::IsMember({"dark", "light"}))
      ->type_name("NAME");
  command.add_option("--width", options.width, "Columns to draw in; default: COLUMNS, else the terminal's, else 80")
      ->check(CLI::Range(viewer::kLeastWidth, kMostWidth))
      ->type_name("N");
  command.add_flag("--ascii", options.ascii, "Draw with ASCII characters only (so it is without a UTF-8 locale)");
}

viewer::Style stdout_style(const TerminalOptions& options) {
  const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
  const bool is_utf8 = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  return {.color = viewer::choose_color(kColorChoices.at(options.color), environment, ::isatty(STDOUT_FILENO) == 1),
          .unicode = is_utf8 && !options.ascii,
          .dark = options.theme.empty() ? viewer::is_dark_background(environment) : options.theme == "dark",
          .width = options.width > 0 ? options.width : viewer::choose_width(environment, terminal_columns())};
}

}  // namespace qkv::cli
