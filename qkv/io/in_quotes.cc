#include "qkv/io/in_quotes.h"

#include <nlohmann/json.hpp>

namespace qkv {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxBytes = 80;
  std::string shown(text.substr(0, kMaxBytes));
  if (text.size() > kMaxBytes) shown += "...";
  return nlohmann::json(std::move(shown)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace qkv
