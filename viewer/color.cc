#include "viewer/color.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace qkv::viewer {
namespace {

// Stops at equal distances. From night blue over violet and orange to a light yellow, and from paper to ink.
constexpr std::array<Rgb, 5> kDarkRamp = {
    Rgb{20, 20, 34}, {58, 48, 126}, {158, 58, 136}, {236, 122, 72}, {255, 238, 150}};
constexpr std::array<Rgb, 5> kLightRamp = {
    Rgb{252, 252, 255}, {190, 214, 240}, {110, 164, 220}, {42, 102, 178}, {6, 34, 98}};
// Black, blue, magenta, yellow, white: as light as they are named here in every usual palette.
constexpr std::array<int, 5> kSteps16 = {0, 4, 5, 3, 7};
constexpr int kNumLevels = 24;  // of the 256 colours

double on_scale(double weight) {
  return std::isnan(weight) ? 0 : std::sqrt(std::clamp(weight, 0.0, 1.0));
}

double linear(std::uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

double luminance(Rgb color) {
  return 0.2126 * linear(color.red) + 0.7152 * linear(color.green) + 0.0722 * linear(color.blue);
}

Rgb between(const std::array<Rgb, 5>& stops, double at) {
  const double place = at * static_cast<double>(stops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  const double part = place - static_cast<double>(below);
  const auto mix = [&](std::uint8_t Rgb::*channel) {
    return static_cast<std::uint8_t>(
        std::lround(stops[below].*channel * (1 - part) + stops[below + 1].*channel * part));
  };
  return {mix(&Rgb::red), mix(&Rgb::green), mix(&Rgb::blue)};
}

Rgb color_at(double at, bool dark) {
  return between(dark ? kDarkRamp : kLightRamp, at);
}

double distance(Rgb a, Rgb b) {
  const double red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
  return red * red + green * green + blue * blue;
}

std::array<int, kNumLevels> make_levels_256(bool dark) {
  std::array<int, kNumLevels> levels{};
  double bound = dark ? -1 : std::numeric_limits<double>::infinity();
  for (int level = 0; level < kNumLevels; ++level) {
    const Rgb wanted = color_at(static_cast<double>(level) / (kNumLevels - 1), dark);
    double nearest = std::numeric_limits<double>::infinity();
    for (int number = 16; number < 256; ++number) {
      const double own = lightness(color_of_256(number));
      if ((dark ? own < bound : own > bound) || distance(color_of_256(number), wanted) >= nearest) continue;
      nearest = distance(color_of_256(number), wanted);
      levels[static_cast<std::size_t>(level)] = number;
    }
    bound = lightness(color_of_256(levels[static_cast<std::size_t>(level)]));
  }
  return levels;
}

bool wants_white_text(const Cell& cell, const Style& style) {
  constexpr Rgb kBlack{0, 0, 0}, kWhite{255, 255, 255};
  if (style.color == ColorDepth::k16) {
    const int step = ramp_16(*cell.shade, style.dark);
    return step == kSteps16[0] || step == kSteps16[1] || step == kSteps16[2];
  }
  const Rgb shade = style.color == ColorDepth::kTrue ? ramp_color(*cell.shade, style.dark)
                                                     : color_of_256(ramp_256(*cell.shade, style.dark));
  return contrast(shade, kWhite) > contrast(shade, kBlack);
}

// The part of an SGR sequence that sets a colour; `base` is 30 for the text, 40 for what is behind it.
std::string sgr_color(double weight, int base, const Style& style) {
  switch (style.color) {
    case ColorDepth::kTrue: {
      const Rgb color = ramp_color(weight, style.dark);
      return std::to_string(base + 8) + ";2;" + std::to_string(color.red) + ";" + std::to_string(color.green) + ";" +
             std::to_string(color.blue);
    }
    case ColorDepth::k256:
      return std::to_string(base + 8) + ";5;" + std::to_string(ramp_256(weight, style.dark));
    default:
      return std::to_string(base + ramp_16(weight, style.dark));
  }
}

std::string sgr_of(const Cell& cell, const Style& style) {
  if (style.color == ColorDepth::kNone || !cell.shade) return "";
  constexpr int kText = 30, kBehind = 40;
  std::string text;
  if (cell.ink) {
    text = sgr_color(*cell.ink, kText, style);
  } else if (style.color == ColorDepth::k16) {
    text = wants_white_text(cell, style) ? "97" : "30";
  } else {
    text = wants_white_text(cell, style) ? "38;5;231" : "38;5;16";
  }
  return "\033[" + text + ";" + sgr_color(*cell.shade, kBehind, style) + "m";
}

}  // namespace

double lightness(Rgb color) {
  const double y = luminance(color);
  return y > 216.0 / 24389 ? 116 * std::cbrt(y) - 16 : y * 24389 / 27;
}

double contrast(Rgb a, Rgb b) {
  const auto [darker, lighter] = std::minmax({luminance(a), luminance(b)});
  return (lighter + 0.05) / (darker + 0.05);
}

Rgb ramp_color(double weight, bool dark) {
  return color_at(on_scale(weight), dark);
}

Rgb color_of_256(int number) {
  constexpr int kFirstGrey = 232;
  if (number >= kFirstGrey) {
    const auto grey = static_cast<std::uint8_t>(8 + 10 * (number - kFirstGrey));
    return {grey, grey, grey};
  }
  const auto channel = [](int step) { return static_cast<std::uint8_t>(step == 0 ? 0 : 55 + 40 * step); };
  const int place = number - 16;
  return {channel(place / 36), channel(place / 6 % 6), channel(place % 6)};
}

int ramp_256(double weight, bool dark) {
  static const std::array<int, kNumLevels> dark_levels = make_levels_256(true), light_levels = make_levels_256(false);
  const auto level = static_cast<std::size_t>(std::lround(on_scale(weight) * (kNumLevels - 1)));
  return (dark ? dark_levels : light_levels)[level];
}

int ramp_16(double weight, bool dark) {
  const auto step = static_cast<std::size_t>(std::lround(on_scale(weight) * (kSteps16.size() - 1)));
  return kSteps16[dark ? step : kSteps16.size() - 1 - step];
}

std::string paint_line(const std::vector<Cell>& cells, const Style& style) {
  constexpr const char* kReset = "\033[0m";
  std::string line, current;
  for (const Cell& cell : cells) {
    const std::string sgr = sgr_of(cell, style);
    if (sgr != current) {
      // From one colour to the next no reset is needed: both parts are always set.
      line += sgr.empty() ? kReset : sgr;
      current = sgr;
    }
    line += cell.text;
  }
  return current.empty() ? line : line + kReset;
}

}  // namespace qkv::viewer
