#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

struct AttendOptions {
  std::string q, k, v;
  std::optional<std::string> out, weights, lse, entropy;  // files to write
  std::string scoring = "dot";
  std::optional<std::string> w_q, w_k, w_v;  // of additive scoring
  std::optional<double> scale, softcap;
  std::optional<std::string> attn_bias, keep, q_start, window, valid_lens;
  bool causal = false;
  RunOptions run;
};

// A tensor of four axes and how many of them its file has.
struct Operand {
  TensorValues<float> tensor;
  std::size_t rank = 0;

  CView<4> view() const {
    const auto& shape = tensor.shape;
    return {tensor.values.data(), {shape[0], shape[1], shape[2], shape[3]}};
  }
};

Operand load_operand(const std::string& name, std::size_t least_rank) {
  Operand operand{load_floats(name), 0};
  operand.rank = operand.tensor.shape.size();
  operand.tensor.shape = with_leading_ones(name, operand.tensor.shape, least_rank);
  return operand;
}

// Everything that AttentionOptions borrows.
struct Masks {
  std::optional<TensorValues<float>> w_q, w_k, w_v;
  std::optional<Operand> attn_bias;
  std::optional<TensorValues<bool>> keep;
  std::optional<TensorValues<Index>> q_start, valid_lens;
};

[[noreturn]] void fail_usage(const std::string& message) {
  throw CommandError(ExitCode::kUsage, message);
}

// "3,2" as numbers; nothing if it is not a list of whole numbers.
std::optional<std::vector<Index>> parse_list(std::string_view text) {
  std::vector<Index> numbers;
  while (true) {
    Index number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return numbers;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
  }
}

// Numbers from the command line, or from a file.
TensorValues<Index> load_numbers(const std::string& text) {
  const auto list = parse_list(text);
  if (!list) return load_integers(text);
  TensorValues<Index> numbers{{static_cast<Index>(list->size())},
                              AlignedBuffer<Index>(static_cast<Index>(list->size()))};
  std::ranges::copy(*list, numbers.values.data());
  return numbers;
}

// "L,R" with -1 for "no limit"; another negative number is more likely a slip than a wish.
// https://github.com/Dao-AILab/flash-attention/issues/1116
Window parse_window(const std::string& text) {
  const auto sides = parse_list(text);
  if (!sides || sides->size() != 2) fail_usage("--window: got '" + text + "', expected LEFT,RIGHT");
  const auto side = [&](Index value) -> std::optional<Index> {
    if (value < -1) fail_usage("--window: got " + std::to_string(value) + ", expected >= 0, or -1 for no limit");
    if (value == -1) return std::nullopt;
    return value;
  };
  return {.left = side((*sides)[0]), .right = side((*sides)[1])};
}

// The weights of additive scoring, all three of them, and none for any other.
void check_scoring(const AttendOptions& options) {
  const bool is_additive = options.scoring == "additive";
  for (const auto& [name, value] : {std::pair{"--w-q", options.w_q}, {"--w-k", options.w_k}, {"--w-v", options.w_v}}) {
    if (is_additive && !value)
      fail_usage("--scoring additive needs --w-q, --w-k and --w-v: " + std::string(name) + " is missing");
    if (!is_additive && value) fail_usage(std::string(name) + " is for --scoring additive, not " + options.scoring);
  }
}

void check_usage(const AttendOptions& options) {
  check_scoring(options);
  if (options.scale && !std::isfinite(*options.scale)) fail_usage("--scale: expected a finite number");
  if (options.softcap && !(*options.softcap > 0 && std::isfinite(*options.softcap)))
    fail_usage("--softcap: expected a finite number > 0");
  std::set<std::string> paths;
  for (const auto& path : {options.out, options.weights, options.lse, options.entropy})
    if (path && !paths.insert(*path).second) fail_usage("two results cannot go to the same file, " + *path);
}

Masks load_masks(const AttendOptions& options) {
  Masks masks;
  if (options.w_q) masks.w_q = load_floats(*options.w_q);
  if (options.w_k) masks.w_k = load_floats(*options.w_k);
  if (options.w_v) masks.w_v = load_floats(*options.w_v);
  if (options.attn_bias) masks.attn_bias = load_operand(*options.attn_bias, 1);
  if (options.keep) {
    masks.keep = load_booleans(*options.keep);
    masks.keep->shape = with_leading_ones(*options.keep, masks.keep->shape, 1);
  }
  if (options.q_start) masks.q_start = load_numbers(*options.q_start);
  if (options.valid_lens) masks.valid_lens = load_numbers(*options.valid_lens);
  return masks;
}

[[noreturn]] void fail_shape(const std::string& option, const std::vector<Index>& shape, const char* expected) {
  throw CommandError(ExitCode::kInput, option + ": got shape " + to_string(shape) + ", expected " + expected);
}

std::variant<Index, TensorView<const Index, 1>> q_start_of(const AttendOptions& options,
                                                           const TensorValues<Index>& numbers) {
  // One number on the command line, or a file that holds a single one without axes, is for the whole call.
  const auto list = parse_list(*options.q_start);
  if (numbers.shape.empty() || (list && list->size() == 1)) return *numbers.values.data();
  if (numbers.shape.size() != 1) fail_shape("--q-start", numbers.shape, "[batch]");
  return TensorView<const Index, 1>(numbers.values.data(), {numbers.shape[0]});
}

