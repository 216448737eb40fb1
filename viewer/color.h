#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "viewer/style.h"

namespace qkv::viewer {

/// Red, green, blue, 0..255.
struct Rgb {
  std::uint8_t red = 0, green = 0, blue = 0;

  friend bool operator==(const Rgb&, const Rgb&) = default;
};

/// CIE L*, 0 (black) to 100 (white).
double lightness(Rgb color);

/// The contrast of two colours by WCAG 2: 1 (equal) to 21 (black and white).
double contrast(Rgb a, Rgb b);

/// The colour of a weight in 0..1 (clamped; NaN is drawn as 0) on a square-root scale. Lightness rises with the weight
/// on a dark background and falls on a light one: attention is mostly near zero, and zero is the paper.
Rgb ramp_color(double weight, bool dark);

/// The same, with the colours 16..255 of a terminal: the nearest ones whose lightness never turns back.
int ramp_256(double weight, bool dark);

/// What the colours 16..255 are.
Rgb color_of_256(int number);

/// The same, with the 16 colours: one of five steps, 0..7.
int ramp_16(double weight, bool dark);

/// A piece of a line and its colours.
struct Cell {
  std::string text;
  std::optional<double> shade = std::nullopt;  ///< the weight behind the text; absent: the terminal's own colours
  std::optional<double> ink = std::nullopt;    ///< the weight that the text is drawn with; absent: black or white
};

/// The cells one after the other, with the escapes that style.color allows: one for a run of equal colours, and all
/// reset at the end.
std::string paint_line(const std::vector<Cell>& cells, const Style& style);

}  // namespace qkv::viewer
