#pragma once

#include <optional>
#include <string>

#include "qkv/models/load_model.h"

namespace qkv::cli {

/// Where `make model` puts the default model: ${QKV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qkv}/models/NAME. Nothing
/// where not even HOME is set.
std::optional<std::string> default_model_folder();

/// Loads the model of `folder`, else the default one. Errors: CommandError (kModel) that says how to get a model.
LoadedModel load_model_or_default(const std::optional<std::string>& folder);

/// The tokenizer alone, of the same folders and with the same errors: quicker than the whole model.
Tokenizer load_tokenizer_or_default(const std::optional<std::string>& folder);

}  // namespace qkv::cli
