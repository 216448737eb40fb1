#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cli/commands.h"
#include "cli/encode_text.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/input.h"
#include "cli/model_folder.h"
#include "cli/run_options.h"
#include "cli/stopwatch.h"
#include "cli/terminal_options.h"
#include "cli/token_choice.h"
#include "viewer/display_text.h"
#include "viewer/json.h"
#include "viewer/picture.h"
#include "viewer/terminal.h"

namespace qkv::cli {
namespace {

struct LookOptions {
  const CLI::App* command = nullptr;
  TextOptions text;
  RunOptions run;
  TerminalOptions terminal;
  std::optional<std::string> model, from, to;
  std::optional<Index> layer, head;
  std::string view = "text", special;
  bool words = false, json = false;
};

constexpr const char* kExamples =
    "qkv look \"The animal didn't cross the street because it was too tired.\" --from it --to animal\n"
    "qkv look \"The animal didn't cross the street because it was too tired.\" --layer 3 --head 1 --view matrix\n"
    "echo \"Time flies like an arrow.\" | qkv look --from flies --words\n"
    "qkv look -f note.txt --from '#5' --json";

constexpr const char* kNotes =
    "Without --layer and --head all heads are ranked by the weight of --from -> --to, and the first one is shown. What "
    "is not given is picked: the strongest link between two words that are not neighbours. Layers and heads count from "
    "0. Attention to a word in several pieces is the sum over its pieces, attention from it the mean. #index counts "
    "tokens (with --words, words) from 0, special ones included.";

viewer::Record make_record(const LoadedModel& model, const Encoding& encoding, Executor* executor) {
  const TensorView<const std::int32_t, 2> tokens(encoding.ids.data(), {1, encoding.size()});
  auto output = std::visit([&](const auto& any) { return forward(any, tokens, {.attn_weights = true}, {executor}); },
                           model.model);
  viewer::Record record{.model = model.name, .tokens = record_tokens(encoding), .attn_weights = {}};
  record.attn_weights = std::move(output.attn_weights);
  return record;
}

std::optional<viewer::TokenRun> choose(const Console& console, const LookOptions& options, const Tokenizer& tokenizer,
                                       const ChoiceText& text, const std::string& option,
                                       const std::optional<std::string>& wanted) {
  if (!wanted) return std::nullopt;
  const TokenChoice choice = find_tokens(tokenizer, text, option, *wanted);
  if (choice.others.empty() || options.json) return choice.run;
  const auto name = [&](viewer::TokenRun run) {
    return "#" + std::to_string(text.words ? text.tokens[run.begin].word : text.tokens[run.begin].index);
  };
  std::string others;
  for (const viewer::TokenRun& other : choice.others) others += (others.empty() ? "" : ", ") + name(other);
  note(console, options.run,
       option + ": the first of several \"" + *wanted + "\" is taken, " + name(choice.run) + "; others: " + others);
  return choice.run;
}

viewer::SpecialTokens special_tokens(const LookOptions& options) {
  if (options.special == "hide") return viewer::SpecialTokens::kHide;
  if (options.special == "renormalise") return viewer::SpecialTokens::kRenormalise;
  // Where a row is read, what it gives to [CLS] and [SEP] is said below it; a matrix and a program get everything.
  const bool hides = options.special.empty() && options.view == "text" && !options.json;
  return hides ? viewer::SpecialTokens::kHide : viewer::SpecialTokens::kShow;
}

void run_look(const LookOptions& options, const Console& console) {
  const std::string text = read_text(*options.command, options.text);
  const auto executor = make_executor(options.run);
  const Stopwatch load_time;
  const LoadedModel model = load_model_or_default(options.model);
  const double load_seconds = load_time.seconds();
  const Encoding encoding = encode_text(*options.command, model, text);
  const Stopwatch run_time;
  const viewer::Record record = make_record(model, encoding, executor.get());
  const double run_seconds = run_time.seconds();

  const ChoiceText choices{text, encoding, record.tokens, options.words};
  const auto from = choose(console, options, model.tokenizer, choices, "--from", options.from);
  const auto to = choose(console, options, model.tokenizer, choices, "--to", options.to);
  const viewer::Picture picture = blame(ExitCode::kUsage, [&] {
    return viewer::make_picture(record, {.layer = options.layer,
                                         .head = options.head,
                                         .from = from,
                                         .to = to,
                                         .words = options.words,
                                         .special = special_tokens(options)});
  });
  if (options.json) return console.print(viewer::to_line(viewer::to_json(picture)));
  const viewer::Style style = stdout_style(options.terminal);
  console.print(options.view == "matrix" ? viewer::matrix_view(picture, style) : viewer::text_view(picture, style));
  if (options.run.verbose)
    console.note("model loaded in " + seconds_text(load_seconds) + ", run in " + seconds_text(run_seconds));
}

}  // namespace

void add_look(CLI::App& app, const Console& console) {
  auto options = std::make_shared<LookOptions>();
  CLI::App& command =
      *app.add_subcommand("look", "Show where a word of a text looks, and which heads make it look there");
  options->command = &command;
  add_text_options(command, options->text);
  command.add_option("-m,--model", options->model, "A local Hugging Face folder; default: what `make model` fetches")
      ->type_name("DIR");
  command.add_option("--from", options->from, "The word that looks (or #index of a token)")->type_name("WORD");
  command.add_option("--to", options->to, "The word that is looked at (or #index)")->type_name("WORD");
  command.add_option("--layer", options->layer, "Only this layer")->check(not_empty())->type_name("N");
  command.add_option("--head", options->head, "Only this head")->check(not_empty())->type_name("N");
  command.add_option("--view", options->view, "text (the row of one word) or matrix (the whole head); default: text")
      ->check(CLI::IsMember({"text", "matrix"}))
      ->type_name("NAME");
  command.add_flag("--words", options->words, "Merge the pieces of a word: sum over columns, mean over rows");
  command
      .add_option("--special", options->special,
                  "show, hide (other weights keep their values) or renormalise (they sum to 1 again) special tokens; "
                  "default: hide in the text view, else show")
      ->check(CLI::IsMember({"show", "hide", "renormalise"}))
      ->type_name("HOW");
  command.add_flag("--json", options->json, "Print one JSON object: tokens, weights (rows are queries), ranking");
  add_terminal_options(command, options->terminal);
  add_run_options(command, options->run);
  set_help(command, {.usage = "qkv look TEXT [options]", .examples = kExamples, .notes = kNotes});
  command.callback([options, &console] { run_look(*options, console); });
}

}  // namespace qkv::cli
