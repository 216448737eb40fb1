#include "qkv/text/json_document.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "qkv/core/error.h"

namespace qkv {
namespace {

constexpr Index kLargestFile = Index{64} << 20;  // the largest tokenizer.json in wide use has 17 MB
constexpr int kDeepestNesting = 32;              // tokenizer.json needs 6

struct FileHandle {
  int descriptor;
  explicit FileHandle(int value) : descriptor(value) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

// Reads on and tells how far the parser is: its callback does not.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* place;
  const char** furthest;

  const char& operator*() const { return *place; }
  CountingIterator& operator++() {
    *furthest = ++place;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.place == b.place; }
};

std::string kind_of(const nlohmann::json& value) {
  if (value.is_number_float()) return "a number with a fraction";
  if (value.is_number()) return "the number " + value.dump();
  if (value.is_boolean()) return value.dump();
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return value.is_null() ? "null" : std::string("an ") + value.type_name();
}

JsonNode child_of(const JsonNode& object, const std::string& key, const nlohmann::json& value) {
  return {object.document, &value, object.name.empty() ? key : object.name + "." + key};
}

void require_object(const JsonNode& node) {
  if (!node.value->is_object()) throw_bad_value(node, kind_of(*node.value), "an object");
}

}  // namespace

std::string read_text_file(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not make us wait
  if (file.descriptor < 0) throw IoError(path, "open", errno);
  struct stat status {};
  if (::fstat(file.descriptor, &status) != 0) throw IoError(path, "read", errno);
  if (S_ISDIR(status.st_mode)) throw IoError(path, "read", EISDIR);
  if (!S_ISREG(status.st_mode)) throw IoError(path, "read", ENOTSUP);
  const auto check_size = [&](Index size) {
    if (size > kLargestFile) throw FormatError(path, kLargestFile, "size: got a larger file, expected at most 64 MiB");
  };
  check_size(status.st_size);
  std::string text;
  std::string buffer(std::size_t{1} << 16, '\0');
  while (true) {
    const ssize_t num_read = ::read(file.descriptor, buffer.data(), buffer.size());
    if (num_read < 0 && errno == EINTR) continue;
    if (num_read < 0) throw IoError(path, "read", errno);
    if (num_read == 0) return text;
    text.append(buffer, 0, static_cast<std::size_t>(num_read));
    check_size(static_cast<Index>(text.size()));  // a file that grows has no size beforehand
  }
}

JsonDocument parse_json_object(std::string_view text, const std::string& path) {
  if (const auto nul = text.find('\0'); nul != text.npos)  // the parser would take it for the end
    throw FormatError(path, nul, "syntax: got a NUL byte, expected valid JSON");
  JsonDocument document{path, {}, {}};
  std::vector<std::set<std::string>> open_objects;
  const char* furthest = text.data();
  const auto offset = [&] { return static_cast<std::uint64_t>(furthest - text.data()); };
  const auto callback = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kDeepestNesting) throw FormatError(path, offset(), "nesting: got more, expected at most 32 levels");
      if (depth == 0 && event == Event::array_start) {
        throw FormatError(path, offset(), "top: got an array, expected an object");
      }
    }
    if (event == Event::object_start) open_objects.emplace_back();
    if (event == Event::object_end) open_objects.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second) {
        throw FormatError(path, offset(), "key " + quote(key) + ": got it twice, expected each key once");
      }
      if (open_objects.size() == 1) document.key_offsets[key] = offset();
    }
    return true;
  };
  try {
    document.root = nlohmann::json::parse(CountingIterator{text.data(), &furthest},
                                          CountingIterator{text.data() + text.size(), &furthest}, callback);
  } catch (const nlohmann::json::exception&) {
    throw FormatError(path, offset(), "syntax: got what cannot stand here, expected valid JSON");
  }
  if (!document.root.is_object()) {
    throw FormatError(path, 0, "top: got " + kind_of(document.root) + ", expected an object");
  }
  return document;
}

JsonDocument read_json_object(const std::string& path) {
  return parse_json_object(read_text_file(path), path);
}

JsonNode root_of(const JsonDocument& document) {
  return {&document, &document.root, ""};
}

std::string quote(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  const std::string escaped = nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return escaped.size() <= kLongest ? escaped : escaped.substr(0, kLongest) + "...\"";
}

void throw_bad_value(const JsonNode& node, const std::string& got, const std::string& expected) {
  const auto& offsets = node.document->key_offsets;
  const auto found = offsets.find(node.name.substr(0, node.name.find_first_of(".[")));
  throw FormatError(node.document->path, found == offsets.end() ? 0 : found->second,
                    (node.name.empty() ? "top" : node.name) + ": got " + got + ", expected " + expected);
}

std::optional<JsonNode> find_child(const JsonNode& object, const std::string& key) {
  require_object(object);
  const auto found = object.value->find(key);
  if (found == object.value->end() || found->is_null()) return std::nullopt;
  return child_of(object, key, *found);
}

JsonNode get_child(const JsonNode& object, const std::string& key) {
  if (auto child = find_child(object, key)) return *child;
  static const nlohmann::json kNull;
  throw_bad_value(child_of(object, key, kNull), "nothing", "a value");
}

std::vector<JsonNode> get_elements(const JsonNode& array) {
  if (!array.value->is_array()) throw_bad_value(array, kind_of(*array.value), "an array");
  std::vector<JsonNode> elements;
  for (const nlohmann::json& value : *array.value) {
    elements.push_back({array.document, &value, array.name + "[" + std::to_string(elements.size()) + "]"});
  }
  return elements;
}

std::vector<std::string> get_keys(const JsonNode& object) {
  require_object(object);
  std::vector<std::string> keys;
  for (const auto& item : object.value->items()) keys.push_back(item.key());
  return keys;
}

std::string get_string(const JsonNode& node) {
  if (!node.value->is_string()) throw_bad_value(node, kind_of(*node.value), "a string");
  return node.value->get<std::string>();
}

bool get_bool(const JsonNode& node) {
  if (!node.value->is_boolean()) throw_bad_value(node, kind_of(*node.value), "true or false");
  return node.value->get<bool>();
}

Index get_index(const JsonNode& node, Index largest) {
  const bool is_right =
      node.value->is_number_unsigned() && node.value->get<std::uint64_t>() <= static_cast<std::uint64_t>(largest);
  if (!is_right) throw_bad_value(node, kind_of(*node.value), "a whole number from 0 to " + std::to_string(largest));
  return node.value->get<Index>();
}

bool get_bool_or(const JsonNode& object, const std::string& key, bool fallback) {
  const auto child = find_child(object, key);
  return child ? get_bool(*child) : fallback;
}

}  // namespace qkv
