#include "qkv/nn/state_dict.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "qkv/core/check.h"
#include "qkv/core/in_quotes.h"

namespace qkv {

namespace {

constexpr const char* kFunction = "load_state_dict";

// The shape of the whole tensor that a parameter is, or is part of.
template <class T>
std::vector<Index> stored_shape(const Parameter<T>& parameter) {
  std::vector<Index> shape = parameter.shape;
  if (parameter.num_parts > 1) shape[0] *= parameter.num_parts;
  return shape;
}

template <class T>
Index num_values(const Parameter<T>& parameter) {
  Index count = 1;
  for (Index length : parameter.shape) count *= length;
  return count;
}

// Everything that does not fit, one phrase each.
class Problems {
 public:
  void add(const std::string& problem) {
    list_ += (count_ ? "; " : "") + problem;
    ++count_;
  }
  void throw_if_any() const {
    check(count_ == 0, kFunction, "entries that do not fit the layer", count_, "none: " + list_);
  }

 private:
  Index count_ = 0;
  std::string list_;
};

void check_entry(const std::string& name, const std::vector<Index>& expected, const StateDict& state,
                 Problems& problems) {
  const auto found = state.find(name);
  if (found == state.end()) {
    problems.add(in_quotes(name) + " of shape " + to_string(expected) + " is missing");
    return;
  }
  const auto& [shape, values] = found->second;
  if (shape != expected) {
    problems.add(in_quotes(name) + " has shape " + to_string(shape) + ", expected " + to_string(expected));
  } else if (values.size() != checked_num_elements(shape)) {
    problems.add(in_quotes(name) + " holds " + std::to_string(values.size()) + " values, expected " + to_string(shape));
  }
}

}  // namespace

void load_parameters(std::span<const Parameter<float>> parameters, const StateDict& state, const LoadOptions& options) {
  Problems problems;
  std::set<std::string_view> known;
  for (const auto& parameter : parameters) {
    if (known.insert(parameter.name).second) check_entry(parameter.name, stored_shape(parameter), state, problems);
  }
  for (const auto& [name, values] : state) {
    if (options.allow_extra || known.contains(name) || !name.starts_with(options.prefix)) continue;
    problems.add(in_quotes(name) + " of shape " + to_string(values.shape) + " is extra");
  }
  problems.throw_if_any();

  for (const auto& parameter : parameters) {
    const Index count = num_values(parameter);
    std::copy_n(state.at(parameter.name).values.data() + parameter.part * count, count, parameter.values);
  }
}

StateDict save_parameters(std::span<const Parameter<const float>> parameters) {
  StateDict state;
  for (const auto& parameter : parameters) {
    const Index count = num_values(parameter);
    TensorValues<float>& entry = state[parameter.name];
    if (entry.values.size() == 0) {
      entry = {stored_shape(parameter), AlignedBuffer<float>(count * parameter.num_parts)};
    }
    std::copy_n(parameter.values, count, entry.values.data() + parameter.part * count);
  }
  return state;
}

}  // namespace qkv
