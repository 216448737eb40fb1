#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/in_quotes.h"
#include "qkv/models/bert.h"
#include "qkv/nn/mha_names.h"

namespace qkv {

namespace {

// Reads tensors by name and remembers what is wrong, so that one error can list it all.
class WeightReader {
 public:
  explicit WeightReader(const SafetensorsFile& file)
      : file_(file), prefix_(file.contains("bert.embeddings.word_embeddings.weight") ? "bert." : "") {}

  // The tensor, or an empty one where it is missing or wrong. `old_name` is what early checkpoints call it.
  template <int Rank>
  Tensor<float, Rank> read(const std::string& name, const Shape<Rank>& shape, const std::string& old_name = "") {
    std::string full = prefix_ + name;
    if (!file_.contains(full) && !old_name.empty() && file_.contains(prefix_ + old_name)) full = prefix_ + old_name;
    if (!file_.contains(full)) {
      note(kHeaderByte, in_quotes(full) + " is missing");
      return {};
    }
    const SafetensorsInfo& info = file_.info(full);
    if (!std::ranges::equal(info.shape, shape)) {
      note(info.begin, in_quotes(full) + " has shape " + to_string(std::span<const Index>(info.shape)) +
                           " where config.json says " + to_string<Rank>(shape));
      return {};
    }
    if (!safetensors_float_format(info.dtype)) {
      note(info.begin, in_quotes(full) + " holds " + info.dtype + ", not floats");
      return {};
    }
    // Once something is wrong nothing will come of the model, so only what else is wrong still matters.
    return num_problems_ == 0 ? file_.load<Rank>(full, shape) : Tensor<float, Rank>();
  }

  Linear linear(const std::string& name, Index out_dim, Index in_dim) {
    Linear layer{.weight = read<2>(name + ".weight", {out_dim, in_dim})};
    layer.bias = read<1>(name + ".bias", {out_dim});
    return layer;
  }

  LayerNorm norm(const std::string& name, const BertConfig& config) {
    LayerNorm layer{.weight = read<1>(name + ".weight", {config.embed_dim}, name + ".gamma")};
    layer.bias = read<1>(name + ".bias", {config.embed_dim}, name + ".beta");
    layer.eps = config.layer_norm_eps;
    return layer;
  }

  void finish() const {
    if (num_problems_ == 0) return;
    std::string message = "weights: got " + std::to_string(num_problems_) +
                          " tensors that do not fit config.json, expected none: " + list_;
    if (num_problems_ > kMaxListed) message += "; and " + std::to_string(num_problems_ - kMaxListed) + " more";
    throw FormatError(file_.path(), static_cast<std::uint64_t>(first_byte_), message);
  }

 private:
  static constexpr Index kHeaderByte = 8;  // where the names of a safetensors file begin
  static constexpr Index kMaxListed = 8;   // so that a model of another kind still gives a readable line

  void note(Index byte, const std::string& problem) {
    if (num_problems_ == 0) first_byte_ = byte;
    if (num_problems_ < kMaxListed) list_ += (num_problems_ ? "; " : "") + problem;
    ++num_problems_;
  }

  const SafetensorsFile& file_;
  std::string prefix_;
  Index num_problems_ = 0;
  Index first_byte_ = 0;
  std::string list_;
};

TransformerBlock read_block(WeightReader& reader, const BertConfig& config, Index block_index) {
  const std::string name = "encoder.layer." + std::to_string(block_index) + ".";
  const ProjectionNames projections = projection_names(MhaNames::kBert);
  const Index embed_dim = config.embed_dim;
  return {.attention = {.q_proj = reader.linear(name + projections.q_proj, embed_dim, embed_dim),
                        .k_proj = reader.linear(name + projections.k_proj, embed_dim, embed_dim),
                        .v_proj = reader.linear(name + projections.v_proj, embed_dim, embed_dim),
                        .out_proj = reader.linear(name + projections.out_proj, embed_dim, embed_dim),
                        .num_heads = config.num_heads},
          .attention_norm = reader.norm(name + "attention.output.LayerNorm", config),
          .feed_forward = {.up_proj = reader.linear(name + "intermediate.dense", config.ffn_dim, embed_dim),
                           .down_proj = reader.linear(name + "output.dense", embed_dim, config.ffn_dim),
                           .activation = config.activation},
          .feed_forward_norm = reader.norm(name + "output.LayerNorm", config),
          .norm_placement = NormPlacement::kPost};
}

}  // namespace

Bert load_bert(const BertConfig& config, const SafetensorsFile& weights) {
  WeightReader reader(weights);
  const Index embed_dim = config.embed_dim;
  const std::string embeddings = "embeddings.";
  Bert model;
  model.config = config;
  model.token_embedding.weight = reader.read<2>(embeddings + "word_embeddings.weight", {config.vocab_size, embed_dim});
  model.position_embedding.weight =
      reader.read<2>(embeddings + "position_embeddings.weight", {config.max_positions, embed_dim});
  model.token_type_embedding.weight =
      reader.read<2>(embeddings + "token_type_embeddings.weight", {config.num_token_types, embed_dim});
  model.embedding_norm = reader.norm(embeddings + "LayerNorm", config);
  for (Index block_index = 0; block_index < config.num_blocks; ++block_index)
    model.blocks.push_back(read_block(reader, config, block_index));
  reader.finish();
  return model;
}

}  // namespace qkv
