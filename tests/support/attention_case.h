#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "qkv/attention/options.h"
#include "qkv/core/tensor.h"
#include "support/poison.h"
#include "support/random.h"

namespace qkv::test {

enum class MaskKind {
  kNone,
  kCausalLower,
  kCausalUpper,
  kWindow,
  kCausalWindow,
  kValidLens,
  kValidLensPerQuery,
  kKeep,
  kKeepPadding,  // [batch, 1, 1, kv_len]
  kBias,
  kBiasBroadcast,  // [1, heads, q_len, kv_len], some entries -inf
  kSoftcap,
  kEverything,
  kAlibi,
  kSinks,
  kDocuments,
  kRagged,  // of batch = 1
  kRaggedCausal,
  kDropout,
};
inline constexpr int kNumMaskKinds = 19;

enum class ScoringKind { kDot, kCosine, kAdditive };
inline constexpr int kNumScoringKinds = 3;

/// One attention problem: tests, benchmarks and fuzzers describe their work with it.
struct AttentionCase {
  Index batch = 1, num_heads = 1, num_kv_heads = 1, q_len = 1, kv_len = 1, head_dim = 1, v_head_dim = 1;
  ScoringKind scoring = ScoringKind::kDot;
  MaskKind mask = MaskKind::kNone;
  Layout layout = Layout::kPacked;
  std::uint64_t seed = 1;

  std::string name() const {
    static constexpr const char* kMasks[] = {
        "none",  "causal_lower", "causal_upper", "window",         "causal_window", "valid",      "valid_per_q",
        "keep",  "padding",      "bias",         "bias_broadcast", "softcap",       "everything", "alibi",
        "sinks", "documents",    "ragged",       "ragged_causal",  "dropout"};
    static constexpr const char* kLayouts[] = {"packed", "interleaved", "cache_slice", "broadcast"};
    static constexpr const char* kScorings[] = {"dot", "cosine", "additive"};
    return "B" + std::to_string(batch) + "/H" + std::to_string(num_heads) + "/Hkv" + std::to_string(num_kv_heads) +
           "/" + kScorings[static_cast<int>(scoring)] + "/Lq" + std::to_string(q_len) + "/Lk" + std::to_string(kv_len) +
           "/D" + std::to_string(head_dim) + "/Dv" + std::to_string(v_head_dim) + "/" + kMasks[static_cast<int>(mask)] +
           "/" + kLayouts[static_cast<int>(layout)] + "/seed" + std::to_string(seed);
  }
};

/// The tensors of a case and the options that borrow them. Neither copied nor moved, since the options point inside.
template <class T>
class BasicCaseInputs {
 public:
  explicit BasicCaseInputs(const AttentionCase& c)
      : q_({c.batch, c.num_heads, c.q_len, c.head_dim}, c.layout),
        k_({c.batch, c.num_kv_heads, c.kv_len, c.head_dim}, c.layout),
        v_({c.batch, c.num_kv_heads, c.kv_len, c.v_head_dim}, c.layout) {
    Random random(c.seed);
    fill(q_.view(), random);
    fill(k_.view(), random);
    fill(v_.view(), random);
    set_scoring(c, random);
    set_options(c, random);
  }
  BasicCaseInputs(const BasicCaseInputs&) = delete;
  BasicCaseInputs& operator=(const BasicCaseInputs&) = delete;

  TensorView<const T, 4> q() const { return q_.view(); }
  TensorView<const T, 4> k() const { return k_.view(); }
  TensorView<const T, 4> v() const { return v_.view(); }

  BasicAttentionOptions<T> options;

 private:
  static void fill(TensorView<T, 4> view, Random& random) {
    for (Index b = 0; b < view.shape(0); ++b)
      for (Index h = 0; h < view.shape(1); ++h)
        for (Index i = 0; i < view.shape(2); ++i)
          for (Index d = 0; d < view.shape(3); ++d) view(b, h, i, d) = random.normal<T>();
  }

  void set_scoring(const AttentionCase& c, Random& random) {
    if (c.scoring == ScoringKind::kCosine) options.scoring = CosineScoring{};
    if (c.scoring != ScoringKind::kAdditive) return;
    constexpr Index kHiddenDim = 29;  // more than one panel on some targets, and odd
    w_q_ = random.tensor<2, T>({kHiddenDim, c.head_dim});
    w_k_ = random.tensor<2, T>({kHiddenDim, c.head_dim});
    w_v_ = random.tensor<1, T>({kHiddenDim});
    for (auto* weight : {&w_q_, &w_k_})
      for (Index n = 0; n < weight->size(); ++n) weight->data()[n] /= std::sqrt(static_cast<T>(c.head_dim));
    options.scoring = BasicAdditiveScoring<T>{w_q_.view(), w_k_.view(), w_v_.view()};
  }

