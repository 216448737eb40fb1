#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "viewer/picture.h"

namespace qkv::viewer {

/// JSON as qkv prints it: members keep their order, and numbers are floats, written with the fewest digits that read
/// back as the same float.
using Json =
    nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, std::int64_t, std::uint64_t, float>;

/// One line of text, line end included. NaN and infinities become null; bytes that are not UTF-8 become U+FFFD.
std::string to_line(const Json& json);

/// The numbers of a picture: `model`, `tokens` (of rows and columns alike), `layer`, `head`, `weights` [rows are
/// queries], `special`, `words`, where there are any `hidden` (tokens left out, and their weights for each row), `from`
/// and `to` (places in `tokens`), `reason`, and where heads were ranked `ranking`, strongest first.
/// Edge: where queries and keys differ, `queries` and `keys` take the place of `tokens`.
Json to_json(const Picture& picture);

}  // namespace qkv::viewer
