#pragma once

#include <string>

#include "viewer/json.h"
#include "viewer/lesson_heads.h"
#include "viewer/lesson_scale.h"

namespace qkv::viewer {

/// `lesson` "scale"; `seed`; `variance` and `softmax`: what was measured on, and `rows`, one for each head_dim; `claims`:
/// claim, holds, evidence. The members of a row are those of ScoreVariance and Saturation.
Json to_json(const ScaleLesson& lesson);

/// `lesson` "heads"; `model`, `text`, `tokens`, `num_queries`, `even_weight` (1 / number of tokens), `layers`: the
/// members of LayerLook, each look being the members of Shares and `num_keys`, each head also `main_place` (or null);
/// `claims` as above.
Json to_json(const HeadsLesson& lesson, const std::string& text);

}  // namespace qkv::viewer
