#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/index.h"

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

/// Bytes that a text file has at most: the largest tokenizer.json in wide use has 17 MB.
inline constexpr Index kMaxTextBytes = Index{64} << 20;

/// Bytes that a config.json and the like have at most; they have some kilobytes.
inline constexpr Index kMaxConfigBytes = Index{16} << 20;

/// Reads a whole file. Errors: FormatError for a larger one than max_bytes; IoError, also for a folder.
std::string read_text_file(const std::string& path, Index max_bytes = kMaxTextBytes);

/// A JSON file that came from somebody else.
struct JsonFile {
  std::string path;
  std::string text;
  nlohmann::json root;
};

/// Parses the text of a JSON file; `path` is for messages. Errors: FormatError, with the byte, unless it is valid JSON
/// (UTF-8, no NUL byte, no key twice in one object, nested no deeper than 32).
JsonFile parse_json(std::string text, const std::string& path);

/// Reads and parses a JSON file. Errors: as the two functions above.
JsonFile read_json_file(const std::string& path, Index max_bytes = kMaxTextBytes);

/// A value of a file and the way to it. Borrows from the file.
struct JsonNode {
  const JsonFile* file;
  const nlohmann::json* value;
  std::vector<std::string> steps;  ///< From the top: the key in an object, the index in an array.
};

JsonNode root_of(const JsonFile& file);

/// What a value is, for a message: one short line of ASCII.
std::string show(const JsonNode& node);

/// Throws FormatError "path: byte N: name: got `got`, expected `expected`". N is where the last key on the way to the
/// value ends, the name is like model.vocab or [1].type. Cost: parses the file again, to find N.
[[noreturn]] void throw_bad_value(const JsonNode& node, const std::string& got, const std::string& expected);

/// The child `key`, or nothing if it is absent or null. Errors, here and below: FormatError if the kind is another one.
std::optional<JsonNode> find_child(const JsonNode& object, const std::string& key);
JsonNode get_child(const JsonNode& object, const std::string& key);
std::vector<JsonNode> get_elements(const JsonNode& array);
std::vector<std::string> get_keys(const JsonNode& object);
std::string get_string(const JsonNode& node);
bool get_bool(const JsonNode& node);
/// Errors: FormatError unless smallest <= value <= largest.
Index get_index(const JsonNode& node, Index smallest, Index largest);
double get_number(const JsonNode& node, double smallest, double largest);

/// The child `key` of `object`, or `fallback` if it is absent or null.
std::string get_string_or(const JsonNode& object, const std::string& key, const std::string& fallback);
bool get_bool_or(const JsonNode& object, const std::string& key, bool fallback);

}  // namespace qkv
#pragma GCC visibility pop
