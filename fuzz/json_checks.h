#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "fuzz/fuzz_support.h"
#include "qkv/text/json_file.h"

namespace qkv::fuzz {

/// The strict reader takes what the JSON library takes, except for the three things that it forbids in addition.
inline void check_json(std::string_view text) {
  const bool is_json = nlohmann::json::accept(text);
  try {
    const JsonFile file = parse_json(std::string(text), "x.json");
    require(is_json, "what the strict reader takes is JSON");
    require(file.root == nlohmann::json::parse(text), "and is read as the library reads it");
  } catch (const FormatError& error) {
    check_refusal(error, "x.json", text.size());
    const std::string_view message = error.what();
    const auto names = [&](std::string_view reason) { return message.find(reason) != message.npos; };
    require(!is_json || names("got it twice") || names("got more than 32 levels") || names("got a NUL byte"),
            "JSON is refused only for a reason: " + std::string(message));
  }
}

}  // namespace qkv::fuzz
