// Every error that attention() documents, and the defaults it fills in.

#include "qkv/attention/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/kernels/tile_mask.h"
#include "support/poison.h"

namespace qkv {
namespace {

using test::kNaN;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Shape<4> kQ{2, 6, 5, 8}, kK{2, 3, 7, 8}, kV{2, 3, 7, 4};

// The message of a refused call names the function, the argument and both values.
void expect_refused(const Shape<4>& q, const Shape<4>& k, const Shape<4>& v, const AttentionOptions& options,
                    const std::string& argument, const std::string& got, const std::string& expected) {
  EXPECT_THAT([&] { plan(q, k, v, options); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("attention: " + argument), HasSubstr("got " + got),
                                                         HasSubstr("expected " + expected))));
}

TEST(Resolve, RefusesShapesThatDisagree) {
  expect_refused(kQ, {3, 3, 7, 8}, kV, {}, "k.shape[0] (batch)", "3", "2");
  expect_refused(kQ, kK, {1, 3, 7, 4}, {}, "v.shape[0] (batch)", "1", "2");
  expect_refused(kQ, {2, 3, 7, 9}, kV, {}, "k.shape[3] (head_dim)", "9", "8");
  expect_refused(kQ, kK, {2, 3, 6, 4}, {}, "v.shape[2] (kv_len)", "6", "7");
  expect_refused(kQ, kK, {2, 2, 7, 4}, {}, "v.shape[1] (num_kv_heads)", "2", "3");
  expect_refused({2, 5, 5, 8}, kK, kV, {}, "q.shape[1] (num_heads)", "5", "a multiple of num_kv_heads = 3");
  expect_refused({2, 6, 5, 0}, {2, 3, 7, 0}, kV, {}, "q.shape[3] (head_dim)", "0", "1 to 2^22");
  expect_refused(kQ, kK, {2, 3, 7, 0}, {}, "v.shape[3] (v_head_dim)", "0", "1 to 2^22");
  expect_refused({2, 6, -5, 8}, kK, kV, {}, "q.shape", "[2, 6, -5, 8]", "lengths of 0 to 2^48");
  expect_refused({1, 1, Index{1} << 40, 1 << 30}, {1, 1, 1, 1 << 30}, {1, 1, 1, 1}, {}, "q.shape", "[1, 1,",
                 "lengths of 0 to 2^48, a product up to 2^62");
  expect_refused(kQ, {2, 0, 7, 8}, {2, 0, 7, 4}, {}, "q.shape[1] (num_heads)", "6", "a multiple");
}

TEST(Resolve, RefusesScalarsOutOfRange) {
  expect_refused(kQ, kK, kV, {.scale = std::nan("")}, "scale", "nan", "a finite");
  expect_refused(kQ, kK, kV, {.scale = std::numeric_limits<double>::infinity()}, "scale", "inf", "a finite");
  expect_refused(kQ, kK, kV, {.scale = 1e39}, "scale", "1e+39", "a finite number, at most 1e38");
  expect_refused(kQ, kK, kV, {.softcap = 0.0}, "softcap", "0", "a finite number > 0");
  expect_refused(kQ, kK, kV, {.softcap = 1e-46}, "softcap", "1e-46", "a finite number > 0");
  expect_refused(kQ, kK, kV, {.softcap = 3e38}, "softcap", "3e+38", "a finite number > 0, 1e-38 to 1e38");
  expect_refused(kQ, kK, kV, {.scale = 1e20, .softcap = 1e-20}, "scale / softcap", "1e+40", "at most 1e38");
  expect_refused(kQ, kK, kV, {.softcap = -2.0}, "softcap", "-2", "a finite number > 0");
  expect_refused(kQ, kK, kV, {.mask = {.window = Window{.left = -1}}}, "window.left", "-1", ">= 0");
  expect_refused(kQ, kK, kV, {.mask = {.window = Window{.right = -3}}}, "window.right", "-3", ">= 0");
  expect_refused(kQ, kK, kV, {.mask = {.q_start = Index{1} << 61}}, "q_start", "2305843009213693952", "-2^60");
}

TEST(Resolve, RefusesMasksOfTheWrongShape) {
  const Tensor<float, 4> bias({2, 6, 5, 6}, 0.0f);
  expect_refused(kQ, kK, kV, {.attn_bias = bias.view()}, "attn_bias.shape[3] (kv_len)", "6", "7 or 1");
  const Tensor<bool, 4> keep({2, 3, 5, 7}, true);
  expect_refused(kQ, kK, kV, {.mask = {.keep = keep.view()}}, "keep.shape[1] (num_heads)", "3", "6 or 1");
  const std::vector<Index> one{7}, too_long{7, 8}, negative{-1, 2};
  expect_refused(kQ, kK, kV, {.mask = {.valid_lens = one}}, "valid_lens.shape[0] (batch)", "1", "2");
  expect_refused(kQ, kK, kV, {.mask = {.valid_lens = too_long}}, "valid_lens", "8", "0 to kv_len = 7");
  expect_refused(kQ, kK, kV, {.mask = {.valid_lens = negative}}, "valid_lens", "-1", "0 to kv_len = 7");
  const std::vector<Index> per_query(8, 1);
  expect_refused(kQ, kK, kV, {.mask = {.valid_lens = TensorView<const Index, 2>(per_query.data(), {2, 4})}},
                 "valid_lens.shape[1] (q_len)", "4", "5");
  expect_refused(kQ, kK, kV, {.mask = {.q_start = TensorView<const Index, 1>(one.data(), {1})}},
                 "q_start.shape[0] (batch)", "1", "2");
}

TEST(Resolve, RefusesValuesPerHeadOfAnotherNumberOfHeads) {
  const Tensor<float, 1> five({5}, 0.0f);
  expect_refused(kQ, kK, kV, {.alibi_slopes = five.view()}, "alibi_slopes.shape[0] (num_heads)", "5", "6");
  expect_refused(kQ, kK, kV, {.sinks = five.view()}, "sinks.shape[0] (num_heads)", "5", "6");
}

TEST(Resolve, RefusesADropoutThatIsNoProbability) {
  for (double p : {-0.1, 1.5}) expect_refused(kQ, kK, kV, {.dropout = Dropout{.p = p}}, "dropout.p", "", "0 to 1");
  expect_refused(kQ, kK, kV, {.dropout = Dropout{.p = std::nan("")}}, "dropout.p", "nan", "0 to 1");
}

TEST(Resolve, RefusesDocumentsThatDoNotFit) {
  const std::vector<Index> ids(100);
  const auto rows = [&](Index batch, Index len) { return TensorView<const Index, 2>(ids.data(), {batch, len}); };
  const auto refused = [&](Documents documents, const char* what, const char* got, const char* expected) {
    expect_refused(kQ, kK, kV, {.mask = {.documents = documents}}, what, got, expected);
  };
  refused({.k = rows(3, 7)}, "documents.k.shape[0] (batch)", "3", "2 or 1");
  refused({.k = rows(2, 6)}, "documents.k.shape[1] (kv_len)", "6", "7");
  refused({.k = rows(2, 7)}, "documents.q", "no ids", "ids of the queries, as q_len = 5 is not kv_len = 7");
  refused({.k = rows(2, 7), .q = rows(1, 7)}, "documents.q.shape[1] (q_len)", "7", "5");
}

TEST(Resolve, RefusesBoundsOfSequencesThatDoNotFit) {
  constexpr Shape<4> q{1, 6, 5, 8}, k{1, 3, 7, 8}, v{1, 3, 7, 4};
  using Bounds = std::vector<Index>;
  const auto refused = [&](const Shape<4>& q_shape, const Bounds& of_q, const Bounds& of_k, const char* what,
                           const char* got, const char* expected) {
    const auto view = [](const Bounds& b) { return TensorView<const Index, 1>(b.data(), {std::ssize(b)}); };
    Shape<4> k_shape = k, v_shape = v;
    k_shape[0] = v_shape[0] = q_shape[0];
    expect_refused(q_shape, k_shape, v_shape, {.mask = {.cu_seqlens_q = view(of_q), .cu_seqlens_k = view(of_k)}}, what,
                   got, expected);
  };
  refused(kQ, {0, 5}, {0, 7}, "q.shape[0] (batch)", "2", "1");
  refused(q, {0}, {0, 7}, "cu_seqlens_q.shape[0] (num_sequences + 1)", "1", ">= 2");
  refused(q, {1, 5}, {0, 7}, "cu_seqlens_q[0]", "1", "0");
  refused(q, {0, 4, 3, 5}, {0, 1, 2, 7}, "cu_seqlens_q[2]", "3", "at least 4");
  refused(q, {0, 5}, {0, 6}, "cu_seqlens_k[1]", "6", "kv_len = 7");
  refused(q, {0, 2, 5}, {0, 7}, "cu_seqlens_k.shape[0] (num_sequences + 1)", "2", "3 as in cu_seqlens_q");
  const Bounds bounds{0, 5};
  expect_refused(q, k, v, {.mask = {.cu_seqlens_q = TensorView<const Index, 1>(bounds.data(), {2})}}, "cu_seqlens_k",
                 "no bounds", "bounds beside those of the other, or neither");
  const Bounds starts{1, 2, 3};
  const auto view = TensorView<const Index, 1>(starts.data(), {3});
  const auto to_five = TensorView<const Index, 1>(bounds.data(), {2});
  expect_refused(q, {1, 3, 5, 8}, {1, 3, 5, 4},
                 {.mask = {.q_start = view, .cu_seqlens_q = to_five, .cu_seqlens_k = to_five}},
                 "q_start.shape[0] (num_sequences)", "3", "1");
}

TEST(Resolve, RefusesStridesThatTheKernelCannotRead) {
  const Tensor<float, 4> q(kQ, 0.0f), k(kK, 0.0f), v(kV, 0.0f);
  const CView<4> transposed(q.data(), kQ, {240, 40, 1, 5});
  EXPECT_THAT([&] { attention(transposed, k, v); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("q.stride[3]"), HasSubstr("got 5"), HasSubstr("expected 1"))));
}

