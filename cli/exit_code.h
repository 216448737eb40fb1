#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace qkv::cli {

/// The exit codes of every command.
enum class ExitCode {
  kOk = 0,
  kRunTime = 1,
  kUsage = 2,   ///< an option or argument that makes no sense
  kModel = 3,   ///< a model that is missing, broken or of another type
  kInput = 4,   ///< text or operands: empty, too long, not UTF-8, broken files
  kOutput = 5,  ///< a result that could not be written
  kInterrupted = 130,
};

/// An error that knows its exit code. what() is the line for the user, without "qkv: ".
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Runs `work`; whatever it throws leaves as a CommandError with `code` (one that has a code already keeps it, and so
/// does a lack of memory, which is nobody's file's fault).
template <class Work>
auto blame(ExitCode code, Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const CommandError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw CommandError(code, error.what());
  }
}

}  // namespace qkv::cli
