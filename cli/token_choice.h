#pragma once

#include <string>
#include <vector>

#include "qkv/text/tokenizer.h"
#include "viewer/record.h"

namespace qkv::cli {

/// Where a word of the user's is in a text.
struct TokenChoice {
  viewer::TokenRun run;                  ///< the first place
  std::vector<viewer::TokenRun> others;  ///< the places after it
};

/// The text that a choice is made in. Borrows.
struct ChoiceText {
  const std::string& text;
  const Encoding& encoding;
  const std::vector<viewer::RecordToken>& tokens;  ///< of the encoding, with their words
  bool words = false;                              ///< #index counts words instead of tokens
};

/// Finds what --from or --to asks for (`option` is its name, for messages): `#index`, or a word, which is cut by the
/// same tokenizer, so that case and accents matter as little as they do to the model, and several words are fine. Whole
/// words come first, then parts of words, then a piece by its own name ("##ing"). Errors: CommandError (kUsage) that
/// lists what there is.
TokenChoice find_tokens(const Tokenizer& tokenizer, const ChoiceText& text, const std::string& option,
                        const std::string& wanted);

/// The tokens of an encoding for the viewer. Special tokens put around the text are words of their own.
std::vector<viewer::RecordToken> record_tokens(const Encoding& encoding);

}  // namespace qkv::cli