TEST(Resolve, RefusesOutputsOfTheWrongShapeBeforeWritingAnything) {
  const Tensor<float, 4> q(kQ, 0.0f), k(kK, 0.0f), v(kV, 0.0f);
  Tensor<float, 4> out({2, 6, 5, 4}, kNaN), wrong({2, 6, 5, 8}, kNaN);
  Tensor<float, 3> wrong_lse({2, 6, 7}, kNaN);
  Workspace workspace;
  EXPECT_THAT([&] { attention_into(wrong.view(), q, k, v, {}, workspace); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("out.shape"), HasSubstr("[2, 6, 5, 8]"), HasSubstr("[2, 6, 5, 4]"))));
  AttentionOutput output(out);
  EXPECT_THAT([&] { attention_into(output, q, k, v, {.observe = {.entropy = true}}, workspace); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("output.entropy: got no view")));
  output.lse = wrong_lse.view();
  EXPECT_THROW(attention_into(output, q, k, v, {}, workspace), std::invalid_argument);
  for (Index n = 0; n < out.size(); ++n) ASSERT_TRUE(std::isnan(out.data()[n]));
}

// https://github.com/pytorch/pytorch/issues/187227
TEST(Resolve, RefusesWeightsTooLargeToHoldBeforeAllocating) {
  const Index len = Index{1} << 31;
  const Tensor<float, 4> row({1, 1, 1, 1}, 0.0f);
  const CView<4> q(row.data(), {1, 1, len, 1}, {0, 0, 0, 1}), kv(row.data(), {1, 1, len, 1}, {0, 0, 0, 1});
  EXPECT_THAT(
      [&] { attention(q, kv, kv, {.observe = {.attn_weights = true}}); },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("too large"), HasSubstr("[1, 1, 2147483648, 2147483648]"))));
}

