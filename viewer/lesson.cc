#include "viewer/lesson.h"

#include <cmath>
#include <cstdio>

namespace qkv::viewer {

std::string number_text(double number) {
  const double size = std::abs(number);
  const char* format = "%.1e";
  if (size >= 0.01 || size == 0) format = "%.2f";
  if (size >= 10) format = "%.1f";
  if (size >= 100) format = "%.0f";
  if (size >= 1e9) format = "%.1e";
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), format, number);
  return buffer;
}

std::string tenths_text(double number) {
  char buffer[512];  // the largest double has 309 digits
  std::snprintf(buffer, sizeof(buffer), "%.1f", number);
  return buffer;
}

std::string range_text(const std::string& from, const std::string& to) {
  return from == to ? from : from + " to " + to;
}

std::string count_text(std::size_t count, std::size_t total, const std::string& what) {
  const std::string all = std::to_string(total) + " " + what + (total == 1 ? "" : "s");
  if (count == 0) return "in none of " + all;
  return count == total ? "in all " + all : "in " + std::to_string(count) + " of " + all;
}

}  // namespace qkv::viewer