  void set_options(const AttentionCase& c, Random& random) {
    const auto is = [&](std::initializer_list<MaskKind> kinds) {
      return std::find(kinds.begin(), kinds.end(), c.mask) != kinds.end();
    };
    const Shape<4> full{c.batch, c.num_heads, c.q_len, c.kv_len};
    auto& mask = options.mask;
    mask.causal = is({MaskKind::kCausalLower, MaskKind::kCausalUpper, MaskKind::kCausalWindow, MaskKind::kEverything});
    if (c.mask == MaskKind::kCausalUpper) mask.q_start = 0;
    if (c.mask == MaskKind::kWindow) mask.window = Window{.left = 3, .right = 9};
    if (c.mask == MaskKind::kCausalWindow) mask.window = Window{.left = c.kv_len / 3};
    if (is({MaskKind::kValidLens, MaskKind::kEverything})) {
      for (Index b = 0; b < c.batch; ++b) lengths_.push_back(b == 1 ? 0 : random.below(c.kv_len + 1));
      mask.valid_lens = lengths_;
    }
    if (c.mask == MaskKind::kValidLensPerQuery) {
      for (Index n = 0; n < c.batch * c.q_len; ++n) lengths_.push_back(random.below(c.kv_len + 1));
      mask.valid_lens = ValidLens(TensorView<const Index, 2>(lengths_.data(), {c.batch, c.q_len}));
    }
    if (is({MaskKind::kKeep, MaskKind::kEverything})) set_keep(full, random);
    if (c.mask == MaskKind::kKeepPadding) set_keep({c.batch, 1, 1, c.kv_len}, random);
    if (is({MaskKind::kBias, MaskKind::kEverything})) set_bias(full, 0, random);
    if (c.mask == MaskKind::kBiasBroadcast) set_bias({1, c.num_heads, c.q_len, c.kv_len}, 0.3, random);
    if (is({MaskKind::kSoftcap, MaskKind::kEverything})) options.softcap = 2.5;
    if (c.mask == MaskKind::kEverything) options.scale = -0.3;
    if (is({MaskKind::kAlibi, MaskKind::kEverything, MaskKind::kRaggedCausal}))
      options.alibi_slopes = (slopes_ = random.tensor<1, T>({c.num_heads})).view();
    if (is({MaskKind::kSinks, MaskKind::kEverything})) {
      sinks_ = random.tensor<1, T>({c.num_heads});
      sinks_.data()[c.num_heads / 2] = c.num_heads > 1 ? -std::numeric_limits<T>::infinity() : 6;
      options.sinks = sinks_.view();
    }
    if (is({MaskKind::kDropout, MaskKind::kEverything}))
      options.dropout = Dropout{.p = 0.3, .seed = c.seed << 30, .batch_start = 5};
    if (is({MaskKind::kDocuments, MaskKind::kEverything})) set_documents(c, random);
    if (is({MaskKind::kRagged, MaskKind::kRaggedCausal})) {
      cu_q_ = random_bounds(c.q_len, random);
      cu_k_ = random_bounds(c.kv_len, random);
      mask.cu_seqlens_q = TensorView<const Index, 1>(cu_q_.data(), {kNumSequences + 1});
      mask.cu_seqlens_k = TensorView<const Index, 1>(cu_k_.data(), {kNumSequences + 1});
      mask.causal = c.mask == MaskKind::kRaggedCausal;
    }
  }

  void set_keep(const Shape<4>& shape, Random& random) {
    keep_ = Tensor<bool, 4>(shape);
    for (Index n = 0; n < keep_.size(); ++n) keep_.data()[n] = random.chance(0.6);
    options.mask.keep = keep_.view();
  }

  static constexpr Index kNumSequences = 5;

  static std::vector<Index> random_bounds(Index len, Random& random) {
    std::vector<Index> bounds{0, len};
    while (static_cast<Index>(bounds.size()) <= kNumSequences) bounds.push_back(random.below(len + 1));
    std::sort(bounds.begin(), bounds.end());
    return bounds;
  }

  // Ids that come in runs, as those of packed documents do.
  void set_documents(const AttentionCase& c, Random& random) {
    const auto ids = [&](Index len) {
      std::vector<Index> rows;
      for (Index b = 0; b < c.batch; ++b)
        for (Index i = 0, id = -1; i < len; ++i) rows.push_back(id += random.chance(0.03));
      return rows;
    };
    k_ids_ = ids(c.kv_len);
    q_ids_ = ids(c.q_len);
    options.mask.documents = Documents{.k = {k_ids_.data(), {c.batch, c.kv_len}},
                                       .q = TensorView<const Index, 2>(q_ids_.data(), {c.batch, c.q_len})};
  }

  void set_bias(const Shape<4>& shape, double excluded, Random& random) {
    bias_ = random.tensor<4, T>(shape);
    for (Index n = 0; n < bias_.size(); ++n)
      if (random.chance(excluded)) bias_.data()[n] = -std::numeric_limits<T>::infinity();
    options.attn_bias = bias_.view();
  }

  BasicPoisonedTensor<T> q_, k_, v_;
  std::vector<Index> lengths_, cu_q_, cu_k_, q_ids_, k_ids_;
  Tensor<T, 1> slopes_, sinks_;
  Tensor<bool, 4> keep_;
  Tensor<T, 4> bias_;
  Tensor<T, 2> w_q_, w_k_;
  Tensor<T, 1> w_v_;
};

using CaseInputs = BasicCaseInputs<float>;

}  // namespace qkv::test
