#pragma once

#include <optional>

#include "qkv/core/executor.h"
#include "qkv/core/index.h"

namespace qkv::viewer {

enum class ColorDepth { kNone, k16, k256, kTrue };

/// How to draw in a terminal, or in a file.
struct Style {
  ColorDepth color = ColorDepth::kNone;
  bool unicode = true;  ///< false: only ASCII is drawn (tokens keep their letters)
  bool dark = true;     ///< zero is a dark colour
  Index width = 80;     ///< columns
};

/// What the user says of colours. kAlways: as many as the terminal has, but some.
enum class ColorChoice { kAuto, kNever, kAlways, k16, k256, kTrue };

/// A variable of the environment, or null where it is not set: std::getenv, or a test's own.
using Environment = FunctionRef<const char*(const char*)>;

/// The first of these that decides: the flag, NO_COLOR, CLICOLOR_FORCE or FORCE_COLOR, CLICOLOR=0, TERM=dumb (or none),
/// whether the output is a terminal. How many colours: COLORTERM, else TERM.
ColorDepth choose_color(ColorChoice flag, Environment environment, bool is_terminal);

/// Whether the background is dark, as far as COLORFGBG tells; else true.
bool is_dark_background(Environment environment);

/// COLUMNS, else what the terminal says, else 80; at least kLeastWidth.
Index choose_width(Environment environment, std::optional<Index> terminal_columns);

/// Narrower than this nothing can be drawn.
inline constexpr Index kLeastWidth = 20;

}  // namespace qkv::viewer
