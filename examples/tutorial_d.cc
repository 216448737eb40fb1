// Tutorial D: the matrix form with column vectors, on Eigen matrices and without a copy.
//
// Inputs are the columns of I. Q = W_q I, K = W_k I, V = W_v I; A = K^T Q; A' is A with softmax applied to each column;
// O = V A'. A column-major matrix of columns is the same memory as a row-major matrix of rows, which is what qkv reads.

#include "examples/show.h"
#include "qkv/attention/attention.h"
#include "qkv/eigen.h"

using Eigen::MatrixXd;
using Eigen::MatrixXf;
using qkv::columns_as_rows;
using qkv::Index;

// The formula as the tutorial writes it, in double: A and A' are whole matrices here.
MatrixXd formula(const MatrixXf& q, const MatrixXf& k, const MatrixXf& v) {
  const MatrixXd a = k.cast<double>().transpose() * q.cast<double>();
  MatrixXd a_prime = (a.rowwise() - a.colwise().maxCoeff()).array().exp();
  for (auto column : a_prime.colwise()) column /= column.sum();
  return v.cast<double>() * a_prime;
}

double largest_difference(const MatrixXf& got, const MatrixXd& expected) {
  return (got.cast<double>() - expected).cwiseAbs().maxCoeff();
}

// Numbers between -1 and 1 that are the same everywhere.
MatrixXf numbers(Index rows, Index columns, double phase) {
  return MatrixXf::NullaryExpr(rows, columns, [phase](Index i, Index j) {
    return static_cast<float>(std::sin(phase + 1.3 * static_cast<double>(i) + 0.7 * static_cast<double>(j * j)));
  });
}

int main() {
  example::Claims claims;
  constexpr Index kModel = 6, kLen = 5;
  const MatrixXf input = numbers(kModel, kLen, 0);  // five words, each a column of six numbers

  // One head. The tutorial's dot product is unscaled: scale = 1.
  const MatrixXf q = numbers(4, kModel, 1) * input, k = numbers(4, kModel, 2) * input,
                 v = numbers(3, kModel, 3) * input;
  const auto r = qkv::attention(columns_as_rows(q), columns_as_rows(k), columns_as_rows(v),
                                {.scale = 1.0, .observe = {.attn_weights = true}});
  const Eigen::Map<const MatrixXf> o(r.out.data(), v.rows(), kLen);  // and back: rows of ours are columns of Eigen's
  example::show("O^T, a row for each word (3 numbers)", columns_as_rows(o), 4);
  // What the tutorial calls attention scores after softmax: row i of attn_weights is column i of A'.
  example::show("A'^T: where each word looks", r.attn_weights.view().select(0, 0).select(0, 0));
  std::printf("largest difference from V softmax(K^T Q) in double: %.1e\n", largest_difference(o, formula(q, k, v)));
  claims.expect("O = V softmax(K^T Q) within 1e-6", largest_difference(o, formula(q, k, v)) <= 1e-6);

  // Several heads, each with W_q,i, W_k,i and W_v,i of any width: 3 heads of 4 (values of 2) for a model of 6. Each
  // writes its rows of the stacked output, in place; W_o mixes the stack.
  constexpr Index kNumHeads = 3, kHeadDim = 4, kValueDim = 2;
  MatrixXf stacked(kNumHeads * kValueDim, kLen);
  MatrixXd expected(stacked.rows(), kLen);
  qkv::Workspace workspace;
  for (Index h = 0; h < kNumHeads; ++h) {
    const double phase = 10 + 3 * static_cast<double>(h);
    const MatrixXf q_i = numbers(kHeadDim, kModel, phase) * input, k_i = numbers(kHeadDim, kModel, phase + 1) * input,
                   v_i = numbers(kValueDim, kModel, phase + 2) * input;
    const qkv::View<4> out = columns_as_rows(stacked.middleRows(h * kValueDim, kValueDim));
    attention_into(out, columns_as_rows(q_i), columns_as_rows(k_i), columns_as_rows(v_i), {.scale = 1.0}, workspace);
    expected.middleRows(h * kValueDim, kValueDim) = formula(q_i, k_i, v_i);
  }
  claims.expect("every head writes its rows", largest_difference(stacked, expected) <= 1e-6);
  const MatrixXf w_o = numbers(kModel, stacked.rows(), 30), mixed = w_o * stacked;
  example::show("W_o times the stacked heads, a row for each word", columns_as_rows(mixed), 4);
  claims.expect("as wide as the model again", mixed.rows() == kModel && mixed.cols() == kLen);

  // All heads in one call: Q of all heads, stacked as their outputs are, splits into heads by strides.
  const MatrixXf all = numbers(kNumHeads * kHeadDim, kLen, 40);
  const auto heads = [](qkv::CView<2> rows) { return rows.split_axis(1, kHeadDim).swap_axes(0, 1); };
  const auto together = qkv::attention(heads(columns_as_rows(all)), heads(columns_as_rows(all)),
                                       heads(columns_as_rows(all)), {.scale = 1.0});
  for (Index h = 0; h < kNumHeads; ++h) {
    const MatrixXf head = all.middleRows(h * kHeadDim, kHeadDim);
    const Eigen::Map<const MatrixXf> out(&together.out(0, h, 0, 0), kHeadDim, kLen);
    claims.expect("one call does all heads", largest_difference(out, formula(head, head, head)) <= 1e-6);
  }
  return claims.num_wrong();
}
