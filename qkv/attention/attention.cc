#include "qkv/attention/attention.h"

#include "qkv/attention/resolve.h"
#include "qkv/kernels/reference.h"

namespace qkv {

void attention_into(const AttentionOutput& output, CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options,
                    Workspace&) {
  const AttentionShapes shapes{q.shape(), k.shape(), v.shape()};
  check_shapes(shapes, options);
  check_output(output, shapes, options.observe);
  Index default_q_start = 0;
  const auto args = resolve(q, k, v, options, default_q_start);
  const auto r = kernels::attention_reference<float>(args);
  for (Index b = 0; b < q.shape(0); ++b)
    for (Index h = 0; h < q.shape(1); ++h)
      for (Index i = 0; i < q.shape(2); ++i) {
        for (Index d = 0; d < v.shape(3); ++d) output.out(b, h, i, d) = r.out(b, h, i, d);
        if (output.lse) (*output.lse)(b, h, i) = r.lse(b, h, i);
        if (output.entropy) (*output.entropy)(b, h, i) = r.entropy(b, h, i);
        if (output.attn_weights)
          for (Index j = 0; j < k.shape(2); ++j) (*output.attn_weights)(b, h, i, j) = r.attn_weights(b, h, i, j);
      }
}

AttentionResult attention(CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options) {
  const AttentionShapes shapes{q.shape(), k.shape(), v.shape()};
  check_shapes(shapes, options);
  AttentionResult result;
  result.out = Tensor<float, 4>(shapes.out());
  AttentionOutput output(result.out);
  if (options.observe.lse) output.lse = result.lse = Tensor<float, 3>(shapes.rows());
  if (options.observe.entropy) output.entropy = result.entropy = Tensor<float, 3>(shapes.rows());
  if (options.observe.attn_weights) output.attn_weights = result.attn_weights = Tensor<float, 4>(shapes.attn_weights());
  Workspace workspace;
  attention_into(output, q, k, v, options, workspace);
  return result;
}

}  // namespace qkv
