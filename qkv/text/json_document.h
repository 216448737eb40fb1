#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/index.h"

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

/// A JSON file whose top is an object, read strictly.
struct JsonDocument {
  std::string path;
  nlohmann::json root;
  std::map<std::string, std::uint64_t> key_offsets;  ///< where in the file each key of the top object ends
};

/// A value of a document and its name, "model.vocab", for messages. Borrows from the document.
struct JsonNode {
  const JsonDocument* document;
  const nlohmann::json* value;
  std::string name;
};

/// Reads a file of at most 64 MiB.
/// Errors: FormatError for a larger one; IoError, also for a folder.
std::string read_text_file(const std::string& path);

/// Parses the text of a JSON file; `path` is for messages. Errors: FormatError unless it is one valid JSON object
/// (UTF-8, no key twice in one object, nested no deeper than 32).
JsonDocument parse_json_object(std::string_view text, const std::string& path);

/// Reads and parses a JSON file. Errors: as the two functions above.
JsonDocument read_json_object(const std::string& path);

JsonNode root_of(const JsonDocument& document);

/// `text` in quotes for a message: ASCII, escaped, cut to about 60 characters.
std::string quote(const std::string& text);

/// Throws FormatError "path: byte N: name: got `got`, expected `expected`".
[[noreturn]] void throw_bad_value(const JsonNode& node, const std::string& got, const std::string& expected);

/// The child `key`, or nothing if it is absent or null. Errors, here and below: FormatError if the kind is another one.
std::optional<JsonNode> find_child(const JsonNode& object, const std::string& key);
JsonNode get_child(const JsonNode& object, const std::string& key);
std::vector<JsonNode> get_elements(const JsonNode& array);
std::vector<std::string> get_keys(const JsonNode& object);
std::string get_string(const JsonNode& node);
bool get_bool(const JsonNode& node);
/// Errors: FormatError unless 0 <= value <= largest.
Index get_index(const JsonNode& node, Index largest);

/// The child `key` of `object`, or `fallback` if it is absent or null.
bool get_bool_or(const JsonNode& object, const std::string& key, bool fallback);

}  // namespace qkv
#pragma GCC visibility pop
