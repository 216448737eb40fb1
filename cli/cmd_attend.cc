#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attend_options.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/operands.h"
#include "cli/output_files.h"
#include "cli/run_options.h"
#include "cli/stopwatch.h"
#include "qkv/attention/attention.h"

namespace qkv::cli {
namespace {

// The last `rank` lengths of a shape: the leading axes that the operands do not have are 1.
template <int Rank>
std::vector<Index> last_axes(const Shape<Rank>& shape, std::size_t rank) {
  return {shape.end() - static_cast<std::ptrdiff_t>(rank), shape.end()};
}

template <class T, int Rank>
NpyOutput npy_output(const std::string& path, const Tensor<T, Rank>& tensor, std::size_t rank) {
  return {path, last_axes<Rank>(tensor.shape(), rank),
          std::span(tensor.data(), static_cast<std::size_t>(tensor.size()))};
}

template <class T>
void write_results(const AttendOptions& options, const BasicAttentionResult<T>& result, std::size_t rank) {
  std::vector<NpyOutput> files;
  if (options.out) files.push_back(npy_output(*options.out, result.out, rank));
  if (options.weights) files.push_back(npy_output(*options.weights, result.attn_weights, rank));
  if (options.lse) files.push_back(npy_output(*options.lse, result.lse, rank - 1));
  if (options.entropy) files.push_back(npy_output(*options.entropy, result.entropy, rank - 1));
  write_npy_files(files);
}

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.6g", value);
  return buffer;
}

// "mean 0.1, from -1 to 2", of the numbers that are finite, and how many are not.
template <class T>
std::string statistics(std::span<const T> values) {
  double sum = 0, least = std::numeric_limits<double>::infinity(), most = -least;
  Index count = 0;
  for (const T value : values) {
    if (!std::isfinite(value)) continue;
    sum += static_cast<double>(value);
    least = std::min<double>(least, value);
    most = std::max<double>(most, value);
    ++count;
  }
  const Index others = static_cast<Index>(values.size()) - count;
  std::string text = count == 0 ? "no finite numbers"
                                : "mean " + number(sum / static_cast<double>(count)) + ", from " + number(least) +
                                      " to " + number(most);
  return others == 0 ? text : text + ", " + std::to_string(others) + " not finite";
}

template <class T, int Rank>
std::string summary_line(const std::string& name, const Tensor<T, Rank>& tensor, std::size_t rank) {
  return name + to_string(last_axes<Rank>(tensor.shape(), rank)) + "  " +
         statistics(std::span(tensor.data(), static_cast<std::size_t>(tensor.size()))) + "\n";
}

template <class T>
std::string summary(const BasicAttentionResult<T>& result, const AttentionPlan& plan, std::size_t rank) {
  constexpr Index kNumFirst = 6;
  std::string text = summary_line("out      ", result.out, rank);
  text += "         first values";
  for (Index i = 0; i < std::min(kNumFirst, result.out.size()); ++i) text += " " + number(result.out.data()[i]);
  text += result.out.size() > kNumFirst ? " ...\n" : "\n";
  text += summary_line("lse      ", result.lse, rank - 1);
  text += summary_line("entropy  ", result.entropy, rank - 1);
  text += "plan     kernel " + std::string(plan.kernel) + ", target " + std::string(plan.target) + ", " +
          std::to_string(plan.num_tasks) + " tasks, " + std::to_string(plan.workspace_bytes) + " bytes of workspace";
  return text + (plan.reason.empty() ? "" : " (" + std::string(plan.reason) + ")") + "\n";
}

template <class T>
void run_attend(const AttendOptions& options, const Console& console) {
  const auto executor = make_executor(options.run);
  constexpr std::size_t kLeastRank = 2;
  const auto q = load_operand<T>(options.q, kLeastRank), k = load_operand<T>(options.k, kLeastRank),
             v = load_operand<T>(options.v, kLeastRank);
  const auto borrowed = load_borrowed<T>(options);
  auto attention_options_now = attention_options(options, borrowed);
  attention_options_now.executor = executor.get();

  const Stopwatch time;
  const auto result =
      blame(ExitCode::kInput, [&] { return attention(q.view(), k.view(), v.view(), attention_options_now); });
  if (options.run.verbose) console.note("attention took " + seconds_text(time.seconds()));
  write_results(options, result, q.rank);
  if (options.out) return;
  const auto shape = [](const Operand<T>& operand) { return operand.view().shape(); };
  console.print(summary(result, plan(shape(q), shape(k), shape(v), attention_options_now), q.rank));
}

}  // namespace