TEST(Resolve, RefusesBadStridesBeforeAllocatingAnything) {
  const Index len = Index{1} << 31;
  const Tensor<float, 4> row({1, 1, 1, 4}, 0.0f);
  const CView<4> q(row.data(), {1, 1, len, 2}, {0, 0, 0, 2}), kv(row.data(), {1, 1, len, 2}, {0, 0, 0, 1});
  EXPECT_THAT([&] { attention(q, kv, kv); }, ThrowsMessage<std::invalid_argument>(HasSubstr("q.stride[3]")));
}

TEST(Resolve, FillsInTheDefaults) {
  const Tensor<float, 4> q(kQ, 0.0f), k(kK, 0.0f), v(kV, 0.0f);
  const auto args = resolve<float>(q, k, v, {});
  EXPECT_FLOAT_EQ(args.scale, 1 / std::sqrt(8.0f));
  EXPECT_EQ(kernels::place_query(args, 1, 0).position, 2);  // kv_len - q_len
  EXPECT_EQ(args.group_size(), 2);
}

TEST(Plan, SaysWhatWillRun) {
  const auto result = plan(kQ, kK, kV);
  EXPECT_EQ(result.kernel, "fused");
  EXPECT_FALSE(result.target.empty());
  EXPECT_FALSE(result.reason.empty());
  EXPECT_EQ(result.num_tasks, 1);  // not worth waking a thread for
  EXPECT_GT(result.workspace_bytes, 0);
  EXPECT_EQ(plan({0, 6, 5, 8}, {0, 3, 7, 8}, {0, 3, 7, 4}).num_tasks, 0);
}

