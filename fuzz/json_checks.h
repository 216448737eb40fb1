#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "fuzz/fuzz_support.h"
#include "qkv/text/json_file.h"

namespace qkv::fuzz {

inline std::size_t num_members(const nlohmann::json& value) {
  std::size_t count = value.is_object() ? value.size() : 0;
  for (const auto& child : value) {
    if (child.is_structured()) count += num_members(child);
  }
  return count;
}

/// Reads JSON, and sees to it that it is what the strict reader promises.
inline nlohmann::json parse_strictly(std::string_view text) {
  std::size_t num_keys = 0;
  const auto root = nlohmann::json::parse(text, [&](int depth, nlohmann::json::parse_event_t event, const auto&) {
    num_keys += event == nlohmann::json::parse_event_t::key ? 1 : 0;
    require(depth <= 32, "accepted JSON is nested at most 32 deep");
    return true;
  });
  require(num_keys == num_members(root), "accepted JSON has each key once");
  return root;
}

/// The strict reader takes what the JSON library takes, except for the three things that it forbids in addition.
inline void check_json(std::string_view text) {
  const bool is_json = nlohmann::json::accept(text);
  try {
    const JsonFile file = parse_json(std::string(text), "x.json");
    require(is_json, "what the strict reader takes is JSON");
    require(file.root == parse_strictly(text), "and is read as the library reads it");
  } catch (const FormatError& error) {
    check_refusal(error, "x.json", text.size());
    const std::string_view message = error.what();
    const auto names = [&](std::string_view reason) { return message.find(reason) != message.npos; };
    require(!is_json || names("got it twice") || names("got more than 32 levels") || names("got a NUL byte"),
            "JSON is refused only for a reason: " + std::string(message));
  }
}

}  // namespace qkv::fuzz