void add_attend(CLI::App& app, const Console& console) {
  auto options = std::make_shared<AttendOptions>();
  CLI::App& command = *app.add_subcommand("attend", "Compute attention of tensors in files");
  command.add_option("Q", options->q, "Queries [batch, num_heads, q_len, head_dim]")->required();
  command.add_option("K", options->k, "Keys [batch, num_kv_heads, kv_len, head_dim]")->required();
  command.add_option("V", options->v, "Values [batch, num_kv_heads, kv_len, v_head_dim]")->required();
  const auto file = [&](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)->type_name("FILE");
  };
  file("--out", options->out, "Write the result to this .npy file; default: print a summary");
  file("--weights", options->weights, "Write the attention weights [batch, num_heads, q_len, kv_len]");
  file("--lse", options->lse, "Write the log-sum-exp of the scores [batch, num_heads, q_len]");
  file("--entropy", options->entropy, "Write the entropy of the weights [batch, num_heads, q_len]");
  command
      .add_option("--scoring", options->scoring,
                  "dot (plain with --scale 1), cosine, or additive: w_v . tanh(w_q q + w_k k); default: dot")
      ->check(CLI::IsMember({"dot", "cosine", "additive"}))
      ->type_name("NAME");
  file("--w-q", options->w_q, "Weights of additive scoring [hidden_dim, head_dim]");
  file("--w-k", options->w_k, "Weights of additive scoring [hidden_dim, head_dim]");
  file("--w-v", options->w_v, "Weights of additive scoring [hidden_dim]");
  command.add_option("--scale", options->scale, "Multiplier of the scores; default: 1/sqrt(head_dim) for dot, else 1")
      ->check(not_empty())
      ->type_name("X");
  command.add_option("--softcap", options->softcap, "scores = X * tanh(scores / X)")
      ->check(not_empty())
      ->type_name("X");
  file("--attn-bias", options->attn_bias, "Floats that are added to the scores; -inf hides the key");
  file("--alibi", options->alibi, "Slopes [num_heads]: scores -= slope * distance");
  file("--sinks", options->sinks, "Logits [num_heads] of one more key for each head, without a value");
  file("--keep", options->keep, "Booleans (or 0 and 1); true: the query may attend to the key");
  command.add_flag("--causal", options->causal, "A query sees the keys up to its own position");
  command
      .add_option("--q-start", options->q_start,
                  "Position of query 0: a number, a list or a file [batch], or [num_sequences]; default: "
                  "kv_len - q_len")
      ->type_name("N|FILE");
  command.add_option("--window", options->window, "Keys that a query sees to its left and right; -1: no limit")
      ->type_name("L,R");
  const auto numbers = [&](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)->type_name("N,N|FILE");
  };
  numbers("--valid-lens", options->valid_lens,
          "How many keys are real: a list, one for each batch entry, or a file [batch] or [batch, q_len]");
  numbers("--documents", options->documents, "Ids of the keys' documents, [kv_len] or [batch, kv_len]; equal ids meet");
  numbers("--documents-q", options->documents_q, "Ids of the queries' documents, where the queries are not the keys");
  numbers("--cu-seqlens-q", options->cu_seqlens_q, "Where the sequences of a ragged batch begin and end: 0,5,9");
  numbers("--cu-seqlens-k", options->cu_seqlens_k, "The same for keys and values");
  command.add_option("--dropout", options->dropout, "Share of the weights to drop, 0 to 1")
      ->check(not_empty())
      ->type_name("P");
  command.add_option("--seed", options->seed, "Which weights are dropped; default: 0")->type_name("N");
  command.add_flag("--reproducible", options->reproducible, "The bits of a row depend on no other row");
  command.add_option("--dtype", options->dtype, "Compute and write in f32 or f64; default: f32")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->type_name("TYPE");
  add_run_options(command, options->run);
  set_help(command,
           {.usage = "qkv attend Q K V [options]",
            .examples = "qkv attend q.npy k.npy v.npy\n"
                        "qkv attend q.npy k.npy v.npy --scoring additive --w-q wq.npy --w-k wk.npy --w-v wv.npy\n"
                        "qkv attend q.npy k.npy v.npy --causal --q-start 0 --out out.npy --weights weights.npy\n"
                        "qkv attend t.safetensors:q t.safetensors:k t.safetensors:v --valid-lens 3,2 --lse lse.npy",
            .notes = "Tensors are .npy files or FILE.safetensors:NAME, of 2 to 4 axes; missing leading axes are 1. "
                     "Results have as many axes as Q. Masks are broadcast to [batch, num_heads, q_len, kv_len]. "
                     "A query that may see no key gets zeros."});
  command.callback([options, &console] {
    check_usage(*options);
    if (options->dtype == "f64")
      run_attend<double>(*options, console);
    else
      run_attend<float>(*options, console);
  });
}

}  // namespace qkv::cli
