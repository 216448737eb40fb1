#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/input.h"
#include "cli/model_folder.h"
#include "viewer/display_text.h"
#include "viewer/json.h"

namespace qkv::cli {
namespace {

struct TokenizeOptions {
  const CLI::App* command = nullptr;
  TextOptions text;
  std::optional<std::string> model;
  bool json = false;
};

viewer::Json to_json(const Encoding& encoding) {
  viewer::Json offsets = viewer::Json::array();
  for (const ByteRange& bytes : encoding.offsets) offsets.push_back({bytes.begin, bytes.end});
  return {{"tokens", encoding.tokens}, {"ids", encoding.ids}, {"offsets", offsets}, {"special", encoding.is_special}};
}

std::string to_table(const Encoding& encoding) {
  constexpr Index kLongest = 40;
  Index widest = 5;
  std::vector<std::string> tokens;
  for (const std::string& token : encoding.tokens) {
    tokens.push_back(viewer::cut_to_width(viewer::printable(token), kLongest, "..."));
    widest = std::max(widest, viewer::display_width(tokens.back()));
  }
  std::string table = "     #  " + viewer::pad_right("token", widest) + "        id  bytes\n";
  for (Index i = 0; i < encoding.size(); ++i) {
    const ByteRange bytes = encoding.offsets[i];
    table += viewer::pad_left(std::to_string(i), 6) + "  " + viewer::pad_right(tokens[i], widest) + "  " +
             viewer::pad_left(std::to_string(encoding.ids[i]), 8) + "  " +
             (bytes.begin == bytes.end ? "-" : std::to_string(bytes.begin) + ".." + std::to_string(bytes.end)) + "\n";
  }
  return table;
}

void run_tokenize(const TokenizeOptions& options, const Console& console) {
  const std::string text = read_text(*options.command, options.text);
  const Tokenizer tokenizer = load_tokenizer_or_default(options.model);
  const Encoding encoding = blame(ExitCode::kInput, [&] { return tokenizer.encode(text); });
  console.print(options.json ? viewer::to_line(to_json(encoding)) : to_table(encoding));
}

}  // namespace

void add_tokenize(CLI::App& app, const Console& console) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App& command = *app.add_subcommand("tokenize", "Cut a text into a model's tokens");
  options->command = &command;
  add_text_options(command, options->text);
  command.add_option("-m,--model", options->model, "A local Hugging Face folder; default: what `make model` fetches")
      ->type_name("DIR");
  command.add_flag("--json", options->json, "Print one JSON object: tokens, ids, offsets (bytes: begin, end), special");
  set_help(command, {.usage = "qkv tokenize TEXT [options]",
                     .examples = "qkv tokenize \"Tokenization is unbelievably easy.\"\n"
                                 "qkv tokenize --json < note.txt",
                     .notes = ""});
  command.callback([options, &console] { run_tokenize(*options, console); });
}

}  // namespace qkv::cli
