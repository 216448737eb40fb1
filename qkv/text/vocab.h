#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "qkv/core/index.h"

namespace qkv {

/// The tokens of a model: strings with ids 0 .. size-1.
class Vocab {
 public:
  /// No tokens.
  Vocab() = default;
  /// The id of a token is its place. An empty string is an id without a token: no text gives it.
  /// Errors: std::invalid_argument for a token that is there twice.
  explicit Vocab(std::vector<std::string> tokens);

  /// Number of ids.
  Index size() const { return static_cast<Index>(tokens_.size()); }
  /// The id of a token, or nothing.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// Errors: std::out_of_range unless 0 <= id < size().
  const std::string& token_of(std::int32_t id) const;
  /// Gives `token` the next id. Errors: as for the constructor.
  std::int32_t append(std::string token);
  /// The length in bytes of the longest token: nothing longer needs to be looked up.
  Index longest_token() const { return longest_token_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  Index longest_token_ = 0;
};

}  // namespace qkv
