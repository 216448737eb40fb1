#include "qkv/text/json_file.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/in_quotes.h"
#include "qkv/io/mapped_file.h"
#include "qkv/io/tracked_byte.h"

namespace qkv {
namespace {

constexpr std::size_t kMaxLevels = 32;  // tokenizer.json needs 6

// An object or array that the parser is inside.
struct Level {
  bool is_array;
  std::size_t index = 0;            // of an array: which element comes
  std::set<std::string> keys = {};  // of an object: those seen
  std::string key = {};             // the last of them

  std::string step() const { return is_array ? std::to_string(index) : key; }
};

using AtKey = std::function<void(const std::vector<Level>& levels, std::uint64_t byte)>;

// Follows the parser through the file, and refuses what that would let pass.
class Watch {
 public:
  Watch(const JsonFile& file, const AtKey& at_key) : file_(file), at_key_(at_key), furthest_(file.text.data()) {}

  nlohmann::json parse() {
    const char* begin = file_.text.data();
    const auto callback = [this](int, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
      follow(event, parsed);
      return true;
    };
    try {
      return nlohmann::json::parse(TrackedByte{begin, &furthest_}, TrackedByte{begin + file_.text.size(), &furthest_},
                                   callback);
    } catch (const nlohmann::json::exception&) {  // its message holds raw bytes of the file, so it is not repeated
      fail("syntax: got what cannot stand here, expected JSON in UTF-8");
    }
  }

 private:
  std::uint64_t byte() const { return static_cast<std::uint64_t>(furthest_ - file_.text.data()); }
  [[noreturn]] void fail(const std::string& problem) const { throw FormatError(file_.path, byte(), problem); }

  void follow(nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        if (levels_.size() == kMaxLevels) fail("nesting: got more than 32 levels, expected at most that");
        levels_.push_back({.is_array = event == Event::array_start});
        return;
      case Event::key: {
        Level& level = levels_.back();
        level.key = parsed.get_ref<const std::string&>();
        if (!level.keys.insert(level.key).second)
          fail("key " + in_quotes(level.key) + ": got it twice, expected each key once");
        return at_key_(levels_, byte());
      }
      case Event::object_end:
      case Event::array_end:
        levels_.pop_back();
        [[fallthrough]];
      case Event::value:
        if (!levels_.empty()) ++levels_.back().index;
    }
  }

  const JsonFile& file_;
  const AtKey& at_key_;
  const char* furthest_;  // one past the last byte that the parser took
  std::vector<Level> levels_;
};

// Where the last key on the way to the node ends; 0 if there is none.
std::uint64_t byte_of(const JsonNode& node) {
  std::uint64_t result = 0;
  const auto at_key = [&](const std::vector<Level>& levels, std::uint64_t byte) {
    if (levels.size() <= node.steps.size() &&
        std::ranges::equal(levels, std::span(node.steps).first(levels.size()), {}, &Level::step))
      result = byte;
  };
  Watch(*node.file, at_key).parse();
  return result;
}

bool is_plain(std::string_view key) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !key.empty() && key.find_first_not_of(kPlain) == key.npos;
}

// model.vocab["##s"], [1].type
std::string name_of(const JsonNode& node) {
  std::string name;
  const nlohmann::json* parent = &node.file->root;
  for (const std::string& step : node.steps) {
    if (parent->is_array()) {
      name += "[" + step + "]";
      parent = &(*parent)[std::stoul(step)];
    } else {
      name += is_plain(step) ? (name.empty() ? "" : ".") + step : "[" + in_quotes(step) + "]";
      const auto found = parent->find(step);
      if (found != parent->end()) parent = &*found;  // only the last step may lead nowhere
    }
  }
  return name.empty() ? "top" : name;
}

JsonNode child_of(const JsonNode& parent, std::string step, const nlohmann::json* value) {
  JsonNode child{parent.file, value, parent.steps};
  child.steps.push_back(std::move(step));
  return child;
}

