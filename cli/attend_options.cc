#include "cli/attend_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "cli/exit_code.h"

namespace qkv::cli {
namespace {

[[noreturn]] void fail_usage(const std::string& message) {
  throw CommandError(ExitCode::kUsage, message);
}

[[noreturn]] void fail_number(const std::string& option, double got, const char* expected) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), got);
  fail_usage(option + ": got " + std::string(digits, end) + ", expected " + expected);
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

// What has a comma in it was hardly meant as the name of a file that is missing.
void check_numbers(const std::string& option, const std::optional<std::string>& text) {
  std::error_code ignored;
  if (text && !parse_list(*text) && text->find(',') != std::string::npos && !std::filesystem::exists(*text, ignored))
    fail_usage(option + ": got '" + *text + "', expected whole numbers with commas between them, or a file");
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

// to = load(operand), if there is an operand; errors then name the option, too.
template <class To, class Load>
void load_for(const char* option, const std::optional<std::string>& operand, To& to, const Load& load) {
  if (!operand) return;
  try {
    to = load(*operand);
  } catch (const CommandError& error) {
    throw CommandError(error.code(), std::string(option) + ": " + error.what());
  }
}

[[noreturn]] void fail_shape(const std::string& option, const std::vector<Index>& shape, const char* expected) {
  throw CommandError(ExitCode::kInput, option + ": got shape " + to_string(shape) + ", expected " + expected);
}

TensorView<const Index, 1> numbers_view(const std::string& option, const TensorValues<Index>& numbers,
                                        const char* expected) {
  if (numbers.shape.size() != 1) fail_shape(option, numbers.shape, expected);
  return {numbers.values.data(), {numbers.shape[0]}};
}

std::variant<Index, TensorView<const Index, 1>> q_start_of(const AttendOptions& options,
                                                           const TensorValues<Index>& numbers) {
  // One number on the command line, or a file that holds a single one without axes, is for the whole call.
  const auto list = parse_list(*options.q_start);
  if (numbers.shape.empty() || (list && list->size() == 1)) return *numbers.values.data();
  return numbers_view("--q-start", numbers, "[batch] or [num_sequences]");
}

// [len] is one row for all batch entries.
TensorView<const Index, 2> ids_view(const std::string& option, const TensorValues<Index>& ids, const char* expected) {
  const auto& shape = ids.shape;
  if (shape.size() == 1) return {ids.values.data(), {1, shape[0]}};
  if (shape.size() == 2) return {ids.values.data(), {shape[0], shape[1]}};
  fail_shape(option, shape, expected);
}

template <class T>
Documents documents_of(const Borrowed<T>& borrowed) {
  Documents documents{.k = ids_view("--documents", *borrowed.documents, "[kv_len] or [batch, kv_len]")};
  if (borrowed.documents_q) documents.q = ids_view("--documents-q", *borrowed.documents_q, "[q_len] or [batch, q_len]");
  return documents;
}

ValidLens valid_lens_of(const TensorValues<Index>& numbers) {
  const Index* data = numbers.values.data();
  if (numbers.shape.size() == 1) return TensorView<const Index, 1>(data, {numbers.shape[0]});
  if (numbers.shape.size() == 2) return TensorView<const Index, 2>(data, {numbers.shape[0], numbers.shape[1]});
  fail_shape("--valid-lens", numbers.shape, "[batch] or [batch, q_len]");
}

template <int Rank, class T>
TensorView<const T, Rank> weights_view(const std::string& option, const TensorValues<T>& weights,
                                       const char* expected) {
  if (weights.shape.size() != Rank) fail_shape(option, weights.shape, expected);
  Shape<Rank> shape;
  std::ranges::copy(weights.shape, shape.begin());
  return {weights.values.data(), shape};
}

template <class T>
BasicScoring<T> scoring_of(const AttendOptions& options, const Borrowed<T>& borrowed) {
  if (options.scoring == "cosine") return CosineScoring{};
  if (options.scoring != "additive") return DotScoring{};
  return BasicAdditiveScoring<T>{weights_view<2>("--w-q", *borrowed.w_q, "[hidden_dim, head_dim]"),
                                 weights_view<2>("--w-k", *borrowed.w_k, "[hidden_dim, head_dim]"),
                                 weights_view<1>("--w-v", *borrowed.w_v, "[hidden_dim]")};
}

// As T. A finite number that T does not reach stays finite: only a bias of -inf hides a key.
template <class T>
TensorValues<T> load_finite(const std::string& name) {
  constexpr double kLargest = std::numeric_limits<T>::max();
  const auto [shape, from] = load_floats<double>(name);
  TensorValues<T> narrow{shape, AlignedBuffer<T>(from.size())};
  std::transform(from.data(), from.data() + from.size(), narrow.values.data(),
                 [=](double x) { return static_cast<T>(std::isfinite(x) ? std::clamp(x, -kLargest, kLargest) : x); });
  return narrow;
}

template <class T>
Operand<T> with_four_axes(const std::string& name, TensorValues<T> tensor, std::size_t least_rank) {
  const std::size_t rank = tensor.shape.size();
  tensor.shape = with_leading_ones(name, tensor.shape, least_rank);
  return {std::move(tensor), rank};
}

}  // namespace

template <class T>
Operand<T> load_operand(const std::string& name, std::size_t least_rank) {
  return with_four_axes(name, load_floats<T>(name), least_rank);
}

