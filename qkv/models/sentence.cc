#include "qkv/models/sentence.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <variant>

#include "qkv/core/memory.h"

namespace qkv {

namespace {

// A run of the model takes at most this many tokens, padding counted: enough for every core to have work, little enough
// for the hidden layers to stay in the cache.
constexpr Index kTokensPerRun = 4096;

using Tokens = std::vector<std::int32_t>;

Tokens encode(const Tokenizer& tokenizer, const std::string& sentence, std::size_t number) {
  try {
    return tokenizer.encode(sentence).ids;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("embed_sentences: sentence " + std::to_string(number) + ": " + error.what());
  }
}

Tokens cut(Tokens tokens, Index max_tokens) {
  const std::int32_t last = tokens.back();
  tokens.resize(static_cast<std::size_t>(max_tokens));
  tokens.back() = last;
  return tokens;
}

// hidden [len, embed_dim], real tokens only -> out [embed_dim]
void pool(const SentenceOptions& options, CView<2> hidden, float* out) {
  const Index len = hidden.shape(0), embed_dim = hidden.shape(1);
  std::vector<double> pooled(static_cast<std::size_t>(embed_dim), 0);
  double square = 0;
  for (Index d = 0; d < embed_dim; ++d) {
    double& value = pooled[static_cast<std::size_t>(d)];
    switch (options.pooling) {
      case Pooling::kMean:
        for (Index i = 0; i < len; ++i) value += hidden(i, d);
        value /= static_cast<double>(std::max<Index>(len, 1));
        break;
      case Pooling::kCls:
        value = len > 0 ? hidden(0, d) : 0;
        break;
      case Pooling::kMax:
        if (len > 0) value = hidden(0, d);
        for (Index i = 1; i < len; ++i) value = std::max(value, double{hidden(i, d)});
    }
    square += value * value;
  }
  // The floor is that of PyTorch's F.normalize: a vector of zeros stays one.
  const double norm = options.normalize ? std::max(std::sqrt(square), 1e-12) : 1;
  for (Index d = 0; d < embed_dim; ++d) out[d] = static_cast<float>(pooled[static_cast<std::size_t>(d)] / norm);
}

// Runs sentences order[0], order[1], ... together and writes their vectors.
void embed_run(const LoadedModel& model, const std::vector<Tokens>& sentences, std::span<const std::size_t> order,
               View<2> vectors, const Run& run) {
  std::vector<Index> lengths;
  for (std::size_t n : order) lengths.push_back(static_cast<Index>(sentences[n].size()));
  const Index longest = *std::ranges::max_element(lengths);
  Tensor<std::int32_t, 2> tokens({static_cast<Index>(order.size()), longest}, 0);  // 0: any token will do as padding
  for (std::size_t b = 0; b < order.size(); ++b)
    std::ranges::copy(sentences[order[b]], tokens.data() + static_cast<Index>(b) * longest);

  const BertOutput output = std::visit(
      [&](const auto& any) { return forward(any, tokens, BertOptions{.valid_lens = lengths}, run); }, model.model);
  const CView<3> hidden = output.hidden_states.back();
  for (std::size_t b = 0; b < order.size(); ++b)
    pool(model.sentence, hidden.select(0, static_cast<Index>(b)).slice(0, 0, lengths[b]),
         vectors.select(0, static_cast<Index>(order[b])).data());
}

}  // namespace

SentenceEmbeddings embed_sentences(const LoadedModel& model, std::span<const std::string> sentences, const Run& run) {
  SentenceEmbeddings result;
  std::vector<Tokens> tokens;
  for (const std::string& sentence : sentences) {
    tokens.push_back(encode(model.tokenizer, sentence, tokens.size()));
    if (static_cast<Index>(tokens.back().size()) <= model.sentence.max_tokens) continue;
    result.truncated.push_back(static_cast<Index>(tokens.size()) - 1);
    tokens.back() = cut(std::move(tokens.back()), model.sentence.max_tokens);
  }

  // Sentences of like length go together, so that little is spent on padding.
  std::vector<std::size_t> order(tokens.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t n) { return tokens[n].size(); });
  const Index embed_dim = std::visit([](const auto& any) { return any.config.embed_dim; }, model.model);
  result.vectors = Tensor<float, 2>({static_cast<Index>(tokens.size()), embed_dim});
  const MemoryReuse reuse;
  for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
    end = begin + 1;
    while (end < order.size() && static_cast<Index>((end + 1 - begin) * tokens[order[end]].size()) <= kTokensPerRun)
      ++end;
    embed_run(model, tokens, std::span(order).subspan(begin, end - begin), result.vectors, run);
  }
  return result;
}

}  // namespace qkv
