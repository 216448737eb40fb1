// Runs a model for tests/parity: run_bert MODEL_FOLDER OUT_FOLDER < sentences, one a line
//
// Writes for line n (from 0) n.tokens.npy [len], n.hidden_states.npy [num_blocks + 1, len, embed_dim] and
// n.attn_weights.npy [num_blocks, num_heads, len, len]; and for all lines vectors.npy [lines, embed_dim].

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "qkv/io/npy.h"
#include "qkv/models/sentence.h"

namespace {

using qkv::Index;

void write(const std::string& path, const std::vector<Index>& shape, const std::vector<float>& values) {
  qkv::write_npy(path, shape, values);
}

// Several tensors of one shape as one, with a leading axis that counts them.
template <int Rank>
void write_stacked(const std::string& path, const std::vector<qkv::Tensor<float, Rank>>& tensors) {
  std::vector<Index> shape{static_cast<Index>(tensors.size())};
  shape.insert(shape.end(), tensors[0].shape().begin() + 1, tensors[0].shape().end());  // without the batch of 1
  std::vector<float> values;
  for (const auto& tensor : tensors) values.insert(values.end(), tensor.data(), tensor.data() + tensor.size());
  write(path, shape, values);
}

void run(const std::string& model_folder, const std::string& out_folder) {
  const qkv::LoadedModel model = qkv::load_model(model_folder);
  std::vector<std::string> sentences;
  for (std::string line; std::getline(std::cin, line);) sentences.push_back(line);
  for (std::size_t n = 0; n < sentences.size(); ++n) {
    const auto tokens = model.tokenizer.encode(sentences[n]).ids;
    const Index len = static_cast<Index>(tokens.size());
    const auto output = forward(std::get<qkv::Bert>(model.model), {tokens.data(), {1, len}},
                                {.hidden_states = true, .attn_weights = true});
    const std::string prefix = out_folder + "/" + std::to_string(n);
    write(prefix + ".tokens.npy", {len}, {tokens.begin(), tokens.end()});
    write_stacked(prefix + ".hidden_states.npy", output.hidden_states);
    write_stacked(prefix + ".attn_weights.npy", output.attn_weights);
  }
  const auto vectors = qkv::embed_sentences(model, sentences).vectors;
  write(out_folder + "/vectors.npy", {vectors.shape(0), vectors.shape(1)},
        {vectors.data(), vectors.data() + vectors.size()});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: run_bert MODEL_FOLDER OUT_FOLDER < sentences\n", stderr);
    return 2;
  }
  try {
    run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_bert: %s\n", error.what());
    return 1;
  }
}
