#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::cli {

/// The candidate that `word` was probably meant to be: the one with the fewest edits (insert, delete, replace, swap of
/// neighbours), if those are at most a third of its letters. First of equals; nothing where none is near.
std::optional<std::string> closest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'look'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace qkv::cli