void require(bool is_right, const JsonNode& node, const std::string& expected) {
  if (!is_right) throw_bad_value(node, show(node), expected);
}

}  // namespace

std::string read_text_file(const std::string& path, Index max_bytes) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > static_cast<std::size_t>(max_bytes)) {
    throw FormatError(
        path, static_cast<std::uint64_t>(max_bytes),
        "size: got " + std::to_string(bytes.size()) + " bytes, expected at most " + std::to_string(max_bytes));
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

JsonFile parse_json(std::string text, const std::string& path) {
  JsonFile file{path, std::move(text), {}};
  if (const auto nul = file.text.find('\0'); nul != file.text.npos)  // the parser would take it for the end
    throw FormatError(path, nul, "syntax: got a NUL byte, expected JSON in UTF-8");
  file.root = Watch(file, [](const auto&, std::uint64_t) {}).parse();
  return file;
}

JsonFile read_json_file(const std::string& path, Index max_bytes) {
  return parse_json(read_text_file(path, max_bytes), path);
}

JsonNode root_of(const JsonFile& file) {
  return {&file, &file.root, {}};
}

std::string show(const JsonNode& node) {
  const nlohmann::json& value = *node.value;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return value.is_string() ? in_quotes(value.get_ref<const std::string&>()) : value.dump();
}

void throw_bad_value(const JsonNode& node, const std::string& got, const std::string& expected) {
  throw FormatError(node.file->path, byte_of(node), name_of(node) + ": got " + got + ", expected " + expected);
}

std::optional<JsonNode> find_child(const JsonNode& object, const std::string& key) {
  require(object.value->is_object(), object, "an object");
  const auto found = object.value->find(key);
  if (found == object.value->end() || found->is_null()) return std::nullopt;
  return child_of(object, key, &*found);
}

JsonNode get_child(const JsonNode& object, const std::string& key) {
  if (auto child = find_child(object, key)) return *child;
  throw_bad_value(child_of(object, key, nullptr), "nothing", "a value");
}

std::vector<JsonNode> get_elements(const JsonNode& array) {
  require(array.value->is_array(), array, "an array");
  std::vector<JsonNode> elements;
  for (const nlohmann::json& value : *array.value) {
    elements.push_back(child_of(array, std::to_string(elements.size()), &value));
  }
  return elements;
}

std::vector<std::string> get_keys(const JsonNode& object) {
  require(object.value->is_object(), object, "an object");
  std::vector<std::string> keys;
  for (const auto& item : object.value->items()) keys.push_back(item.key());
  return keys;
}

std::string get_string(const JsonNode& node) {
  require(node.value->is_string(), node, "a string");
  return node.value->get<std::string>();
}

bool get_bool(const JsonNode& node) {
  require(node.value->is_boolean(), node, "true or false");
  return node.value->get<bool>();
}

Index get_index(const JsonNode& node, Index smallest, Index largest) {
  const nlohmann::json& value = *node.value;
  // A number from 2^63 on is unsigned to the parser, one from 2^64 on a float.
  const bool is_index =
      value.is_number_integer() &&
      !(value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(largest));
  if (is_index && value.get<Index>() >= smallest && value.get<Index>() <= largest) return value.get<Index>();
  const std::string expected = "a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest);
  throw_bad_value(node, show(node), expected);
}

double get_number(const JsonNode& node, double smallest, double largest) {
  const nlohmann::json& value = *node.value;
  require(value.is_number() && value.get<double>() >= smallest && value.get<double>() <= largest, node,
          "a number from " + nlohmann::json(smallest).dump() + " to " + nlohmann::json(largest).dump());
  return value.get<double>();
}

std::string get_string_or(const JsonNode& object, const std::string& key, const std::string& fallback) {
  const auto child = find_child(object, key);
  return child ? get_string(*child) : fallback;
}

bool get_bool_or(const JsonNode& object, const std::string& key, bool fallback) {
  const auto child = find_child(object, key);
  return child ? get_bool(*child) : fallback;
}

}  // namespace qkv
