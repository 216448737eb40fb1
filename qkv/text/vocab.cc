#include "qkv/text/vocab.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "qkv/core/check.h"

namespace qkv {

Vocab::Vocab(std::vector<std::string> tokens) {
  tokens_.reserve(tokens.size());
  ids_.reserve(tokens.size());
  for (std::string& token : tokens) append(std::move(token));
}

std::optional<std::int32_t> Vocab::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string& Vocab::token_of(std::int32_t id) const {
  if (id < 0 || id >= size()) {
    throw std::out_of_range("token_of: id: got " + std::to_string(id) + ", expected 0 <= id < " +
                            std::to_string(size()));
  }
  return tokens_[static_cast<std::size_t>(id)];
}

std::int32_t Vocab::append(std::string token) {
  const auto id = static_cast<std::int32_t>(tokens_.size());
  if (!token.empty()) {
    const auto [found, is_new] = ids_.try_emplace(token, id);
    check(is_new, "Vocab", "token " + std::to_string(id),
          '"' + token + "\", which is token " + std::to_string(found->second), "each token once");
  }
  longest_token_ = std::max(longest_token_, static_cast<Index>(token.size()));
  tokens_.push_back(std::move(token));
  return id;
}

}  // namespace qkv
