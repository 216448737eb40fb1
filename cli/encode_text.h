#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "qkv/models/load_model.h"

namespace qkv::cli {

/// The tokens of a text that a model is about to read. Errors: CommandError (kInput) if it is empty (named after
/// `command`), not UTF-8, or longer than the model reads.
Encoding encode_text(const CLI::App& command, const LoadedModel& model, const std::string& text);

}  // namespace qkv::cli
