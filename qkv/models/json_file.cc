#include "qkv/models/json_file.h"

#include <cstddef>
#include <iterator>
#include <set>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/io/mapped_file.h"

namespace qkv {

namespace {

constexpr std::size_t kMaxBytes = 16u << 20;  // a config.json has some kilobytes
constexpr std::size_t kMaxDepth = 32;

// Hands the text to the JSON parser and records how far it has read, because the parser's events carry no position.
struct TrackedByte {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;

  const char& operator*() const { return *at; }
  TrackedByte& operator++() {
    *furthest = ++at;
    return *this;
  }
  bool operator==(const TrackedByte& other) const { return at == other.at; }
  bool operator!=(const TrackedByte& other) const { return at != other.at; }
};

// Follows the parser through the file: how deep it is, which keys it has seen there, and where they stand.
class Watch {
 public:
  Watch(JsonFile& file, std::string_view text) : file_(file), begin_(text.data()), furthest_(text.data()) {}

  const char** furthest() { return &furthest_; }
  std::uint64_t byte() const { return static_cast<std::uint64_t>(furthest_ - begin_); }

  void event(nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        if (levels_.size() == kMaxDepth)
          throw FormatError(file_.path, byte(),
                            "nesting: got more than " + std::to_string(kMaxDepth) + " levels, expected at most that");
        levels_.push_back({.is_array = event == Event::array_start, .keys = {}, .next = 0, .key = {}});
        return;
      case Event::key:
        return key(parsed.get_ref<const std::string&>());
      case Event::object_end:
      case Event::array_end:
        levels_.pop_back();
        [[fallthrough]];
      case Event::value:
        if (!levels_.empty()) ++levels_.back().next;
    }
  }

 private:
  struct Level {
    bool is_array;
    std::set<std::string> keys;
    std::size_t next;  // of an array: index of the entry that comes
    std::string key;   // of an object: the last one
  };

  void key(const std::string& name) {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second)
      throw FormatError(file_.path, byte(), "duplicate key: got " + to_message(name) + " twice, expected once");
    level.key = name;
    std::string pointer;
    for (const Level& each : levels_) pointer += "/" + (each.is_array ? std::to_string(each.next) : each.key);
    file_.key_bytes.emplace(std::move(pointer), byte());
  }

  JsonFile& file_;
  const char* begin_;
  const char* furthest_;  // one past the last byte that the parser took
  std::vector<Level> levels_;
};

}  // namespace

std::string to_message(const nlohmann::json& value) {
  constexpr std::size_t kMaxLength = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', true);  // ASCII, control characters escaped
  if (value.is_string()) text = "'" + text.substr(1, text.size() - 2) + "'";
  return text.size() <= kMaxLength ? text : text.substr(0, kMaxLength) + "...";
}

void JsonFile::fail(const std::string& pointer, const std::string& problem) const {
  const auto found = key_bytes.find(pointer);
  throw FormatError(path, found == key_bytes.end() ? 0 : found->second, problem);
}

JsonFile read_json_file(const std::string& path) {
  const MappedFile mapped(path);
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  if (text.size() > kMaxBytes)
    throw FormatError(
        path, kMaxBytes,
        "size: got " + std::to_string(text.size()) + " bytes, expected at most " + std::to_string(kMaxBytes));
  if (const auto nul = text.find('\0'); nul != text.npos)  // the parser would take it for the end
    throw FormatError(path, nul, "got a NUL byte, expected JSON in UTF-8");
  JsonFile file{.path = path, .root = {}, .key_bytes = {}};
  Watch watch(file, text);
  const auto callback = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    watch.event(event, parsed);
    return true;
  };
  try {
    file.root = nlohmann::json::parse(TrackedByte{text.data(), watch.furthest()},
                                      TrackedByte{text.data() + text.size(), watch.furthest()}, callback);
  } catch (const nlohmann::json::exception&) {  // its message holds raw bytes of the file, so it is not repeated
    throw FormatError(path, watch.byte(), "got something else, expected JSON in UTF-8");
  }
  return file;
}

JsonFields::JsonFields(const JsonFile& file, const std::string& pointer) : file_(file), pointer_(pointer) {
  object_ = &file.root.at(nlohmann::json::json_pointer(pointer));
  if (!object_->is_object()) file.fail(pointer, "got " + to_message(*object_) + ", expected an object");
}

void JsonFields::fail(const std::string& key, const std::string& problem) const {
  file_.fail(pointer_ + "/" + key, key + ": " + problem);
}

const nlohmann::json* JsonFields::find(const std::string& key, bool required, const char* expected) const {
  const auto found = object_->find(key);
  if (found != object_->end() && !found->is_null()) return &*found;
  if (required) fail(key, std::string("got nothing, expected ") + expected);
  return nullptr;
}

Index JsonFields::integer(const std::string& key, Index smallest, Index largest, std::optional<Index> absent) const {
  const nlohmann::json* value = find(key, !absent, "a whole number");
  if (!value) return *absent;
  // A number beyond 2^63 is unsigned in nlohmann's eyes, one beyond 2^64 a float.
  const bool fits =
      value->is_number_integer() &&
      !(value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(largest)) &&
      value->get<Index>() >= smallest && value->get<Index>() <= largest;
  if (!fits)
    fail(key, "got " + to_message(*value) + ", expected a whole number from " + std::to_string(smallest) + " to " +
                  std::to_string(largest));
  return value->get<Index>();
}

double JsonFields::number(const std::string& key, double smallest, double largest, std::optional<double> absent) const {
  const nlohmann::json* value = find(key, !absent, "a number");
  if (!value) return *absent;
  if (!value->is_number() || !(value->get<double>() >= smallest && value->get<double>() <= largest))
    fail(key, "got " + to_message(*value) + ", expected a number from " + to_message(smallest) + " to " +
                  to_message(largest));
  return value->get<double>();
}

std::string JsonFields::text(const std::string& key, std::optional<std::string> absent) const {
  const nlohmann::json* value = find(key, !absent, "a string");
  if (!value) return *absent;
  if (!value->is_string()) fail(key, "got " + to_message(*value) + ", expected a string");
  return value->get<std::string>();
}

bool JsonFields::flag(const std::string& key, bool absent) const {
  const nlohmann::json* value = find(key, false, "true or false");
  if (!value) return absent;
  if (!value->is_boolean()) fail(key, "got " + to_message(*value) + ", expected true or false");
  return value->get<bool>();
}

}  // namespace qkv