ValidLens valid_lens_of(const TensorValues<Index>& numbers) {
  const Index* data = numbers.values.data();
  if (numbers.shape.size() == 1) return TensorView<const Index, 1>(data, {numbers.shape[0]});
  if (numbers.shape.size() == 2) return TensorView<const Index, 2>(data, {numbers.shape[0], numbers.shape[1]});
  fail_shape("--valid-lens", numbers.shape, "[batch] or [batch, q_len]");
}

template <int Rank>
CView<Rank> weights_view(const std::string& option, const TensorValues<float>& weights, const char* expected) {
  if (weights.shape.size() != Rank) fail_shape(option, weights.shape, expected);
  Shape<Rank> shape;
  std::ranges::copy(weights.shape, shape.begin());
  return {weights.values.data(), shape};
}

Scoring scoring_of(const AttendOptions& options, const Masks& masks) {
  if (options.scoring == "cosine") return CosineScoring{};
  if (options.scoring != "additive") return DotScoring{};
  return AdditiveScoring{weights_view<2>("--w-q", *masks.w_q, "[hidden_dim, head_dim]"),
                         weights_view<2>("--w-k", *masks.w_k, "[hidden_dim, head_dim]"),
                         weights_view<1>("--w-v", *masks.w_v, "[hidden_dim]")};
}

AttentionOptions attention_options(const AttendOptions& options, const Masks& masks) {
  AttentionOptions result{.scoring = scoring_of(options, masks), .scale = options.scale, .softcap = options.softcap};
  if (masks.attn_bias) result.attn_bias = masks.attn_bias->view();
  result.mask.causal = options.causal;
  if (options.window) result.mask.window = parse_window(*options.window);
  if (masks.q_start) result.mask.q_start = q_start_of(options, *masks.q_start);
  if (masks.valid_lens) result.mask.valid_lens = valid_lens_of(*masks.valid_lens);
  if (masks.keep) {
    const auto& shape = masks.keep->shape;
    result.mask.keep = TensorView<const bool, 4>(masks.keep->values.data(), {shape[0], shape[1], shape[2], shape[3]});
  }
  // The summary, printed where there is no --out, says something of both.
  result.observe.lse = options.lse || !options.out;
  result.observe.entropy = options.entropy || !options.out;
  result.observe.attn_weights = options.weights.has_value();
  return result;
}

// The last `rank` lengths of a shape: the leading axes that the operands do not have are 1.
template <int Rank>
std::vector<Index> last_axes(const Shape<Rank>& shape, std::size_t rank) {
  return {shape.end() - static_cast<std::ptrdiff_t>(rank), shape.end()};
}

template <int Rank>
NpyOutput npy_output(const std::string& path, const Tensor<float, Rank>& tensor, std::size_t rank) {
  return {path, last_axes<Rank>(tensor.shape(), rank), {tensor.data(), static_cast<std::size_t>(tensor.size())}};
}

void write_results(const AttendOptions& options, const AttentionResult& result, std::size_t rank) {
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
std::string statistics(std::span<const float> values) {
  double sum = 0, least = std::numeric_limits<double>::infinity(), most = -least;
  Index count = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
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

template <int Rank>
std::string summary_line(const std::string& name, const Tensor<float, Rank>& tensor, std::size_t rank) {
  return name + to_string(last_axes<Rank>(tensor.shape(), rank)) + "  " +
         statistics({tensor.data(), static_cast<std::size_t>(tensor.size())}) + "\n";
}

std::string summary(const AttentionResult& result, const AttentionPlan& plan, std::size_t rank) {
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

void run_attend(const AttendOptions& options, const Console& console) {
  check_usage(options);
  const auto executor = make_executor(options.run);
  constexpr std::size_t kLeastRank = 2;
  const Operand q = load_operand(options.q, kLeastRank), k = load_operand(options.k, kLeastRank),
                v = load_operand(options.v, kLeastRank);
  const Masks masks = load_masks(options);
  AttentionOptions attention_options_now = attention_options(options, masks);
  attention_options_now.executor = executor.get();

  const Stopwatch time;
  const AttentionResult result =
      blame(ExitCode::kInput, [&] { return attention(q.view(), k.view(), v.view(), attention_options_now); });
  if (options.run.verbose) console.note("attention took " + seconds_text(time.seconds()));
  write_results(options, result, q.rank);
  if (options.out) return;
  const auto shape = [](const Operand& operand) { return operand.view().shape(); };
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
      ->type_name("X");
  command.add_option("--softcap", options->softcap, "scores = X * tanh(scores / X)")->type_name("X");
  file("--attn-bias", options->attn_bias, "Floats that are added to the scores; -inf hides the key");
  file("--keep", options->keep, "Booleans (or 0 and 1); true: the query may attend to the key");
  command.add_flag("--causal", options->causal, "A query sees the keys up to its own position");
  command
      .add_option("--q-start", options->q_start,
                  "Position of query 0: a number, a list or a file [batch]; default: "
                  "kv_len - q_len")
      ->type_name("N|FILE");
  command.add_option("--window", options->window, "Keys that a query sees to its left and right; -1: no limit")
      ->type_name("L,R");
  command
      .add_option("--valid-lens", options->valid_lens,
                  "How many keys are real: a list, one for each batch entry, or a file [batch] or [batch, q_len]")
      ->type_name("N,N|FILE");
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
  command.callback([options, &console] { run_attend(*options, console); });
}

}  // namespace qkv::cli
