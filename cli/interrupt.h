#pragma once

namespace qkv::cli {

/// Makes Ctrl-C and a polite kill end the process at once, without a word, with exit code 128 + signal (130, 143).
/// A signal that the parent process chose to ignore stays ignored.
void end_on_interrupt();

/// Thrown by HoldInterrupts::check().
struct Interrupted {
  int signal;
};

/// While one lives, an interrupt is kept for check(): for the time in which half-written files lie about.
class HoldInterrupts {
 public:
  HoldInterrupts();
  /// Ends the process if an interrupt came that nobody has checked for.
  ~HoldInterrupts();
  HoldInterrupts(const HoldInterrupts&) = delete;
  HoldInterrupts& operator=(const HoldInterrupts&) = delete;

  /// Throws Interrupted if an interrupt has come.
  void check() const;
};

}  // namespace qkv::cli
