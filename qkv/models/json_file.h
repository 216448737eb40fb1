#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "qkv/core/index.h"

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

/// A JSON file that came from somebody else: at most 16 MiB, nested at most 32 deep, valid UTF-8, no key twice.
struct JsonFile {
  std::string path;
  nlohmann::json root;
  std::map<std::string, std::uint64_t> key_bytes;  ///< JSON pointer of each member -> byte just after its key

  /// Throws FormatError for the member at `pointer` ("/hidden_size"), or for the file's start where there is none.
  [[noreturn]] void fail(const std::string& pointer, const std::string& problem) const;
};

/// Errors: IoError if the file cannot be read; FormatError, with the byte, if it breaks a rule.
JsonFile read_json_file(const std::string& path);

/// The members of one object of a file, each read with its check. Borrows the file.
/// Errors of every function: FormatError that names the member, what it is and what it should be.
class JsonFields {
 public:
  /// `pointer` is that of the object: "" for the whole file, "/1" for the second entry of a list.
  JsonFields(const JsonFile& file, const std::string& pointer);

  bool contains(const std::string& key) const { return object_->contains(key); }

  /// Without a default the member must be there. A member that is null counts as absent.
  Index integer(const std::string& key, Index smallest, Index largest, std::optional<Index> absent = {}) const;
  double number(const std::string& key, double smallest, double largest, std::optional<double> absent = {}) const;
  std::string text(const std::string& key, std::optional<std::string> absent = {}) const;
  bool flag(const std::string& key, bool absent) const;

  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

 private:
  // The member, or null where it is absent and may be.
  const nlohmann::json* find(const std::string& key, bool required, const char* expected) const;

  const JsonFile& file_;
  std::string pointer_;
  const nlohmann::json* object_;
};

/// A JSON value as text for a message: cut short, one line, ASCII.
std::string to_message(const nlohmann::json& value);

}  // namespace qkv
#pragma GCC visibility pop
