#pragma once

#include <string>

#include "viewer/picture.h"
#include "viewer/style.h"

namespace qkv::viewer {

// Pictures as lines of text. What comes from a text is shown as printable() says, so that it cannot control a terminal;
// with ColorDepth::kNone there is no escape sequence at all.

/// The answer in a sentence, the row of `from` with a number under each token (of a long text only the strongest
/// tokens), what is hidden, and the first heads of the ranking.
std::string text_view(const Picture& picture, const Style& style);

/// The answer in a sentence and the whole head: a row for each query, a column for each key.
///
/// Up to 24 x 24 tokens a cell is two columns wide and every row has its label; more are drawn one column wide, with
/// colours two rows in a line; more than fit are pooled, a cell showing its largest weight.
std::string matrix_view(const Picture& picture, const Style& style);

}  // namespace qkv::viewer
