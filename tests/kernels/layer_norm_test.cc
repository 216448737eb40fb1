#include "qkv/kernels/layer_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/poison.h"
#include "support/random.h"
#include "support/targets.h"

namespace qkv::kernels {
namespace {

using test::kInfinity, test::kNaN;

// A row, not aligned, between margins that nobody may read or write.
class PoisonedRow {
 public:
  explicit PoisonedRow(Index dim, float poison = kNaN)
      : poison_(poison), storage_(static_cast<std::size_t>(dim + 2 * kMargin), poison) {}
  float* data() { return storage_.data() + kMargin; }
  void expect_intact() const {
    for (std::size_t n = 0; n < kMargin; ++n)
      ASSERT_TRUE(storage_[n] == poison_ && storage_[storage_.size() - 1 - n] == poison_) << "wrote outside of the row";
  }

 private:
  static constexpr Index kMargin = 33;
  float poison_;
  std::vector<float> storage_;
};

struct Layer {
  Layer(Index size, double epsilon, test::Random& random) : dim(size), eps(epsilon) {
    for (Index d = 0; d < dim; ++d) {
      weight.push_back(random.normal());
      bias.push_back(random.normal());
    }
  }
  LayerNormArgs args() const { return {weight.data(), bias.data(), dim, eps}; }

  Index dim;
  double eps;
  std::vector<double> weight, bias;
};

// The kernel's outputs are the formula's, rounded to float once: half a unit in the last place, and what double does
// to values, mean and sums before it.
void expect_rounded_formula(const Layer& layer, float* x, float* residual) {
  const auto dim = static_cast<long double>(layer.dim);
  const auto value = [=](Index d) -> long double { return x[d] + (residual ? residual[d] : 0.0L); };
  long double mean = 0, variance = 0, largest = 0;
  for (Index d = 0; d < layer.dim; ++d) mean += value(d) / dim, largest = std::max(largest, std::abs(value(d)));
  for (Index d = 0; d < layer.dim; ++d) variance += (value(d) - mean) * (value(d) - mean) / dim;
  PoisonedRow y(layer.dim, -77);  // no NaN, which is what comes of x past its end
  layer_norm_row(layer.args(), x, residual, y.data());
  y.expect_intact();
  for (Index d = 0; d < layer.dim; ++d) {
    const long double factor = layer.weight[d] / std::sqrt(variance + layer.eps), scaled = (value(d) - mean) * factor;
    const long double expected = scaled + layer.bias[d];
    const long double in_double = 0x1p-51L * std::abs(largest * factor) + 1e-12L * (std::abs(scaled) + 1);
    const long double bound = 0x1p-24L * std::abs(expected) + in_double;
    ASSERT_LE(std::abs(y.data()[d] - expected), bound) << "dim " << layer.dim << " at " << d;
  }
}

std::vector<Index> widths() {
  std::vector<Index> result{63, 64, 65, 384, 1001};
  for (Index dim = 1; dim <= 40; ++dim) result.push_back(dim);
  return result;
}

class LayerNormKernel : public test::OnEveryTarget {};

TEST_P(LayerNormKernel, RoundsTheFormulaOnce) {
  test::Random random(1);
  for (Index dim : widths())
    for (double eps : {1e-5, 1e-12}) {
      const Layer layer(dim, eps, random);
      PoisonedRow x(dim), residual(dim);
      for (Index d = 0; d < dim; ++d) x.data()[d] = random.normal(), residual.data()[d] = random.normal();
      expect_rounded_formula(layer, x.data(), nullptr);
      expect_rounded_formula(layer, x.data(), residual.data());
    }
}

// The square of the mean is up to 1e12 times the variance, or one value, the first or another, is all there is to the variance.
TEST_P(LayerNormKernel, LosesNoDigitsToALargeMeanOrValue) {
  test::Random random(2);
  for (Index dim : widths()) {
    if (dim == 1) continue;
    const Layer layer(dim, 1e-12, random);
    PoisonedRow x(dim), residual(dim);
    for (float mean : {1e4f, -1e6f}) {
      for (Index d = 0; d < dim; ++d) x.data()[d] = mean + random.normal(), residual.data()[d] = random.normal();
      expect_rounded_formula(layer, x.data(), nullptr);
      expect_rounded_formula(layer, x.data(), residual.data());
    }
    for (Index outlier : {Index{0}, dim / 2, dim - 1}) {
      for (Index d = 0; d < dim; ++d) x.data()[d] = d == outlier ? 1e6f : random.normal();
      expect_rounded_formula(layer, x.data(), nullptr);
    }
  }
}

TEST_P(LayerNormKernel, GivesTheBiasForEqualValues) {
  test::Random random(3);
  for (Index dim : widths()) {
    const Layer layer(dim, 1e-12, random);
    PoisonedRow x(dim), y(dim);
    for (float value : {0.1f, -3e38f}) {
      std::fill_n(x.data(), dim, value);
      layer_norm_row(layer.args(), x.data(), nullptr, y.data());
      for (Index d = 0; d < dim; ++d) ASSERT_EQ(y.data()[d], layer.bias[d]) << "dim " << dim;
    }
  }
}

TEST_P(LayerNormKernel, GivesNaNForARowThatIsNotFinite) {
  test::Random random(4);
  for (Index dim : widths()) {
    const Layer layer(dim, 1e-5, random);
    for (float bad : {kNaN, kInfinity, -kInfinity})
      for (Index at : {Index{0}, dim / 2, dim - 1}) {
        PoisonedRow x(dim), y(dim);
        for (Index d = 0; d < dim; ++d) x.data()[d] = d == at ? bad : random.normal();
        std::fill_n(y.data(), dim, 0.0f);
        layer_norm_row(layer.args(), x.data(), nullptr, y.data());
        for (Index d = 0; d < dim; ++d)
          ASSERT_TRUE(std::isnan(y.data()[d])) << "dim " << dim << ": " << bad << " at " << at;
      }
  }
}

TEST_P(LayerNormKernel, KeepsInfinitiesOfTheLayerInTheirPlace) {
  test::Random random(5);
  Layer layer(19, 1e-5, random);
  layer.bias[3] = kInfinity, layer.bias[18] = -kInfinity;
  layer.weight[5] = kNaN;
  PoisonedRow x(19), y(19);
  for (Index d = 0; d < 19; ++d) x.data()[d] = random.normal();
  layer_norm_row(layer.args(), x.data(), nullptr, y.data());
  for (Index d = 0; d < 19; ++d) ASSERT_EQ(std::isfinite(y.data()[d]), d != 3 && d != 5 && d != 18);
  EXPECT_EQ(y.data()[3], kInfinity);
  EXPECT_EQ(y.data()[18], -kInfinity);
}

INSTANTIATE_TEST_SUITE_P(Targets, LayerNormKernel, testing::ValuesIn(supported_targets()), test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv::kernels
