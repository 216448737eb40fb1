#include "cli/encode_text.h"

#include <algorithm>
#include <variant>

#include "cli/exit_code.h"

namespace qkv::cli {

Encoding encode_text(const CLI::App& command, const LoadedModel& model, const std::string& text) {
  Encoding encoding = blame(ExitCode::kInput, [&] { return model.tokenizer.encode(text); });
  const bool is_empty = std::ranges::none_of(encoding.word_indices, [](const auto& word) { return word.has_value(); });
  if (is_empty) throw CommandError(ExitCode::kInput, command.get_name() + ": the text is empty");
  const Index most = std::visit([](const auto& any) { return any.config.max_positions; }, model.model);
  if (encoding.size() > most)
    throw CommandError(ExitCode::kInput, "the text has " + std::to_string(encoding.size()) + " tokens; " + model.name +
                                             " reads at most " + std::to_string(most) + " (max_position_embeddings)");
  return encoding;
}

}  // namespace qkv::cli