TEST(Plan, HasTasksForManyThreadsWhereThereIsEnoughToDo) {
  const auto num_tasks = [](Index heads, Index q_len, Index kv_len) {
    return plan({1, heads, q_len, 64}, {1, heads, kv_len, 64}, {1, heads, kv_len, 64}).num_tasks;
  };
  EXPECT_GE(num_tasks(1, 4096, 4096), 12);
  EXPECT_GE(num_tasks(8, 1024, 1024), 16);
  EXPECT_GE(num_tasks(500, 64, 64), 64);
  EXPECT_GE(num_tasks(5000, 64, 64), 600);  // short heads are grouped, but to no more than eight
  EXPECT_LT(num_tasks(5000, 64, 64), 700);
  EXPECT_EQ(num_tasks(5000, 1, 8192), 5000);  // long ones are not
}

// Views of stride 0 may have more elements than there is memory: sizes that are multiplied must not overflow.
TEST(Plan, OfHugeViewsDoesNotOverflow) {
  const auto tasks = [](const Shape<4>& q, const Shape<4>& kv) { return plan(q, kv, kv).num_tasks; };
  constexpr Index kMany = Index{1} << 30;
  EXPECT_GE(tasks({1, 1, kMany, 64}, {1, 1, kMany, 64}), 16);
  EXPECT_GE(tasks({kMany, kMany, 1, 1}, {kMany, kMany, 1, 1}), 64);
  EXPECT_GE(tasks({1, kMany, kMany, 1}, {1, kMany, kMany, 1}), kMany);
  EXPECT_GE(tasks({kMany, 1, 1, 64}, {kMany, 1, 1 << 20, 64}), 1 << 20);
}

TEST(Plan, OfAsManyHeadsAsThereMayBeDoesNotOverflow) {
  constexpr Index kMost = Index{1} << 48;
  EXPECT_GT(plan({kMost, 1 << 14, 1, 1}, {kMost, 1 << 14, 1, 1}, {kMost, 1 << 14, 1, 1}).num_tasks, 0);
  expect_refused({kMost, 1 << 15, 1, 1}, {kMost, 1 << 15, 1, 1}, {kMost, 1 << 15, 1, 1}, {}, "q.shape",
                 "[281474976710656, 32768, 1, 1]", "lengths of 0 to 2^48, a product up to 2^62");
}

TEST(Plan, RefusesShapesWhoseScratchIsBeyondAllMeasure) {
  constexpr Index kMany = Index{1} << 62;
  expect_refused({1, 1, kMany, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}, "q.shape", "[1, 1, 4611686018427387904, 1]",
                 "lengths of 0 to 2^48");
  expect_refused({0, 1, kMany, 1}, {0, 1, 1, 1}, {0, 1, 1, 1}, {}, "q.shape", "[0, 1,", "lengths of 0 to 2^48");
  expect_refused({1, 1, 1, 1 << 23}, {1, 1, 1, 1 << 23}, {1, 1, 1, 1}, {}, "q.shape[3] (head_dim)", "8388608",
                 "1 to 2^22");
  expect_refused({1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1 << 23}, {}, "v.shape[3] (v_head_dim)", "8388608", "1 to 2^22");
  const float one = 1;
  const CView<2> w(&one, {kMany, 1}, {0, 1});
  const AdditiveScoring scoring{w, w, CView<1>(&one, {kMany}, {0})};
  expect_refused({1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {.scoring = scoring}, "w_v.shape[0] (hidden_dim)",
                 "4611686018427387904", "1 to 2^22");
}

// Scratch grows with the width of a head, not with the lengths.
TEST(Plan, NeedsNoMoreMemoryForMoreTokens) {
  const auto bytes = [](Index len) { return plan({1, 8, len, 64}, {1, 8, len, 64}, {1, 8, len, 64}).workspace_bytes; };
  EXPECT_EQ(bytes(100000), bytes(10000));
}

}  // namespace
}  // namespace qkv
