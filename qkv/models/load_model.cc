#include "qkv/models/load_model.h"

#include <cerrno>
#include <filesystem>
#include <utility>

#include "qkv/core/check.h"
#include "qkv/core/error.h"
#include "qkv/io/safetensors.h"

namespace qkv {

namespace {

namespace fs = std::filesystem;

void check_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (error) throw IoError(folder.string(), "open", error.value());
  if (!fs::is_directory(status)) throw IoError(folder.string(), "open", ENOTDIR);
}

// model.safetensors, or an error that says what is there in its place.
std::string weights_path(const fs::path& folder) {
  std::error_code ignored;
  const fs::path path = folder / "model.safetensors";
  if (!fs::exists(path, ignored)) {
    for (const char* other : {"model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"})
      if (fs::exists(folder / other, ignored))
        throw_invalid("load_model", "weights in " + folder.string(), other,
                      "model.safetensors (one file; convert with transformers' save_pretrained)");
  }
  return path.string();
}

std::string name_of(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(folder, error);
  const fs::path& path = error ? folder : absolute;
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

}  // namespace

LoadedModel load_model(const std::string& folder) {
  const fs::path path(folder);
  check_folder(path);
  const std::string config_path = (path / "config.json").string();
  const BertConfig config = load_bert_config(config_path);
  Tokenizer tokenizer = Tokenizer::load(folder);
  check(tokenizer.vocab_size() <= config.vocab_size, "load_model", "vocab_size in " + config_path, config.vocab_size,
        "at least " + std::to_string(tokenizer.vocab_size()) + ", the number of tokens of the tokenizer");
  SentenceOptions sentence = load_sentence_options(folder, config);
  const SafetensorsFile weights(weights_path(path));
  return {.name = name_of(path),
          .model = load_bert(config, weights),
          .tokenizer = std::move(tokenizer),
          .sentence = sentence};
}

}  // namespace qkv
