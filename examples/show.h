#pragma once

#include <cmath>
#include <cstdio>

#include "qkv/core/tensor_view.h"

// What the examples have in common: they print matrices, and they check what they claim.

namespace example {

/// Prints a matrix, one row a line.
inline void show(const char* title, qkv::CView<2> matrix, int decimals = 2) {
  std::printf("%s\n", title);
  for (qkv::Index i = 0; i < matrix.shape(0); ++i) {
    for (qkv::Index j = 0; j < matrix.shape(1); ++j)
      std::printf("%*.*f", decimals + 6, decimals, static_cast<double>(matrix(i, j)));
    std::printf("\n");
  }
}

/// Counts the claims that do not hold; an example returns the number.
class Claims {
 public:
  void expect(const char* claim, bool holds) {
    if (holds) return;
    std::printf("WRONG: %s\n", claim);
    ++num_wrong_;
  }
  int num_wrong() const { return num_wrong_; }

 private:
  int num_wrong_ = 0;
};

inline bool is_near(double a, double b, double tolerance = 1e-5) {
  return std::abs(a - b) <= tolerance;
}

/// The largest difference between two tensors of the same shape.
template <class Tensor>
double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = a.shape() == b.shape() ? 0 : INFINITY;
  for (qkv::Index n = 0; n < a.size() && largest < INFINITY; ++n)
    largest = std::fmax(largest, std::abs(static_cast<double>(a.data()[n]) - static_cast<double>(b.data()[n])));
  return largest;
}

}  // namespace example
