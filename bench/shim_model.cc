// The part of the shim that runs a whole model: from texts to their vectors.

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "bench/shim.h"
#include "qkv/models/load_model.h"
#include "qkv/models/sentence.h"

namespace {

std::unique_ptr<qkv::LoadedModel> model;

}  // namespace

extern "C" {

/// Loads the folder of a model and returns its embed_dim. Texts are cut where the model ends, not where its sentence options say.
qkv::Index qkv_load_model(const char* folder) {
  model = std::make_unique<qkv::LoadedModel>(qkv::load_model(folder));
  const auto& config = std::get<qkv::Bert>(model->model).config;
  model->sentence.max_tokens = config.max_positions;
  return config.embed_dim;
}

/// The vectors [num_texts, embed_dim] of texts, by the model that was loaded last.
void qkv_embed(const char* const* texts, qkv::Index num_texts, float* vectors) {
  const std::vector<std::string> sentences(texts, texts + num_texts);
  const auto embeddings = qkv::embed_sentences(*model, sentences, {.executor = &qkv::bench::executor()});
  std::copy_n(embeddings.vectors.data(), embeddings.vectors.size(), vectors);
}
}
