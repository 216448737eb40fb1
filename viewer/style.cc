#include "viewer/style.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace qkv::viewer {
namespace {

std::string_view variable(Environment environment, const char* name) {
  const char* value = environment(name);
  return value ? value : "";
}

bool is_set_and_not_zero(Environment environment, const char* name) {
  const auto value = variable(environment, name);
  return !value.empty() && value != "0";
}

ColorDepth depth_of_terminal(Environment environment) {
  const auto color_term = variable(environment, "COLORTERM");
  if (color_term == "truecolor" || color_term == "24bit") return ColorDepth::kTrue;
  const bool has_256 = variable(environment, "TERM").find("256") != std::string_view::npos;
  return has_256 ? ColorDepth::k256 : ColorDepth::k16;
}

std::optional<Index> to_number(std::string_view text) {
  Index number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

ColorDepth choose_color(ColorChoice flag, Environment environment, bool is_terminal) {
  switch (flag) {
    case ColorChoice::kNever:
      return ColorDepth::kNone;
    case ColorChoice::k16:
      return ColorDepth::k16;
    case ColorChoice::k256:
      return ColorDepth::k256;
    case ColorChoice::kTrue:
      return ColorDepth::kTrue;
    case ColorChoice::kAlways:
      return depth_of_terminal(environment);
    case ColorChoice::kAuto:
      break;
  }
  if (!variable(environment, "NO_COLOR").empty()) return ColorDepth::kNone;
  if (is_set_and_not_zero(environment, "CLICOLOR_FORCE") || is_set_and_not_zero(environment, "FORCE_COLOR"))
    return depth_of_terminal(environment);
  if (variable(environment, "CLICOLOR") == "0") return ColorDepth::kNone;
  const auto term = variable(environment, "TERM");
  if (term.empty() || term == "dumb" || !is_terminal) return ColorDepth::kNone;
  return depth_of_terminal(environment);
}

bool is_dark_background(Environment environment) {
  // "foreground;background", sometimes with a field between, as numbers of the 16 colours.
  const auto value = variable(environment, "COLORFGBG");
  const auto at = value.rfind(';');
  const auto background = at == std::string_view::npos ? std::nullopt : to_number(value.substr(at + 1));
  constexpr Index kLightGrey = 7, kDarkGrey = 8;
  return !background || *background < kLightGrey || *background == kDarkGrey;
}

Index choose_width(Environment environment, std::optional<Index> terminal_columns) {
  constexpr Index kUsualWidth = 80, kMostWidth = 10'000;
  auto width = to_number(variable(environment, "COLUMNS"));
  if (!width || *width <= 0) width = terminal_columns;
  if (!width || *width <= 0) width = kUsualWidth;
  return std::clamp(*width, kLeastWidth, kMostWidth);
}

}  // namespace qkv::viewer
