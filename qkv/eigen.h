#pragma once

#include <Eigen/Core>
#include <type_traits>

#include "qkv/core/tensor_view.h"

// For programs that keep their vectors in the columns of Eigen matrices. Only who includes this file needs Eigen.

namespace qkv {

/// The columns of an Eigen matrix as the rows of a view: an n x len matrix of len column vectors reads as [len, n].
/// Nothing is copied: a column-major matrix of columns is the same memory as a row-major matrix of rows.
/// The matrix may be a Matrix, Map, Ref, or a block of one, such as O.middleRows(first, n) for the rows of one head.
///
///   Eigen::MatrixXf Q, K, V;                                        // columns are vectors
///   attention(columns_as_rows(Q), columns_as_rows(K), columns_as_rows(V));   // O = V softmax(K^T Q / sqrt(n))
///
/// Shapes: [matrix.cols(), matrix.rows()]; elements are const if those of the matrix are. Does not compile for
///   row-major matrices, for expressions that have no memory yet, such as W * X, or for a temporary matrix, whose
///   memory would be gone when the view is used.
template <class Matrix>
auto columns_as_rows(Matrix&& matrix) {
  using Plain = std::remove_cvref_t<Matrix>;
  static_assert(bool(Plain::Flags & Eigen::DirectAccessBit), "an expression has no memory yet: .eval() it first");
  static_assert(!Plain::IsRowMajor, "columns lie side by side in column-major matrices only");
  static_assert(std::is_lvalue_reference_v<Matrix> || !std::is_base_of_v<Eigen::PlainObjectBase<Plain>, Plain>,
                "the view would outlive a temporary matrix: give it a name");
  auto* data = matrix.data();
  return TensorView<std::remove_pointer_t<decltype(data)>, 2>(data, {matrix.cols(), matrix.rows()},
                                                              {matrix.outerStride(), matrix.innerStride()});
}

}  // namespace qkv
