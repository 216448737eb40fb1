#include "cli/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/exit_code.h"
#include "cli/help.h"

namespace qkv::cli {

Input::Input(const std::string& path) : name_(path == "-" ? "standard input" : path) {
  descriptor_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw CommandError(ExitCode::kInput, "cannot open " + name_ + ": " + std::strerror(errno));
}

Input::~Input() {
  if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
}

bool Input::fill() {
  constexpr std::size_t kBlock = 1 << 16;
  const std::size_t size = buffer_.size();
  if (size > kLongestInput)
    throw CommandError(ExitCode::kInput, name_ + " holds a text of more than " + std::to_string(kLongestInput >> 20) +
                                             " MiB, which is too long");
  buffer_.resize(size + kBlock);
  ::ssize_t length = -1;
  do length = ::read(descriptor_, buffer_.data() + size, kBlock);
  while (length < 0 && errno == EINTR);
  if (length < 0) throw CommandError(ExitCode::kInput, "cannot read " + name_ + ": " + std::strerror(errno));
  buffer_.resize(size + static_cast<std::size_t>(length));
  return length > 0;
}

std::string Input::read_all() {
  while (fill()) continue;
  return std::exchange(buffer_, {});
}

std::optional<std::string> Input::read_line() {
  std::size_t end = buffer_.find('\n');
  while (end == std::string::npos) {
    const std::size_t searched = buffer_.size();
    if (!fill()) break;
    end = buffer_.find('\n', searched);
  }
  if (end == std::string::npos && buffer_.empty()) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end == std::string::npos ? end : end + 1);
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

void add_text_options(CLI::App& command, TextOptions& options) {
  options.text_option = command.add_option("TEXT", options.text, "The text; - or nothing: standard input");
  options.file_option = command.add_option("-f,--file", options.file, "Read the text from a file")->type_name("FILE");
  options.file_option->excludes(options.text_option);
}

std::string read_text(const CLI::App& command, const TextOptions& options) {
  const bool is_given = options.text_option->count() > 0;
  if (is_given && options.text != "-") return options.text;
  return Input(is_given ? "-" : input_path(command, *options.file_option, options.file)).read_all();
}

std::string input_path(const CLI::App& command, const CLI::Option& file_option, const std::string& file) {
  if (file_option.count() > 0) return file;
  if (::isatty(STDIN_FILENO)) throw ShowShortHelp{&command};
  return "-";
}

}  // namespace qkv::cli
