#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace qkv::cli {

/// Texts longer than this are refused: no model reads that much, and a wrong file should not fill the memory.
inline constexpr std::size_t kLongestInput = std::size_t{64} << 20;

/// A file, pipe or standard input, read piece by piece.
/// Errors of every function: CommandError (kInput), naming the file.
class Input {
 public:
  /// Opens a file; "-" is standard input.
  explicit Input(const std::string& path);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// "standard input", or the path.
  const std::string& name() const { return name_; }
  /// All that is left.
  std::string read_all();
  /// The next line without its end, LF or CR LF; nothing at the end of the file.
  std::optional<std::string> read_line();
  /// Whether read_line() has a whole line at hand and will not wait.
  bool has_line() const { return buffer_.find('\n') != std::string::npos; }

 private:
  // Appends a block to buffer_; false at the end of the file.
  bool fill();

  std::string name_, buffer_;
  int descriptor_ = -1;
};

/// The argument TEXT and the option -f that stands in for it.
struct TextOptions {
  std::string text, file;
  CLI::Option* text_option = nullptr;
  CLI::Option* file_option = nullptr;
};

void add_text_options(CLI::App& command, TextOptions& options);

/// TEXT, where "-" is standard input, or the file of -f, or standard input where it is no terminal.
/// Errors: CommandError (kInput); ShowShortHelp where there is none of them.
std::string read_text(const CLI::App& command, const TextOptions& options);

/// The input of a command that reads lines: the file of `file_option`, else standard input.
/// Errors: ShowShortHelp where the option is not given and standard input is a terminal.
std::string input_path(const CLI::App& command, const CLI::Option& file_option, const std::string& file);

}  // namespace qkv::cli
