#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace qkv::cli {

/// The time since it was made.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// "0.123 s".
inline std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.3f s", seconds);
  return buffer;
}

}  // namespace qkv::cli
