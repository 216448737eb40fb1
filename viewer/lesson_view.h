#pragma once

#include <string>

#include "viewer/lesson_heads.h"
#include "viewer/lesson_scale.h"
#include "viewer/style.h"

namespace qkv::viewer {

// Lessons as lines of text, no longer than style.width: what was measured and on what, the numbers, and what follows.

std::string scale_view(const ScaleLesson& lesson, const Style& style);

/// `text` is what the model read.
std::string heads_view(const HeadsLesson& lesson, const std::string& text, const Style& style);

}  // namespace qkv::viewer
