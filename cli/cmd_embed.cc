#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/input.h"
#include "cli/model_folder.h"
#include "cli/output_files.h"
#include "cli/run_options.h"
#include "cli/stopwatch.h"
#include "qkv/models/sentence.h"
#include "viewer/json.h"

namespace qkv::cli {
namespace {

struct EmbedOptions {
  const CLI::App* command = nullptr;
  const CLI::Option* file_option = nullptr;
  std::string file;
  std::optional<std::string> model, npy;
  RunOptions run;
  bool json = false;
};

// All vectors of a run, for the outputs that come in one piece.
struct Vectors {
  std::vector<float> values;
  std::vector<Index> truncated;  // line numbers, from 1
  Index count = 0, width = 0;
};

std::string to_line(CView<1> vector) {
  std::string line;
  char buffer[32];
  for (Index i = 0; i < vector.shape(0); ++i) {
    // The fewest digits that read back as the same float.
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), vector(i));
    if (i > 0) line += ' ';
    line.append(buffer, end);
  }
  return line + "\n";
}

viewer::Json to_json(const Vectors& vectors) {
  viewer::Json rows = viewer::Json::array();
  for (Index i = 0; i < vectors.count; ++i) {
    const float* row = vectors.values.data() + i * vectors.width;
    rows.push_back(std::vector<float>(row, row + vectors.width));
  }
  return {{"vectors", std::move(rows)}, {"truncated", vectors.truncated}};
}

Index embed_dim(const LoadedModel& model) {
  return std::visit([](const auto& any) { return any.config.embed_dim; }, model.model);
}

// The next lines: waits for one, and takes those that have already come with it. Empty at the end of the input.
std::vector<std::string> read_lines(Input& input) {
  constexpr std::size_t kMostLines = 64;
  std::vector<std::string> lines;
  while (lines.size() < kMostLines && (lines.empty() || input.has_line())) {
    auto line = input.read_line();
    if (!line) break;
    lines.push_back(std::move(*line));
  }
  return lines;
}

// Throws the error of the first line that cannot be tokenized, if there is one, with its number.
void check_lines(const LoadedModel& model, const std::vector<std::string>& lines, Index first_line) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    try {
      model.tokenizer.encode(lines[i]);
    } catch (const std::invalid_argument& error) {
      const Index number = first_line + static_cast<Index>(i) + 1;
      throw CommandError(ExitCode::kInput, "line " + std::to_string(number) + ": " + error.what());
    }
  }
}

SentenceEmbeddings embed_lines(const LoadedModel& model, const std::vector<std::string>& lines, Index first_line,
                               Executor* executor) {
  return blame(ExitCode::kInput, [&] {
    try {
      return embed_sentences(model, lines, {executor});
    } catch (const std::invalid_argument&) {
      check_lines(model, lines, first_line);  // a line of the input is what the user can look up
      throw;
    }
  });
}

void note_truncated(const EmbedOptions& options, const Console& console, Index line, const LoadedModel& model) {
  if (options.json) return;
  note(console, options.run,
       "line " + std::to_string(line) + " is cut to " + std::to_string(model.sentence.max_tokens) + " tokens");
}

// Prints vectors as they come, unless they are asked for in one piece, which is returned.
Vectors embed_all(const EmbedOptions& options, const Console& console, Input& input, const LoadedModel& model) {
  constexpr double kQuietSeconds = 0.5;
  const auto executor = make_executor(options.run);
  const bool in_one_piece = options.json || options.npy;
  const Stopwatch time;
  Vectors all{.values = {}, .truncated = {}, .count = 0, .width = embed_dim(model)};
  for (auto lines = read_lines(input); !lines.empty(); lines = read_lines(input)) {
    const auto embeddings = embed_lines(model, lines, all.count, executor.get());
    for (Index i : embeddings.truncated) {
      all.truncated.push_back(all.count + i + 1);
      note_truncated(options, console, all.truncated.back(), model);
    }
    const auto vectors = embeddings.vectors.view();
    if (in_one_piece) {
      all.values.insert(all.values.end(), vectors.data(), vectors.data() + vectors.size());
    } else {
      for (Index i = 0; i < vectors.shape(0); ++i) console.print(to_line(vectors.select(0, i)));
    }
    all.count += vectors.shape(0);
    if (in_one_piece && !options.run.quiet && time.seconds() > kQuietSeconds)
      console.progress("embedded " + std::to_string(all.count) + " lines");
  }
  console.progress("");
  if (options.run.verbose)
    console.note(std::to_string(all.count) + " lines embedded in " + seconds_text(time.seconds()));
  return all;
}

void run_embed(const EmbedOptions& options, const Console& console) {
  Input input(input_path(*options.command, *options.file_option, options.file));
  const LoadedModel model = load_model_or_default(options.model);
  const Vectors all = embed_all(options, console, input, model);
  if (options.json) console.print(viewer::to_line(to_json(all)));
  if (options.npy) write_npy_files({{*options.npy, {all.count, all.width}, std::span<const float>(all.values)}});
}

}  // namespace

void add_embed(CLI::App& app, const Console& console) {
  auto options = std::make_shared<EmbedOptions>();
  CLI::App& command = *app.add_subcommand("embed", "Turn each line into the vector of its meaning");
  options->command = &command;
  options->file_option =
      command.add_option("-f,--file", options->file, "Read the lines from a file; default: standard input")
          ->type_name("FILE");
  command.add_option("-m,--model", options->model, "A local Hugging Face folder; default: what `make model` fetches")
      ->type_name("DIR");
  auto* json =
      command.add_flag("--json", options->json, "Print one JSON object: vectors, truncated (numbers of lines, from 1)");
  command.add_option("--npy", options->npy, "Write all vectors to a .npy file, [lines, embed_dim], and print nothing")
      ->excludes(json)
      ->type_name("FILE");
  add_run_options(command, options->run);
  set_help(command, {.usage = "qkv embed [options] < lines.txt",
                     .examples = "echo \"one sentence a line\" | qkv embed\n"
                                 "qkv embed -f sentences.txt --npy vectors.npy",
                     .notes = "An empty line is a sentence too: [CLS][SEP]. A sentence that is longer than the model "
                              "reads is cut, which is said on standard error, or under --json in `truncated`."});
  command.callback([options, &console] { run_embed(*options, console); });
}

}  // namespace qkv::cli
