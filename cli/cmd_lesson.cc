#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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
#include "viewer/lesson_json.h"
#include "viewer/lesson_view.h"

namespace qkv::cli {
namespace {

// What the two lessons have in common.
struct LessonOptions {
  const CLI::App* command = nullptr;
  RunOptions run;
  TerminalOptions terminal;
  bool json = false;
};

struct ScaleLessonOptions : LessonOptions {
  std::string seed = "1";
};

struct HeadsLessonOptions : LessonOptions {
  TextOptions text;
  std::optional<std::string> model;
};

constexpr const char* kDefaultText = "The animal didn't cross the street because it was too tired.";

void add_lesson_options(CLI::App& command, LessonOptions& options) {
  options.command = &command;
  command.add_flag("--json", options.json, "Print one JSON object: the numbers, and what follows from them");
  add_terminal_options(command, options.terminal);
  add_run_options(command, options.run);
}

void say_time(const Console& console, const RunOptions& options, const Stopwatch& time) {
  if (options.verbose) console.note("measured in " + seconds_text(time.seconds()));
}

void run_scale(const ScaleLessonOptions& options, const Console& console) {
  const std::uint64_t seed = parse_seed(options.seed);
  const auto executor = make_executor(options.run);
  const Stopwatch time;
  const viewer::ScaleLesson lesson = viewer::measure_scale({.seed = seed, .executor = executor.get()});
  console.print(options.json ? viewer::to_line(viewer::to_json(lesson))
                             : viewer::scale_view(lesson, stdout_style(options.terminal)));
  say_time(console, options.run, time);
}

void run_heads(const HeadsLessonOptions& options, const Console& console) {
  const bool is_given = options.text.text_option->count() > 0 || options.text.file_option->count() > 0;
  const std::string text = is_given ? read_text(*options.command, options.text) : kDefaultText;
  const auto executor = make_executor(options.run);
  const LoadedModel model = load_model_or_default(options.model);
  const Encoding encoding = encode_text(*options.command, model, text);
  const Stopwatch time;
  const auto tokens = record_tokens(encoding);
  const viewer::HeadsLesson lesson =
      viewer::measure_heads({model.name, model.model, encoding.ids, tokens}, executor.get());
  console.print(options.json ? viewer::to_line(viewer::to_json(lesson, text))
                             : viewer::heads_view(lesson, text, stdout_style(options.terminal)));
  say_time(console, options.run, time);
}

void add_scale(CLI::App& lesson, const Console& console) {
  auto options = std::make_shared<ScaleLessonOptions>();
  CLI::App& command = *lesson.add_subcommand("scale", "Why scores are divided by sqrt(d_k)");
  command.add_option("--seed", options->seed, "Of the random numbers; default: 1")->type_name("N");
  add_lesson_options(command, *options);
  set_help(command,
           {.usage = "qkv lesson scale [options]",
            .examples = "qkv lesson scale\nqkv lesson scale --seed 7\nqkv lesson scale --json",
            .notes = "Random queries and keys go through qkv's own attention, with and without the division: the "
                     "variance of their scores, how far softmax saturates, and how large its gradient is."});
  command.callback([options, &console] { run_scale(*options, console); });
}

void add_heads(CLI::App& lesson, const Console& console) {
  auto options = std::make_shared<HeadsLessonOptions>();
  CLI::App& command = *lesson.add_subcommand("heads", "One head against several, in a real model");
  add_text_options(command, options->text);
  options->text.text_option->description("The text; - is standard input; default: " + std::string(kDefaultText));
  command.add_option("-m,--model", options->model, "A local Hugging Face folder; default: what `make model` fetches")
      ->type_name("DIR");
  add_lesson_options(command, *options);
  set_help(command,
           {.usage = "qkv lesson heads [TEXT] [options]",
            .examples = "qkv lesson heads\nqkv lesson heads \"Time flies like an arrow.\"\n"
                        "qkv lesson heads -f note.txt --json",
            .notes = "How much each token looks at itself (the diagonal mass): without learned weights, with one "
                     "head, and with each head as trained; and where the heads look instead."});
  command.callback([options, &console] { run_heads(*options, console); });
}

std::string list_of_lessons(const CLI::App& command) {
  std::string list = "The lessons (qkv lesson NAME --help says more):\n";
  for (const CLI::App* lesson : command.get_subcommands(nullptr))
    list += "  qkv lesson " + lesson->get_name() + "    " + lesson->get_description() + "\n";
  return list;
}

}  // namespace

void add_lesson(CLI::App& app, const Console& console) {
  CLI::App& command = *app.add_subcommand("lesson", "Measure what tutorials say of attention: scale, heads");
  command.require_subcommand(0, 1);
  add_scale(command, console);
  add_heads(command, console);
  set_help(command, {.usage = "qkv lesson [NAME] ...",
                     .examples = "qkv lesson\nqkv lesson scale\nqkv lesson heads \"Time flies like an arrow.\"",
                     .notes = ""});
  command.callback([&command, &console] {
    if (command.get_subcommands().empty()) console.print(list_of_lessons(command));
  });
}

}  // namespace qkv::cli