void check_usage(const AttendOptions& options) {
  check_scoring(options);
  if (options.scale && !std::isfinite(*options.scale)) fail_number("--scale", *options.scale, "a finite number");
  if (options.softcap && !(*options.softcap > 0 && std::isfinite(*options.softcap)))
    fail_number("--softcap", *options.softcap, "a finite number > 0");
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout <= 1))
    fail_number("--dropout", *options.dropout, "a probability, 0 to 1");
  if (options.seed) parse_seed(*options.seed);
  if (options.seed && !options.dropout) fail_usage("--seed needs --dropout");
  if (options.window) parse_window(*options.window);
  check_numbers("--q-start", options.q_start);
  check_numbers("--valid-lens", options.valid_lens);
  check_numbers("--documents", options.documents);
  check_numbers("--documents-q", options.documents_q);
  check_numbers("--cu-seqlens-q", options.cu_seqlens_q);
  check_numbers("--cu-seqlens-k", options.cu_seqlens_k);
  if (options.documents_q && !options.documents) fail_usage("--documents-q needs --documents");
  if (options.cu_seqlens_q.has_value() != options.cu_seqlens_k.has_value())
    fail_usage("--cu-seqlens-q and --cu-seqlens-k need each other");
  std::set<std::filesystem::path> paths;
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  for (const auto& path : {options.out, options.weights, options.lse, options.entropy}) {
    if (path && path->empty()) fail_usage("the name of a file for results is empty");
    if (path &&
        !paths.insert(std::filesystem::weakly_canonical(std::filesystem::absolute(*path, ignored), ignored)).second)
      fail_usage("two results cannot go to the same file, " + *path);
  }
}

template <class T>
Borrowed<T> load_borrowed(const AttendOptions& options) {
  Borrowed<T> borrowed;
  const auto load_bias = [](const std::string& name) { return with_four_axes(name, load_finite<T>(name), 1); };
  const auto load_mask = [](const std::string& name) {
    auto mask = load_booleans(name);
    mask.shape = with_leading_ones(name, mask.shape, 1);
    return mask;
  };
  load_for("--w-q", options.w_q, borrowed.w_q, load_floats<T>);
  load_for("--w-k", options.w_k, borrowed.w_k, load_floats<T>);
  load_for("--w-v", options.w_v, borrowed.w_v, load_floats<T>);
  load_for("--attn-bias", options.attn_bias, borrowed.attn_bias, load_bias);
  load_for("--keep", options.keep, borrowed.keep, load_mask);
  load_for("--alibi", options.alibi, borrowed.alibi, load_finite<T>);
  load_for("--sinks", options.sinks, borrowed.sinks, load_finite<T>);
  load_for("--documents", options.documents, borrowed.documents, load_numbers);
  load_for("--documents-q", options.documents_q, borrowed.documents_q, load_numbers);
  load_for("--cu-seqlens-q", options.cu_seqlens_q, borrowed.cu_seqlens_q, load_numbers);
  load_for("--cu-seqlens-k", options.cu_seqlens_k, borrowed.cu_seqlens_k, load_numbers);
  load_for("--q-start", options.q_start, borrowed.q_start, load_numbers);
  load_for("--valid-lens", options.valid_lens, borrowed.valid_lens, load_numbers);
  return borrowed;
}

template <class T>
BasicAttentionOptions<T> attention_options(const AttendOptions& options, const Borrowed<T>& borrowed) {
  BasicAttentionOptions<T> result{
      .scoring = scoring_of(options, borrowed), .scale = options.scale, .softcap = options.softcap};
  if (borrowed.attn_bias) result.attn_bias = borrowed.attn_bias->view();
  result.mask.causal = options.causal;
  if (options.window) result.mask.window = parse_window(*options.window);
  if (borrowed.q_start) result.mask.q_start = q_start_of(options, *borrowed.q_start);
  if (borrowed.valid_lens) result.mask.valid_lens = valid_lens_of(*borrowed.valid_lens);
  if (borrowed.keep) {
    const auto& shape = borrowed.keep->shape;
    result.mask.keep =
        TensorView<const bool, 4>(borrowed.keep->values.data(), {shape[0], shape[1], shape[2], shape[3]});
  }
  if (borrowed.documents) result.mask.documents = documents_of(borrowed);
  if (borrowed.cu_seqlens_q)
    result.mask.cu_seqlens_q = numbers_view("--cu-seqlens-q", *borrowed.cu_seqlens_q, "[num_sequences + 1]");
  if (borrowed.cu_seqlens_k)
    result.mask.cu_seqlens_k = numbers_view("--cu-seqlens-k", *borrowed.cu_seqlens_k, "[num_sequences + 1]");
  if (borrowed.alibi) result.alibi_slopes = weights_view<1>("--alibi", *borrowed.alibi, "[num_heads]");
  if (borrowed.sinks) result.sinks = weights_view<1>("--sinks", *borrowed.sinks, "[num_heads]");
  if (options.dropout) result.dropout = Dropout{.p = *options.dropout, .seed = parse_seed(options.seed.value_or("0"))};
  result.reproducible = options.reproducible;
  // The summary, printed where there is no --out, says something of both.
  result.observe.lse = options.lse || !options.out;
  result.observe.entropy = options.entropy || !options.out;
  result.observe.attn_weights = options.weights.has_value();
  return result;
}

template Operand<float> load_operand(const std::string&, std::size_t);
template Operand<double> load_operand(const std::string&, std::size_t);
template Borrowed<float> load_borrowed(const AttendOptions&);
template Borrowed<double> load_borrowed(const AttendOptions&);
template AttentionOptions attention_options(const AttendOptions&, const Borrowed<float>&);
template BasicAttentionOptions<double> attention_options(const AttendOptions&, const Borrowed<double>&);

}  // namespace qkv::cli
