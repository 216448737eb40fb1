#include "cli/model_folder.h"

#include <cstdlib>
#include <filesystem>

#include "cli/exit_code.h"

namespace qkv::cli {
namespace {

// As tools/models.json names it.
constexpr const char* kDefaultModel = "all-MiniLM-L6-v2";

std::optional<std::string> non_empty_variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

std::string folder_to_load(const std::optional<std::string>& folder) {
  std::error_code ignored;
  if (folder) {
    if (std::filesystem::is_directory(*folder, ignored)) return *folder;
    throw CommandError(ExitCode::kModel, "no model folder " + *folder +
                                             "; -m takes a local Hugging Face folder, and without -m the model is "
                                             "used that `make model` fetches");
  }
  const auto by_default = default_model_folder();
  if (by_default && std::filesystem::is_directory(*by_default, ignored)) return *by_default;
  throw CommandError(ExitCode::kModel, "no model" + (by_default ? " in " + *by_default : "") +
                                           "; fetch the default one with `make model`, or name a local Hugging Face "
                                           "folder with -m DIR");
}

}  // namespace

std::optional<std::string> default_model_folder() {
  namespace fs = std::filesystem;
  fs::path cache;
  if (const auto own = non_empty_variable("QKV_CACHE")) {
    cache = *own;
  } else if (const auto xdg = non_empty_variable("XDG_CACHE_HOME")) {
    cache = fs::path(*xdg) / "qkv";
  } else if (const auto home = non_empty_variable("HOME")) {
    cache = fs::path(*home) / ".cache" / "qkv";
  } else {
    return std::nullopt;
  }
  return (cache / "models" / kDefaultModel).string();
}

LoadedModel load_model_or_default(const std::optional<std::string>& folder) {
  const std::string path = folder_to_load(folder);
  return blame(ExitCode::kModel, [&] { return load_model(path); });
}

Tokenizer load_tokenizer_or_default(const std::optional<std::string>& folder) {
  const std::string path = folder_to_load(folder);
  return blame(ExitCode::kModel, [&] { return Tokenizer::load(path); });
}

}  // namespace qkv::cli
